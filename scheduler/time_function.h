// How long a worker needs for a mini-batch, by its size: piecewise linear through calibrated points. Plain C++, no
// StarPU.
//
// A functional performance model in the sense of Lastovetsky and Reddy (FuPerMod, 10.1007/s11227-014-1207-9): time is
// not proportional to size, for caches, launch costs and the shapes of products bend it. Transfers are part of the
// time.
//
// From points to a function.
//   Absurd points are dropped: samples not finite or under 1, seconds not finite or not above 0.
//   A larger mini-batch never takes less. Where the points say so it is noise, and the isotonic regression by medians
//   (pool adjacent violators, each pool at its lower median) takes it out; several points of one size are such a pool
//   too. The usual mean, or a running maximum, would let one wild point lift all larger sizes to itself.
//   Below the first point: the line through the first two, but never under the one from 0 to the first. What is left
//   of it at 0 is the fixed cost of a mini-batch.
//   Beyond the last: the line to it from the last point that is lower, or from 0 where none is.
// So one point makes the constant-speed model, time in proportion to samples.
//
// Threads: immutable but for assignment. Units: samples, seconds.
#pragma once

#include <cstdint>
#include <vector>

namespace prorata {

struct TimePoint {
  double samples;
  double seconds;
};

class TimeFunction {
 public:
  // Nothing is known: seconds() is NaN, samples_within() 0.
  TimeFunction() = default;
  // In any order. None that makes sense: nothing is known.
  explicit TimeFunction(const std::vector<TimePoint>& points);
  // The worker cannot run the work: seconds() is infinite, samples_within() 0.
  static TimeFunction unable();

  bool known() const { return !knots_.empty(); }
  bool able() const { return able_; }  // true as long as nothing is known

  // 0 for no samples: no mini-batch has no fixed cost either. Never decreases with `samples`, to the last bit.
  double seconds(std::int64_t samples) const;
  // The largest mini-batch that takes no longer: seconds(b) <= seconds < seconds(b + 1), to the last bit. At most
  // kMost.
  std::int64_t samples_within(double seconds) const;

  // The same worker `factor` times slower. A factor that is not finite or not above 0 changes nothing.
  TimeFunction scaled(double factor) const;
  // The same worker, of whom a mini-batch spans so many steps (>= 1): samples and seconds a step.
  TimeFunction per_step(std::int64_t steps) const;

  static constexpr std::int64_t kMost = std::int64_t{1} << 53;  // beyond it a double does not hold every whole number

 private:
  // From here to the next knot time grows by `slope` a sample. The first knot is at 0, with the fixed cost.
  struct Knot {
    double samples;
    double seconds;
    double slope;
  };

  std::vector<Knot> knots_;  // ascending; the last one's slope is above 0
  bool able_ = true;
};

}  // namespace prorata
