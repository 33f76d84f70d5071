#include "driver/data/normalize.h"

#include <gtest/gtest.h>

#include <cmath>

namespace prorata {
namespace {

Dataset with_images(Elements train, std::int32_t channels) {
  Dataset data{"made", {1, 1, channels}, 2, {}, {}};
  data.train.labels.resize(train.size() / static_cast<std::size_t>(channels));
  data.train.images = std::move(train);
  return data;
}

// In float, the mean and the factor have one rounding each: 6e-8 of them.
TEST(Normalize, IsByMeanAndDeviationOfEachChannelOfTheTrainingSet) {
  Dataset data = with_images(std::vector<std::uint8_t>{0, 255, 51, 255, 204, 255}, 2);
  normalize(data);
  EXPECT_EQ(data.test.normalization, data.train.normalization);
  const std::vector<float>& n = data.train.normalization;
  ASSERT_EQ(n.size(), 4u);
  EXPECT_NEAR(n[0], 85.0 / 255, 1e-7);
  EXPECT_NEAR(n[1], 1, 1e-7);
  const double variance = (85.0 * 85 + 34.0 * 34 + 119.0 * 119) / 3 / 255 / 255;
  EXPECT_NEAR(n[2], 1 / std::sqrt(variance), 3e-7);
  EXPECT_EQ(n[3], 1) << "a constant channel";
}

// Their squares need 54 bits, of which double keeps 53 and float 24.
TEST(Normalize, KeepsTheDeviationOfNumbersFarFromZero) {
  Dataset data = with_images(std::vector<float>{8388608, 8388609, 8388610, 8388607}, 1);
  normalize(data);
  EXPECT_EQ(data.train.normalization[0], 8388608.0f);  // the mean, 0.5 more, is a tie, which goes to the even number
  EXPECT_NEAR(data.train.normalization[1], 1 / std::sqrt(1.25), 1e-6);
}

TEST(Normalize, TakesADeviationThatNoFloatCouldBringToOneForNone) {
  Dataset data = with_images(std::vector<float>{1e-40f, 2e-40f}, 1);
  normalize(data);
  EXPECT_EQ(data.train.normalization[1], 1.0f);
}

}  // namespace
}  // namespace prorata
