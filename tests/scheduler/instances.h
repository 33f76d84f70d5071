// Random instances of the dealing problem.
#pragma once

#include "scheduler/time_function.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace prorata::test {

inline constexpr double kNever = std::numeric_limits<double>::infinity();
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

using Shares = std::vector<std::int64_t>;

inline std::int64_t sum(const Shares& s) { return std::accumulate(s.begin(), s.end(), std::int64_t{0}); }

class Instances {
 public:
  explicit Instances(unsigned seed) : engine_(seed) {}

  int integer(int least, int most) { return std::uniform_int_distribution<int>(least, most)(engine_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(engine_); }

  // Speeds over `decades` orders of magnitude; some workers equally fast.
  std::vector<double> seconds(int workers, double decades) {
    std::vector<double> s;
    for (int w = 0; w < workers; ++w)
      s.push_back(w > 0 && chance(0.2)
                      ? s.back()
                      : std::pow(10.0, std::uniform_real_distribution<double>(-decades / 2, decades / 2)(engine_)));
    return s;
  }

  // A size from 1 to 1024, small ones as likely as large ones.
  double size() { return std::floor(std::pow(2.0, std::uniform_real_distribution<double>(0, 10.99)(engine_))); }

  // Calibrated points of a worker that needs about `one` seconds a sample: a fixed cost or none, bends, flat stretches,
  // noise, wild points.
  std::vector<TimePoint> points(double one) {
    const double fixed = chance(0.5) ? one * integer(0, 200) : 0;
    const double bend = size(), steeper = chance(0.5) ? integer(0, 8) : 0;
    std::vector<TimePoint> p;
    for (int n = integer(1, 12); n > 0; --n) {
      const double b = size();
      double t = fixed + one * (b + steeper * std::max(0.0, b - bend));
      if (chance(0.3)) t *= std::uniform_real_distribution<double>(0.7, 1.4)(engine_);
      if (chance(0.05)) t *= chance(0.5) ? 100 : 0.01;
      if (!p.empty() && chance(0.1)) t = p.back().seconds;
      p.push_back({b, t});
    }
    return p;
  }

 private:
  std::mt19937 engine_;
};

}  // namespace prorata::test
