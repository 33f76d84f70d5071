// The training loop: every sample once, staleness accounted, nothing lost.
#include "driver/trainer.h"

#include "codelets/codelet.h"
#include "driver/evaluation.h"
#include "models/random.h"
#include "scheduler/policy.h"
#include "tests/starpu_fixture.h"
#include "tests/training_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace prorata {
namespace {

using test::Fixture;
using test::WithStarpu;

struct Case {
  prorata_balance balance;
  int workers;
  std::size_t samples;
  std::int32_t batch;
  const char* scheduler;
  std::int32_t accumulate = 1;
};

class Epoch : public WithStarpu, public ::testing::WithParamInterface<Case> {};

TEST_P(Epoch, UsesEachSampleExactlyOnceAndCountsEachUpdate) {
  const Case c = GetParam();
  start(c.workers, c.scheduler);
  Fixture f(c.samples, {.batch = {c.batch, c.batch / c.accumulate}, .replicas = default_replicas()});
  std::uint64_t updates = 0;
  for (int epoch = 1; epoch <= 3; ++epoch) {
    std::vector<int> used(c.samples, 0);
    std::uint64_t minibatches = 0;
    f.run(c.balance, [&](const MinibatchResult& m) {
      EXPECT_EQ(m.indices.size(), m.samples);
      for (std::uint32_t i : m.indices) ++used[i];
      EXPECT_GE(m.worker, 0);
      EXPECT_LT(m.worker, c.workers);
      EXPECT_LE(m.started, m.finished);
      // No more mini-batches can have been applied in between than were in flight beside it while it lived; with one
      // in flight, none.
      if (f.trainer.replicas() == 1) {
        EXPECT_EQ(m.staleness, 0u);
      }
      ++minibatches;
      return true;
    });
    EXPECT_EQ(std::count(used.begin(), used.end(), 1), static_cast<std::ptrdiff_t>(c.samples));
    EXPECT_EQ(minibatches, (c.samples + static_cast<std::size_t>(c.batch) - 1) / static_cast<std::size_t>(c.batch));
    updates += minibatches;
    for (std::size_t i = 0; i < f.network.depth(); ++i)
      if (auto* block = f.network.parameters(i)) {
        EXPECT_EQ(block->version, updates);
      }
  }
}

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.samples << " by " << c.batch; }

std::string name_of(const ::testing::TestParamInfo<Case>& tested) {
  constexpr const char* kBalances[] = {"prorata", "uniform", "dynamic"};
  const Case& c = tested.param;
  return std::string(c.scheduler) + "_" + kBalances[c.balance] + "_" + std::to_string(c.workers) + "_workers_" +
         std::to_string(c.samples) + "_by_" + std::to_string(c.batch) +
         (c.accumulate > 1 ? "_in_" + std::to_string(c.accumulate) : "");
}

INSTANTIATE_TEST_SUITE_P(
    Balances, Epoch,
    ::testing::Values(Case{PRORATA_PRORATA, 1, 100, 8, "prorata"}, Case{PRORATA_PRORATA, 2, 1001, 8, "prorata"},
                      Case{PRORATA_PRORATA, 4, 1001, 8, "prorata"}, Case{PRORATA_UNIFORM, 2, 1001, 8, "prorata"},
                      Case{PRORATA_UNIFORM, 3, 501, 8, "prorata"}, Case{PRORATA_DYNAMIC, 2, 1001, 8, "prorata"},
                      Case{PRORATA_PRORATA, 2, 5, 8, "prorata"}, Case{PRORATA_UNIFORM, 2, 9, 8, "prorata"},
                      Case{PRORATA_PRORATA, 2, 1, 1, "prorata"}, Case{PRORATA_UNIFORM, 4, 1, 1, "prorata"},
                      Case{PRORATA_PRORATA, 2, 1001, 8, "eager"}, Case{PRORATA_PRORATA, 2, 1001, 8, "lws"},
                      Case{PRORATA_PRORATA, 2, 1001, 8, "dmda"}, Case{PRORATA_PRORATA, 1, 301, 8, "eager"},
                      Case{PRORATA_PRORATA, 3, 1001, 8, "prorata", 4}, Case{PRORATA_UNIFORM, 2, 1001, 8, "prorata", 2},
                      Case{PRORATA_PRORATA, 2, 1001, 8, "eager", 8}, Case{PRORATA_PRORATA, 2, 1001, 8, "lws", 2},
                      Case{PRORATA_PRORATA, 2, 1001, 8, "dmda", 4}),
    name_of);

class OneWorker : public WithStarpu, public ::testing::WithParamInterface<int> {};

