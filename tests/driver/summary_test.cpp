#include "driver/report/summary.h"

#include <gtest/gtest.h>

namespace prorata {
namespace {

TEST(StalenessHistogram, IsEmptyAtFirst) {
  const StalenessHistogram h;
  EXPECT_EQ(h.total(), 0u);
  EXPECT_EQ(h.mean(), 0);
  EXPECT_EQ(h.percentile(0.95), 0u);
  EXPECT_EQ(h.max(), 0u);
}

TEST(StalenessHistogram, CountsAndDescribes) {
  StalenessHistogram h;
  for (int i = 0; i < 18; ++i) h.add(1);
  h.add(0);
  h.add(10);
  EXPECT_EQ(h.total(), 20u);
  EXPECT_DOUBLE_EQ(h.mean(), 1.4);
  EXPECT_EQ(h.percentile(0.95), 1u);
  EXPECT_EQ(h.percentile(0.96), 10u);
  EXPECT_EQ(h.max(), 10u);
  EXPECT_EQ(h.json()["histogram"].size(), 11u);
}

TEST(StalenessHistogram, MergesWithALongerOne) {
  StalenessHistogram a, b;
  a.add(0);
  b.add(3);
  b.add(0);
  a.merge(b);
  EXPECT_EQ(a.total(), 3u);
  EXPECT_EQ(a.max(), 3u);
  EXPECT_DOUBLE_EQ(a.mean(), 1);
}

}  // namespace
}  // namespace prorata
