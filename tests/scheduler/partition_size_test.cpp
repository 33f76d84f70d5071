// Shares by size against every possible share, and against the list of all ends.
#include "scheduler/partition.h"

#include "tests/scheduler/instances.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace prorata {
namespace {

using test::kNever;
using test::kUnknown;
using test::Shares;
using test::sum;

SizeWorker worker(std::vector<TimePoint> points, std::int64_t most = TimeFunction::kMost, double free_at = 0) {
  return {TimeFunction(std::move(points)), most, free_at};
}

// Workers over `decades` orders of magnitude, of any shape.
std::vector<SizeWorker> any_workers(test::Instances& random, int count, double decades) {
  std::vector<SizeWorker> workers;
  for (double one : random.seconds(count, decades)) {
    workers.push_back(random.chance(0.15) && !workers.empty() ? workers.back() : worker(random.points(one)));
    if (random.chance(0.3)) workers.back().most = random.integer(0, 200);
    if (random.chance(0.05)) workers.back().time = TimeFunction::unable();
    if (random.chance(0.3)) workers.back().free_at = one * random.integer(0, 300);
  }
  return workers;
}

double end_of(const SizeWorker& w, std::int64_t samples) { return w.free_at + w.time.seconds(samples); }

std::int64_t able_most(const SizeWorker& w, std::int64_t total) { return w.time.able() ? std::min(w.most, total) : 0; }

// The earliest end of all: the `total`-th of the ends of all workers' samples, or the last where memory holds less.
double optimum(const std::vector<SizeWorker>& workers, std::int64_t total) {
  std::vector<double> ends;
  for (const SizeWorker& w : workers)
    for (std::int64_t k = 1; k <= able_most(w, total); ++k) ends.push_back(end_of(w, k));
  if (ends.empty() || total == 0) return 0;
  const auto last = ends.begin() + (std::min<std::ptrdiff_t>(total, std::ssize(ends)) - 1);
  std::nth_element(ends.begin(), last, ends.end());
  return *last;
}

// The earliest end by trying every share.
double exhaustive(const std::vector<SizeWorker>& workers, std::int64_t total) {
  double best = kNever;
  const std::function<void(std::size_t, std::int64_t, double)> deal = [&](std::size_t w, std::int64_t left,
                                                                          double end) {
    if (w == workers.size()) {
      if (left == 0) best = std::min(best, end);
      return;
    }
    deal(w + 1, left, end);
    for (std::int64_t n = 1; n <= able_most(workers[w], left); ++n)
      deal(w + 1, left - n, std::max(end, end_of(workers[w], n)));
  };
  deal(0, total, 0);
  return best;
}

std::int64_t room(const std::vector<SizeWorker>& workers, std::int64_t total) {
  std::int64_t all = 0;
  for (const SizeWorker& w : workers) all += able_most(w, total);
  return std::min(all, total);
}

// Times from now are differences of sums with free_at: a few units in the 16th digit.
constexpr double kRounding = 1 + 1e-14;

TEST(PartitionSize, EndsAsEarlyAsAnySizesCould) {
  test::Instances random(1);
  for (int i = 0; i < 5000; ++i) {
    const auto workers = any_workers(random, random.integer(1, 12), 6);
    const int total = random.integer(0, 600);
    const Shares shares = partition_size(workers, total);
    ASSERT_EQ(sum(shares), room(workers, total)) << "instance " << i;
    for (std::size_t w = 0; w < workers.size(); ++w) {
      ASSERT_GE(shares[w], 0) << "instance " << i;
      ASSERT_LE(shares[w], able_most(workers[w], total)) << "instance " << i;
    }
    ASSERT_LE(makespan(workers, shares), optimum(workers, total) * kRounding) << "instance " << i;
  }
}

TEST(PartitionSize, IsOptimalToTheLastBitWhereAllAreFree) {
  test::Instances random(2);
  for (int i = 0; i < 5000; ++i) {
    auto workers = any_workers(random, random.integer(1, 12), 6);
    for (SizeWorker& w : workers) w.free_at = 0;
    const int total = random.integer(1, 600);
    ASSERT_EQ(makespan(workers, partition_size(workers, total)), optimum(workers, total)) << "instance " << i;
  }
}

TEST(PartitionSize, AgreesWithTryingEverything) {
  test::Instances random(3);
  for (int i = 0; i < 3000; ++i) {
    auto workers = any_workers(random, random.integer(1, 4), 1);
    const std::int64_t total = room(workers, random.integer(0, 14));
    const double end = makespan(workers, partition_size(workers, total));
    ASSERT_NEAR(end, exhaustive(workers, total), end * 1e-14) << "instance " << i;
  }
}

TEST(PartitionSize, IsTheSharesByCountWhereTimeIsProportional) {
  test::Instances random(4);
  for (int i = 0; i < 2000; ++i) {
    const auto seconds = random.seconds(random.integer(1, 12), 3);
    std::vector<SizeWorker> workers;
    for (double s : seconds) workers.push_back(worker({{1, s}}));
    const int total = random.integer(0, 500);
    ASSERT_EQ(partition_size(workers, total), partition_count(seconds, total)) << "instance " << i;
  }
}

TEST(PartitionSize, GivesNothingToWhoseFixedCostIsLongerThanTheOthersNeed) {
  const std::vector<SizeWorker> workers{worker({{1, 1}}), worker({{1, 100.25}, {2, 100.5}})};
  EXPECT_EQ(partition_size(workers, 100), (Shares{100, 0}));
  EXPECT_EQ(partition_size(workers, 101), (Shares{100, 1}));
}

TEST(PartitionSize, CountsFromTheMomentAWorkerIsFree) {
  EXPECT_EQ(partition_size(std::vector{worker({{1, 1}}), worker({{1, 1}}, 1000, 4)}, 10), (Shares{7, 3}));
  EXPECT_EQ(partition_size(std::vector{worker({{1, 1}}), worker({{1, 1}}, 1000, 4)}, 4), (Shares{4, 0}));
}

TEST(PartitionSize, GivesWhatMemoryHoldsWhereItHoldsLess) {
  const std::vector<SizeWorker> workers{worker({{1, 1}}, 10), worker({{1, 5}}, 3), worker({{1, 1}}, 0)};
  EXPECT_EQ(partition_size(workers, 12), (Shares{10, 2, 0}));
  EXPECT_EQ(partition_size(workers, 13), (Shares{10, 3, 0}));
  EXPECT_EQ(partition_size(workers, 1000), (Shares{10, 3, 0}));
}

TEST(PartitionSize, TakesWhatIsNotKnownForTheMedianOfTheKnown) {
  test::Instances random(5);
  for (int i = 0; i < 2000; ++i) {
    std::vector<SizeWorker> workers;
    for (double one : random.seconds(2 * random.integer(0, 3) + 1, 2)) workers.push_back(worker(random.points(one)));
    const int unknown = random.integer(0, 4);
    const std::int64_t total = random.integer(1, 600);
    const auto equal = std::max<std::int64_t>(1, total / (std::ssize(workers) + unknown));
    auto sorted = workers;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](auto& a, auto& b) { return a.time.seconds(equal) < b.time.seconds(equal); });
    auto guessed = workers;
    for (int n = 0; n < unknown; ++n) {
      workers.push_back({});
      guessed.push_back(sorted[sorted.size() / 2]);
    }
    ASSERT_EQ(partition_size(workers, total), partition_size(guessed, total)) << "instance " << i;
  }
  EXPECT_EQ(partition_size(std::vector<SizeWorker>(3), 8), (Shares{3, 3, 2})) << "nothing known: all alike";
}