TEST_P(OneWorker, HasNoStalenessHoweverManyReplicas) {
  start(1);
  Fixture f(400, 4, static_cast<std::size_t>(GetParam()));
  f.run(PRORATA_PRORATA, [](const MinibatchResult& m) {
    EXPECT_EQ(m.staleness, 0u);
    return true;
  });
}

TEST_P(OneWorker, GivesTheSameBitsEachTime) {
  use_first_implementations(true);
  std::vector<float> first;
  for (int repeat = 0; repeat < 3; ++repeat) {
    start(1);
    // The number of replicas must not matter either.
    Fixture f(400, 7, static_cast<std::size_t>(repeat == 2 ? 1 : GetParam()));
    for (int epoch = 0; epoch < 2; ++epoch) f.run(PRORATA_PRORATA, [](const MinibatchResult&) { return true; });
    if (first.empty())
      first = f.parameters();
    else
      EXPECT_EQ(f.parameters(), first);
  }
}

INSTANTIATE_TEST_SUITE_P(Replicas, OneWorker, ::testing::Values(1, 2, 5));

TEST_F(WithStarpu, StalenessIsNoMoreThanTheMinibatchesThatOverlapped) {
  start(3);
  Fixture f(4000, 4, default_replicas());
  std::vector<MinibatchResult> all;
  f.run(PRORATA_PRORATA, [&](const MinibatchResult& m) {
    all.push_back(m);
    return true;
  });
  std::uint64_t total = 0;
  for (const MinibatchResult& m : all) {
    total += m.staleness;
    const auto overlapping = std::count_if(all.begin(), all.end(), [&](const MinibatchResult& other) {
      return other.indices.data() != m.indices.data() && other.started < m.finished && other.finished > m.started;
    });
    EXPECT_LE(m.staleness, static_cast<std::uint64_t>(overlapping));
  }
  EXPECT_GT(total, 0u) << "three workers that never overlapped";
}

TEST_F(WithStarpu, SlowedWorkerGetsItsShareUnderProrataAndHalfUnderUniform) {
  // So slow that the runtime's own cost, which is not stretched, makes no difference, even in a build with sanitizers.
  start(2, "prorata", {{1, 100.0}});
  for (const prorata_balance balance : {PRORATA_PRORATA, PRORATA_UNIFORM}) {
    Fixture f(2000, 32, default_replicas());
    int of[2] = {0, 0};
    f.run(balance, [&](const MinibatchResult& m) {
      ++of[m.worker];
      return true;
    });
    if (balance == PRORATA_UNIFORM)
      EXPECT_LE(std::abs(of[0] - of[1]), 1);
    else
      EXPECT_LT(of[1] * 2, of[0]);
  }
}

TEST_F(WithStarpu, HandlesDoNotGrowOverEpochs) {
  EXPECT_EQ(DataHandle::alive(), 0);
  start(2);
  {
    Fixture f(500, 8, default_replicas());
    const auto epoch = [&] {
      f.run(PRORATA_PRORATA, [](const MinibatchResult&) { return true; });
      evaluate(f.trainer, f.data, [] { return false; });
    };
    epoch();
    const long handles = DataHandle::alive();
    EXPECT_GT(handles, 0);
    for (int i = 0; i < 20; ++i) epoch();
    EXPECT_EQ(DataHandle::alive(), handles);
  }
  EXPECT_EQ(DataHandle::alive(), 0);
}

TEST_F(WithStarpu, StopsWhenTheRecordSaysSo) {
  start(2);
  Fixture f(4000, 4, default_replicas());
  std::uint64_t minibatches = 0;
  f.run(PRORATA_PRORATA, [&](const MinibatchResult&) { return ++minibatches < 10; });
  EXPECT_GE(minibatches, 10u);
  EXPECT_LE(minibatches, 10 + f.trainer.replicas());
}

TEST_F(WithStarpu, StopsUnderUniformWithoutWaitingForSharesThatNobodyWillTake) {
  start(4);
  for (int repeat = 0; repeat < 5; ++repeat) {
    Fixture f(400, 4, default_replicas());
    std::uint64_t minibatches = 0;
    f.run(PRORATA_UNIFORM, [&](const MinibatchResult&) { return ++minibatches < 7; });
    EXPECT_LE(minibatches, 7 + f.trainer.replicas());
  }
}

