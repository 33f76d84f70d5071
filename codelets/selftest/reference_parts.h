// What the definitions of several operations share.
#pragma once

#include "codelets/selftest/reference.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace prorata::reference {

inline Results expected(const std::vector<Sum>& sums) {
  Results results;
  for (const Sum& s : sums) results.push_back(s.expected());
  return results;
}

inline std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// The places of a window of `window` along `extent` elements with `padding` more on either side.
inline std::vector<std::int64_t> window_starts(std::int64_t extent, std::int64_t padding, std::int64_t window,
                                               std::int64_t stride) {
  std::vector<std::int64_t> starts;
  for (std::int64_t at = -padding; at + window <= extent + padding; at += stride) starts.push_back(at);
  return starts;
}

}  // namespace prorata::reference
