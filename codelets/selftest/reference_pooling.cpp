#include "codelets/selftest/reference_parts.h"

#include <algorithm>
#include <cmath>

namespace prorata::reference {
namespace {

// Calls visit(x index, y index) for each element of each window.
template <class Visit>
void for_each_averaged(const AvgPoolShape& s, Visit visit) {
  std::size_t y = 0;
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t top : window_starts(s.height, 0, s.window_height, s.stride))
      for (std::int64_t left : window_starts(s.width, 0, s.window_width, s.stride))
        for (std::int64_t c = 0; c < s.channels; ++c, ++y)
          for (std::int64_t h = top; h < top + s.window_height; ++h)
            for (std::int64_t w = left; w < left + s.window_width; ++w)
              visit(size(((n * s.height + h) * s.width + w) * s.channels + c), y);
}

// As the sums, each divided by the elements of a window: that is rounded, and so is 1 / elements where it is a factor.
Results averages(const AvgPoolShape& s, const std::vector<Sum>& sums) {
  const double share = 1.0 / (double(s.window_height) * s.window_width);
  Results results = expected(sums);
  for (Expected& r : results)
    r = {r.value * share, share * (r.tolerance * (1 + 2 * kRoundoff) + 2 * kRoundoff * std::abs(r.value))};
  return results;
}

}  // namespace

Results avg_pool_forward(const AvgPoolShape& s, const Values& x) {
  std::vector<Sum> y(size(s.batch) * window_starts(s.height, 0, s.window_height, s.stride).size() *
                     window_starts(s.width, 0, s.window_width, s.stride).size() * size(s.channels));
  for_each_averaged(s, [&](std::size_t xi, std::size_t yi) { y[yi].add(x[xi]); });
  return averages(s, y);
}

// The terms may be divided before they are summed up, hence their products.
Results avg_pool_backward(const AvgPoolShape& s, const Values& dy) {
  std::vector<Sum> dx(size(s.batch) * size(s.height) * size(s.width) * size(s.channels));
  for_each_averaged(s, [&](std::size_t xi, std::size_t yi) { dx[xi].add_product(dy[yi], 1); });
  return averages(s, dx);
}

Pooled max_pool_forward(const MaxPoolShape& s, const Values& x) {
  Pooled pooled;
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t top : window_starts(s.height, 0, s.window, s.stride))
      for (std::int64_t left : window_starts(s.width, 0, s.window, s.stride))
        for (std::int64_t c = 0; c < s.channels; ++c) {
          Values window;
          for (std::int64_t h = top; h < top + s.window; ++h)
            for (std::int64_t w = left; w < left + s.window; ++w)
              window.push_back(x[size(((n * s.height + h) * s.width + w) * s.channels + c)]);
          const auto largest = std::max_element(window.begin(), window.end());  // the first one where equal
          pooled.y.push_back({*largest});
          pooled.argmax.push_back({static_cast<double>(largest - window.begin())});
        }
  return pooled;
}

Results max_pool_backward(const MaxPoolShape& s, const Values& argmax, const Values& dy) {
  std::vector<Sum> dx(size(s.batch) * size(s.height) * size(s.width) * size(s.channels));
  std::size_t from = 0;
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t top : window_starts(s.height, 0, s.window, s.stride))
      for (std::int64_t left : window_starts(s.width, 0, s.window, s.stride))
        for (std::int64_t c = 0; c < s.channels; ++c, ++from) {
          const auto place = static_cast<std::int64_t>(argmax[from]);
          const std::int64_t h = top + place / s.window, w = left + place % s.window;
          dx[size(((n * s.height + h) * s.width + w) * s.channels + c)].add(dy[from]);
        }
  return expected(dx);
}

}  // namespace prorata::reference