TEST_F(WithStarpu, RoundsOfThePolicyAddUpToTheEpoch) {
  start(2);
  Fixture f(1000, 8, default_replicas());
  f.run(PRORATA_PRORATA, [](const MinibatchResult&) { return true; });
  const PolicyReport report = policy_report(0);
  ASSERT_EQ(report.workers.size(), 2u);
  std::int64_t dealt = 0;
  for (const Round& r : report.rounds) dealt += std::accumulate(r.shares.begin(), r.shares.end(), std::int64_t{0});
  EXPECT_EQ(dealt, 125);
}

class Bounded : public WithStarpu, public ::testing::WithParamInterface<std::tuple<const char*, std::uint64_t>> {};

TEST_P(Bounded, NoMinibatchIsStalerThanTheBound) {
  const auto [scheduler, bound] = GetParam();
  start(4, scheduler);
  Fixture f(3000,
            {.batch = 4, .replicas = 6, .consistency = Consistency::ssp, .staleness = bound});  // more than workers
  std::size_t samples = 0;
  f.run(PRORATA_PRORATA, [&, most = bound](const MinibatchResult& m) {
    EXPECT_LE(m.staleness, most);
    samples += m.samples;
    return true;
  });
  EXPECT_EQ(samples, 3000u);
}

INSTANTIATE_TEST_SUITE_P(Staleness, Bounded,
                         ::testing::Combine(::testing::Values("prorata", "eager", "lws"), ::testing::Values(0, 1, 3)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param)) + "_" +
                                  std::to_string(std::get<1>(tested.param));
                         });

std::vector<float> trained_in_steps(std::size_t minibatches_a_step, std::int32_t batch) {
  Fixture f(203, {.batch = batch, .replicas = minibatches_a_step, .consistency = Consistency::bsp});
  for (int epoch = 0; epoch < 2; ++epoch)
    f.run(PRORATA_PRORATA, [](const MinibatchResult& m) {
      EXPECT_EQ(m.staleness, 0u);
      return true;
    });
  const std::size_t samples_a_step = minibatches_a_step * static_cast<std::size_t>(batch);
  EXPECT_EQ(f.network.parameters(1)->version, 2 * ((203 + samples_a_step - 1) / samples_a_step));
  return f.parameters();
}

TEST_F(WithStarpu, StepsGiveTheSameBitsWhateverTheWorkersAndThePolicy) {
  use_first_implementations(true);
  std::vector<float> first;
  for (const auto& [workers, scheduler] : std::vector<std::pair<int, const char*>>{
           {1, "prorata"}, {2, "prorata"}, {4, "prorata"}, {4, "prorata"}, {3, "eager"}, {2, "lws"}, {2, "dmda"}}) {
    start(workers, scheduler);
    const std::vector<float> all = trained_in_steps(5, 8);
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << workers << " workers under " << scheduler;
  }
}

TEST_F(WithStarpu, StepOfManyMinibatchesIsThatOfOneMinibatchWithAllTheirSamples) {
  // 203 = 5 steps of 40 and one of 3: each mini-batch of the last step has another size.
  start(3);
  const std::vector<float> together = trained_in_steps(5, 8);
  const std::vector<float> one = trained_in_steps(1, 40);
  ASSERT_EQ(together.size(), one.size());
  // Floats added in another order, over 12 steps; a wrong weight for the last step alone makes 1e-2.
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(together[i], one[i], 2e-5) << i;
}

TEST_F(WithStarpu, StopsInSteps) {
  start(2);
  Fixture f(4000, {.batch = 4, .replicas = 3, .consistency = Consistency::bsp});
  std::uint64_t minibatches = 0;
  f.run(PRORATA_PRORATA, [&](const MinibatchResult&) { return ++minibatches < 10; });
  EXPECT_GE(minibatches, 10u);
  EXPECT_LE(minibatches, 12u);
}

// Sizes of their own, weighed by samples: the step is the one of a single mini-batch with all samples of the union,
// though one worker has many more of them than the other.
TEST_F(WithStarpu, StepOfUnequalMinibatchesIsThatOfOneMinibatchWithAllTheirSamples) {
  constexpr std::size_t kSamples = 2000;
  std::vector<float> unequal;
  {
    start(2, "prorata", {{1, 2.0}});
    Fixture f(kSamples, {.batch = 20, .replicas = 2, .consistency = Consistency::bsp, .share = PRORATA_SIZE});
    std::vector<std::uint32_t> sizes;
    for (int epoch = 0; epoch < 2; ++epoch)
      f.run(PRORATA_PRORATA, [&](const MinibatchResult& m) {
        sizes.push_back(m.samples);
        return true;
      });
    EXPECT_EQ(f.network.parameters(0)->version, 2 * kSamples / 40);
    EXPECT_NE(*std::max_element(sizes.begin(), sizes.end()), *std::min_element(sizes.begin(), sizes.end()))
        << "all sizes were alike, so nothing is shown";
    unequal = f.parameters();
  }
  start(1);
  Fixture f(kSamples, 40, 1);
  for (int epoch = 0; epoch < 2; ++epoch) f.run(PRORATA_PRORATA, [](const MinibatchResult&) { return true; });
  const std::vector<float> one = f.parameters();
  double largest = 0;
  for (std::size_t i = 0; i < one.size(); ++i) largest = std::max<double>(largest, std::abs(one[i] - unequal[i]));
  // Floats added in another order, over 100 steps. Averaging without weights makes 1e-1.
  EXPECT_LT(largest, 2e-4);
}

