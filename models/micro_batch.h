// A micro-batch: samples that are computed at once, and the tasks that do it.
//
// A mini-batch is one micro-batch or, where gradients are accumulated, several, computed one after the other in the
// same buffers with the same snapshot of the parameters. The tasks of one, in order:
//
//   gather (and preprocess) | snapshot of each block, if it is the mini-batch's first | forward | loss |
//   backward and, if it is the last, apply, last layer first
//
// Where gradients are accumulated, each is added to its sum behind backward, weighed by samples. Where they are clipped
// each apply needs them all:  ... | backward | clip | apply. At the very end the running statistics are moved, where
// there are some. Those tasks wait for backward as snapshots do for gather: they would otherwise hold the statistics
// from forward on.
#pragma once

#include "codelets/gather_batch.h"
#include "codelets/gather_patches.h"
#include "codelets/softmax_cross_entropy.h"
#include "models/activations.h"
#include "models/apply_task.h"
#include "models/network.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace prorata {

struct AccumulateGradientArgs;
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
  // Each replica has a momentum of its own and steps by Nesterov's formula, so that gradients are computed where the
  // momenta of all are about to take the parameters (DANA-Slim, Hakimi et al., 1907.11612). Of sgd.
  bool dana = false;
};

// What becomes of a mini-batch's gradient: it is applied as soon as it is there, or left for a SynchronousUpdate.
enum class Update { at_once, later };

// How training goes, the same for all micro-batches of a replica.
struct TrainingOptions {
  Update update = Update::at_once;
  Remedies remedies = {};
  Preprocessing preprocessing = {};
  bool copies = true;  // takes snapshots, rather than reading the shared parameters
};

// The buffers in which a replica's micro-batches are computed, of up to `batch` samples each. InputError where one of
// them would have more elements than a kernel can count.
struct MicroBatchBuffers {
  MicroBatchBuffers(const Network& network, std::int32_t batch, bool copies, bool accumulates, bool own_momentum);

  // The gradient of operation i's parameters that is applied: the mean over the mini-batch's samples.
  starpu_data_handle_t gradient(std::size_t i) const {
    return sums.empty() ? activations.gradient(i) : sums[i]->handle.get();
  }

  const std::int32_t batch;
  Activations activations;
  DataHandle labels;
  DataHandle raw;  // samples before they are preprocessed
  // By operation with parameters, of the micro-batches' gradients; empty: there is one only.
  struct Sum {
    explicit Sum(std::size_t count)
        : values(count), handle(DataHandle::in_main_memory(values.data.get(), values.count)) {}
    AlignedFloats values;
    DataHandle handle;
  };
  std::vector<std::unique_ptr<Sum>> sums;
  std::vector<std::unique_ptr<OptimizerState>> momenta;  // by operation with parameters; empty: the network's are used
  float squares = 0;                                     // of the gradient that is being clipped
  DataHandle squares_handle;
};

class MicroBatch {
 public:
  // What a task does beside computing, and to what: parameters or running statistics of which operation.
  struct Role {
    enum class Kind { computes, takes_snapshot, applies_gradient, updates_statistics } kind = Kind::computes;
    std::size_t operation = 0;
    bool ends = false;  // one of those with which the mini-batch ends: every other task leads to one of them
  };

  // Which one of its mini-batch's it is: of a single one both are true.
  struct Place {
    bool first = true, last = true;
  };
  // Network and buffers must outlive it.
  static std::unique_ptr<MicroBatch> of_training(Network& network, MicroBatchBuffers& buffers, Place place,
                                                 const TrainingOptions& options);
  // A forward pass on the shared parameters themselves.
  static std::unique_ptr<MicroBatch> of_evaluation(Network& network, MicroBatchBuffers& buffers,
                                                   const Preprocessing& preprocessing);
  MicroBatch(const MicroBatch&) = delete;
  MicroBatch& operator=(const MicroBatch&) = delete;

  // Before its tasks are made, for training: the step of its mini-batch, and how much of the mini-batch it is.
  void set(const UpdateStep& step, double fraction);
  // Appends its tasks, with codelet, arguments and buffers, for these samples. `first_sample`: that number in the
  // training, of the first one.
  void make_tasks(const DataSource& data, std::span<const std::uint32_t> indices, std::uint64_t first_sample,
                  std::vector<starpu_task*>& tasks);

  const std::vector<Role>& roles() const { return roles_; }  // by task
  std::size_t last_backward() const { return last_backward_; }
  // The task that updates operation i's parameters; null where there is none.
  ApplyTask* apply(std::size_t i) { return i < applies_.size() && applies_[i] ? &*applies_[i] : nullptr; }
  // What the loss task wrote.
  const BatchScore& score() const { return score_; }
  starpu_data_handle_t score_handle() const { return score_handle_.get(); }

 private:
  MicroBatch(Network& network, MicroBatchBuffers& buffers);

  void plan_gather(const Preprocessing& preprocessing);
  void plan_loss();
  void plan_backward(Place place, const TrainingOptions& options);
  void plan_sum(std::size_t i, bool first);
  void plan_clip();
  void plan_apply(std::size_t i, const TrainingOptions& options);
  void plan_statistics();
  void mark(Role role);
  TaskPlan gather_from(const DataSource& data, std::span<const std::uint32_t> indices);

  Network& network_;
  MicroBatchBuffers& buffers_;
  Plan plan_;
  std::vector<Role> roles_;
  std::size_t last_backward_ = 0;
  PreprocessArgs* preprocess_ = nullptr;  // of the second task; null where there is none
  std::vector<AccumulateGradientArgs*> sums_;
  std::vector<std::optional<ApplyTask>> applies_;  // by operation
  GatherBatchArgs gather_{};                       // of the tasks that were made last, as is the next
  GatherPatchesArgs gather_patches_{};
  BatchScore score_{};
  DataHandle score_handle_;
};

}  // namespace prorata
