// Workers whose speed changes, or becomes known only on the way: rounds, the dead band, no deadlock.
#include "scheduler/ledger.h"

#include "scheduler/partition.h"
#include "scheduler/speed.h"
#include "tests/scheduler/instances.h"
#include "tests/scheduler/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

namespace prorata {
namespace {

using test::kNever;
using test::kUnknown;
using test::Outcome;
using test::Shares;
using test::Simulation;
using test::sum;

constexpr Speeds::Work kWork{0, 64};

// The estimator that the policy uses, its price once right: the ledger is told what it says.
class Estimator {
 public:
  Estimator(Ledger& ledger, const std::vector<double>& prices) : ledger_(ledger) {
    std::vector<int> workers(prices.size());
    std::iota(workers.begin(), workers.end(), 0);
    speeds_.begin_price(kWork, workers);
    for (std::size_t w = 0; w < prices.size(); ++w) speeds_.add_price(kWork, static_cast<unsigned>(w), prices[w]);
    speeds_.end_price(kWork);
    for (std::size_t w = 0; w < prices.size(); ++w) tell(w);
  }

  void measured(std::size_t worker, double seconds) {
    speeds_.measured(kWork, static_cast<unsigned>(worker), seconds);
    tell(worker);
  }

 private:
  void tell(std::size_t worker) {
    if (!std::isinf(ledger_.seconds(worker)))
      ledger_.set_seconds(worker, speeds_.seconds(kWork, static_cast<unsigned>(worker)));
  }

  Ledger& ledger_;
  Speeds speeds_;
};

// A phase of 40 rounds in which `victim` needs `factor` times as long from the moment `when` on.
struct Slowdown {
  std::vector<double> seconds;
  std::size_t victim;
  double factor, when;

  std::vector<Round> rounds = {};
  std::vector<double> began = {};  // when the first mini-batch of each round was taken
  double second = kNever;          // when the victim had finished two after the change

  void run() {
    const std::int64_t round = 8 * std::ssize(seconds), minibatches = 40 * round;
    Ledger ledger(seconds.size());
    Estimator estimator(ledger, seconds);
    ledger.begin(Balance::prorata, minibatches, round);
    int changed = 0;
    const Simulation simulation{
        .truth = [&](std::size_t w, double now) { return seconds[w] * (w == victim && now >= when ? factor : 1); },
        .finished =
            [&](std::size_t w, double took, double now) {
              estimator.measured(w, took);
              if (w == victim && took != seconds[w] && ++changed == 2) second = now;
            }};
    simulation.run(ledger, seconds.size(), minibatches);
    rounds = ledger.rounds();
    began = {0};
    for (std::size_t r = 0; r + 1 < rounds.size(); ++r) began.push_back(began[r] + rounds[r].measured_seconds);
  }

