#include "scheduler/ledger.h"

#include "scheduler/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace prorata {

Ledger::Ledger(std::size_t workers) : workers_(workers, Worker{.seconds = std::numeric_limits<double>::quiet_NaN()}) {}

void Ledger::begin(Balance balance, std::int64_t minibatches, std::int64_t round) {
  rounds_.clear();
  balance_ = balance;
  remaining_ = minibatches;
  round_size_ = std::max<std::int64_t>(1, round);
  for (Worker& w : workers_) w = {.seconds = w.seconds, .rounds_without_share = w.rounds_without_share};
  open_round();
}

void Ledger::set_seconds(std::size_t worker, double seconds) { workers_[worker].seconds = seconds; }

void Ledger::open_round() {
  // What would be less than a round at the end is part of the last one: few mini-batches make poor shares.
  left_in_round_ = remaining_ < 2 * round_size_ ? remaining_ : round_size_;
  untouched_ = true;
  if (left_in_round_ <= 0) return;

  std::vector<double> seconds;
  for (const Worker& w : workers_) seconds.push_back(w.seconds);
  Round round{};
  if (balance_ != Balance::dynamic) {
    round.shares = balance_ == Balance::uniform ? partition_uniform(seconds, left_in_round_)
                                                : partition_count(seconds, left_in_round_);
    round.expected_seconds = makespan(seconds, round.shares);
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      workers_[w].share = round.shares[w];
      workers_[w].rounds_without_share = round.shares[w] > 0 ? 0 : workers_[w].rounds_without_share + 1;
      // A debt longer than a round comes from speeds that were wrong; it is not worth remembering.
      workers_[w].credit = round.shares[w] + std::clamp<std::int64_t>(workers_[w].credit, -round_size_, 0);
    }
  }
  rounds_.push_back(std::move(round));
}

bool Ledger::may_take(std::size_t worker, double now) const {
  const Worker& own = workers_[worker];
  if (std::isinf(own.seconds)) return false;
  if (remaining_ <= 0) return true;
  switch (balance_) {
    case Balance::dynamic: return true;
    case Balance::uniform: return own.credit > 0;
    case Balance::prorata: break;
  }
  if (std::isnan(own.seconds)) return true;  // how else would it become known
  if (own.share == 0 && own.rounds_without_share < kRoundsToATrial) return false;
  return others_finish_before(worker, now) < remaining_;
}

// How many of the remaining mini-batches the other workers with a share will have finished strictly before `worker`,
// beginning now, would have finished one. Of equally fast free workers none is before another, to the last bit.
std::int64_t Ledger::others_finish_before(std::size_t worker, double now) const {
  double count = 0;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const Worker& other = workers_[w];
    if (w == worker || other.share == 0 || !std::isfinite(other.seconds)) continue;
    const double until_free = other.busy ? std::max(0.0, other.since + other.seconds - now) : 0;
    count += std::max(0.0, std::ceil((workers_[worker].seconds - until_free) / other.seconds) - 1);
    if (count >= static_cast<double>(remaining_)) return remaining_;
  }
  return static_cast<std::int64_t>(count);
}

void Ledger::take(std::size_t worker, double now) {
  if (untouched_) {
    if (rounds_.size() > 1) rounds_[rounds_.size() - 2].measured_seconds = now - round_began_;
    round_began_ = now;
    untouched_ = false;
  }
  Worker& own = workers_[worker];
  own.busy = true;
  own.since = now;
  own.rounds_without_share = 0;
  --own.credit;
  --remaining_;
  if (--left_in_round_ == 0) open_round();
}

void Ledger::finish(std::size_t worker) { workers_[worker].busy = false; }

void Ledger::exclude(std::size_t worker) {
  workers_[worker].seconds = std::numeric_limits<double>::infinity();
  for (Worker& w : workers_) w.credit = 0;
  open_round();
}

}  // namespace prorata
