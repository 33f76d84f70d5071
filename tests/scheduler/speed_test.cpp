// How measurements become a speed. Needs no StarPU to run.
#include "scheduler/speed.h"

#include <gtest/gtest.h>

#include <cmath>

namespace prorata {
namespace {

constexpr Speeds::Work kWork{0, 64};

double after(std::initializer_list<double> measured, double price = 0) {
  Speeds speeds;
  if (price > 0) {
    speeds.begin_price(kWork, {3});
    speeds.add_price(kWork, 3, price);
    speeds.end_price(kWork);
  }
  for (double m : measured) speeds.measured(kWork, 3, m);
  return speeds.seconds(kWork, 3);
}

TEST(Speeds, KnowNothingOfFewerThanThreeMeasurementsWithoutAPrice) {
  EXPECT_TRUE(std::isnan(after({})));
  EXPECT_TRUE(std::isnan(after({1, 1})));
  EXPECT_EQ(after({9, 1, 1}), 1);
  EXPECT_EQ(after({}, 2), 2);
  EXPECT_EQ(after({8, 8}, 2), 2);
  EXPECT_EQ(after({8, 8, 8}, 2), 8);
}

TEST(Speeds, BelieveASingleMeasurementOfAWorkerThatIsHopeless) {
  Speeds speeds;
  speeds.measured(kWork, 1, 150);
  EXPECT_TRUE(std::isnan(speeds.seconds(kWork, 1))) << "nobody to compare it with";
  for (int i = 0; i < 3; ++i) speeds.measured(kWork, 0, 1);
  EXPECT_EQ(speeds.seconds(kWork, 1), 150);
  EXPECT_EQ(speeds.time(kWork.first, 1).seconds(kWork.second), 150);
  speeds.measured(kWork, 1, 50);  // it was only the first time
  EXPECT_TRUE(std::isnan(speeds.seconds(kWork, 1)));
}

TEST(Speeds, AreNotMovedByASingleOutlier) {
  EXPECT_EQ(after({1, 1, 1, 1, 100}), 1);
  EXPECT_EQ(after({1, 1, 1, 100, 1}), 1);
  EXPECT_EQ(after({1, 1, 1, 1, 0.01}), 1);
}

TEST(Speeds, FollowAClearChangeAfterTwoByTheNearerOfThem) {
  EXPECT_EQ(after({1, 1, 1, 1, 5, 4}), 4);
  EXPECT_EQ(after({1, 1, 1, 1, 4, 5}), 4);
  EXPECT_EQ(after({4, 4, 4, 4, 1, 0.5}), 1);
  EXPECT_EQ(after({1, 1, 1, 1.4, 1.4}), 1) << "not clear: the median";
  EXPECT_EQ(after({1, 1, 1, 1, 1, 5, 4}, 2), 4) << "of ratios to a price likewise";
}

}  // namespace
}  // namespace prorata
