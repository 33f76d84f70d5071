#include "scheduler/speed.h"

#include "scheduler/partition.h"

#include <algorithm>
#include <cmath>

namespace prorata {

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

void Speeds::forget_prices(std::uint32_t kind) {
  for (auto& [samples, stale] : kinds_[kind].stale) stale = true;
}

double Speeds::Recent::smallest() const {
  const std::size_t n = std::min(count_, values_.size());
  return n == 0 ? __builtin_nan("")
                : *std::min_element(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(n));
}

bool Speeds::wants_price(Work work) const {
  const auto kind = kinds_.find(work.first);
  if (kind == kinds_.end()) return true;
  const auto found = kind->second.stale.find(work.second);
  return found == kind->second.stale.end() || found->second;
}

void Speeds::begin_price(Work work, const std::vector<int>& workers) {
  Kind& kind = kinds_[work.first];
  kind.stale[work.second] = false;
  for (int w : workers) kind.workers[static_cast<unsigned>(w)].sizes[work.second].pending = 0;
}

void Speeds::add_price(Work work, unsigned worker, double seconds) {
  kinds_[work.first].workers[worker].sizes[work.second].pending += seconds;
}

void Speeds::end_price(Work work) {
  for (auto& [id, worker] : kinds_[work.first].workers)
    if (const auto own = worker.sizes.find(work.second); own != worker.sizes.end())
      set_price(worker, work.second, own->second.pending);
}

void Speeds::set_price(Work work, unsigned worker, double seconds) {
  Kind& kind = kinds_[work.first];
  kind.stale[work.second] = false;
  set_price(kind.workers[worker], work.second, seconds);
}

void Speeds::set_price(WorkerSpeeds& worker, std::uint32_t samples, double seconds) {
  worker.sizes[samples].price = seconds > 0 ? seconds : __builtin_nan("");
  std::vector<TimePoint> points;
  for (const auto& [size, estimate] : worker.sizes) points.push_back({static_cast<double>(size), estimate.price});
  TimeFunction prices(points);
  if (prices.known() != worker.prices.known()) worker.ratio.forget();
  worker.prices = std::move(prices);
}

void Speeds::measured(Work work, unsigned worker, double seconds) {
  WorkerSpeeds& own = kinds_[work.first].workers[worker];
  Estimate& estimate = own.sizes[work.second];
  estimate.measured.add(seconds);
  estimate.measured_at = ++measurements_;
  const double price = std::isnan(estimate.price) ? own.prices.seconds(work.second) : estimate.price;
  if (price > 0) own.ratio.add(seconds / price);
}

const Speeds::WorkerSpeeds* Speeds::find(std::uint32_t kind, unsigned worker) const {
  const auto entry = kinds_.find(kind);
  if (entry == kinds_.end()) return nullptr;
  const auto found = entry->second.workers.find(worker);
  return found == entry->second.workers.end() ? nullptr : &found->second;
}

double Speeds::seconds(Work work, unsigned worker) const {
  const WorkerSpeeds* own = find(work.first, worker);
  if (!own) return __builtin_nan("");
  const auto size = own->sizes.find(work.second);
  const Estimate estimate = size == own->sizes.end() ? Estimate{} : size->second;
  const double price = std::isnan(estimate.price) ? own->prices.seconds(work.second) : estimate.price;
  if (std::isnan(price)) return measured(work, *own);
  const double ratio = own->ratio.estimate();
  return price * (std::isnan(ratio) ? 1 : ratio);
}

double Speeds::measured(Work work, const WorkerSpeeds& worker) const {
  const auto size = worker.sizes.find(work.second);
  if (size == worker.sizes.end()) return __builtin_nan("");
  const double seconds = size->second.measured.estimate();
  const double smallest = size->second.measured.smallest();
  if (!std::isnan(seconds) || std::isnan(smallest)) return seconds;
  for (const auto& [id, other] : kinds_.at(work.first).workers) {
    const auto theirs = other.sizes.find(work.second);
    if (theirs != other.sizes.end() && smallest > kHopeless * theirs->second.measured.estimate()) return smallest;
  }
  return seconds;
}

TimeFunction Speeds::time(std::uint32_t kind, unsigned worker) const {
  const WorkerSpeeds* own = find(kind, worker);
  if (!own) return {};
  if (own->prices.known()) return own->prices.scaled(own->ratio.estimate());

  // Sizes that have not been used for long may tell of another time.
  constexpr std::size_t kLastSizes = 3;
  std::vector<std::pair<std::uint64_t, TimePoint>> latest;
  for (const auto& [size, estimate] : own->sizes)
    if (const double seconds = measured({kind, size}, *own); !std::isnan(seconds))
      latest.push_back({estimate.measured_at, {static_cast<double>(size), seconds}});
  std::sort(latest.begin(), latest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<TimePoint> points;
  for (std::size_t i = 0; i < std::min(kLastSizes, latest.size()); ++i) points.push_back(latest[i].second);
  return TimeFunction(points);
}

}  // namespace prorata
