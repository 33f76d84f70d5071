#include "models/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace prorata {
namespace {

TEST(Random, GivesTheSameNumbersForTheSameSeedAndStream) {
  Random a(7, 3), b(7, 3);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.uniform(), b.uniform());
}

TEST(Random, GivesOtherNumbersForAnotherSeedOrStream) {
  Random a(7, 3), b(8, 3), c(7, 4);
  const double first = a.uniform();
  EXPECT_NE(first, b.uniform());
  EXPECT_NE(first, c.uniform());
}

TEST(Random, StaysWithinItsBounds) {
  Random r(1, 1);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double u = r.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    ASSERT_LT(r.below(10), 10u);
  }
  // The mean of n uniforms has a standard deviation of 1 / sqrt(12 n) = 0.0029; five of them.
  EXPECT_NEAR(sum / 10000, 0.5, 0.015);
}

TEST(Random, ShufflesWithoutLosingAnything) {
  std::vector<std::uint32_t> v(1000);
  std::iota(v.begin(), v.end(), 0u);
  const auto before = v;
  Random(3, 1).shuffle(v);
  EXPECT_NE(v, before);
  std::sort(v.begin(), v.end());
  EXPECT_EQ(v, before);
}

}  // namespace
}  // namespace prorata
