// How large the next mini-batch of each worker is to be: share by size. Plain C++, no StarPU, no clock of its own.
//
// Work comes in phases (an epoch) of a known number of samples. Each worker takes one mini-batch after another, all of
// the same size while speeds stay as they are: the sizes of all workers add up to a step (workers x batch), and take
// all of them the same time (scheduler/partition.h). So nobody waits, and a slow worker's mini-batch misses no more
// updates by others than a fast one's. Every `round` samples the sizes are worked out anew, and kept where others are
// not worth the change: a new size has kernels made for it, and where steps are not waited for nobody is idle for sizes
// that are a little off.
//
//   Dear mini-batches. Each has a fixed cost, so small ones cost more a sample; a slow worker might do little else, or
//   not finish a single sample in a step. Where one of its mini-batches would cost more than kDear times as much a
//   sample as an equal share does, it takes its samples of several steps at once, 2, 4 or as many as needed for that,
//   at most of a round: a mini-batch so many times as large that takes so many times as long, and misses so many times
//   the updates. All workers' samples of a step still add up to a step. The end of a phase. What is left when it is no
//   more than a step, or than the steps of the worker that asks, is shared out so that all finish together, from when
//   each becomes free. A worker whose part of that is nothing is told 0; it may ask again. Too slow to help. A worker
//   that could not finish a single sample in the time of the others' mini-batches, or of a round, has size 0, but for a
//   trial of one sample every Ledger::kRoundsToATrial rounds. Not known. A worker of which nothing is known counts as
//   the median of the others.
//
// No deadlock: with nothing in flight and samples left, at least one of the able workers is given some.
//
// Threads: none; the caller's lock guards it. Units: samples, seconds since any fixed moment.
#pragma once

#include "scheduler/ledger.h"
#include "scheduler/partition.h"
#include "scheduler/time_function.h"

#include <cstdint>
#include <vector>

namespace prorata {

class SizeLedger {
 public:
  explicit SizeLedger(std::size_t workers);

  // Starts a phase of `samples`, in steps of `step` > 0 and rounds of `round` >= step; no mini-batch has more than
  // `most` samples. All workers are taken to be free. `in_steps`: each step is waited for, and is a round; each worker
  // is asked once in it, and there are no trials, nor mini-batches for several steps, for all would wait for them.
  void begin(std::int64_t samples, std::int64_t step, std::int64_t round, std::vector<std::int64_t> most,
             bool in_steps = false);

  // What is known of the worker by now; counts from the next round on, and at the end of the phase at once.
  void set_time(std::size_t worker, TimeFunction time);

  static constexpr double kDear = 1.25;
  static constexpr double kDeadBandOfSizes = 0.1;  // in step_seconds, where steps are not waited for

  // The samples of the next mini-batch of this worker, which has finished the one before: they are taken. 0: none at
  // present, and the worker is idle until it asks again.
  std::int64_t next(std::size_t worker, double now);

  std::int64_t remaining() const { return remaining_; }
  // The size of each worker's mini-batches, as long as the phase is not near its end.
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  // The rounds of the phase so far. Their shares are samples a mini-batch, and `seconds` are those of an equal share.
  const std::vector<Round>& rounds() const { return rounds_; }
  // Whether next() has opened a round since this was last asked.
  bool round_began();

 private:
  struct Worker {
    TimeFunction time;
    std::int64_t most = 0;
    bool asked = false;  // since the round was opened
    bool busy = false;
    double until = 0;  // when it is expected to have finished what it has
    std::int64_t rounds_without = 0;
  };
  struct Plan {
    std::vector<std::int64_t> samples, steps;  // of each worker: in a step, and of how many steps at once
    bool operator==(const Plan&) const = default;
  };

  std::int64_t equal_share() const;
  std::int64_t most_steps() const { return in_steps_ ? 1 : round_ / step_; }
  void open_round(double now);
  Plan best_plan(std::int64_t step) const;
  std::int64_t steps_at_once(const Worker& worker, double step_seconds) const;
  double step_seconds(const Plan& plan) const;
  std::int64_t part_of_the_rest(std::size_t worker, double now) const;

  std::vector<Worker> workers_;
  bool in_steps_ = false;
  std::int64_t remaining_ = 0;
  std::int64_t step_ = 1;
  std::int64_t round_ = 1;
  std::int64_t left_in_round_ = 0;
  double round_at_ = 0;  // when the round was opened
  bool opened_ = false;
  Plan plan_;
  std::vector<double> plan_made_by_;  // the seconds of an equal share that it comes from
  std::vector<std::int64_t> sizes_;   // by the plan
  std::vector<Round> rounds_;
};

}  // namespace prorata
