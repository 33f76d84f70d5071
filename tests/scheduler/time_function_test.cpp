#include "scheduler/time_function.h"

#include "tests/scheduler/instances.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace prorata {
namespace {

using test::kNever;
using test::kUnknown;

TEST(TimeFunction, IsProportionalWithOnePoint) {
  const TimeFunction f({{64, 2}});
  EXPECT_TRUE(f.known());
  EXPECT_EQ(f.seconds(0), 0);
  EXPECT_EQ(f.seconds(32), 1);
  EXPECT_EQ(f.seconds(64), 2);
  EXPECT_EQ(f.seconds(256), 8);
  EXPECT_EQ(f.samples_within(1), 32);
  EXPECT_EQ(f.samples_within(1.03), 32);
}

TEST(TimeFunction, IsLinearBetweenPointsInAnyOrder) {
  const TimeFunction f({{64, 5}, {16, 2}, {128, 21}});
  EXPECT_EQ(f.seconds(16), 2);
  EXPECT_EQ(f.seconds(40), 3.5);
  EXPECT_EQ(f.seconds(64), 5);
  EXPECT_EQ(f.seconds(96), 13);
  EXPECT_EQ(f.seconds(128), 21);
}

TEST(TimeFunction, HasTheFixedCostThatTheFirstTwoPointsShow) {
  const TimeFunction f({{64, 5}, {16, 2}});
  EXPECT_EQ(f.seconds(8), 1.5);
  EXPECT_EQ(f.seconds(0), 0) << "no mini-batch, no fixed cost";
  EXPECT_EQ(f.samples_within(1), 0);
  EXPECT_EQ(f.samples_within(1.5), 8);
}

TEST(TimeFunction, IsProportionalBelowTheFirstPointWhereTheLineWouldGoUnderNothing) {
  const TimeFunction f({{64, 1}, {128, 8}});
  EXPECT_EQ(f.seconds(32), 0.5);
  EXPECT_EQ(f.seconds(16), 0.25);
}

TEST(TimeFunction, GoesOnBeyondTheLastPointAsTheLastStretchThatRises) {
  EXPECT_EQ(TimeFunction({{16, 2}, {64, 5}}).seconds(128), 9);
  EXPECT_EQ(TimeFunction({{32, 1}, {64, 2}, {128, 2}}).seconds(224), 3) << "from {32, 1} to {128, 2}";
  EXPECT_EQ(TimeFunction({{32, 2}, {64, 2}}).seconds(128), 4) << "flat all along: in proportion";
  EXPECT_EQ(TimeFunction({{32, 2}, {64, 2}}).seconds(8), 2);
}

TEST(TimeFunction, KnowsNothingWithoutPointsThatMakeSense) {
  for (const auto& points : std::vector<std::vector<TimePoint>>{
           {}, {{64, kUnknown}}, {{kUnknown, 1}}, {{64, kNever}}, {{kNever, 1}}, {{64, 0}}, {{64, -1}}, {{0, 1}}}) {
    const TimeFunction f(points);
    EXPECT_FALSE(f.known());
    EXPECT_TRUE(f.able());
    EXPECT_TRUE(std::isnan(f.seconds(64)));
    EXPECT_EQ(f.seconds(0), 0);
    EXPECT_EQ(f.samples_within(1e9), 0);
  }
  EXPECT_EQ(TimeFunction({{64, kUnknown}, {-3, 7}, {64, 2}}).seconds(32), 1) << "the others are dropped";
}

TEST(TimeFunction, IsInfiniteForWhoIsUnable) {
  const TimeFunction f = TimeFunction::unable();
  EXPECT_FALSE(f.able());
  EXPECT_EQ(f.seconds(1), kNever);
  EXPECT_EQ(f.samples_within(1e9), 0);
  EXPECT_FALSE(f.scaled(2).able());
}

TEST(TimeFunction, IsNotLiftedByOneWildPoint) {
  const TimeFunction f({{1, 1}, {2, 2}, {4, 400}, {8, 8}, {16, 16}, {32, 32}});
  for (const int b : {1, 2, 8, 16, 32}) EXPECT_EQ(f.seconds(b), b);
  EXPECT_EQ(f.seconds(4), 8) << "what the next larger one says";
  EXPECT_EQ(TimeFunction({{64, 3}, {64, 90}, {64, 2}}).seconds(64), 3) << "the median of several of one size";
}

// The least sum of absolute residuals of any non-decreasing values; there is a best one with values among the data.
double least_residuals(const std::vector<TimePoint>& p) {
  double best = kNever;
  const std::function<void(std::size_t, double, double)> choose = [&](std::size_t i, double least, double sum) {
    if (i == p.size()) {
      best = std::min(best, sum);
      return;
    }
    for (const TimePoint& q : p)
      if (q.seconds >= least) choose(i + 1, q.seconds, sum + std::abs(p[i].seconds - q.seconds));
  };
  choose(0, 0, 0);
  return best;
}

TEST(TimeFunction, IsTheMonotoneFunctionNearestToThePoints) {
  test::Instances random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<TimePoint> points;
    for (int n = random.integer(1, 6), b = 1; n > 0; --n, b *= 2)
      points.push_back({b + 0.0, random.integer(1, 9) + 0.0});
    const TimeFunction f(points);
    double residuals = 0;
    for (const TimePoint& p : points)
      residuals += std::abs(p.seconds - f.seconds(static_cast<std::int64_t>(p.samples)));
    ASSERT_NEAR(residuals, least_residuals(points), 1e-9) << i;  // whole numbers but for the rounding of slopes
  }
}

