// The training loop: replicas in flight, one pass over a data set after another.
//
// Ownership and threads. The trainer owns the replicas. A pass is started from the main thread, which then sleeps;
// from there on each mini-batch is submitted by the worker that finished another, so nothing waits for the main
// thread. What a pass keeps is guarded by one mutex, held for a few instructions a mini-batch.
//
// Consistency. `asp`: whatever replica is at rest is submitted again. `ssp`: only while the bound on staleness holds
// (driver/staleness_bound.h). `bsp`: in steps; all replicas are submitted, and when all are done one update is made
// from their gradients (models/synchronous_update.h).
//
// Share by size. Each replica belongs to one worker, and the policy says how many samples its next mini-batch has; the
// gradient counts for as many samples as it is of (Moreno-Alvarez et al., 10.1007/s11227-022-04399-2). A replica is
// large enough for all workers' samples, as far as the memory that its worker uses has room for a micro-batch of them.
//
// Momentum. Where each replica has one (Remedies::dana) they are the network's divided, while a pass of training is
// made; behind it the network has their sum, which is what a checkpoint keeps.
//
// How many replicas: by default as many as workers. A replica is submitted again before the worker that finished it
// looks for work, so that worker finds it, and its buffers in its own cache. One replica more, so that there
// is always one waiting, costs 10 % on LeNet-5: each worker then goes from one to the next, and all are cold. Under
// StarPU's policies, which start every task at once, it is also a mini-batch more of staleness.
#pragma once

#include "driver/data/dataset.h"
#include "driver/staleness_bound.h"
#include "models/replica.h"
#include "models/synchronous_update.h"

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace prorata {

// The steps of bsp that several processes make together.
struct CommonSteps {
  std::size_t count = 0;  // each makes so many, with or without samples; 0: there are no others
  // How many samples all have together in the step that begins with the n-th of this one's.
  std::function<std::size_t(std::size_t n)> samples = {};
};

// One pass over samples of a data set.
struct Pass {
  GroupKind kind;
  DataSource data;
  std::span<const std::uint32_t> order;  // the samples, in the order in which they are dealt
  // For training: the step of the mini-batch that begins with the n-th sample of `order`.
  std::function<UpdateStep(std::size_t n)> step;
  prorata_balance balance;
  std::uint32_t round;  // groups a round; 0: the policy's choice
  // Called once a mini-batch, one call at a time, from worker threads; with bsp in the order of the mini-batches.
  // Returns whether to go on.
  std::function<bool(const MinibatchResult&)> record;
  // For evaluation: where the network's outputs go, [order, classes]; empty: nowhere.
  std::span<float> outputs = {};
  // Whether one more mini-batch may begin now; where it said no, wake() is called when it would say yes. Any thread.
  std::function<bool()> may_begin = {};
  CommonSteps common = {};
};

enum class Consistency { asp, ssp, bsp };

struct TrainerOptions {
  BatchSizes batch;  // of a mini-batch in training; an evaluation's are micro-batches
  std::size_t replicas;
  Consistency consistency = Consistency::asp;
  std::uint64_t staleness = 0;  // the bound of ssp
  Remedies remedies = {};
  prorata_share share = PRORATA_COUNT;  // PRORATA_SIZE: needs the policy `prorata` and as many replicas as workers
  Preprocessing preprocessing = {};
  bool exchanged = false;  // others change the parameters meanwhile, so each mini-batch needs a snapshot of its own
  SynchronousUpdate::SumOverAll sum_over_all = {};  // of common steps
};

class Trainer {
 public:
  Trainer(Network& network, const TrainerOptions& options);
  ~Trainer();

  // Deals the pass's mini-batches until all are done, until `record` said no, or until `stop()` is true; then waits
  // for those in flight, with bsp for the rest of the step and its update. So what was dealt is the front of `order`,
  // and all of it was recorded. `stop` and `tick` are called from the calling thread, about ten times a second. Each
  // sample is used exactly once by a pass that is not stopped. Throws what a kernel, a submission, `stop` or `tick`
  // threw.
  // Common steps end when some process wants to stop, for all at the same step.
  void run(const Pass& pass, const std::function<bool()>& stop, const std::function<void()>& tick);
  // Begins what the pass's `may_begin` held back. From any thread, also when no pass is run.
  void wake();

  std::size_t replicas() const { return replicas_.size(); }
  // For tests.
  Replica& replica(std::size_t i) { return *replicas_[i]; }

 private:
  bool in_steps() const { return options_.consistency == Consistency::bsp && pass_->kind == GroupKind::train; }
  void share_out_momentum(GroupKind kind);
  void collect_momentum(GroupKind kind);
  bool by_size() const { return options_.share == PRORATA_SIZE && pass_->kind == GroupKind::train; }
  std::size_t batch() const;
  bool may_begin();
  std::size_t samples_for(Replica& replica) const;
  int worker_of(const Replica& replica) const;
  void finished(Replica& replica);
  void record(const Replica& replica);
  void updated(bool stop);
  void go_on();
  void submit_resting(std::unique_lock<std::mutex>& lock);
  void begin_step(std::unique_lock<std::mutex>& lock);
  void submit(Replica& replica, std::size_t samples, std::unique_lock<std::mutex>& lock);
  void end_step(std::unique_lock<std::mutex>& lock);
  void fail(std::exception_ptr error);

  const TrainerOptions options_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::uint32_t> most_;  // by replica: the samples that it has room for
  SynchronousUpdate update_;

  std::mutex mutex_;
  std::condition_variable ended_;
  const Pass* pass_ = nullptr;
  std::size_t next_sample_ = 0;
  std::uint64_t sequence_ = 0;
  std::vector<Replica*> resting_;
  std::vector<Replica*> step_;     // bsp: of the step in flight, in the order of their mini-batches
  bool in_step_ = false;           // there is one
  std::size_t steps_ = 0;          // that were begun
  std::size_t first_of_step_ = 0;  // its first sample
  StalenessBound bound_;
  // Mini-batches and updates in flight, and whoever is about to submit more. The pass ends when it is 0 and nothing is
  // held back.
  std::size_t in_flight_ = 0;
  bool held_back_ = false;  // by the pass's may_begin
  bool stopping_ = false;   // wanted here
  bool stopped_ = false;    // of common steps: wanted by some process
  std::exception_ptr error_;
};

// The largest mini-batch, of at most `wanted` samples, for each of `replicas` in a memory that has `room` bytes for
// them, where a replica needs `fixed` bytes, and `per_sample` a sample. 0: not even for one sample.
std::uint32_t largest_batch(double room, std::size_t replicas, double fixed, double per_sample, std::uint32_t wanted);

// The most mini-batches that are ever between their snapshot and their update at a time; `staleness`: the bound of ssp.
std::size_t overlapping(Consistency consistency, std::size_t replicas, std::uint64_t staleness);

// What the momentum is to be so that with the implicit one of asynchronous updates it acts as `wanted`. Each of n
// overlapping mini-batches is delayed as if there were a momentum of 1 - 1/n (Mitliagkas et al. 2016, 1605.09774,
// theorem 1), and the two together leave 1 - wanted = (1 - momentum) / n; never below 0.
double corrected_momentum(double wanted, std::size_t overlapping);

// As many as workers; and, unless each worker is to have one, as by size and in steps, one more for each device whose
// updates CPU workers make, so that it need not wait for them.
std::size_t default_replicas(bool one_each = false);

}  // namespace prorata
