// What partition_test.cpp leaves open: shares to the last unit, ties, unknown and unable workers among the others.
//
// Seconds are whole numbers, so that every finishing time k * seconds is exact and no comparison needs a tolerance.
#include "scheduler/partition.h"

#include "tests/scheduler/instances.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <tuple>

namespace prorata {
namespace {

using test::kNever;
using test::kUnknown;
using test::Shares;
using test::sum;

// Whole seconds over six orders of magnitude, some workers equally fast.
std::vector<double> whole_seconds(test::Instances& random, int workers) {
  auto s = random.seconds(workers, 6);
  for (double& t : s) t = std::ceil(t * 1e3);
  return s;
}

// The contract read literally: the `total` first of all finishing times; of those that coincide the one of the fastest
// worker, then of the first.
Shares earliest_finishes(const std::vector<double>& seconds, int total) {
  std::vector<std::tuple<double, double, std::size_t>> ends;
  for (std::size_t w = 0; w < seconds.size(); ++w)
    if (std::isfinite(seconds[w]))
      for (int k = 1; k <= total; ++k) ends.emplace_back(k * seconds[w], seconds[w], w);
  std::sort(ends.begin(), ends.end());
  Shares shares(seconds.size(), 0);
  for (std::size_t i = 0; i < ends.size() && i < static_cast<std::size_t>(total); ++i) ++shares[std::get<2>(ends[i])];
  return shares;
}

// The known seconds' median where they have exactly one, NaN where they do not.
double single_median(const std::vector<double>& seconds) {
  std::vector<double> known;
  for (double s : seconds)
    if (std::isfinite(s)) known.push_back(s);
  std::sort(known.begin(), known.end());
  return known.size() % 2 == 1 ? known[known.size() / 2] : kUnknown;
}

TEST(PartitionCountProperty, IsTheEarliestFinishesWithTiesToTheFastestThenTheFirst) {
  test::Instances random(11);
  for (int i = 0; i < 5000; ++i) {
    const auto seconds = whole_seconds(random, random.integer(1, 12));
    const int total = random.integer(0, 200);
    ASSERT_EQ(partition_count(seconds, total), earliest_finishes(seconds, total)) << "instance " << i;
  }
}

// All shares of `total`, dealt out from worker `w` on.
double best_of_all(const std::vector<double>& seconds, int total, Shares& shares, std::size_t w) {
  if (w + 1 == seconds.size()) {
    shares[w] = total;
    return makespan(seconds, shares);
  }
  double best = kNever;
  for (int n = 0; n <= total; ++n) {
    shares[w] = n;
    best = std::min(best, best_of_all(seconds, total - n, shares, w + 1));
  }
  return best;
}

TEST(PartitionCountProperty, EndsWhenTheBestOfAllPossibleSharesDoes) {
  test::Instances random(19);
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> seconds;  // near each other, so that several take part
    for (int w = random.integer(1, 4); w > 0; --w) seconds.push_back(random.integer(1, 30));
    const int total = random.integer(0, 10);
    Shares shares(seconds.size(), 0);
    ASSERT_EQ(makespan(seconds, partition_count(seconds, total)), best_of_all(seconds, total, shares, 0)) << i;
  }
}

TEST(PartitionCountProperty, BreaksTiesAmongFewDistinctSpeeds) {
  test::Instances random(12);
  for (int i = 0; i < 5000; ++i) {
    std::vector<double> seconds;
    for (int w = random.integer(1, 8); w > 0; --w) seconds.push_back(random.integer(1, 4));
    const int total = random.integer(0, 60);
    ASSERT_EQ(partition_count(seconds, total), earliest_finishes(seconds, total)) << "instance " << i;
  }
}

TEST(PartitionCountProperty, HoldsAmongUnknownAndUnableWorkers) {
  test::Instances random(13);
  for (int i = 0; i < 5000; ++i) {
    auto seconds = whole_seconds(random, random.integer(1, 12));
    for (double& s : seconds)
      if (random.chance(0.4)) s = random.chance(0.5) ? kNever : kUnknown;
    const int total = random.integer(0, 200);
    const Shares shares = partition_count(seconds, total);

    const bool any = std::any_of(seconds.begin(), seconds.end(), [](double s) { return !std::isinf(s); });
    ASSERT_EQ(sum(shares), any ? total : 0) << "instance " << i;
    for (std::size_t w = 0; w < seconds.size(); ++w) {
      ASSERT_GE(shares[w], 0);
      if (std::isinf(seconds[w])) {
        ASSERT_EQ(shares[w], 0) << "worker " << w << " of instance " << i;
      }
    }

    auto guessed = seconds;
    const double median = single_median(seconds);
    for (double& s : guessed)
      if (std::isnan(s)) s = median;
    if (!std::isnan(median)) {
      ASSERT_EQ(shares, earliest_finishes(guessed, total)) << "instance " << i;
    }
  }
}

TEST(PartitionCountProperty, TakesAMedianBetweenTheTwoMiddleOnesOfAnEvenNumber) {
  test::Instances random(14);
  for (int i = 0; i < 2000; ++i) {
    auto seconds = whole_seconds(random, 2 * random.integer(1, 5));
    auto sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    const int total = random.integer(1, 200);
    // More seconds, no larger share: the unknown one's lies between those of the two middle ones.
    const auto share_at = [&](double guess) {
      auto all = seconds;
      all.push_back(guess);
      return partition_count(all, total).back();
    };
    ASSERT_LE(share_at(kUnknown), share_at(sorted[seconds.size() / 2 - 1])) << "instance " << i;
    ASSERT_GE(share_at(kUnknown), share_at(sorted[seconds.size() / 2])) << "instance " << i;
  }
}

TEST(PartitionCountProperty, GivesAllUnknownTheSameWithinOne) {
  for (std::size_t workers = 1; workers <= 12; ++workers)
    for (int total = 0; total <= 50; ++total) {
      const std::vector<double> seconds(workers, kUnknown);
      ASSERT_EQ(partition_count(seconds, total), partition_uniform(seconds, total)) << workers << " and " << total;
    }
}

TEST(PartitionCountProperty, GivesNothingToWhoseFirstWouldEndAfterTheOthersLast) {
  test::Instances random(15);
  int too_slow = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto seconds = whole_seconds(random, random.integer(2, 8));
    const int total = random.integer(1, 64);
    const Shares shares = partition_count(seconds, total);
    for (std::size_t w = 0; w < seconds.size(); ++w) {
      auto others = seconds;
      others[w] = kNever;
      if (makespan(others, earliest_finishes(others, total)) >= seconds[w]) continue;
      ASSERT_EQ(shares[w], 0) << "worker " << w << " of instance " << i;
      ++too_slow;
    }
  }
  EXPECT_GT(too_slow, 1000) << "the instances hardly tested it";
}

