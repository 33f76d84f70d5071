// What the definitions of several operations share.
#pragma once

#include "codelets/selftest/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace prorata::reference {

inline Results expected(const std::vector<Sum>& sums) {
  Results results;
  for (const Sum& s : sums) results.push_back(s.expected());
  return results;
}

// Arithmetic on numbers that are themselves off by up to their tolerance, with the rounding of each step. Division and
// root may be off by some units of the last place on a device (OpenCL 1.2, section 7.4: 2.5 and 3).
inline Expected off_by(double roundings, Expected v) {
  return {v.value, v.tolerance + roundings * kRoundoff * (std::abs(v.value) + v.tolerance)};
}
inline Expected operator+(Expected a, Expected b) { return off_by(1, {a.value + b.value, a.tolerance + b.tolerance}); }
inline Expected operator-(Expected a, Expected b) { return off_by(1, {a.value - b.value, a.tolerance + b.tolerance}); }
inline Expected operator*(Expected a, Expected b) {
  return off_by(1, {a.value * b.value,
                    std::abs(a.value) * b.tolerance + std::abs(b.value) * a.tolerance + a.tolerance * b.tolerance});
}
inline Expected operator/(Expected a, Expected b) {  // by what cannot be 0
  const double quotient = a.value / b.value;
  return off_by(5, {quotient, (a.tolerance + std::abs(quotient) * b.tolerance) / (std::abs(b.value) - b.tolerance)});
}
inline Expected root(Expected v) {  // of what is positive
  const double least = std::sqrt(std::max(v.value - v.tolerance, 0.0));
  return off_by(6, {std::sqrt(v.value), v.tolerance / (std::sqrt(v.value) + least)});
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