TEST(TimeFunction, NeverDecreasesAndIsInvertedToTheLastBit) {
  test::Instances random(2);
  for (int i = 0; i < 3000; ++i) {
    const double one = random.seconds(1, 6)[0];
    const TimeFunction f(random.points(one));
    std::int64_t b = 0;
    for (int n = 0; n < 200; ++n) {
      const std::int64_t next = b + (random.chance(0.7) ? 1 : random.integer(1, 100));
      ASSERT_LE(f.seconds(b), f.seconds(next)) << b << " of instance " << i;
      b = next;
      for (const double t : {f.seconds(b), std::nextafter(f.seconds(b), 0), f.seconds(b) * 1.01, one * b}) {
        const std::int64_t within = f.samples_within(t);
        ASSERT_GE(within, 0);
        ASSERT_LE(f.seconds(within), t) << b << " of instance " << i;
        ASSERT_GT(f.seconds(within + 1), t) << b << " of instance " << i;
      }
    }
  }
}

TEST(TimeFunction, HoldsAtItsLimits) {
  const TimeFunction f({{1, 1e-9}});
  EXPECT_EQ(f.samples_within(kNever), TimeFunction::kMost);
  EXPECT_EQ(f.samples_within(kUnknown), 0);
  EXPECT_EQ(f.samples_within(-1), 0);
  EXPECT_EQ(f.samples_within(0), 0);
  // So steep a start that no digit of later samples counts: the strides must not take for ever.
  const TimeFunction steep({{1, 1e6}, {1000000, 1e6 + 1e-9}});
  const std::int64_t within = steep.samples_within(1e6);
  EXPECT_LE(steep.seconds(within), 1e6);
  EXPECT_GT(steep.seconds(within + 1), 1e6);
}

TEST(TimeFunction, OfAStepIsThatOfSoManyStepsAtOnceDivided) {
  test::Instances random(4);
  for (int i = 0; i < 500; ++i) {
    const TimeFunction f(random.points(1e-3));
    for (const int steps : {1, 2, 7})
      for (const int b : {1, 9, 64, 1000})
        ASSERT_NEAR(f.per_step(steps).seconds(b) / (f.seconds(steps * b) / steps), 1, 1e-9) << steps << " x " << b;
  }
  EXPECT_FALSE(TimeFunction::unable().per_step(3).able());
  EXPECT_FALSE(TimeFunction().per_step(3).known());
}

TEST(TimeFunction, ScalesAllItsTimes) {
  test::Instances random(3);
  for (int i = 0; i < 500; ++i) {
    const TimeFunction f(random.points(1e-3));
    const TimeFunction slow = f.scaled(4);
    for (const int b : {0, 1, 7, 64, 1000, 5000}) ASSERT_EQ(slow.seconds(b), 4 * f.seconds(b));
    for (const double nonsense : {0.0, -1.0, kUnknown, kNever})
      ASSERT_EQ(f.scaled(nonsense).seconds(64), f.seconds(64)) << nonsense;
  }
}

}  // namespace
}  // namespace prorata
