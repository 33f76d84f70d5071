// One update of the shared parameters from the gradients of several replicas: bulk-synchronous training.
//
// The gradients are weighed by samples and added in the order of the replicas, whoever computed them and whenever they
// were ready. So the result is, to the bit, that of any other set of workers that had the same samples in each replica;
// and the step is the one that a single worker would make with all the samples in one mini-batch. It is their sum that
// is clipped, where gradients are. Where there are batch normalisations each replica has normalised by its own
// mini-batch, and their running statistics are moved by one mini-batch after the other, in the same order.
//
// Several processes may make the update together, each with its own replicas, none where it has no samples: then their
// sums are added before anything else is done with them, and all make the same update. With it they agree on when to
// stop.
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
  // Called for the network's blocks of parameters in turn, from 0, and then once more for one float: submits what makes
  // `sum` the sum over all processes, as tasks and requests that the handle's sequential consistency orders.
  using SumOverAll = std::function<void(std::size_t block, starpu_data_handle_t sum)>;

  // The network must outlive it. `sum_over_all`: none where there is one process.
  explicit SynchronousUpdate(Network& network, SumOverAll sum_over_all = {});
  SynchronousUpdate(const SynchronousUpdate&) = delete;
  SynchronousUpdate& operator=(const SynchronousUpdate&) = delete;

  // `replicas`: made with Update::later, each with the gradient of the mini-batch of its result(); not empty where
  // there is one process. `samples`: of the step, in all processes. `stop`: this process wants to; `done` is told
  // whether any wants to. Throws std::runtime_error if StarPU refuses a task.
  void submit(std::span<Replica* const> replicas, std::size_t samples, const UpdateStep& step, bool stop,
              std::function<void(bool stop)> done);

 private:
  struct Block {
    std::size_t operation;
    ParameterBlock* parameters;
    AlignedFloats sum;  // of the gradients
    DataHandle sum_handle;
    std::optional<ApplyTask> apply;  // of the update in flight
  };

  void plan_sums(std::span<Replica* const> replicas, double samples);
  void submit_sums_over_all();
  // Updates of running statistics behind the plan's other tasks.
  void plan_statistics(std::span<Replica* const> replicas);
  void ends_with(starpu_task* task);
  static void on_apply(void* block);
  static void on_ended(void* update);
  static void on_stops(void* update);
  void finish_one();

  Network& network_;
  const SumOverAll sum_over_all_;
  const Optimizer& optimizer_;
  std::vector<std::unique_ptr<Block>> blocks_;
  float squares_ = 0;  // of the sums, where they are clipped
  DataHandle squares_handle_;
  // With several processes:
  std::optional<AlignedFloats> zeros_;  // the gradient of one without samples
  DataHandle zeros_handle_;
  float one_ = 1, stops_ = 0;  // how many want to stop
  DataHandle one_handle_, stops_handle_;
  bool others_stop_ = false;
  Plan plan_;                                   // of the update in flight
  std::vector<RunningStatistics*> statistics_;  // of its last tasks, by task
  std::function<void(bool)> done_;
  std::atomic<std::size_t> unfinished_{0};
};

}  // namespace prorata
