#include "driver/learning_rate.h"

#include <gtest/gtest.h>

namespace prorata {
namespace {

TEST(LearningRate, RisesAndThenFallsToNothingAsACosine) {
  const LearningRate rate{0.5, LrSchedule::cosine, 10, 1000};
  EXPECT_NEAR(rate.at(0), 0.05, 1e-12);
  for (int n = 1; n < 10; ++n) EXPECT_GT(rate.at(n), rate.at(n - 1));
  EXPECT_NEAR(rate.at(10), 0.5, 1e-3);
  for (int n = 11; n < 1000; ++n) EXPECT_LT(rate.at(n), rate.at(n - 1));
  EXPECT_NEAR(rate.at(500), 0.25, 1e-12);
  EXPECT_LT(rate.at(999), 2e-6);
}

TEST(LearningRate, StaysConstantOnceItHasRisen) {
  const LearningRate rate{0.5, LrSchedule::constant, 4, 100};
  const double expected[] = {0.125, 0.25, 0.375, 0.5, 0.5};
  for (int n = 0; n < 5; ++n) EXPECT_EQ(rate.at(n), expected[n]);
  EXPECT_EQ(rate.at(99), 0.5);
}

TEST(LearningRate, FallsInStepsOnceItHasRisen) {
  const LearningRate rate{.value = 0.5, .schedule = LrSchedule::step, .warmup = 2, .total = 9, .step = 3, .gamma = 0.5};
  const double expected[] = {0.25, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125};
  for (int n = 0; n < 9; ++n) EXPECT_EQ(rate.at(n), expected[n]) << n;
}

TEST(LearningRate, NeedNotRise) { EXPECT_EQ((LearningRate{0.5, LrSchedule::constant, 0, 100}.at(0)), 0.5); }

TEST(LearningRate, RisesOverAFifthOfAShortRun) {
  EXPECT_EQ(default_warmup(3 * 938), 200);
  EXPECT_EQ(default_warmup(938), 187);
  EXPECT_EQ(default_warmup(4), 0);
}

}  // namespace
}  // namespace prorata
