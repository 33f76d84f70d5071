// What went wrong for people who train on unlike devices, and must be right here: whole runs, as a user makes them.
//
//   1  a slow device holds a fast one back                SlowDeviceHoldsNobodyBack, and no setting was made
//   2  averages over unequal batches are the wrong update  tests/driver: StepOfUnequalMinibatches...
//   3  unequal numbers of batches hang the epoch's end     UnequalNumbersOfMinibatchesEnd, tests/driver: Epoch
//   4  asynchronous training on many workers learns nothing  Zoo.Learns, LargerNetwork.Learns
//   5  races on the version counter                        StalenessCountsAddUpToTheUpdates
//   6  a compensation that is always zero                  tests/models: Remedied
//   7  one poisoned entry of a performance model           tests/driver: Speed, tests/cli: calibrate
//   8  a device that becomes slow in mid-run               DeviceThatBecomesSlowIsRebalancedWithinTwoRounds
//   9  a device far too slow to help                       DeviceFarTooSlowToHelpGetsNoShareAndItIsSaid
#include "codelets/backend/cpu_worker.h"
#include "driver/data/idx.h"
#include "driver/trainer.h"
#include "scheduler/policy.h"
#include "tests/cli/program.h"
#include "tests/driver/data/files.h"
#include "tests/starpu_fixture.h"
#include "tests/training_fixture.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace prorata::test {
namespace {

TEST_F(Program, SlowDeviceHoldsNobodyBack) {
  ASSERT_EQ(train({"--slowdown", "1:100", "--epochs", "2"}, {{"STARPU_NCPU", "2"}}).code, 0);
  const auto workers = summary()["workers"];
  EXPECT_GT(workers[0]["share"], 0.8);
  // It did not wait for the slow one: while that had a mini-batch it did many.
  EXPECT_LT(workers[1]["minibatches"].get<double>() * 4, workers[0]["minibatches"].get<double>());
}

TEST_F(Program, UnequalNumbersOfMinibatchesEnd) {
  for (const char* share : {"count", "size"}) {
    ASSERT_EQ(train({"--slowdown", "1:30,2:3", "--epochs", "2", "--batch", "7", "--share", share, "--overwrite"},
                    {{"STARPU_NCPU", "3"}})
                  .code,
              0);
    EXPECT_EQ(summary()["samples"], 12000);
  }
}

TEST_F(Program, StalenessCountsAddUpToTheUpdates) {
  ASSERT_EQ(train({"--epochs", "2", "--batch", "5", "--staleness-aware-lr"}, {{"STARPU_NCPU", "4"}}).code, 0);
  const auto s = summary();
  std::uint64_t counted = 0;
  for (const auto& n : s["staleness"]["histogram"]) counted += n.get<std::uint64_t>();
  EXPECT_EQ(counted, s["minibatches"].get<std::uint64_t>());
}

TEST_F(Program, DeviceFarTooSlowToHelpGetsNoShareAndItIsSaid) {
  const Output o = train({"--slowdown", "1:300", "--epochs", "3", "--batch", "10"},
                         {{"STARPU_NCPU", "2"}, {"STARPU_PERF_MODEL_DIR", (folder() / "models").string()}});
  ASSERT_EQ(o.code, 0);
  EXPECT_EQ(summary()["rounds"].back()["shares"][1], 0);
  EXPECT_NE(o.out.find("too slow to help"), std::string::npos) << o.out;
}

// Eight times slower, and with kernels so long that the runtime's own time makes no difference.
TEST_F(WithStarpu, DeviceThatBecomesSlowIsRebalancedWithinTwoRounds) {
  start(2);
  Fixture f(12000, {.batch = 64, .replicas = 2}, test::wide_mlp());
  f.run(PRORATA_PRORATA, [](const MinibatchResult&) { return true; });  // speeds become known
  std::size_t slowed_in = 0;
  std::uint64_t minibatches = 0;
  f.run(PRORATA_PRORATA, [&](const MinibatchResult&) {
    if (++minibatches == 50) {
      set_cpu_slowdown(1, 8);
      slowed_in = policy_report(0).rounds.size();
    }
    return true;
  });
  const std::vector<Round> rounds = policy_report(0).rounds;
  ASSERT_GT(slowed_in, 0u);
  ASSERT_GT(rounds.size(), slowed_in + 3);
  const auto share = [](const Round& r) {
    return static_cast<double>(r.shares[1]) / static_cast<double>(r.shares[0] + r.shares[1]);
  };
  EXPECT_GT(share(rounds.front()), 0.25) << "as long as it was as fast as the other";
  // slowed_in - 1 is that round; two later the shares must be right.
  EXPECT_LT(share(rounds[slowed_in + 1]), 0.25);  // a ninth, in sixteenths
}

struct Training {
  const char* model;
  int workers;
};

std::string name_of(const Training& t) {
  std::string name = std::string(t.model) + "_" + std::to_string(t.workers);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void PrintTo(const Training& t, std::ostream* out) { *out << t.model << " with " << t.workers << " workers"; }

class Zoo : public Program, public ::testing::WithParamInterface<Training> {};

// One epoch at the network's own settings. A chance hit is 0.1; runs that were seen to fail reached 0.2.
TEST_P(Zoo, Learns) {
  const auto [model, workers] = GetParam();
  ASSERT_EQ(run({"train", "--model", model, "--epochs", "1", "--out", "run", "--quiet"},
                {{"STARPU_NCPU", std::to_string(workers)}})
                .code,
            0);
  EXPECT_GT(summary()["test_accuracy"], 0.78);
}

INSTANTIATE_TEST_SUITE_P(OfWorkers, Zoo,
                         ::testing::Values(Training{"mlp", 1}, Training{"mlp", 2}, Training{"mlp", 3},
                                           Training{"mlp", 4}, Training{"lenet5", 1}, Training{"lenet5", 2},
                                           Training{"lenet5", 3}, Training{"lenet5", 4}),
                         [](const auto& tested) { return name_of(tested.param); });

// The first 6,000 training and 1,000 test images.
class LargerNetwork : public Program, public ::testing::WithParamInterface<Training> {
 protected:
  LargerNetwork() {
    std::filesystem::create_directory(folder() / "data");
    for (const auto& [split, count] : {std::pair{"train", 6000u}, std::pair{"t10k", 1000u}}) {
      copy_some(std::string(split) + "-images-idx3-ubyte", {count, 28, 28});
      copy_some(std::string(split) + "-labels-idx1-ubyte", {count});
    }
  }

 private:
  void copy_some(const std::string& name, const std::vector<std::uint32_t>& dimensions) const {
    const IdxArray all = read_idx("/usr/share/datasets/fashion-mnist/" + name + ".gz", dimensions.size());
    std::size_t bytes = 1;
    for (const std::uint32_t d : dimensions) bytes *= d;
    const std::span<const std::uint8_t> first = all.values.as<std::uint8_t>().first(bytes);
    write("data/" + name, idx(8, dimensions, std::string(first.begin(), first.end())));
  }
};

// Two epochs at the network's own settings. A chance hit is 0.1.
TEST_P(LargerNetwork, Learns) {
  const auto [model, workers] = GetParam();
  ASSERT_EQ(run({"train", "--model", model, "--data", "data", "--epochs", "2", "--out", "run", "--quiet"},
                {{"STARPU_NCPU", std::to_string(workers)}})
                .code,
            0);
  EXPECT_GT(summary()["test_accuracy"], 0.6);
}

INSTANTIATE_TEST_SUITE_P(OfWorkers, LargerNetwork,
                         ::testing::Values(Training{"vgg-small", 1}, Training{"vgg-small", 2}, Training{"vgg-small", 4},
                                           Training{"resnet20", 1}, Training{"resnet20", 2}, Training{"resnet20", 4}),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace prorata::test
