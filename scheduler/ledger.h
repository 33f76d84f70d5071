// Who may take the next mini-batch: credit earned, credit spent. Plain C++, no StarPU, no clock of its own.
//
// Work comes in phases (an epoch) of a known number of mini-batches, dealt in rounds. At the start of a round each
// worker earns its share of it (scheduler/partition.h, from the seconds that are then known); taking a mini-batch
// spends one. When the last one of a round has been taken, the next round begins: nobody waits for one to be finished.
//
//   prorata  Shares in proportion to speed: what each is expected to do, and who is too slow to help at all: a worker
//            whose share is 0 takes none, but for a trial every kRoundsToATrial rounds: its speed may have been
//            misjudged, or have changed. A free worker that has spent its share takes ahead rather than idle. One whose
//            speed is not known may always take. At the end of the phase a worker leaves a mini-batch to the others
//            when they will have finished all that is left before it would have finished one.
//   uniform  Equal shares, and a worker that has spent its own waits for the next round: the baseline, which is as
//            slow as the slowest worker.
//   dynamic  No shares: a free worker takes.
//
// No deadlock: whenever mini-batches remain, at least one worker may take one now or will when it has finished what
// it has. (uniform: the credits of a round add up to what is left of it. prorata: of the workers with a share the one
// that would finish first is never refused.)
//
// Threads: none; the caller's lock guards it. Times are seconds since any fixed moment.
#pragma once

#include <cstdint>
#include <vector>

namespace prorata {

enum class Balance { prorata, uniform, dynamic };

struct Round {
  std::vector<std::int64_t> shares;  // mini-batches a worker; empty under `dynamic`
  double expected_seconds;           // the longest share's; 0 where no speed was known
  double measured_seconds;           // from the taking of its first mini-batch to that of the next round's first
  std::vector<double> seconds;       // what each worker was expected to need for a mini-batch; NaN, infinity as below
  bool kept;                         // others would have been better, but not by enough: the shares of the round before
};

class Ledger {
 public:
  explicit Ledger(std::size_t workers);

  // Starts a phase of `minibatches`, in rounds of `round` > 0, the last one of up to twice as many. All workers are
  // taken to be free. `in_steps`: each round is waited for before the next one begins, so the end of each round matters
  // as that of the phase does, and all are of the same size.
  void begin(Balance balance, std::int64_t minibatches, std::int64_t round, bool in_steps = false);

  // What the worker needs for a mini-batch: > 0 and finite, or NaN, not known (the initial state).
  void set_seconds(std::size_t worker, double seconds);
  double seconds(std::size_t worker) const { return workers_[worker].seconds; }

  // Is it this (free) worker's turn? Beyond the phase's end the answer is yes: no mini-batch is ever refused by all.
  bool may_take(std::size_t worker, double now) const;
  void take(std::size_t worker, double now);
  void finish(std::size_t worker);

  // From now on the worker gets no share; what it has of this round is dealt anew. For one that turns out to be
  // unable to run the work.
  void exclude(std::size_t worker);

  std::int64_t remaining() const { return remaining_; }  // not yet taken of the phase; <= 0: its end has passed
  std::int64_t credit(std::size_t worker) const { return workers_[worker].credit; }
  // The rounds of this phase so far; the current one is the last and has no measured time yet.
  const std::vector<Round>& rounds() const { return rounds_; }

  static constexpr std::int64_t kRoundsToATrial = 16;

 private:
  struct Worker {
    double seconds;
    std::int64_t share = 0;
    std::int64_t credit = 0;
    std::int64_t rounds_without_share = 0;
    bool busy = false;
    double since = 0;  // when it took what it has
  };

  void open_round();
  double expected_seconds(const Worker& worker, double now) const;
  void deal(Round& round);
  void keep_unless_worth_changing(Round& round);
  std::int64_t others_finish_before(std::size_t worker, double now) const;

  // Up to the next end that matters.
  std::int64_t ahead() const { return in_steps_ ? left_in_round_ : remaining_; }

  Balance balance_ = Balance::prorata;
  bool in_steps_ = false;
  std::int64_t remaining_ = 0;
  std::int64_t round_size_ = 1;
  std::int64_t left_in_round_ = 0;
  bool untouched_ = true;               // nothing of the round has been taken
  double round_began_ = 0;              // when its first one was
  double now_ = 0;                      // when the latest was taken
  double speed_ = 0;                    // mini-batches a second of all that have a share; never too low
  std::vector<double> shares_made_by_;  // the seconds that the shares in force come from
  std::vector<Worker> workers_;
  std::vector<Round> rounds_;
};

}  // namespace prorata
