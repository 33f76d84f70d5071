// One update of the shared parameters from the gradients of several replicas: bulk-synchronous training.
//
// The gradients are weighed by samples and added in the order of the replicas, whoever computed them and whenever they
// were ready. So the result is, to the bit, that of any other set of workers that had the same samples in each replica;
// and the step is the one that a single worker would make with all the samples in one mini-batch. It is their sum that
// is clipped, where gradients are. Where there are batch normalisations each replica has normalised by its own
// mini-batch, and their running statistics are moved by one mini-batch after the other, in the same order.
//
// Life and threads. submit() never waits; when the update is done, `done` is called from the worker that ended it, and
// the next one may be submitted. The replicas must be at rest from before submit() until then. At most one update is
// in flight.
#pragma once

#include "models/apply_task.h"
#include "models/network.h"
#include "models/replica.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace prorata {

class SynchronousUpdate {
 public:
  // The network must outlive it.
  explicit SynchronousUpdate(Network& network);
  SynchronousUpdate(const SynchronousUpdate&) = delete;
  SynchronousUpdate& operator=(const SynchronousUpdate&) = delete;

  // `replicas`: made with Update::later, each with the gradient of the mini-batch of its result(); not empty. Throws
  // std::runtime_error if StarPU refuses a task.
  void submit(std::span<Replica* const> replicas, const UpdateStep& step, std::function<void()> done);

 private:
  struct Block {
    std::size_t operation;
    ParameterBlock* parameters;
    AlignedFloats sum;  // of the gradients
    DataHandle sum_handle;
    std::optional<ApplyTask> apply;  // of the update in flight
  };

  // Updates of running statistics behind the plan's other tasks.
  void plan_statistics(std::span<Replica* const> replicas);
  void ends_with(starpu_task* task);
  static void on_apply(void* block);
  static void on_ended(void* update);

  Network& network_;
  const Optimizer& optimizer_;
  std::vector<std::unique_ptr<Block>> blocks_;
  float squares_ = 0;  // of the sums, where they are clipped
  DataHandle squares_handle_;
  Plan plan_;                                   // of the update in flight
  std::vector<RunningStatistics*> statistics_;  // of its last tasks, by task
  std::function<void()> done_;
  std::atomic<std::size_t> unfinished_{0};
};

}  // namespace prorata
