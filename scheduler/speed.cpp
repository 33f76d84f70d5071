#include "scheduler/speed.h"

#include "scheduler/partition.h"

#include <algorithm>
#include <cmath>

namespace prorata {
TaskPrice price_task(starpu_task* task, unsigned sched_ctx, unsigned worker) {
  unsigned mask = 0;
  if (!starpu_worker_can_execute_task_impl(worker, task, &mask)) return {__builtin_nan(""), -1};
  starpu_perfmodel_arch* arch = starpu_worker_get_perf_archtype(static_cast<int>(worker), sched_ctx);
  TaskPrice best{__builtin_nan(""), -1};
  int unknown = -1;
  for (unsigned i = 0; mask >> i; ++i) {
    if (!(mask >> i & 1)) continue;
    const double seconds = starpu_task_expected_length(task, arch, i) * 1e-6;
    if (std::isnan(seconds)) {
      if (unknown < 0) unknown = static_cast<int>(i);
    } else if (best.implementation < 0 || seconds < best.seconds) {
      best = {seconds, static_cast<int>(i)};
    }
  }
  if (unknown >= 0) best.implementation = unknown;
  return best;
}

void Speeds::Recent::add(double value) { values_[count_++ % values_.size()] = value; }

double Speeds::Recent::estimate() const {
  constexpr std::size_t kEnough = 3;
  const std::size_t n = std::min(count_, values_.size());
  if (n < kEnough) return __builtin_nan("");
  std::array<double, 5> sorted = values_;
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(n));
  const double median = sorted[n / 2];
  const auto [low, high] = std::minmax(values_[(count_ - 1) % values_.size()], values_[(count_ - 2) % values_.size()]);
  if (low > kClearChange * median) return low;
  if (high * kClearChange < median) return high;
  return median;
}

bool Speeds::wants_price(Work work) const {
  const auto found = table_.find(work);
  return found == table_.end() || found->second.stale;
}

void Speeds::begin_price(Work work, const std::vector<int>& workers) {
  Entry& entry = table_[work];
  entry.stale = false;
  for (int w : workers) entry.workers[static_cast<unsigned>(w)].pending = 0;
}

void Speeds::add_price(Work work, unsigned worker, double seconds) { table_[work].workers[worker].pending += seconds; }

void Speeds::end_price(Work work) {
  for (auto& [worker, estimate] : table_[work].workers) set_price(estimate, estimate.pending);
}

void Speeds::set_price(Work work, unsigned worker, double seconds) {
  Entry& entry = table_[work];
  entry.stale = false;
  set_price(entry.workers[worker], seconds);
}

void Speeds::set_price(Estimate& estimate, double seconds) {
  const bool known = seconds > 0;
  if (known != !std::isnan(estimate.price)) estimate.ratio.forget();
  estimate.price = known ? seconds : __builtin_nan("");
}

void Speeds::measured(Work work, unsigned worker, double seconds) {
  Estimate& estimate = table_[work].workers[worker];
  estimate.measured.add(seconds);
  if (!std::isnan(estimate.price)) estimate.ratio.add(seconds / estimate.price);
}

double Speeds::seconds(Work work, unsigned worker) const {
  const auto entry = table_.find(work);
  if (entry == table_.end()) return __builtin_nan("");
  const auto found = entry->second.workers.find(worker);
  if (found == entry->second.workers.end()) return __builtin_nan("");
  const Estimate& estimate = found->second;
  if (std::isnan(estimate.price)) return estimate.measured.estimate();
  const double ratio = estimate.ratio.estimate();
  return estimate.price * (std::isnan(ratio) ? 1 : ratio);
}

}  // namespace prorata