TEST(PartitionCountProperty, IsIndependentOfTheUnitOfTime) {
  test::Instances random(16);
  for (int i = 0; i < 2000; ++i) {
    const auto seconds = whole_seconds(random, random.integer(1, 12));
    const int total = random.integer(1, 200);
    const Shares shares = partition_count(seconds, total);
    for (const double unit : {0x1p-30, 0x1p20, 1e-3, 3.0}) {
      auto scaled = seconds;
      for (double& s : scaled) s *= unit;
      // By powers of two every product is exact, ties too. By others a tie may fall the other way, which changes the
      // end of the round by the rounding of a product and of the scaling: a few units in the 16th digit.
      if (unit == 0x1p-30 || unit == 0x1p20) {
        ASSERT_EQ(partition_count(scaled, total), shares) << "instance " << i;
      }
      const double ratio = makespan(scaled, partition_count(scaled, total)) / makespan(seconds, shares);
      ASSERT_NEAR(ratio, unit, unit * 1e-14) << "instance " << i;
    }
  }
}

TEST(PartitionCountProperty, GivesEquallyFastWorkersEqualSharesWhereTheyDivide) {
  for (const double s : {0.1, 1e-3, 1.0 / 3, 7.0})
    for (std::size_t workers : {1, 3, 7, 64})
      for (std::int64_t each : {1, 10, 12345}) {
        const Shares expected(workers, each);
        ASSERT_EQ(partition_count(std::vector<double>(workers, s), each * static_cast<std::int64_t>(workers)), expected)
            << workers << " workers of " << s << " s";
      }
}

TEST(PartitionCountProperty, IsProportionalToAMillionthForLargeTotals) {
  test::Instances random(17);
  const auto seconds = random.seconds(1024, 1);
  constexpr std::int64_t kTotal = 100'000'000'000;
  const Shares shares = partition_count(seconds, kTotal);
  EXPECT_EQ(sum(shares), kTotal);
  double speed = 0;
  for (double s : seconds) speed += 1 / s;
  // The smallest share is above 1e7, so a whole number too many or too few is less than a ten-millionth of it.
  for (std::size_t w = 0; w < seconds.size(); ++w)
    EXPECT_NEAR(static_cast<double>(shares[w]) * seconds[w] * speed / static_cast<double>(kTotal), 1, 1e-6);
}

TEST(PartitionUniformProperty, GivesOneMoreToTheFirstAbleOnes) {
  EXPECT_EQ(partition_uniform(std::vector<double>{kNever, 9, kUnknown, kNever, 1}, 8), (Shares{0, 3, 3, 0, 2}));
  EXPECT_EQ(partition_uniform(std::vector<double>{5, 1, 3}, 2), (Shares{1, 1, 0}));
  EXPECT_EQ(partition_uniform(std::vector<double>{5, 1}, 0), (Shares{0, 0}));
}

TEST(MakespanProperty, IsTheMaximumOverWorkers) {
  test::Instances random(18);
  for (int i = 0; i < 1000; ++i) {
    const auto seconds = whole_seconds(random, random.integer(1, 8));
    Shares shares;
    double expected = 0;
    for (double s : seconds) {
      shares.push_back(random.integer(0, 20));
      expected = std::max(expected, s * static_cast<double>(shares.back()));
    }
    ASSERT_EQ(makespan(seconds, shares), expected);
  }
}

}  // namespace
}  // namespace prorata
