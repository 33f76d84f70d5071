// When a rank exchanges parameters with the others: the rhythm of asynchronous training.
//
// A pass has K rounds. A rank's k-th is due when it has done k/K of its own samples, so the ranks' rounds come in one
// rhythm, however unlike they are; it begins when it is due and the one before is answered. A rank that is behind with
// its rounds trains on all the same, unless it is bounded: then no mini-batch begins while two rounds are due and not
// answered. Rounds that come due while one is not answered are made as one. When a rank has done all its samples its
// next round is its last; from then on it makes rounds for the others' sake, until all are at their last.
//
// Threads. A thread of its own begins the rounds: those who find out that one is due, or answered, are workers and
// StarPU-MPI's thread, which have other work. All functions may be called from any thread but for start() and finish(),
// which are the main thread's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace prorata {

class Rounds {
 public:
  // Submits the next round, and calls its argument when that is answered, from any thread. `last`, `ended`: as of
  // Exchange::begin_round.
  using Begin = std::function<void(bool last, std::function<void(bool ended)> answered)>;
  // `opened`: called when mini-batches may begin again.
  Rounds(bool bounded, Begin begin, std::function<void()> opened);
  ~Rounds();  // no round is in flight
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  // A pass begins: so many rounds, so many samples of this rank.
  void start(std::size_t rounds, std::uint64_t samples);
  // So many of them more are done.
  void trained(std::uint64_t samples);
  bool may_begin() const;
  // Rounds that are due and not answered: how old, in rounds, what this rank knows of the others is.
  std::size_t behind() const;
  // The rank trains no more in this pass. Returns when all ranks are at their end, and `opened` is not called any more.
  // Throws what `begin` threw.
  void finish();
  // Of the pass, in which no mini-batch could begin.
  double closed_seconds() const;
  // Of the pass, up to this rank's last.
  std::size_t made() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::size_t due() const;
  bool open() const { return !bounded_ || error_ || due() < answered_ + 2; }
  void note_gate();
  void begin_rounds();

  const bool bounded_;
  const Begin begin_;
  const std::function<void()> opened_;

  mutable std::mutex mutex_;  // all that follows
  std::condition_variable changed_;
  std::size_t rounds_ = 0, begun_ = 0, answered_ = 0;  // of the rhythm's K: up to which one
  std::size_t made_ = 0;
  std::uint64_t samples_ = 0, done_ = 0;
  bool trained_all_ = false, in_flight_ = false, last_made_ = false, ended_ = false;
  bool was_open_ = true, reopened_ = false, opening_ = false, ending_ = false;
  Clock::time_point closed_at_;
  Clock::duration closed_{};
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace prorata