TEST(PartitionSize, GivesNothingWhereNobodyCanWork) {
  EXPECT_EQ(partition_size(std::vector<SizeWorker>{}, 5), Shares{});
  EXPECT_EQ(partition_size(std::vector<SizeWorker>{{TimeFunction::unable(), 9, 0}, {TimeFunction(), 0, 0}}, 5),
            (Shares{0, 0}));
}

TEST(PartitionSize, HoldsForManyAlikeWorkersWithFlatStretches) {
  // From 32 to 96 a sample more costs nothing: all ends but the first 32 of each coincide.
  const std::vector<SizeWorker> workers(1024, worker({{32, 1}, {96, 1}, {128, 2}}));
  const Shares shares = partition_size(workers, 1024 * 64);
  EXPECT_EQ(sum(shares), 1024 * 64);
  EXPECT_EQ(makespan(workers, shares), 1);
}

TEST(PartitionSize, HoldsForManyWorkersAndLargeTotals) {
  test::Instances random(6);
  std::vector<SizeWorker> workers;
  for (double one : random.seconds(1024, 3)) workers.push_back(worker({{64, 100 * one}, {128, 200 * one}}));
  constexpr std::int64_t kTotal = 1'000'000'000'000;
  const Shares shares = partition_size(workers, kTotal);
  EXPECT_EQ(sum(shares), kTotal);
  double first = kNever, last = 0;
  for (std::size_t w = 0; w < workers.size(); ++w) {
    first = std::min(first, end_of(workers[w], shares[w] + 1));
    last = std::max(last, end_of(workers[w], shares[w]));
  }
  EXPECT_LE(last, first) << "a sample more of any would end later than all of them do";
}

