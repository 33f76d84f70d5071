#include "scheduler/partition.h"

#include "tests/scheduler/instances.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace prorata {
namespace {

using test::kNever;
using test::kUnknown;
using test::Shares;
using test::sum;

// The optimum, independently: the round ends with the `total`-th smallest of all finishing times.
double optimum(const std::vector<double>& seconds, int total) {
  if (total == 0) return 0;
  std::vector<double> ends;
  for (double s : seconds)
    if (std::isfinite(s))
      for (int k = 1; k <= total; ++k) ends.push_back(k * s);
  std::nth_element(ends.begin(), ends.begin() + (total - 1), ends.end());
  return ends[static_cast<std::size_t>(total) - 1];
}

// The optimum by trying every share.
double exhaustive(const std::vector<double>& seconds, int total) {
  double best = kNever;
  Shares shares(seconds.size(), 0);
  const std::function<void(std::size_t, int)> deal = [&](std::size_t w, int left) {
    if (w + 1 == seconds.size()) {
      shares[w] = left;
      double end = 0;
      for (std::size_t i = 0; i < seconds.size(); ++i)
        if (shares[i] > 0) end = std::max(end, static_cast<double>(shares[i]) * seconds[i]);
      best = std::min(best, end);
      return;
    }
    for (int n = 0; n <= left; ++n) {
      shares[w] = n;
      deal(w + 1, left - n);
    }
  };
  deal(0, total);
  return best;
}

// Sums of a few hundred rounded products: 1e-9 is far above their error and far below one mini-batch.
constexpr double kRounding = 1 + 1e-9;

TEST(PartitionCount, EndsAsEarlyAsAnySharesCould) {
  test::Instances random(1);
  for (int i = 0; i < 5000; ++i) {
    const auto seconds = random.seconds(random.integer(1, 12), 6);
    const int total = random.integer(0, 200);
    const Shares shares = partition_count(seconds, total);
    ASSERT_EQ(sum(shares), total);
    ASSERT_GE(*std::min_element(shares.begin(), shares.end()), 0);
    ASSERT_LE(makespan(seconds, shares), optimum(seconds, total) * kRounding);
  }
}

TEST(PartitionCount, AgreesWithTryingEverything) {
  test::Instances random(2);
  for (int i = 0; i < 500; ++i) {
    const auto seconds = random.seconds(random.integer(1, 4), 2);
    const int total = random.integer(1, 10);
    const double end = makespan(seconds, partition_count(seconds, total));
    ASSERT_NEAR(end, exhaustive(seconds, total), end * 1e-9);
  }
}

TEST(PartitionCount, GivesNothingToWhoIsTooSlowToHelp) {
  EXPECT_EQ(partition_count(std::vector<double>{1, 100}, 16), (Shares{16, 0}));
  test::Instances random(3);
  for (int i = 0; i < 2000; ++i) {
    const auto seconds = random.seconds(random.integer(2, 8), 6);
    const int total = random.integer(1, 64);
    const Shares shares = partition_count(seconds, total);
    for (std::size_t w = 0; w < seconds.size(); ++w)
      if (seconds[w] > optimum(seconds, total) * kRounding) {
        ASSERT_EQ(shares[w], 0);
      }
  }
}

TEST(PartitionCount, GivesNothingToWhoCannotWork) {
  EXPECT_EQ(partition_count(std::vector<double>{kNever, 2, kNever}, 5), (Shares{0, 5, 0}));
  EXPECT_EQ(partition_count(std::vector<double>{kNever, kNever}, 5), (Shares{0, 0}));
  EXPECT_EQ(partition_count(std::vector<double>{}, 5), Shares{});
}

TEST(PartitionCount, TakesUnknownSpeedsForTheMedianOfTheKnown) {
  EXPECT_EQ(partition_count(std::vector<double>{kUnknown, kUnknown}, 8), (Shares{4, 4}));
  EXPECT_EQ(partition_count(std::vector<double>{1, 3, 5, kUnknown}, 46),
            partition_count(std::vector<double>{1, 3, 5, 3}, 46));
}

TEST(PartitionCount, IsExactWhereSpeedsDivideTheTotal) {
  EXPECT_EQ(partition_count(std::vector<double>{1, 4}, 20), (Shares{16, 4}));
  EXPECT_EQ(partition_count(std::vector<double>{0.1, 0.1, 0.1}, 30), (Shares{10, 10, 10}));
  EXPECT_EQ(partition_count(std::vector<double>{1e-3, 2e-3, 4e-3}, 7), (Shares{4, 2, 1}));
}

TEST(PartitionCount, HoldsForManyWorkersAndLargeTotals) {
  test::Instances random(4);
  const auto seconds = random.seconds(1024, 3);
  constexpr std::int64_t kTotal = 1'000'000'000;
  const Shares shares = partition_count(seconds, kTotal);
  EXPECT_EQ(sum(shares), kTotal);
  double speed = 0;
  for (double s : seconds) speed += 1 / s;
  for (std::size_t w = 0; w < seconds.size(); ++w) {
    // Exact proportion, but for whole numbers: one for the worker's own, and what 1024 of them make the round longer.
    const double exact = static_cast<double>(kTotal) / seconds[w] / speed;
    EXPECT_NEAR(static_cast<double>(shares[w]), exact, 1 + exact * 1024 / static_cast<double>(kTotal));
  }
}

TEST(PartitionUniform, GivesEachTheSameWithinOne) {
  test::Instances random(5);
  for (int i = 0; i < 1000; ++i) {
    auto seconds = random.seconds(random.integer(1, 12), 6);
    for (double& s : seconds)
      if (random.chance(0.2)) s = random.chance(0.5) ? kNever : kUnknown;
    const int total = random.integer(0, 200);
    const Shares shares = partition_uniform(seconds, total);
    std::int64_t least = total, most = 0;
    bool any = false;
    for (std::size_t w = 0; w < seconds.size(); ++w) {
      if (std::isinf(seconds[w])) {
        ASSERT_EQ(shares[w], 0);
        continue;
      }
      any = true;
      least = std::min(least, shares[w]);
      most = std::max(most, shares[w]);
    }
    ASSERT_EQ(sum(shares), any ? total : 0);
    ASSERT_LE(most - least, any ? 1 : 0);
  }
}

TEST(Makespan, IsTheLongestShare) {
  EXPECT_DOUBLE_EQ(makespan(std::vector<double>{1, 4, kUnknown, kNever}, Shares{7, 2, 100, 0}), 8);
  EXPECT_EQ(makespan(std::vector<double>{}, Shares{}), 0);
}

}  // namespace
}  // namespace prorata
