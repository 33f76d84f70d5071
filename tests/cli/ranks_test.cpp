// Several ranks, as mpirun starts them: one run, whatever their number.
#include "models/safetensors.h"
#include "tests/cli/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <sstream>

namespace prorata::test {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::string> kAsRoot{{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                                 {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};

class OnRanks : public Program {
 protected:
  Output train_on(int ranks, std::vector<std::string> more, const std::map<std::string, std::string>& environment = {},
                  const std::function<void(pid_t)>& meanwhile = {}) {
    launcher().clear();
    if (ranks > 1)
      launcher() = {"mpirun", "-n", std::to_string(ranks), "--oversubscribe", "--bind-to", "none", "-x", "STARPU_NCPU"};
    std::vector<std::string> arguments{"train", "--dataset", "synthetic"};
    if (std::ranges::find(more, "--model") == more.end()) arguments.insert(arguments.end(), {"--model", "small.toml"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::map<std::string, std::string> all = kAsRoot;
    all.insert(environment.begin(), environment.end());
    return run(arguments, all, meanwhile);
  }

  nlohmann::json summary_of(const std::string& out) const {
    return nlohmann::json::parse(read(folder() / out / "summary.json"));
  }

  // Of all layers.
  std::vector<float> parameters_of(const std::string& out) const {
    const SafetensorsFile file(folder() / out / "checkpoint" / "model.safetensors");
    std::vector<float> all;
    for (const auto& [name, shape] : std::map<std::string, std::vector<std::int64_t>>{
             {"conv.weight", {2, 1, 3, 3}}, {"conv.bias", {2}}, {"fc.weight", {3, 32}}, {"fc.bias", {3}}}) {
      const std::vector<float> values = file.read(name, shape);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
};

class Mode : public OnRanks, public ::testing::WithParamInterface<std::tuple<const char*, int>> {};

TEST_P(Mode, MakesOneRun) {
  const auto [consistency, ranks] = GetParam();
  write("plain.toml",
        "name = \"plain\"\ninput = [6, 6, 1]\nclasses = 3\n[[layer]]\nname = \"fc\"\ntype = \"dense\"\nunits = 3\n");
  const Output o = train_on(ranks, {"--model", "plain.toml", "--epochs", "3", "--batch", "16", "--consistency",
                                    consistency, "--out", "run"});
  ASSERT_EQ(o.code, 0) << o.err;
  const nlohmann::json s = summary();
  EXPECT_EQ(s.at("epochs"), 3);
  // Of what an asynchronous rank learns only a part counts.
  EXPECT_NEAR(s.at("effective_learning_rate"),
              s.at("learning_rate").get<double>() * (std::string(consistency) == "bsp" ? 1 : std::pow(ranks, 0.75)),
              1e-9);
  const auto samples = s.at("samples").get<std::size_t>();
  EXPECT_EQ(samples % 3, 0u);
  std::size_t of_workers = 0, of_ranks = 0, minibatches = 0;
  ASSERT_EQ(s.at("workers").size(), static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(s.at("workers").at(r).at("rank"), r);
    EXPECT_GT(s.at("workers").at(r).at("samples"), 0);
    of_workers += s.at("workers").at(r).at("samples").get<std::size_t>();
    of_ranks += s.at("ranks").at(r).at("samples").get<std::size_t>();
    minibatches += s.at("ranks").at(r).at("minibatches").get<std::size_t>();
    EXPECT_EQ(s.at("ranks").at(r).at("rounds").get<int>() > 0, std::string(consistency) != "bsp");
  }
  EXPECT_EQ(of_workers, samples);
  EXPECT_EQ(of_ranks, samples);
  EXPECT_EQ(minibatches, s.at("minibatches"));
  // With one layer the synthetic set is learnt for certain; but nothing bounds how far asp's ranks run ahead of their
  // exchange, and these have all their few mini-batches done before the first answers are there. Chance is 0.33.
  EXPECT_GT(s.at("test_accuracy"), std::string(consistency) == "asp" ? 0.45 : 0.9);
  // Rank 0 alone tells of it: a line for each epoch.
  std::istringstream metrics(read(folder() / "run" / "metrics.jsonl"));
  int epochs = 0;
  for (std::string line; std::getline(metrics, line);)
    if (const auto entry = nlohmann::json::parse(line); entry.at("event") == "epoch") {
      ++epochs;
      EXPECT_EQ(entry.at("samples"), samples / 3);
    }
  EXPECT_EQ(epochs, 3);
}

INSTANTIATE_TEST_SUITE_P(All, Mode, ::testing::Combine(::testing::Values("asp", "ssp", "bsp"), ::testing::Values(2, 3)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param)) + "_" +
                                  std::to_string(std::get<1>(tested.param)) + "_ranks";
                         });

TEST_F(OnRanks, StepsAreThoseOfOneRank) {
  const std::vector<std::string> common{"--epochs", "2",           "--batch", "7",    "--consistency",
                                        "bsp",      "--clip-norm", "0.5",     "--out"};
  auto with_out = [&](const std::string& out, std::vector<std::string> more) {
    std::vector<std::string> all = common;
    all.push_back(out);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_EQ(train_on(1, with_out("one", {"--round", "6"})).code, 0);
  const std::vector<float> one = parameters_of("one");
  for (const int ranks : {2, 3}) {
    const std::string out = "on" + std::to_string(ranks);
    const Output o = train_on(ranks, with_out(out, {"--round", std::to_string(6 / ranks)}));
    ASSERT_EQ(o.code, 0) << o.err;
    const std::vector<float> several = parameters_of(out);
    ASSERT_EQ(several.size(), one.size());
    // Sums are added in another order: a rounding or two in each of some hundred steps.
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(several[i], one[i], 1e-5) << i;
    EXPECT_NEAR(summary_of(out).at("test_loss").get<double>(), summary_of("one").at("test_loss").get<double>(), 1e-5);
  }
}

TEST_F(OnRanks, SixteenBitsHalveWhatTravels) {
  for (const auto& [format, bytes] : {std::pair{"float32", 4}, std::pair{"bfloat16", 2}, std::pair{"float16", 2}}) {
    const Output o = train_on(2, {"--epochs", "1", "--exchange-format", format, "--out", format});
    ASSERT_EQ(o.code, 0) << o.err;
    const nlohmann::json s = summary_of(format);
    std::vector<std::int64_t> rounds;
    for (const nlohmann::json& rank : s.at("ranks")) rounds.push_back(rank.at("rounds").get<std::int64_t>());
    const auto [least, most] = std::ranges::minmax(rounds);
    EXPECT_GT(least, 0);
    // A round of one rank: its changes of what the other one owns, that one's answers, and whether it is the last.
    const std::int64_t all = bytes * s.at("parameters").get<std::int64_t>();
    for (std::size_t r = 0; r < 2; ++r) {
      const auto sent = s.at("ranks").at(r).at("bytes_sent").get<std::int64_t>() - 4 * rounds[r];
      EXPECT_GE(sent, least * all) << format;
      EXPECT_LE(sent, most * all) << format;
    }
  }
}

TEST_F(OnRanks, ElasticAveragingTrains) {
  write("plain.toml",
        "name = \"plain\"\ninput = [6, 6, 1]\nclasses = 3\n[[layer]]\nname = \"fc\"\ntype = \"dense\"\nunits = 3\n");
  const Output o = train_on(2, {"--model", "plain.toml", "--epochs", "3", "--batch", "16", "--consistency", "ssp",
                                "--elastic", "0.45", "--exchange-period", "4", "--out", "run"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(summary().at("effective_learning_rate"), summary().at("learning_rate"));
  EXPECT_GT(summary().at("test_accuracy"), 0.9);
  expect_refused(train_on(1, {"--elastic", "0.5", "--exchange-weight", "0.5"}), {"--elastic"});
}

// The processor as an OpenCL device (PoCL), where there is one.
TEST_F(OnRanks, DevicesOfANodeAreDealtOut) {
  const std::map<std::string, std::string> environment{
      {"STARPU_NCPU", ""}, {"STARPU_NOPENCL", ""}, {"STARPU_OPENCL_ON_CPUS", "1"}, {"POCL_MAX_PTHREAD_COUNT", "1"}};
  std::vector<int> of_rank[2];  // OpenCL workers, by rank
  for (const int ranks : {1, 2}) {
    const Output o = train_on(ranks, {"--epochs", "1", "--out", std::to_string(ranks)}, environment);
    ASSERT_EQ(o.code, 0) << o.err;
    std::vector<int>& count = of_rank[ranks - 1];
    count.resize(static_cast<std::size_t>(ranks));
    const nlohmann::json s = summary_of(std::to_string(ranks));
    for (const nlohmann::json& worker : s.at("workers"))
      if (worker.at("kind") == "opencl") ++count.at(worker.at("rank").get<std::size_t>());
  }
  const int all = of_rank[0][0];
  if (all == 0) GTEST_SKIP() << "this machine has no OpenCL device";
  EXPECT_EQ(of_rank[1], (std::vector<int>{(all + 1) / 2, all / 2}));
}

TEST_F(OnRanks, UniformSharesAreEqual) {
  ASSERT_EQ(train_on(2, {"--epochs", "2", "--balance", "uniform", "--slowdown", "1/0:50", "--out", "run"}).code, 0);
  const nlohmann::json ranks = summary().at("ranks");
  EXPECT_NEAR(ranks.at(0).at("share").get<double>(), 0.5, 0.01);
  EXPECT_NEAR(ranks.at(1).at("share").get<double>(), 0.5, 0.01);
  EXPECT_EQ(summary().at("workers").at(0).at("slowdown"), 1.0);
  EXPECT_EQ(summary().at("workers").at(1).at("slowdown"), 50.0);
  EXPECT_TRUE(summary().at("emulated"));
}

TEST_F(OnRanks, SlowRankGetsLess) {
  const Output o = train_on(2, {"--epochs", "4", "--slowdown", "1/0:100", "--out", "run"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_LT(summary().at("ranks").at(1).at("share").get<double>(), 0.4);
}

TEST_F(OnRanks, GoesOnWithAnotherNumberOfRanks) {
  const std::vector<std::string> out{"--lr-schedule", "constant", "--out", "run"};
  std::uint64_t before = 0;
  std::string epochs = "0";
  for (const int ranks : {2, 1, 3}) {
    epochs[0] = static_cast<char>(epochs[0] + 1);
    std::vector<std::string> more{"--epochs", epochs};
    more.insert(more.end(), out.begin(), out.end());
    if (ranks != 2) more.push_back("--resume");
    const Output o = train_on(ranks, more);
    ASSERT_EQ(o.code, 0) << o.err;
    const nlohmann::json s = summary();
    if (before == 0) before = s.at("samples");
    EXPECT_EQ(s.at("samples"), before * static_cast<std::uint64_t>(epochs[0] - '0'));
    std::uint64_t of_workers = 0;
    for (const auto& w : s.at("workers")) of_workers += w.at("samples").get<std::uint64_t>();
    EXPECT_EQ(of_workers, s.at("samples"));
  }
}

TEST_F(OnRanks, OneWhoseOptionsDifferIsRefusedByName) {
  launcher() = {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", "1"};
  const std::vector<std::string> common{"train", "--model", "small.toml", "--dataset", "synthetic", "--out", "new"};
  std::vector<std::string> arguments = common;
  arguments.insert(arguments.end(), {":", "-n", "1", PRORATA_PROGRAM});
  arguments.insert(arguments.end(), common.begin(), common.end());
  arguments.insert(arguments.end(), {"--seed", "2"});
  expect_refused(run(arguments, kAsRoot), {"rank 1 has --seed 2", "rank 0 has 1"});
  EXPECT_FALSE(fs::exists(folder() / "new"));
}

TEST_F(OnRanks, OnlyTrainRunsOnSeveral) {
  launcher() = {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2"};
  expect_refused(run({"devices"}, kAsRoot), {"only train", "2 of devices", "without mpirun"});
}

TEST_F(OnRanks, OneThatCannotReadItsDataIsNamed) {
  launcher() = {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", "1"};
  const std::vector<std::string> good{"train", "--model", "small.toml", "--dataset", "synthetic"},
      bad{"train", "--model", "small.toml", "--dataset", "mnist", "--data", "nowhere"};
  std::vector<std::string> arguments = good;
  arguments.insert(arguments.end(), {":", "-n", "1", PRORATA_PROGRAM});
  arguments.insert(arguments.end(), bad.begin(), bad.end());
  expect_refused(run(arguments, kAsRoot), {"rank 1: nowhere"});
}

// The ranks that `mpirun` has started here.
std::vector<pid_t> ranks_of(pid_t mpirun) {
  std::ifstream children("/proc/" + std::to_string(mpirun) + "/task/" + std::to_string(mpirun) + "/children");
  std::vector<pid_t> ranks;
  for (pid_t rank = 0; children >> rank;) ranks.push_back(rank);
  return ranks;
}

TEST_F(OnRanks, OneThatIsKilledEndsTheJob) {
  for (const std::size_t victim : {0u, 1u}) {
    const std::string out = "run" + std::to_string(victim);
    bool killed = false;
    const Output o =
        train_on(2, {"--epochs", "100000", "--out", out, "--lr-schedule", "constant"}, {}, [&](pid_t mpirun) {
          if (killed || !fs::exists(folder() / out / "checkpoint")) return;
          const std::vector<pid_t> ranks = ranks_of(mpirun);
          if (ranks.size() != 2) return;
          killed = true;
          kill(ranks[victim], SIGKILL);
        });
    EXPECT_TRUE(killed);
    EXPECT_NE(o.code, 0);
    EXPECT_NE(o.err.find("goes on from " + (folder() / out / "checkpoints").string()), std::string::npos) << o.err;
    EXPECT_NE((o.err + o.out).find("rank " + std::to_string(victim)), std::string::npos) << o.err;
    const auto state = nlohmann::json::parse(read(folder() / out / "checkpoint" / "state.json"));
    const int epoch = state.at("position").at("epoch").get<int>();
    const Output resumed = train_on(2, {"--epochs", std::to_string(epoch + 1), "--out", out, "--resume"});
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(summary_of(out).at("epochs"), epoch + 1);
  }
}

}  // namespace
}  // namespace prorata::test
