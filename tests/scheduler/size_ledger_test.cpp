// Sizes that take all workers the same time, over a whole phase: simulated workers, no StarPU, no clock.
#include "scheduler/size_ledger.h"

#include "scheduler/partition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace prorata {
namespace {

using Sizes = std::vector<std::int64_t>;

TimeFunction linear(double fixed, double per_sample) {
  return TimeFunction({{1, fixed + per_sample}, {1000, fixed + 1000 * per_sample}});
}

struct Phase {
  Sizes dealt;                            // samples by worker
  std::vector<Sizes> of;                  // each worker's mini-batches
  double end = 0, first_idle = INFINITY;  // when the last one ended, and when the first worker had nothing more to do
};

// Runs a phase: each worker takes what it is given as soon as it is free. `truth` may be a function of the time.
template <class Truth>
Phase simulate(SizeLedger& ledger, std::size_t workers, Truth truth) {
  Phase phase;
  phase.dealt.assign(workers, 0);
  phase.of.resize(workers);
  std::vector<double> free_at(workers, 0);
  std::vector<bool> resting(workers, false);
  while (ledger.remaining() > 0) {
    bool any = false;
    std::size_t w = 0;
    for (std::size_t i = 1; i < workers; ++i)
      if (free_at[i] < free_at[w]) w = i;
    const double now = free_at[w];
    if (const std::int64_t n = ledger.next(w, now); n > 0) {
      any = true;
      phase.dealt[w] += n;
      phase.of[w].push_back(n);
      free_at[w] = now + truth(w, now).seconds(n);
      phase.end = std::max(phase.end, free_at[w]);
      resting[w] = false;
    } else {
      // Asks again when the next of the others has ended.
      double later = INFINITY;
      for (std::size_t i = 0; i < workers; ++i)
        if (free_at[i] > now) later = std::min(later, free_at[i]);
      phase.first_idle = std::min(phase.first_idle, now);
      if (std::isinf(later)) {
        // All are free: one of them must be given something.
        for (std::size_t i = 0; i < workers && !any; ++i)
          if (i != w)
            if (const std::int64_t m = ledger.next(i, now); m > 0) {
              any = true;
              phase.dealt[i] += m;
              phase.of[i].push_back(m);
              free_at[i] = now + truth(i, now).seconds(m);
              phase.end = std::max(phase.end, free_at[i]);
            }
        if (!any) ADD_FAILURE() << "nobody is given any of the " << ledger.remaining() << " samples that are left";
        if (!any) return phase;
      } else {
        free_at[w] = later;
      }
    }
  }
  return phase;
}

TEST(SizeLedger, SizesAreInProportionToSpeedAndAddUpToAStep) {
  SizeLedger ledger(2);
  ledger.set_time(0, linear(0, 1e-5));
  ledger.set_time(1, linear(0, 4e-5));
  ledger.begin(60000, 128, 1024, {128, 128});
  // 102 and 26 would end after 1.04 ms, 103 and 25 do after 1.03.
  EXPECT_EQ(ledger.next(0, 0), 103);
  EXPECT_EQ(ledger.next(1, 0), 25);
  EXPECT_EQ(ledger.sizes(), (Sizes{103, 25}));
  EXPECT_EQ(ledger.remaining(), 60000 - 128);
}

TEST(SizeLedger, DealsEachSampleOnceAndAllEndTogether) {
  std::mt19937 random(3);
  for (int instance = 0; instance < 300; ++instance) {
    const std::size_t workers = 1 + random() % 6;
    const std::int64_t batch = 1 + random() % 64;
    const auto step = static_cast<std::int64_t>(workers) * batch;
    const std::int64_t samples = 1 + random() % 20000;
    SizeLedger ledger(workers);
    std::vector<TimeFunction> truth;
    double slowest_sample = 0;
    for (std::size_t w = 0; w < workers; ++w) {
      truth.push_back(linear(1e-4 * (random() % 10), std::pow(10.0, -6 + 0.01 * (random() % 300))));
      if (random() % 8 != 0) ledger.set_time(w, truth.back());  // else not known
      slowest_sample = std::max(slowest_sample, truth.back().seconds(1));
    }
    ledger.begin(samples, step, 8 * step, Sizes(workers, step));
    const Phase phase = simulate(ledger, workers, [&](std::size_t w, double) { return truth[w]; });
    EXPECT_EQ(std::accumulate(phase.dealt.begin(), phase.dealt.end(), std::int64_t{0}), samples) << instance;
    for (std::size_t w = 0; w < workers; ++w)
      for (std::int64_t n : phase.of[w]) EXPECT_LE(n, step);
  }
}

TEST(SizeLedger, PhaseEndsWithinOneSampleOfTheLatestThatMustBe) {
  SizeLedger ledger(3);
  const TimeFunction truth[] = {linear(1e-4, 1e-5), linear(5e-4, 2e-5), linear(0, 9e-5)};
  for (std::size_t w = 0; w < 3; ++w) ledger.set_time(w, truth[w]);
  ledger.begin(10000, 192, 1536, {192, 192, 192});
  const Phase phase = simulate(ledger, 3, [&](std::size_t w, double) { return truth[w]; });
  // Whoever is idle first is so for less than a sample takes, and a mini-batch's fixed cost.
  EXPECT_LT(phase.end - phase.first_idle, 5e-4 + 9e-5);
  EXPECT_EQ(phase.dealt[0] + phase.dealt[1] + phase.dealt[2], 10000);
}

TEST(SizeLedger, RespectsTheRoomOfEachWorkersMemory) {
  SizeLedger ledger(2);
  ledger.set_time(0, linear(0, 1e-5));
  ledger.set_time(1, linear(0, 1e-5));
  ledger.begin(1000, 128, 1024, {16, 128});
  EXPECT_EQ(ledger.next(0, 0), 16);
  EXPECT_EQ(ledger.next(1, 0), 112);
  ledger.begin(1000, 128, 1024, {0, 128});
  EXPECT_EQ(ledger.next(0, 0), 0);
  EXPECT_EQ(ledger.next(1, 0), 128);
}

TEST(SizeLedger, WorkerThatIsTooSlowForASampleGetsNoneButATrial) {
  SizeLedger ledger(2);
  ledger.set_time(0, linear(0, 1e-6));
  ledger.set_time(1, linear(1, 1));
  ledger.begin(1000000, 128, 256, {128, 128});
  int trials = 0, rounds = 0;
  for (double now = 0; ledger.remaining() > 200; now += 128e-6) {
    EXPECT_EQ(ledger.next(0, now), 128);
    rounds += ledger.round_began() ? 1 : 0;
    const std::int64_t n = ledger.next(1, now);
    EXPECT_TRUE(n == 0 || n == 1);
    trials += n > 0 ? 1 : 0;
  }
  EXPECT_NEAR(trials, rounds / double(Ledger::kRoundsToATrial), 2);
  EXPECT_GT(trials, 0);
}

// Of whom one point is known, nearly all of it fixed cost, that makes it seem 300 times too slow.
TEST(SizeLedger, TrialOfAWorkerWithoutAShareIsAsLargeAsItCanDoInARound) {
  const TimeFunction truth = linear(4e-3, 1.4e-4);
  SizeLedger ledger(2);
  ledger.set_time(0, linear(0, 1.7e-5));
  std::vector<TimePoint> known = {{1, truth.seconds(1)}};
  ledger.set_time(1, TimeFunction(known));
  ledger.begin(1000000, 128, 1024, {128, 128});
  auto next = [&, now = 0.0]() mutable {
    ledger.next(0, now);
    now += 2.2e-3;
    return ledger.next(1, now);
  };
  EXPECT_EQ(next(), 0);
  std::int64_t trial = 0;
  while (trial == 0) trial = next();
  EXPECT_EQ(trial, 4);
  known.push_back({4, truth.seconds(4)});
  ledger.set_time(1, TimeFunction(known));
  std::int64_t size = 0;
  for (int step = 0; step < 8; ++step) size = next();
  EXPECT_GT(size, 32);
}

TEST(SizeLedger, FollowsAWorkerThatBecomesSlowFromTheNextRoundOn) {
  SizeLedger ledger(2);
  ledger.set_time(0, linear(0, 1e-5));
  ledger.set_time(1, linear(0, 1e-5));
  ledger.begin(60000, 128, 256, {128, 128});
  EXPECT_EQ(ledger.next(0, 0), 64);
  EXPECT_EQ(ledger.next(1, 0), 64);
  ledger.set_time(1, linear(0, 4e-5));
  EXPECT_EQ(ledger.next(0, 1), 64) << "in mid-round sizes stay";
  EXPECT_EQ(ledger.next(1, 1), 64);
  EXPECT_EQ(ledger.next(0, 2), 103);
  EXPECT_EQ(ledger.next(1, 2), 25);
}

TEST(SizeLedger, KeepsSizesThatAreNotWorthChanging) {
  SizeLedger ledger(2);
  ledger.set_time(0, linear(0, 1e-5));
  ledger.set_time(1, linear(0, 1e-5));
  ledger.begin(60000, 128, 128, {128, 128});
  ledger.next(0, 0);
  ledger.next(1, 0);
  ledger.set_time(1, linear(0, 1.02e-5));
  EXPECT_EQ(ledger.next(0, 1), 64);
  EXPECT_TRUE(ledger.rounds().back().kept);
}

// What bends: a constant speed, taken from one size, puts a worker with a fixed cost per mini-batch at the wrong size.
TEST(SizeLedger, AFunctionOfSizeBeatsAConstantSpeedWhereTimeBends) {
  const TimeFunction truth[] = {linear(0, 1e-5), linear(2e-3, 1e-5)};
  const auto run = [&](bool constant) {
    SizeLedger ledger(2);
    for (std::size_t w = 0; w < 2; ++w)
      ledger.set_time(w, constant ? TimeFunction({{64, truth[w].seconds(64)}}) : truth[w]);
    ledger.begin(60000, 512, 4096, {512, 512});
    ledger.next(0, 0);
    const auto size = ledger.sizes()[1], of_step = 512 - ledger.sizes()[0];
    return std::max(truth[0].seconds(512 - of_step), truth[1].seconds(size) / double(size) * double(of_step));
  };
  // A step of 512: the function gives 306 and 206, the latter every other step as 412, 3.06 ms; the constant 411 and
  // 101, 4.11 ms.
  EXPECT_NEAR(run(false), 3.06e-3, 0.02e-3);
  EXPECT_GT(run(true), 1.3 * run(false));
}

// 1 and 1/10 as fast, where a mini-batch of the slow one has a fixed cost: in the time of one step it would do 3
// samples, at four times the price.
TEST(SizeLedger, SlowWorkerTakesItsSamplesOfSeveralStepsAtOnceWhereSmallMinibatchesAreDear) {
  const TimeFunction truth[] = {linear(0, 1e-5), linear(1e-3, 8e-5)};
  SizeLedger ledger(2);
  for (std::size_t w = 0; w < 2; ++w) ledger.set_time(w, truth[w]);
  ledger.begin(60000, 128, 1024, {128, 128});
  const Phase phase = simulate(ledger, 2, [&](std::size_t w, double) { return truth[w]; });
  EXPECT_EQ(phase.of[0].front(), 117);
  EXPECT_EQ(phase.of[1].front(), 4 * 11);
  const double speeds = 64 / truth[0].seconds(64) + 64 / truth[1].seconds(64);
  EXPECT_LT(phase.end, 60000 / (0.97 * speeds));
  EXPECT_LT(phase.end - phase.first_idle, 1e-3 + 8e-5);

  ledger.begin(60000, 128, 256, {128, 128});
  ledger.next(0, 0);
  EXPECT_EQ(ledger.sizes()[1], 2 * 8) << "of a round's steps at most";
  ledger.begin(60000, 128, 1024, {128, 24});
  ledger.next(0, 0);
  EXPECT_LE(ledger.sizes()[1], 24) << "its memory's room";
  ledger.begin(60000, 128, 128, {128, 128}, true);
  EXPECT_EQ(ledger.next(0, 0) + ledger.next(1, 0), 128) << "where steps are waited for all take part in each";
}

// Though what is known of a worker changes between two of the step's questions, and some get nothing.
TEST(SizeLedger, StepThatIsWaitedForIsWholeWhateverBecomesKnownMeanwhile) {
  std::mt19937 random(5);
  for (int instance = 0; instance < 300; ++instance) {
    const std::size_t workers = 2 + random() % 4;
    const std::int64_t step = static_cast<std::int64_t>(workers) * (1 + random() % 20);
    const std::int64_t samples = step * (1 + random() % 10) + random() % step;
    SizeLedger ledger(workers);
    ledger.begin(samples, step, step, Sizes(workers, step), true);
    for (std::int64_t left = samples; left > 0;) {
      std::int64_t of_step = 0;
      const std::size_t first = random() % workers;
      for (std::size_t i = 0; i < workers; ++i) {
        of_step += ledger.next((first + i) % workers, 0);
        ledger.set_time(random() % workers,
                        linear(1e-5 * (random() % 10), std::pow(10.0, -6 + 0.01 * (random() % 300))));
      }
      ASSERT_EQ(of_step, std::min(step, left)) << "instance " << instance;
      left -= of_step;
    }
  }
}

}  // namespace
}  // namespace prorata
