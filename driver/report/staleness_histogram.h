// How stale mini-batches were.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace prorata {

// Counts by staleness: how many mini-batches had it.
class StalenessHistogram {
 public:
  void add(std::uint64_t staleness);
  void merge(const StalenessHistogram& other);
  std::uint64_t total() const;
  double mean() const;
  std::uint64_t percentile(double fraction) const;  // the smallest staleness that `fraction` of them do not exceed
  std::uint64_t max() const { return counts_.empty() ? 0 : counts_.size() - 1; }
  nlohmann::ordered_json json() const;

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(StalenessHistogram, counts_)

 private:
  std::vector<std::uint64_t> counts_;  // the last one is not 0
};

}  // namespace prorata