  // Whether the shares are right for the speeds after the change, within the dead band.
  bool balanced(const Round& round) const {
    std::vector<double> after = seconds;
    after[victim] *= factor;
    const double best = makespan(after, partition_count(after, sum(round.shares)));
    return makespan(after, round.shares) <= (1 + kDeadBand) * best;
  }
};

// Workers that are nearly alike, and the last one so many times as slow.
std::vector<double> one_slow(std::size_t workers, double times) {
  std::vector<double> seconds;
  for (std::size_t w = 0; w < workers; ++w) seconds.push_back(1 + 0.001 * static_cast<double>(w));
  seconds.back() *= times;
  return seconds;
}

// Calls `check` for many changes by `factor`.
template <class Check>
void for_changes(double factor, Check check) {
  for (std::size_t workers : {2, 4, 8})
    for (double times : {1, 2, 4, 8})
      for (std::size_t victim : {std::size_t{0}, workers - 1})
        for (int i = 0; i < 100 && !::testing::Test::HasFatalFailure(); ++i) {
          Slowdown s{one_slow(workers, times), victim, factor, 30 + 0.519 * i};
          SCOPED_TRACE("worker " + std::to_string(victim) + " of " + std::to_string(workers) + ", the last one " +
                       std::to_string(times) + " times slower, change at " + std::to_string(s.when) + " s");
          s.run();
          check(s);
        }
}

TEST(Drift, IsBalancedWithinTwoRounds) {
  for (double factor : {4.0, 0.25})
    for_changes(factor, [](const Slowdown& s) {
      if (s.seconds[s.victim] > 1.5) return;  // see below
      const auto hit =
          static_cast<std::size_t>(std::upper_bound(s.began.begin(), s.began.end(), s.when) - s.began.begin()) - 1;
      ASSERT_FALSE(s.balanced(s.rounds[hit])) << "it was dealt before the change";
      for (std::size_t r = hit + 2; r < s.rounds.size(); ++r)
        ASSERT_TRUE(s.balanced(s.rounds[r])) << "in the round " << r - hit << " after it";
    });
}

// A worker that has few mini-batches a round may need more rounds: until it has finished two.
TEST(Drift, IsBalancedOnceASlowWorkerHasFinishedTwo) {
  for (double factor : {4.0, 0.25})
    for_changes(factor, [](const Slowdown& s) {
      for (std::size_t r = 1; r < s.rounds.size(); ++r)  // dealt after the first of the round before was taken
        ASSERT_TRUE(s.began[r - 1] < s.second || s.balanced(s.rounds[r])) << "in the round at " << s.began[r];
    });
}

TEST(Drift, IsNotSeenInOneSlowMinibatch) {
  Ledger ledger(2);
  Estimator estimator(ledger, {1, 1});
  ledger.begin(Balance::prorata, 400, 16);
  int count = 0;
  const Simulation simulation{.truth = [&](std::size_t w, double) { return w == 1 && ++count % 10 == 0 ? 1.9 : 1; },
                              .finished = [&](std::size_t w, double took, double) { estimator.measured(w, took); }};
  simulation.run(ledger, 2, 400);
  for (const Round& r : ledger.rounds()) EXPECT_EQ(r.seconds[1], 1);
}

// Told wrong speeds, none, or to be unable, and learning from measurements or not; speeds that change; workers that
// turn out to be unable. At least one can work.
class AnyLedger : public ::testing::TestWithParam<Balance> {};

TEST_P(AnyLedger, DealsEveryMinibatchOnceWhateverItIsTold) {
  test::Instances random(1);
  for (int i = 0; i < 3000; ++i) {
    auto truth = random.seconds(random.integer(1, 10), 6);
    Ledger ledger(truth.size());
    std::vector<bool> unable(truth.size(), false);
    for (std::size_t w = 1; w < truth.size(); ++w) unable[w] = random.chance(0.2);
    for (std::size_t w = 0; w < truth.size(); ++w) {
      const double told = truth[w] * (random.chance(0.3) ? 100 : random.chance(0.3) ? 0.01 : 1);
      ledger.set_seconds(w, unable[w] ? kNever : random.chance(0.3) ? kUnknown : told);
    }
    const std::int64_t minibatches = random.integer(0, 300);
    ledger.begin(GetParam(), minibatches, random.integer(1, 80));
    const bool learns = random.chance(0.7);
    const Simulation simulation{.truth = [&](std::size_t w, double) { return truth[w]; },
                                .finished =
                                    [&](std::size_t w, double took, double) {
                                      if (learns && std::isfinite(ledger.seconds(w))) ledger.set_seconds(w, took);
                                      if (learns && std::isnan(ledger.seconds(w)) && random.chance(0.5))
                                        ledger.set_seconds(w, took);
                                      if (random.chance(0.02)) truth[w] *= random.chance(0.5) ? 10 : 0.1;
                                      if (w > 0 && random.chance(0.01)) {
                                        ledger.exclude(w);
                                        unable[w] = true;
                                      }
                                    },
                                .taking = [&](std::size_t w, double) { ASSERT_FALSE(unable[w]) << "instance " << i; }};
    const Outcome o = simulation.run(ledger, truth.size(), minibatches);
    ASSERT_EQ(o.total, minibatches) << "instance " << i;
    ASSERT_EQ(sum(o.taken), minibatches);
    ASSERT_EQ(ledger.remaining(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Balances, AnyLedger, ::testing::Values(Balance::prorata, Balance::uniform, Balance::dynamic));

TEST(LedgerProrata, EndsWithinOneMinibatchOfTheOptimumAlsoWithWhoIsUnableOrNotKnownAtFirst) {
  test::Instances random(2);
  for (int i = 0; i < 3000; ++i) {
    const auto truth = random.seconds(random.integer(1, 10), 3);
    Ledger ledger(truth.size());
    for (std::size_t w = 0; w < truth.size(); ++w)
      ledger.set_seconds(w, w > 0 && random.chance(0.2) ? kNever : random.chance(0.3) ? kUnknown : truth[w]);
    const std::int64_t minibatches = random.integer(1, 300);
    ledger.begin(Balance::prorata, minibatches, 8 * std::ssize(truth));
    const Simulation simulation{.truth = [&](std::size_t w, double) { return truth[w]; },
                                .finished = [&](std::size_t w, double took, double) { ledger.set_seconds(w, took); }};
    const Outcome o = simulation.run(ledger, truth.size(), minibatches);
    // Who has no share in a round does not work in it, so the optimum is over those that always had one.
    std::vector<double> sharing = truth;
    double slowest = 0;
    for (std::size_t w = 0; w < truth.size(); ++w) {
      if (o.taken[w] > 0) slowest = std::max(slowest, truth[w]);
      for (const Round& r : ledger.rounds())
        if (r.shares[w] == 0) sharing[w] = kNever;
    }
    const double best = makespan(sharing, partition_count(sharing, minibatches));
    ASSERT_LE(o.end, (best + slowest) * (1 + 1e-9)) << "instance " << i;  // sums of a few hundred times
  }
}

// The tail's rule read literally: whether the others with a share finish all that is left before this one has one.
TEST(LedgerProrata, AsksWhetherTheOthersFinishFirstExactly) {
  test::Instances random(3);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto workers = static_cast<std::size_t>(random.integer(1, 8));
    auto seconds = random.seconds(static_cast<int>(workers), 2);
    Ledger ledger(workers);
    for (std::size_t w = 0; w < workers; ++w) ledger.set_seconds(w, seconds[w]);
    ledger.begin(Balance::prorata, random.integer(1, 200), 100);
    std::vector<double> since(workers, -1);  // when it took what it has; -1: free
    double now = 0;
    while (ledger.remaining() > 0) {
      now += random.integer(0, 10) * 0.1;
      const auto asker = static_cast<std::size_t>(random.integer(0, static_cast<int>(workers) - 1));
      if (since[asker] >= 0) {
        ledger.finish(asker);
        since[asker] = -1;
        ledger.set_seconds(asker, seconds[asker] *= random.integer(8, 12) * 0.1);
        continue;
      }
      const Shares& shares = ledger.rounds().back().shares;
      double count = 0;
      for (std::size_t w = 0; w < workers; ++w) {
        if (w == asker || shares[w] == 0) continue;
        const double one = since[w] < 0 ? seconds[w] : std::max(seconds[w], now - since[w]);
        const double free = since[w] < 0 ? 0 : std::max(0.0, since[w] + one - now);
        for (double k = 1; free + k * one < seconds[asker] && k <= 200; ++k) ++count;
      }
      const bool may = ledger.may_take(asker, now);
      if (shares[asker] > 0) {
        ASSERT_EQ(may, count < static_cast<double>(ledger.remaining())) << "instance " << i;
      }
      if (!may) ++refused;
      if (!may && std::none_of(since.begin(), since.end(), [](double s) { return s >= 0; })) {
        ASSERT_TRUE(shares[asker] == 0 || count > 0) << "instance " << i;
        ledger.take(asker, now), ledger.finish(asker);
        continue;
      }
      if (!may) continue;
      ledger.take(asker, now);
      since[asker] = now;
    }
  }
  EXPECT_GT(refused, 1000) << "the instances hardly tested it";
}

// Rounds of one free worker's clock: all mini-batches of a round are taken, with the speeds given by `seconds_of`.
template <class SecondsOf>
std::vector<Round> rounds_with(std::size_t workers, std::int64_t count, std::int64_t size, SecondsOf seconds_of) {
  Ledger ledger(workers);
  const auto tell = [&](std::int64_t round) {
    for (std::size_t w = 0; w < workers; ++w) ledger.set_seconds(w, seconds_of(w, round));
  };
  tell(0);
  ledger.begin(Balance::prorata, count * size, size);
  for (std::int64_t r = 0; r + 1 < count; ++r) {
    tell(r + 1);
    for (std::int64_t n = 0; n < size; ++n) {
      ledger.take(0, 0);
      ledger.finish(0);
    }
  }
  return ledger.rounds();
}

TEST(DeadBand, KeepsSharesWhileSpeedsOnlyTremble) {
  test::Instances random(4);
  std::set<Shares> seen, fluttering;
  for (const Round& r : rounds_with(4, 100, 400, [&](std::size_t w, std::int64_t) {
         return (1 + static_cast<double>(w)) * (1 + 0.001 * random.integer(-10, 10));
       })) {
    seen.insert(r.shares);
    fluttering.insert(partition_count(r.seconds, 400));
  }
  EXPECT_EQ(seen.size(), 1u);
  EXPECT_GT(fluttering.size(), 5u) << "without the band they would";
}

TEST(DeadBand, NeverCostsMoreThanItsWidth) {
  test::Instances random(5);
  int kept = 0;
  for (int i = 0; i < 500; ++i) {
    std::vector<double> seconds = random.seconds(random.integer(2, 8), 1);
    const std::int64_t size = random.integer(20, 200);
    const auto rounds = rounds_with(seconds.size(), 20, size, [&](std::size_t w, std::int64_t) {
      return seconds[w] *= 1 + 0.01 * random.integer(-6, 6);
    });
    for (const Round& r : rounds) {
      ASSERT_EQ(r.expected_seconds, makespan(r.seconds, r.shares));
      const double best = makespan(r.seconds, partition_count(r.seconds, sum(r.shares)));
      ASSERT_LE(r.expected_seconds, (1 + kDeadBand) * best) << "instance " << i;
      ASSERT_TRUE(r.kept || r.expected_seconds == best) << "instance " << i;
      kept += r.kept ? 1 : 0;
    }
  }
  EXPECT_GT(kept, 1000) << "the instances hardly tested it";
}

TEST(DeadBand, DealsAnewWhenAWorkerBecomesKnownOrSlowAmongMany) {
  const auto alike_but = [](std::size_t victim, double before, double after) {
    // 650: the optimum is 11 with the slow one and without, so that it is no gain to use it again.
    return rounds_with(64, 3, 650, [=](std::size_t w, std::int64_t round) {
      return w != victim ? 1 : round < 2 ? before : after;
    });
  };
  for (const auto& [before, after] : std::vector<std::pair<double, double>>{{4, 1}, {1, 4}, {kUnknown, 0.9}}) {
    const auto rounds = alike_but(5, before, after);
    EXPECT_EQ(rounds[1].shares, rounds[0].shares);
    EXPECT_NE(rounds[2].shares, rounds[1].shares) << before << " " << after;
    EXPECT_FALSE(rounds[2].kept);
  }
}

TEST(Round, SaysWhatWasKnownOfTheWorkers) {
  for (const Balance balance : {Balance::prorata, Balance::uniform, Balance::dynamic}) {
    Ledger ledger(2);
    ledger.set_seconds(0, 3);
    ledger.begin(balance, 10, 4);
    ASSERT_EQ(ledger.rounds()[0].seconds.size(), 2u);
    EXPECT_EQ(ledger.rounds()[0].seconds[0], 3);
    EXPECT_TRUE(std::isnan(ledger.rounds()[0].seconds[1]));
  }
}

TEST(Round, TakesAnOverdueWorkerForAsSlowAsItHasBeenSoFar) {
  Ledger ledger(2);
  for (std::size_t w : {0, 1}) ledger.set_seconds(w, 1);
  ledger.begin(Balance::prorata, 100, 10);
  ledger.take(1, 0);
  for (int i = 0; i < 9; ++i) {
    ledger.take(0, i);
    ledger.finish(0);
  }
  ASSERT_EQ(ledger.rounds().size(), 2u);
  EXPECT_EQ(ledger.rounds()[1].seconds[1], 8) << "it has not finished what it took at 0";
  EXPECT_EQ(ledger.rounds()[1].shares, partition_count(std::vector<double>{1, 8}, 10));
}

}  // namespace
}  // namespace prorata
