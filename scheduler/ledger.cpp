#include "scheduler/ledger.h"

#include "scheduler/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace prorata {
namespace {

double speed_of(double seconds) { return std::isfinite(seconds) ? 1 / seconds : 0; }

}  // namespace

Ledger::Ledger(std::size_t workers) : workers_(workers, Worker{.seconds = std::numeric_limits<double>::quiet_NaN()}) {}

void Ledger::begin(Balance balance, std::int64_t minibatches, std::int64_t round, bool in_steps) {
  rounds_.clear();
  balance_ = balance;
  in_steps_ = in_steps;
  remaining_ = minibatches;
  round_size_ = std::max<std::int64_t>(1, round);
  for (Worker& w : workers_) w = {.seconds = w.seconds, .rounds_without_share = w.rounds_without_share};
  open_round();
}

void Ledger::set_seconds(std::size_t worker, double seconds) {
  Worker& own = workers_[worker];
  if (own.share > 0) speed_ += std::max(0.0, speed_of(seconds) - speed_of(own.seconds));
  own.seconds = seconds;
}

// One that is overdue needs at least what it has needed so far: a slow worker's next measurement may be rounds away.
double Ledger::expected_seconds(const Worker& worker, double now) const {
  return worker.busy && std::isfinite(worker.seconds) ? std::max(worker.seconds, now - worker.since) : worker.seconds;
}

void Ledger::open_round() {
  // What would be less than a round at the end is part of the last one: few mini-batches make poor shares.
  left_in_round_ = in_steps_                      ? std::min(remaining_, round_size_)
                   : remaining_ < 2 * round_size_ ? remaining_
                                                  : round_size_;
  untouched_ = true;
  if (left_in_round_ <= 0) return;

  Round round{};
  for (const Worker& w : workers_) round.seconds.push_back(expected_seconds(w, now_));
  if (balance_ != Balance::dynamic) deal(round);
  rounds_.push_back(std::move(round));
}

void Ledger::deal(Round& round) {
  if (balance_ == Balance::uniform) {
    round.shares = partition_uniform(round.seconds, left_in_round_);
  } else {
    round.shares = partition_count(round.seconds, left_in_round_);
    keep_unless_worth_changing(round);
  }
  round.expected_seconds = makespan(round.seconds, round.shares);
  speed_ = 0;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    Worker& own = workers_[w];
    own.share = round.shares[w];
    own.rounds_without_share = own.share > 0 ? 0 : own.rounds_without_share + 1;
    // A debt longer than a round comes from speeds that were wrong; it is not worth remembering.
    own.credit = own.share + std::clamp<std::int64_t>(own.credit, -round_size_, 0);
    if (own.share > 0) speed_ += speed_of(own.seconds);
  }
}

// Of two rounds of the same size the second one keeps the first one's shares, within the dead band.
void Ledger::keep_unless_worth_changing(Round& round) {
  if (!rounds_.empty()) {
    const std::vector<std::int64_t>& old = rounds_.back().shares;
    if (std::accumulate(old.begin(), old.end(), std::int64_t{0}) == left_in_round_ && old != round.shares &&
        !worth_changing(shares_made_by_, round.seconds, makespan(round.seconds, old),
                        makespan(round.seconds, round.shares))) {
      round.shares = old;
      round.kept = true;
      return;
    }
  }
  shares_made_by_ = round.seconds;
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
  return others_finish_before(worker, now) < ahead();
}

// How many of the remaining mini-batches the other workers with a share will have finished strictly before `worker`,
// beginning now, would have finished one. Of equally fast free workers none is before another, to the last bit.
std::int64_t Ledger::others_finish_before(std::size_t worker, double now) const {
  const double own = workers_[worker].seconds;
  // All that they could do in that time is less than this (a share of the last digits for rounding): far from the end
  // it is enough, and there is no need to look at each.
  const double bound = own * speed_ * (1 + 1e-9);
  if (bound < static_cast<double>(ahead())) return static_cast<std::int64_t>(bound);
  double count = 0;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const Worker& other = workers_[w];
    if (w == worker || other.share == 0 || !std::isfinite(other.seconds)) continue;
    const double seconds = expected_seconds(other, now);
    const double until_free = other.busy ? std::max(0.0, other.since + seconds - now) : 0;
    count += std::max(0.0, std::ceil((own - until_free) / seconds) - 1);
    if (count >= static_cast<double>(ahead())) return ahead();
  }
  return static_cast<std::int64_t>(count);
}

void Ledger::take(std::size_t worker, double now) {
  if (untouched_) {
    if (rounds_.size() > 1) rounds_[rounds_.size() - 2].measured_seconds = now - round_began_;
    round_began_ = now;
    untouched_ = false;
  }
  now_ = now;
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
