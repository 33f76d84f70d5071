// Random instances of the dealing problem.
#pragma once

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

 private:
  std::mt19937 engine_;
};

}  // namespace prorata::test
