// A replica: all that one mini-batch needs of its own (snapshot of the parameters, activations, gradients), and the
// group of tasks that trains with it.
//
// The group, in order:  gather (and preprocess) | snapshot of each block | forward | loss | backward and apply, last
// layer first. Where gradients are clipped each apply needs them all:  ... | loss | backward | clip | apply. At the
// very end the running statistics are moved, where there are some. Those tasks wait for backward as snapshots do for
// gather: they would otherwise hold the statistics from forward on.
//
// A snapshot depends on gather, which touches nothing shared: StarPU grants a task its data when the task becomes
// ready, so a snapshot that became ready while the group waits for a worker would both age and keep every update out.
// Behind gather it is taken when a worker has begun the group, under any scheduling policy.
//
// Where no two mini-batches ever overlap (a single worker that finishes one before it begins the next) the snapshot
// would only be a copy of what nobody changes meanwhile: such replicas read the shared parameters themselves.
//
// Devices. Each mini-batch of a device reads the parameters once, by its snapshots, and gives its gradients back:
// updates run at home (layers.h). What of its result a device still has when the last task ends is fetched before
// `done`.
//
// Life. submit() never waits; when the last task has run, `done` is called from the worker that ran it, and the
// replica may be submitted again, from within the call too. Between submit() and done() the replica must stay alive
// and be left alone.
#pragma once

#include "codelets/gather_batch.h"
#include "codelets/gather_patches.h"
#include "codelets/softmax_cross_entropy.h"
#include "models/activations.h"
#include "models/apply_task.h"
#include "models/network.h"
#include "scheduler/prorata.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace prorata {

struct PreprocessArgs;

// A data set as tasks see it.
struct DataSource {
  starpu_data_handle_t images;  // [samples, features] bytes or floats; of patches the scene [rows, columns, channels]
  starpu_data_handle_t labels;  // [samples] int32
  float scale;                  // a feature is its element times this; patches are as they are
  bool floats = false;
  starpu_data_handle_t places = nullptr;  // [samples] uint32, of patches (codelets/gather_patches.h)
  std::int32_t rows = 0, columns = 0;     // of the scene
  // For replicas that preprocess (codelets/preprocess.h):
  starpu_data_handle_t normalization = nullptr;  // [2, channels]
  std::uint64_t seed = 0;                        // of what is drawn, with
  std::uint32_t epoch = 0;
};

// What is done to the samples of a mini-batch: codelets/preprocess.h. Nothing by default.
struct Preprocessing {
  bool normalize = false;
  // In training only:
  std::int32_t random_crop = 0;  // pixels on each side
  bool horizontal_flip = false;
  std::int32_t cutout = 0;  // pixels of a side

  bool augment() const { return random_crop > 0 || horizontal_flip || cutout > 0; }
};

// What is done against the harm that staleness does; nothing by default.
struct Remedies {
  bool scale_by_staleness = false;  // a gradient of staleness s > 1 counts 1 / s (Zhang et al., 1511.05950)
  float compensation = 0;           // lambda of delay compensation (Zheng et al., 1609.08326)
};

// The record of one mini-batch.
struct MinibatchResult {
  int worker = -1;  // that began it; under the policy `prorata`, that did all of it
  std::uint32_t samples = 0;
  std::span<const std::uint32_t> indices;  // which samples
  double loss = 0;                         // sum over the samples
  std::uint32_t correct = 0;
  std::uint64_t staleness = 0;  // updates by others between snapshot and apply; the largest over the blocks
  double started = 0;           // seconds, of starpu_timing_now(): a worker took its first task
  double finished = 0;          // its last task was done
};

// Tell apart, for the scheduler, groups that cost differently.
enum class GroupKind : std::uint32_t { train = 1, evaluate = 2 };

enum class Overlap { possible, never };

// What becomes of a mini-batch's gradient: it is applied as soon as it is there, or left for a SynchronousUpdate.
enum class Update { at_once, later };

// Tasks that were made to be looked at, or to be submitted by whoever holds them: destroyed with the list, by when
// those submitted must have run.
class TaskList {
 public:
  explicit TaskList(std::vector<starpu_task*> tasks);
  ~TaskList();
  TaskList(TaskList&& other) noexcept = default;
  TaskList& operator=(TaskList&&) = delete;

  const std::vector<starpu_task*>& tasks() const { return tasks_; }

 private:
  std::vector<starpu_task*> tasks_;
};

