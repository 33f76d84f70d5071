#include "scheduler/time_function.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace prorata {
namespace {

bool makes_sense(const TimePoint& p) {
  return std::isfinite(p.samples) && p.samples >= 1 && std::isfinite(p.seconds) && p.seconds > 0;
}

// Neighbouring sizes that share one time: the lower median of all that was measured of them.
struct Pool {
  std::vector<double> sizes;    // ascending, different
  std::vector<double> seconds;  // ascending

  double median() const { return seconds[(seconds.size() - 1) / 2]; }

  void absorb(const Pool& next) {
    for (double size : next.sizes)
      if (sizes.back() != size) sizes.push_back(size);
    const auto middle = static_cast<std::ptrdiff_t>(seconds.size());
    seconds.insert(seconds.end(), next.seconds.begin(), next.seconds.end());
    std::inplace_merge(seconds.begin(), seconds.begin() + middle, seconds.end());
  }
};

// The isotonic regression by medians: points ascending in both, each size once.
std::vector<TimePoint> monotone(std::vector<TimePoint> points) {
  std::erase_if(points, [](const TimePoint& p) { return !makes_sense(p); });
  std::sort(points.begin(), points.end(), [](auto& a, auto& b) { return a.samples < b.samples; });
  std::vector<Pool> pools;
  for (const TimePoint& p : points) {
    const Pool single{{p.samples}, {p.seconds}};
    if (!pools.empty() && pools.back().sizes.back() == p.samples)
      pools.back().absorb(single);
    else
      pools.push_back(single);
  }
  std::vector<Pool> rising;
  for (Pool& pool : pools) {
    while (!rising.empty() && rising.back().median() > pool.median()) {
      rising.back().absorb(pool);
      pool = std::move(rising.back());
      rising.pop_back();
    }
    rising.push_back(std::move(pool));
  }
  std::vector<TimePoint> result;
  for (const Pool& pool : rising)
    for (double size : pool.sizes) result.push_back({size, pool.median()});
  return result;
}

double slope_between(const TimePoint& a, const TimePoint& b) {
  return (b.seconds - a.seconds) / (b.samples - a.samples);
}

}  // namespace

TimeFunction::TimeFunction(const std::vector<TimePoint>& points) {
  std::vector<TimePoint> p = monotone(points);
  if (p.empty()) return;
  const double at_zero = p.size() > 1 ? p[0].seconds - p[0].samples * slope_between(p[0], p[1]) : 0;
  p.insert(p.begin(), {0, std::max(0.0, at_zero)});
  for (std::size_t i = 0; i + 1 < p.size(); ++i)
    knots_.push_back({p[i].samples, p[i].seconds, slope_between(p[i], p[i + 1])});

  const TimePoint last = p.back();
  const auto lower = std::find_if(p.rbegin(), p.rend(), [&](auto& q) { return q.seconds < last.seconds; });
  knots_.push_back({last.samples, last.seconds, slope_between(lower == p.rend() ? TimePoint{0, 0} : *lower, last)});
}

TimeFunction TimeFunction::unable() {
  TimeFunction f;
  f.able_ = false;
  return f;
}

double TimeFunction::seconds(std::int64_t samples) const {
  if (samples <= 0) return 0;
  if (!able_) return std::numeric_limits<double>::infinity();
  if (!known()) return std::numeric_limits<double>::quiet_NaN();
  const auto size = static_cast<double>(samples);
  const auto next =
      std::upper_bound(knots_.begin(), knots_.end(), size, [](double s, const Knot& k) { return s < k.samples; });
  const Knot& knot = *(next - 1);
  // Still at least a sample short of the next knot, by more than rounding could make good.
  return knot.seconds + (size - knot.samples) * knot.slope;
}

std::int64_t TimeFunction::samples_within(double seconds) const {
  if (!known() || !(seconds >= knots_.front().seconds)) return 0;
  const auto next =
      std::upper_bound(knots_.begin(), knots_.end(), seconds, [](double s, const Knot& k) { return s < k.seconds; });
  const Knot& knot = *(next - 1);
  const double size = knot.samples + (seconds - knot.seconds) / knot.slope;  // whatever follows is higher: slope > 0
  const auto fits = [&](std::int64_t samples) { return this->seconds(samples) <= seconds; };

  // By rounding the whole number may lie beside it: find it in strides from there.
  std::int64_t most = static_cast<std::int64_t>(std::clamp(size, 0.0, static_cast<double>(kMost)));
  std::int64_t over = kMost + 1;
  if (fits(most)) {
    for (std::int64_t stride = 1; most < kMost; stride *= 2) {
      over = std::min(most + stride, kMost + 1);
      if (over > kMost || !fits(over)) break;
      most = over;
    }
  } else {
    over = most;
    for (std::int64_t stride = 1; !fits(most); stride *= 2) {
      over = most;
      most = std::max<std::int64_t>(0, most - stride);
    }
  }
  while (over - most > 1) {
    const std::int64_t middle = most + (over - most) / 2;
    (fits(middle) ? most : over) = middle;
  }
  return most;
}

TimeFunction TimeFunction::per_step(std::int64_t steps) const {
  TimeFunction result = *this;
  for (Knot& k : result.knots_) {
    k.samples /= static_cast<double>(steps);
    k.seconds /= static_cast<double>(steps);
  }
  return result;
}

TimeFunction TimeFunction::scaled(double factor) const {
  TimeFunction result = *this;
  if (!std::isfinite(factor) || factor <= 0) return result;
  for (Knot& k : result.knots_) {
    k.seconds *= factor;
    k.slope *= factor;
  }
  return result;
}

}  // namespace prorata
