// The training loop: replicas in flight, one pass over a data set after another.
//
// Ownership and threads. The trainer owns the replicas. A pass is started from the main thread, which then sleeps;
// from there on each mini-batch is submitted by the worker that finished the replica's previous one, so nothing waits
// for the main thread. What a pass keeps is guarded by one mutex, held for a few instructions a mini-batch.
//
// How many replicas. Under our own policy one more than workers: then a worker that becomes free always finds a group
// waiting, and since groups are bound late this adds no staleness. StarPU's policies start every task at once, and
// there a replica more is a mini-batch more of staleness (with one worker: 1 instead of 0), so they get as many as
// workers.
#pragma once

#include "driver/data/dataset.h"
#include "models/replica.h"

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace prorata {

// One pass over samples of a data set.
struct Pass {
  GroupKind kind;
  DataSource data;
  std::span<const std::uint32_t> order;  // the samples, in the order in which they are dealt
  // For training: the step of the pass's n-th mini-batch, in the order in which they are dealt.
  std::function<SgdStep(std::size_t n)> step;
  prorata_balance balance;
  std::uint32_t round;  // groups a round; 0: the policy's choice
  // Called once a mini-batch, one call at a time, from worker threads. Returns whether to go on.
  std::function<bool(const MinibatchResult&)> record;
};

class Trainer {
 public:
  Trainer(Network& network, std::int32_t batch, std::size_t replicas);
  ~Trainer();

  // Deals the pass's mini-batches until all are done, until `record` said no, or until `stop()` is true; then waits
  // for those in flight. `stop` and `tick` are called from the calling thread, about ten times a second. Each sample is
  // used exactly once by a pass that is not stopped. Throws what a kernel or a submission threw.
  void run(const Pass& pass, const std::function<bool()>& stop, const std::function<void()>& tick);

  std::size_t replicas() const { return replicas_.size(); }
  // For tests.
  Replica& replica(std::size_t i) { return *replicas_[i]; }

 private:
  void finished(Replica& replica);
  void submit_next(Replica& replica);

  const std::size_t batch_;
  std::vector<std::unique_ptr<Replica>> replicas_;

  std::mutex mutex_;
  std::condition_variable idle_;
  const Pass* pass_ = nullptr;
  std::size_t next_sample_ = 0;
  std::uint64_t sequence_ = 0;
  std::size_t in_flight_ = 0;
  bool stopping_ = false;
  std::exception_ptr error_;
};

// The usual number of replicas for the policy in force.
std::size_t default_replicas();

}  // namespace prorata
