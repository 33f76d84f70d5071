#include "driver/report/staleness_histogram.h"

#include <numeric>

namespace prorata {

void StalenessHistogram::add(std::uint64_t staleness) {
  if (staleness >= counts_.size()) counts_.resize(staleness + 1);
  ++counts_[staleness];
}

void StalenessHistogram::merge(const StalenessHistogram& other) {
  if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size());
  for (std::size_t s = 0; s < other.counts_.size(); ++s) counts_[s] += other.counts_[s];
}

std::uint64_t StalenessHistogram::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

double StalenessHistogram::mean() const {
  const std::uint64_t n = total();
  if (n == 0) return 0;
  double sum = 0;
  for (std::size_t s = 0; s < counts_.size(); ++s) sum += static_cast<double>(s * counts_[s]);
  return sum / static_cast<double>(n);
}

std::uint64_t StalenessHistogram::percentile(double fraction) const {
  const double wanted = fraction * static_cast<double>(total());
  double below = 0;
  for (std::size_t s = 0; s < counts_.size(); ++s)
    if ((below += static_cast<double>(counts_[s])) >= wanted) return s;
  return max();
}

nlohmann::ordered_json StalenessHistogram::json() const {
  return {{"mean", mean()}, {"p95", percentile(0.95)}, {"max", max()}, {"histogram", counts_}};
}

}  // namespace prorata