TEST_F(WithStarpu, SizesUseEachSampleOnceAndTheSlowedWorkerHasSmallerOnes) {
  start(2, "prorata", {{1, 100.0}});
  Fixture f(20001, {.batch = 32, .replicas = 2, .share = PRORATA_SIZE});
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<int> used(20001, 0);
    std::uint64_t samples[2] = {0, 0}, minibatches[2] = {0, 0};
    f.run(PRORATA_PRORATA, [&](const MinibatchResult& m) {
      for (std::uint32_t i : m.indices) ++used[i];
      EXPECT_LE(m.samples, 64u);
      samples[m.worker] += m.samples;
      ++minibatches[m.worker];
      return true;
    });
    EXPECT_EQ(std::count(used.begin(), used.end(), 1), 20001);
    if (epoch == 0) continue;  // in which speeds become known
    EXPECT_LT(samples[1] * 4, samples[0]);
    EXPECT_LT(samples[1] * minibatches[0], samples[0] * minibatches[1]) << "its mini-batches are not smaller";
  }
}

TEST(LargestBatch, IsWhatTheMemoryHasRoomFor) {
  EXPECT_EQ(largest_batch(1000, 1, 100, 9, 1000), 100u);
  EXPECT_EQ(largest_batch(1000, 1, 100, 9, 64), 64u);
  EXPECT_EQ(largest_batch(1000, 4, 100, 50, 64), 3u);
  EXPECT_EQ(largest_batch(1000, 20, 100, 50, 64), 0u) << "not even the parameters";
}

TEST_F(WithStarpu, SizesRespectTheRoomOfTheMemory) {
  ::setenv("STARPU_LIMIT_CPU_MEM", "1", 1);  // MiB
  start(2);
  ::unsetenv("STARPU_LIMIT_CPU_MEM");
  constexpr std::int32_t kBatch = 4000;  // 8000 samples for both, and each sample takes 156 bytes
  Fixture f(20000, {.batch = kBatch, .replicas = 2, .share = PRORATA_SIZE});
  std::uint64_t samples = 0;
  f.run(PRORATA_PRORATA, [&](const MinibatchResult& m) {
    EXPECT_LT(m.samples * 156 * 2, 1u << 20);
    samples += m.samples;
    return true;
  });
  EXPECT_EQ(samples, 20000u);
}

// The same memory: all of the training set is two mini-batches, of micro-batches for which there is room.
TEST_F(WithStarpu, SizesOfAccumulatedMinibatchesNeedRoomForAMicroBatch) {
  ::setenv("STARPU_LIMIT_CPU_MEM", "1", 1);  // MiB
  start(2);
  ::unsetenv("STARPU_LIMIT_CPU_MEM");
  Fixture f(20000, {.batch = {4000, 500}, .replicas = 2, .share = PRORATA_SIZE});
  std::uint64_t samples = 0, largest = 0;
  f.run(PRORATA_PRORATA, [&](const MinibatchResult& m) {
    samples += m.samples;
    largest = std::max<std::uint64_t>(largest, m.samples);
    return true;
  });
  EXPECT_EQ(samples, 20000u);
  EXPECT_GT(largest * 156, 1u << 19);
}

TEST(CorrectedMomentum, LeavesOneMinusMomentumInTheRatioOfTheOverlap) {
  EXPECT_DOUBLE_EQ(corrected_momentum(0.9, 1), 0.9);
  EXPECT_NEAR(corrected_momentum(0.9, 2), 0.8, 1e-12);
  EXPECT_NEAR(corrected_momentum(0.9, 4), 0.6, 1e-12);
  EXPECT_DOUBLE_EQ(corrected_momentum(0.9, 20), 0);
  EXPECT_DOUBLE_EQ(corrected_momentum(0, 3), 0);
}

}  // namespace
}  // namespace prorata