// What functional models are for: where time bends, a model of one point deals badly, and the bent one does not.
TEST(PartitionSize, BeatsAModelOfOnePointWhereTimeBends) {
  test::Instances random(7);
  int better = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<SizeWorker> truth, one_point;
    for (double one : random.seconds(random.integer(2, 6), 1)) {
      const double fixed = one * random.integer(0, 128);
      truth.push_back(worker({{1, fixed + one}, {512, fixed + 512 * one}}));
      one_point.push_back(worker({{64, truth.back().time.seconds(64)}}));
    }
    const std::int64_t total = 64 * std::ssize(truth);
    const double with_bends = makespan(truth, partition_size(truth, total));
    const double without = makespan(truth, partition_size(one_point, total));
    ASSERT_LE(with_bends, without) << "instance " << i;
    better += with_bends < 0.95 * without ? 1 : 0;
  }
  EXPECT_GT(better, 500) << "by more than 5 % in most";
}

TEST(MakespanOfSizes, IsTheLastEnd) {
  const std::vector<SizeWorker> workers{worker({{1, 1}}), worker({{1, 2}}, 10, 5), worker({{1, 1}}, 10, 100), {}};
  EXPECT_EQ(makespan(workers, Shares{8, 2, 0, 3}), 9);
  EXPECT_EQ(makespan(workers, Shares{0, 0, 0, 0}), 0);
}

TEST(WorthChanging, IsAGainOfMoreThanTheDeadBand) {
  const std::vector<double> same{1, 2};
  EXPECT_FALSE(worth_changing(same, same, 1.02, 1));
  EXPECT_TRUE(worth_changing(same, same, 1.04, 1));
}

TEST(WorthChanging, IsAClearChangeOfOneWorkerInEitherDirection) {
  EXPECT_FALSE(worth_changing(std::vector<double>{1, 2}, std::vector<double>{1.4, 1.5}, 1, 1));
  EXPECT_TRUE(worth_changing(std::vector<double>{1, 2}, std::vector<double>{1, 3.1}, 1, 1));
  EXPECT_TRUE(worth_changing(std::vector<double>{1, 2}, std::vector<double>{0.6, 2}, 1, 1));
}

TEST(WorthChanging, IsAWorkerThatBecomesKnownOrUnable) {
  const std::vector<double> states{1, kUnknown, kNever};
  for (double then : states)
    for (double now : states) {
      const bool same = then == now || (std::isnan(then) && std::isnan(now));
      EXPECT_EQ(worth_changing(std::vector{then}, std::vector{now}, 1, 1), !same) << then << " " << now;
    }
}

}  // namespace
}  // namespace prorata
