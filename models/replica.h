// A replica: all that one mini-batch needs of its own (snapshot of the parameters, activations, gradients), and the
// group of tasks that trains with it.
//
// The group is one micro-batch (models/micro_batch.h) or, where gradients are accumulated, several: memory is needed
// for one of them, and the parameters are updated once, by the mean over all their samples.
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

#include "models/micro_batch.h"
#include "models/network.h"
#include "scheduler/prorata.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace prorata {

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

// Of how many samples a replica's mini-batches are, at most, and its micro-batches: one, where nobody says more.
struct BatchSizes {
  BatchSizes(std::int32_t all) : BatchSizes(all, all) {}  // NOLINT(google-explicit-constructor): a size is a size
  BatchSizes(std::int32_t all, std::int32_t at_once) : batch(all), micro_batch(at_once) {}

  std::int32_t batch, micro_batch;
};

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
  // `overlap`: may the parameters be updated between a mini-batch's begin and end? The network must outlive the
  // replica.
  Replica(Network& network, BatchSizes sizes, Overlap overlap, std::function<void(Replica&)> done,
          Update update = Update::at_once, const Remedies& remedies = {}, const Preprocessing& preprocessing = {});
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // Submits the training of the samples `indices` of `data`; they must stay where they are until done.
  // `sequence`: groups are begun in this order. `worker`: the one that is to do it under the policy `prorata`; -1:
  // whose turn it is. Throws std::runtime_error if StarPU refuses a task.
  void submit_training(const DataSource& data, std::span<const std::uint32_t> indices, std::uint64_t sequence,
                       const UpdateStep& step, int worker = -1);
  // The same for a forward pass of up to `micro_batch` samples on the shared parameters themselves, which nothing may
  // be updating meanwhile. `outputs`: where the network's outputs are to be when done is called, [samples, classes];
  // null: they are not wanted.
  void submit_evaluation(const DataSource& data, std::span<const std::uint32_t> indices, std::uint64_t sequence,
                         float* outputs = nullptr);

  // The tasks of training with these samples, in order, not submitted: to be priced, or to be measured one by one. They
  // read the replica's arguments: no list of another size may be in use. Not while the replica is in flight.
  TaskList training_tasks(const DataSource& data, std::span<const std::uint32_t> indices);
  // Has the policy price the training of mini-batches of these sizes; does nothing under another policy.
  void price_training(const DataSource& data, std::span<const std::int32_t> batches);

  // Under Remedies::dana, while nothing is in flight: takes `part`, of 0 to 1, of the network's momentum for its own.
  void take_momentum(float part);
  // Gives it back: the network's is the sum of all that replicas have given.
  void give_momentum();

  const MinibatchResult& result() const { return result_; }
  // The largest that it has room for.
  std::int32_t batch() const { return sizes_.batch; }
  std::int32_t micro_batch() const { return sizes_.micro_batch; }

  // What a replica needs of a memory, at most: snapshot and gradients, and for each sample of a micro-batch activations
  // with their gradients. `accumulates`: its mini-batches are several micro-batches.
  using Bytes = Activations::Bytes;
  static Bytes bytes(const Network& network, const Preprocessing& preprocessing = {}, bool accumulates = false);

  // What the network was given last: [batch, features].
  starpu_data_handle_t input() const { return buffers_.activations.input(); }
  // The gradient of operation i's parameters after training: the mean over the samples.
  starpu_data_handle_t gradient(std::size_t i) const { return buffers_.gradient(i); }
  // The statistics of the mini-batch that operation i normalised by in training.
  starpu_data_handle_t statistics(std::size_t i) const { return buffers_.activations.extra(i); }
  // The last layer's outputs, [batch, classes].
  starpu_data_handle_t outputs() const { return buffers_.activations.output(); }

 private:
  // What a block's tasks remember between snapshot and apply.
  struct BlockState {
    ParameterBlock* block;
    std::uint64_t version = 0;    // at the snapshot
    std::uint64_t staleness = 0;  // at the apply
    ApplyTask* apply = nullptr;   // of the group in flight; none where the gradient is left for later
    bool scale_by_staleness = false;
  };

  void for_each_momentum(auto change);
  std::size_t micro_batches(std::size_t samples) const;
  MicroBatch& micro_batch_of(std::size_t n, std::size_t of);
  std::vector<MicroBatch*> make_training_tasks(const DataSource& data, std::span<const std::uint32_t> indices,
                                               const UpdateStep& step, std::vector<starpu_task*>& tasks);
  void submit(GroupKind kind, std::vector<MicroBatch*> group, std::vector<starpu_task*>& tasks,
              std::span<const std::uint32_t> indices, std::uint64_t sequence, int worker);
  void give_role(starpu_task* task, const MicroBatch::Role& role, starpu_task* gather, starpu_task* last_backward);

  static void on_begin(void* replica);
  static void on_snapshot(void* block_state);
  static void on_apply(void* block_state);
  static void on_last(void* replica);
  static void on_score(void* replica);
  static void on_outputs(void* replica);
  void fetch_score();
  void add_score(const BatchScore& score);
  void finish();

  Network& network_;
  const BatchSizes sizes_;
  const TrainingOptions options_;
  std::function<void(Replica&)> done_;

  MicroBatchBuffers buffers_;
  float* outputs_ = nullptr;
  std::vector<BlockState> blocks_;  // by operation

  // A mini-batch is the one, or the first of `others_` and then `last_`.
  std::unique_ptr<MicroBatch> single_;
  std::vector<std::unique_ptr<MicroBatch>> others_;
  std::unique_ptr<MicroBatch> last_;
  std::unique_ptr<MicroBatch> evaluation_;

  // Of the group in flight.
  std::vector<MicroBatch*> in_flight_;
  std::vector<prorata_tag> tags_;
  prorata_group group_{};
  std::atomic<int> unfinished_{0};
  std::size_t scored_ = 0;  // of in_flight_, those whose score has been read
  MinibatchResult result_;
};

}  // namespace prorata
