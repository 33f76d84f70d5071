// The ledger, driven by a simulation of workers with true speeds.
#include "scheduler/ledger.h"

#include "scheduler/partition.h"
#include "tests/scheduler/instances.h"
#include "tests/scheduler/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace prorata {
namespace {

using test::kNever;
using test::kUnknown;
using test::Outcome;

// Runs a phase with workers of constant speed. `told`: what the ledger is told of the speeds.
Outcome simulate(Ledger& ledger, const std::vector<double>& truth, const std::vector<double>& told, Balance balance,
                 std::int64_t minibatches, std::int64_t round) {
  for (std::size_t w = 0; w < truth.size(); ++w) ledger.set_seconds(w, told[w]);
  ledger.begin(balance, minibatches, round);
  const test::Simulation simulation{.truth = [&](std::size_t w, double) { return truth[w]; }};
  return simulation.run(ledger, truth.size(), minibatches);
}

Outcome simulate(const std::vector<double>& truth, Balance balance, std::int64_t minibatches, std::int64_t round) {
  Ledger ledger(truth.size());
  return simulate(ledger, truth, truth, balance, minibatches, round);
}

double optimum(const std::vector<double>& seconds, std::int64_t total) {
  return makespan(seconds, partition_count(seconds, total));
}

class EveryBalance : public ::testing::TestWithParam<Balance> {};

TEST_P(EveryBalance, DealsEveryMinibatchOnceWithoutDeadlock) {
  test::Instances random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto truth = random.seconds(random.integer(1, 8), 4);
    auto told = truth;
    for (double& s : told) {
      if (random.chance(0.3)) s = kUnknown;
      if (random.chance(0.3)) s *= 0.01;  // wrong
      if (random.chance(0.3)) s *= 100;
    }
    const int minibatches = random.integer(0, 150);
    Ledger ledger(truth.size());
    const Outcome o = simulate(ledger, truth, told, GetParam(), minibatches, random.integer(1, 40));
    ASSERT_EQ(o.total, minibatches);
    ASSERT_EQ(ledger.remaining(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Balances, EveryBalance,
                         ::testing::Values(Balance::prorata, Balance::uniform, Balance::dynamic));

TEST(LedgerUniform, GivesTheSameToEachAndIsAsSlowAsTheSlowest) {
  test::Instances random(2);
  for (int i = 0; i < 500; ++i) {
    const auto seconds = random.seconds(random.integer(1, 6), 2);
    const auto workers = static_cast<std::int64_t>(seconds.size());
    const std::int64_t round = workers * random.integer(1, 8);
    const std::int64_t each = random.integer(1, 10) * round / workers;
    const Outcome o = simulate(seconds, Balance::uniform, each * workers, round);
    for (std::int64_t n : o.taken) ASSERT_EQ(n, each);
    const double slowest = *std::max_element(seconds.begin(), seconds.end());
    ASSERT_GE(o.end, static_cast<double>(each) * slowest * (1 - 1e-9));
  }
}

TEST(LedgerProrata, EndsWithinOneMinibatchOfTheOptimum) {
  test::Instances random(3);
  for (int i = 0; i < 2000; ++i) {
    const auto seconds = random.seconds(random.integer(1, 8), 3);
    const int minibatches = random.integer(1, 200);
    const int round = random.integer(1, 2) * 8 * static_cast<int>(seconds.size());
    const Outcome o = simulate(seconds, Balance::prorata, minibatches, round);
    // Who has no share in a round does not work at all, so the optimum is over the others.
    std::vector<double> sharing = seconds;
    double slowest = 0;
    for (std::size_t w = 0; w < seconds.size(); ++w) {
      if (o.taken[w] == 0)
        sharing[w] = kNever;
      else
        slowest = std::max(slowest, seconds[w]);
    }
    ASSERT_LE(o.end, (optimum(sharing, minibatches) + slowest) * (1 + 1e-9));
  }
}

TEST(LedgerProrata, IsNeverSlowerThanSelfSchedulingByMoreThanAMinibatch) {
  test::Instances random(4);
  for (int i = 0; i < 2000; ++i) {
    const auto seconds = random.seconds(random.integer(1, 6), 1.5);
    const int minibatches = random.integer(50, 300);
    const int round = 8 * static_cast<int>(seconds.size());
    const double slowest = *std::max_element(seconds.begin(), seconds.end());
    ASSERT_LE(simulate(seconds, Balance::prorata, minibatches, round).end,
              simulate(seconds, Balance::dynamic, minibatches, round).end + slowest * (1 + 1e-9));
  }
}

TEST(LedgerProrata, DealsInProportionToSpeed) {
  for (const double slow : {2.0, 4.0, 8.0}) {
    const Outcome o = simulate({1, slow}, Balance::prorata, 900, 16);
    EXPECT_NEAR(static_cast<double>(o.taken[0]), 900 * slow / (1 + slow), 2) << slow;
    EXPECT_LE(o.end, 900 * slow / (1 + slow) + slow);
  }
}

TEST(LedgerProrata, LeavesOutWhoIsTooSlowToHelp) {
  const Outcome o = simulate({1, 100}, Balance::prorata, 200, 16);
  EXPECT_EQ(o.taken[1], 0);
  EXPECT_DOUBLE_EQ(o.end, 200);
}

TEST(LedgerProrata, LeavesTheLastMinibatchToWhoFinishesItFirst) {
  Ledger ledger(2);
  ledger.set_seconds(0, 1);
  ledger.set_seconds(1, 4);
  ledger.begin(Balance::prorata, 9, 9);
  for (int i = 0; i < 7; ++i) ledger.take(0, i), ledger.finish(0);
  ASSERT_EQ(ledger.remaining(), 2);
  // The slow one would end at 7 + 4; by then the fast one has done both.
  EXPECT_FALSE(ledger.may_take(1, 7));
  EXPECT_TRUE(ledger.may_take(0, 7));
}

TEST(LedgerProrata, NeverLeavesTheLastMinibatchToNobody) {
  Ledger ledger(2);
  for (std::size_t w : {0, 1}) ledger.set_seconds(w, 3);
  ledger.begin(Balance::prorata, 1, 2);
  EXPECT_TRUE(ledger.may_take(0, 0) || ledger.may_take(1, 0));
}

TEST(LedgerProrata, LetsAFreeWorkerTakeAheadRatherThanIdle) {
  Ledger ledger(2);
  for (std::size_t w : {0, 1}) ledger.set_seconds(w, 1);
  ledger.begin(Balance::prorata, 100, 4);
  ledger.take(1, 0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ledger.may_take(0, i * 0.1));  // the model says 1, in truth it is faster
    ledger.take(0, i * 0.1);
    ledger.finish(0);
  }
  EXPECT_LT(ledger.credit(0), ledger.credit(1)) << "what it took ahead is taken off its next share";
}

TEST(LedgerUniform, MakesAWorkerWaitThatHasSpentItsShare) {
  Ledger ledger(2);
  ledger.begin(Balance::uniform, 100, 2);
  ledger.take(0, 0);
  ledger.finish(0);
  EXPECT_FALSE(ledger.may_take(0, 1));
  ledger.take(1, 1);  // the round has been dealt: the next one begins
  EXPECT_TRUE(ledger.may_take(0, 1));
}

TEST(Ledger, DealsAnewWhatAnExcludedWorkerHad) {
  for (const Balance balance : {Balance::prorata, Balance::uniform}) {
    Ledger ledger(2);
    ledger.begin(balance, 10, 4);
    ledger.take(0, 0);
    ledger.finish(0);
    ledger.exclude(1);
    EXPECT_FALSE(ledger.may_take(1, 1));
    for (int i = 0; i < 9; ++i) {
      ASSERT_TRUE(ledger.may_take(0, i));
      ledger.take(0, i);
      ledger.finish(0);
    }
    EXPECT_EQ(ledger.remaining(), 0);
  }
}

TEST(Ledger, RefusesNothingBeyondTheAnnouncedEnd) {
  for (const Balance balance : {Balance::prorata, Balance::uniform, Balance::dynamic}) {
    Ledger ledger(2);
    ledger.begin(balance, 1, 2);
    ledger.take(0, 0);
    EXPECT_TRUE(ledger.may_take(1, 0));
    ledger.take(1, 0);
    EXPECT_EQ(ledger.remaining(), -1);
  }
}

TEST(Ledger, KeepsTheRoundsOfThePhase) {
  const std::vector<double> seconds{1, 2};
  Ledger ledger(2);
  simulate(ledger, seconds, seconds, Balance::prorata, 50, 12);
  ASSERT_EQ(ledger.rounds().size(), 4u);  // 12, 12, 12 and the last 14
  std::int64_t dealt = 0;
  for (const Round& r : ledger.rounds()) dealt += r.shares[0] + r.shares[1];
  EXPECT_EQ(dealt, 50);
  EXPECT_DOUBLE_EQ(ledger.rounds()[0].expected_seconds, 8);
  EXPECT_EQ(ledger.rounds().back().measured_seconds, 0) << "nothing came after it";
  ledger.begin(Balance::prorata, 5, 12);
  EXPECT_EQ(ledger.rounds().size(), 1u);
}

TEST(Ledger, MeasuresARoundFromItsFirstMinibatchToTheNextOnes) {
  for (const std::int64_t round : {1, 4}) {
    Ledger ledger(1);
    simulate(ledger, {2}, {2}, Balance::prorata, 4 * round, round);
    ASSERT_EQ(ledger.rounds().size(), 4u);
    for (std::size_t r = 0; r + 1 < ledger.rounds().size(); ++r)
      EXPECT_DOUBLE_EQ(ledger.rounds()[r].measured_seconds, 2.0 * static_cast<double>(round));
  }
}

TEST(LedgerProrata, TriesAWorkerAgainThatHadNoShareForLong) {
  const Outcome o = simulate({1, 100}, Balance::prorata, 1000, 16);
  EXPECT_GE(o.taken[1], 1);
  EXPECT_LE(o.taken[1], 1000 / (16 * Ledger::kRoundsToATrial) + 1);
  EXPECT_LE(o.end, 1000) << "a trial must not make the phase longer";
}

TEST(LedgerProrata, TriesAWorkerOfUnknownSpeedBesideASlowOne) {
  Ledger ledger(3);
  const Outcome o = simulate(ledger, {1, 100, 1}, {1, 100, kUnknown}, Balance::prorata, 1000, 24);
  EXPECT_GT(o.taken[2], 400);
}

TEST(LedgerProrata, HoldsNobodyBackByAShortLastRound) {
  EXPECT_DOUBLE_EQ(simulate({3, 4}, Balance::prorata, 4, 3).end, 8);
}

}  // namespace
}  // namespace prorata