class Replica {
 public:
  // For mini-batches of up to `batch` samples; `overlap`: may the parameters be updated between this one's begin and
  // end? The network must outlive the replica.
  Replica(Network& network, std::int32_t batch, Overlap overlap, std::function<void(Replica&)> done,
          Update update = Update::at_once, const Remedies& remedies = {}, const Preprocessing& preprocessing = {});
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // Submits the training of the samples `indices` of `data`; they must stay where they are until done.
  // `sequence`: groups are begun in this order. `worker`: the one that is to do it under the policy `prorata`; -1:
  // whose turn it is. Throws std::runtime_error if StarPU refuses a task.
  void submit_training(const DataSource& data, std::span<const std::uint32_t> indices, std::uint64_t sequence,
                       const UpdateStep& step, int worker = -1);
  // The same for a forward pass on the shared parameters themselves, which nothing may be updating meanwhile.
  // `outputs`: where the network's outputs are to be when done is called, [samples, classes]; null: they are not
  // wanted.
  void submit_evaluation(const DataSource& data, std::span<const std::uint32_t> indices, std::uint64_t sequence,
                         float* outputs = nullptr);

  // The tasks of training with these samples, in order, not submitted: to be priced, or to be measured one by one. They
  // read the replica's arguments: no list of another size may be in use. Not while the replica is in flight.
  TaskList training_tasks(const DataSource& data, std::span<const std::uint32_t> indices);
  // Has the policy price the training of mini-batches of these sizes; does nothing under another policy.
  void price_training(const DataSource& data, std::span<const std::int32_t> batches);

  const MinibatchResult& result() const { return result_; }
  std::int32_t batch() const { return batch_; }  // the largest that it has room for

  // What a replica needs of a memory, at most: snapshot and gradients, and activations with their gradients.
  using Bytes = Activations::Bytes;
  static Bytes bytes(const Network& network, const Preprocessing& preprocessing = {});

  // What the network was given last: [batch, features].
  starpu_data_handle_t input() const { return activations_.input(); }
  // The gradient of operation i's parameters after training: the mean over the samples.
  starpu_data_handle_t gradient(std::size_t i) const { return activations_.gradient(i); }
  // The statistics of the mini-batch that operation i normalised by in training.
  starpu_data_handle_t statistics(std::size_t i) const { return activations_.extra(i); }
  // The last layer's outputs, [batch, classes].
  starpu_data_handle_t outputs() const { return activations_.output(); }

 private:
  // What a block's tasks remember between snapshot and apply.
  struct BlockState {
    ParameterBlock* block;
    std::uint64_t version = 0;       // at the snapshot
    std::uint64_t staleness = 0;     // at the apply
    std::optional<ApplyTask> apply;  // none where the gradient is left for later
    bool scale_by_staleness = false;
  };
  struct Group {
    Plan plan;
    GroupKind kind;
    PreprocessArgs* preprocess = nullptr;  // of the second task; null where there is none
    // By task: its block where it is a snapshot or an apply, else null.
    std::vector<BlockState*> snapshot_of, apply_to;
    std::vector<RunningStatistics*> statistics;  // by task: those that it moves, else null
    std::size_t last_backward = 0;
    std::vector<bool> last;  // tasks with which the group ends
    std::vector<prorata_tag> tags;
  };

  void plan_gather(Group& group, const Preprocessing& preprocessing);
  TaskPlan gather_from(const DataSource& data, std::span<const std::uint32_t> indices, starpu_data_handle_t to);
  void plan_loss(Group& group);
  void plan_clip(Group& group);
  void plan_apply(Group& group, std::size_t i);
  void plan_statistics(Group& group);
  void plan_training();
  void plan_evaluation();
  void make_tasks(Group& group, const DataSource& data, std::span<const std::uint32_t> indices,
                  std::vector<starpu_task*>& tasks);
  void submit(Group& group, const DataSource& data, std::span<const std::uint32_t> indices, std::uint64_t sequence,
              int worker);

  static void on_begin(void* replica);
  static void on_snapshot(void* block_state);
  static void on_apply(void* block_state);
  static void on_last(void* replica);
  static void on_score(void* replica);
  static void on_outputs(void* replica);
  void read_score();
  void finish();

  Network& network_;
  const std::int32_t batch_;
  const bool copies_;  // takes snapshots
  const Update update_;
  const Remedies remedies_;
  const Preprocessing preprocessing_;
  std::function<void(Replica&)> done_;

  Activations activations_;
  DataHandle labels_;
  DataHandle raw_;            // samples before they are preprocessed
  GatherBatchArgs gather_{};  // of the group in flight, as is the next
  GatherPatchesArgs gather_patches_{};
  BatchScore score_{};
  DataHandle score_handle_;
  float squares_ = 0;  // of the gradient that is being clipped
  DataHandle squares_handle_;
  float* outputs_ = nullptr;
  std::vector<BlockState> blocks_;  // by operation

  Group training_, evaluation_;
  prorata_group group_{};
  std::atomic<int> unfinished_{0};
  MinibatchResult result_;
};

}  // namespace prorata
