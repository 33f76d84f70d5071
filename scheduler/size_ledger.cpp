#include "scheduler/size_ledger.h"

#include "scheduler/partition.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace prorata {

SizeLedger::SizeLedger(std::size_t workers)
    : workers_(workers),
      plan_{std::vector<std::int64_t>(workers, 0), std::vector<std::int64_t>(workers, 1)},
      sizes_(workers, 0) {}

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

std::int64_t SizeLedger::equal_share() const {
  return std::max<std::int64_t>(1, step_ / static_cast<std::int64_t>(workers_.size()));
}

// With these sizes, as far as is known.
double SizeLedger::step_seconds(const Plan& plan) const {
  double longest = 0;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const double seconds = workers_[w].time.seconds(plan.samples[w] * plan.steps[w]);
    if (std::isfinite(seconds)) longest = std::max(longest, seconds / static_cast<double>(plan.steps[w]));
  }
  return longest;
}

// The fewest, of powers of two, with which its mini-batches are not dear. The larger they are the less they cost a
// sample, up to an equal share.
std::int64_t SizeLedger::steps_at_once(const Worker& worker, double step_seconds) const {
  const std::int64_t equal = equal_share();
  const double dear = kDear * worker.time.seconds(equal) / static_cast<double>(equal);
  if (!std::isfinite(dear) || !(step_seconds > 0)) return 1;
  std::int64_t too_small = 0, enough = equal;
  while (enough - too_small > 1) {
    const std::int64_t middle = (too_small + enough) / 2;
    (worker.time.seconds(middle) <= dear * static_cast<double>(middle) ? enough : too_small) = middle;
  }
  const double seconds = worker.time.seconds(std::min(enough, worker.most));
  const std::int64_t most = std::clamp<std::int64_t>(worker.most, 1, most_steps());
  std::int64_t steps = 1;
  while (2 * steps <= most && static_cast<double>(steps) * step_seconds < seconds) steps *= 2;
  return steps;
}

SizeLedger::Plan SizeLedger::best_plan(std::int64_t step) const {
  std::vector<SizeWorker> all;
  for (const Worker& w : workers_) all.push_back({w.time, w.most, 0});
  Plan plan{partition_size(all, step), std::vector<std::int64_t>(workers_.size(), 1)};
  const double seconds = step_seconds(plan);
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    plan.steps[w] = steps_at_once(workers_[w], seconds);
    all[w].time = all[w].time.per_step(plan.steps[w]);
    all[w].most /= plan.steps[w];
  }
  plan.samples = partition_size(all, step);
  return plan;
}

void SizeLedger::open_round(double now) {
  if (!rounds_.empty()) rounds_.back().measured_seconds = now - round_at_;
  round_at_ = now;
  const std::int64_t step = in_steps_ ? std::min(step_, remaining_) : step_;
  left_in_round_ = in_steps_ ? step : remaining_ < 2 * round_ ? remaining_ : round_;
  opened_ = true;
  for (Worker& w : workers_) w.asked = false;

  Round round{};
  for (const Worker& w : workers_) round.seconds.push_back(w.time.able() ? w.time.seconds(equal_share()) : INFINITY);
  Plan best = best_plan(step);
  const auto in_all = [](const Plan& plan) {
    return std::accumulate(plan.samples.begin(), plan.samples.end(), std::int64_t{0});
  };
  bool comparable = in_all(plan_) == in_all(best);
  for (std::size_t w = 0; w < workers_.size(); ++w)
    comparable &= sizes_[w] <= workers_[w].most && plan_.steps[w] <= most_steps();
  round.kept = comparable && plan_ != best &&
               !worth_changing(plan_made_by_, round.seconds, step_seconds(plan_), step_seconds(best),
                               in_steps_ ? kDeadBand : kDeadBandOfSizes);
  if (!round.kept) {
    plan_ = std::move(best);
    plan_made_by_ = round.seconds;
    std::ranges::transform(plan_.samples, plan_.steps, sizes_.begin(), std::multiplies());
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
    const std::int64_t steps = plan_.steps[worker];
    if (remaining_ <= step_)
      samples = part_of_the_rest(worker, now);
    else if (remaining_ <= steps * step_)
      samples = std::min(samples, part_of_the_rest(worker, now));
    else if (samples == 0 && own.rounds_without >= Ledger::kRoundsToATrial && own.most > 0 && own.time.able())
      samples = std::clamp<std::int64_t>(own.time.samples_within(rounds_.back().expected_seconds), 1, equal_share());
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
