#include "scheduler/size_ledger.h"

#include "scheduler/partition.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace prorata {

SizeLedger::SizeLedger(std::size_t workers) : workers_(workers), sizes_(workers, 0) {}

void SizeLedger::begin(std::int64_t samples, std::int64_t step, std::int64_t round, std::vector<std::int64_t> most,
                       bool in_steps) {
  in_steps_ = in_steps;
  remaining_ = samples;
  step_ = std::max<std::int64_t>(1, step);
  round_ = std::max(step_, round);
  left_in_round_ = 0;
  rounds_.clear();
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    workers_[w].most = most[w];
    workers_[w].busy = false;
    workers_[w].asked = true;
  }
}

void SizeLedger::set_time(std::size_t worker, TimeFunction time) { workers_[worker].time = std::move(time); }

void SizeLedger::open_round(double now) {
  if (!rounds_.empty()) rounds_.back().measured_seconds = now - round_at_;
  round_at_ = now;
  const std::int64_t step = in_steps_ ? std::min(step_, remaining_) : step_;
  left_in_round_ = in_steps_ ? step : remaining_ < 2 * round_ ? remaining_ : round_;
  opened_ = true;
  for (Worker& w : workers_) w.asked = false;

  Round round{};
  const auto equal = std::max<std::int64_t>(1, step_ / static_cast<std::int64_t>(workers_.size()));
  std::vector<SizeWorker> all;
  for (const Worker& w : workers_) {
    all.push_back({w.time, w.most, 0});
    round.seconds.push_back(w.time.able() ? w.time.seconds(equal) : INFINITY);
  }
  std::vector<std::int64_t> best = partition_size(all, step);
  bool comparable = std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0}) ==
                    std::accumulate(best.begin(), best.end(), std::int64_t{0});
  for (std::size_t w = 0; w < workers_.size(); ++w) comparable &= sizes_[w] <= workers_[w].most;
  round.kept = comparable && sizes_ != best &&
               !worth_changing(sizes_made_by_, round.seconds, makespan(all, sizes_), makespan(all, best));
  if (!round.kept) {
    sizes_ = std::move(best);
    sizes_made_by_ = round.seconds;
  }
  for (std::size_t w = 0; w < workers_.size(); ++w)
    workers_[w].rounds_without = sizes_[w] > 0 ? 0 : workers_[w].rounds_without + 1;

  // All work at once: the round ends when their speeds together have done it.
  double speed = 0;
  for (std::size_t w = 0; w < workers_.size(); ++w)
    if (const double t = workers_[w].time.seconds(sizes_[w]); sizes_[w] > 0 && std::isfinite(t))
      speed += static_cast<double>(sizes_[w]) / t;
  round.expected_seconds = speed > 0 ? static_cast<double>(left_in_round_) / speed : 0;
  round.shares = sizes_;
  rounds_.push_back(std::move(round));
}

// So that all finish together, those that are busy after what they have. Who is late is expected to be so as long
// again.
std::int64_t SizeLedger::part_of_the_rest(std::size_t worker, double now) const {
  std::vector<SizeWorker> all;
  for (const Worker& w : workers_) all.push_back({w.time, w.most, w.busy ? std::abs(w.until - now) : 0});
  return partition_size(all, remaining_)[worker];
}

std::int64_t SizeLedger::next(std::size_t worker, double now) {
  if (remaining_ <= 0) return 0;
  Worker& own = workers_[worker];
  if (in_steps_ ? own.asked : left_in_round_ <= 0) open_round(now);
  own.asked = true;
  own.busy = false;
  std::int64_t samples = sizes_[worker];
  if (!in_steps_) {  // else as planned when the step was begun, the last one too
    if (remaining_ <= step_)
      samples = part_of_the_rest(worker, now);
    else if (samples == 0 && own.rounds_without >= Ledger::kRoundsToATrial && own.most > 0 && own.time.able())
      samples = 1;
  }
  samples = std::min({samples, own.most, remaining_});
  if (samples <= 0) return 0;

  own.rounds_without = 0;
  own.busy = true;
  const double seconds = own.time.seconds(samples);
  constexpr double kLong = 1e6;  // of what is not known: whoever is free can begin sooner
  own.until = now + (std::isfinite(seconds) ? seconds : kLong);
  remaining_ -= samples;
  left_in_round_ -= samples;
  return samples;
}

bool SizeLedger::round_began() { return std::exchange(opened_, false); }

}  // namespace prorata
