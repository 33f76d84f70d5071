// What a run leaves behind, and how it ends.
#include "tests/cli/program.h"

#include <csignal>
#include <numeric>
#include <sstream>

namespace prorata::test {
namespace {

namespace fs = std::filesystem;

TEST_F(Program, WritesASummaryThatAddsUp) {
  ASSERT_EQ(train({"--epochs", "2", "--batch", "64"}, {{"STARPU_NCPU", "2"}}).code, 0);
  const auto s = summary();
  for (const char* name : {"version",     "model",          "dataset",       "seed",         "epochs",
                           "minibatches", "samples",        "batch",         "wall_seconds", "samples_per_second",
                           "train_loss",  "test_loss",      "test_accuracy", "balance",      "share",
                           "consistency", "scheduler",      "emulated",      "workers",      "staleness",
                           "rounds",      "starpu_version", "host"})
    EXPECT_TRUE(s.contains(name)) << name;
  EXPECT_EQ(s["samples"], 12000);
  EXPECT_EQ(s["minibatches"], 2 * 94);
  EXPECT_NEAR(s["samples_per_second"].get<double>() * s["wall_seconds"].get<double>(), 12000, 1);
  std::uint64_t samples = 0, minibatches = 0, staleness = 0;
  double share = 0;
  for (const auto& w : s["workers"]) {
    for (const char* name : {"id", "name", "kind", "memory_node", "expected_samples_per_second",
                             "measured_samples_per_second", "busy_seconds", "idle_seconds"})
      EXPECT_TRUE(w.contains(name)) << name;
    samples += w["samples"].get<std::uint64_t>();
    minibatches += w["minibatches"].get<std::uint64_t>();
    share += w["share"].get<double>();
    for (const auto& n : w["staleness"]["histogram"]) staleness += n.get<std::uint64_t>();
  }
  EXPECT_EQ(samples, 12000u);
  EXPECT_EQ(minibatches, 188u);
  EXPECT_EQ(staleness, 188u);
  EXPECT_NEAR(share, 1, 1e-9);
  std::uint64_t all = 0, dealt = 0;
  for (const auto& n : s["staleness"]["histogram"]) all += n.get<std::uint64_t>();
  EXPECT_EQ(all, 188u);
  for (const auto& r : s["rounds"])
    for (const auto& n : r["shares"]) dealt += n.get<std::uint64_t>();
  EXPECT_EQ(dealt, 188u);
}

TEST_F(Program, WritesALineOfMetricsForEachEpochAndInterval) {
  ASSERT_EQ(train({"--epochs", "3", "--batch", "10"}).code, 0);
  std::istringstream lines(read(folder() / "run" / "metrics.jsonl"));
  int epochs = 0, intervals = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto j = nlohmann::json::parse(line);
    epochs += j["event"] == "epoch";
    intervals += j["event"] == "interval";
    EXPECT_TRUE(j.contains("train_loss"));
  }
  EXPECT_EQ(epochs, 3);
  EXPECT_EQ(intervals, 3 * 6);
}

TEST_F(Program, HasNoStalenessWithOneWorkerHoweverManyReplicas) {
  for (const char* replicas : {"1", "2", "5"}) {
    ASSERT_EQ(train({"--epochs", "1", "--replicas", replicas, "--overwrite"}).code, 0);
    EXPECT_EQ(summary()["staleness"]["max"], 0);
  }
}

TEST_F(Program, GivesTheSameBitsForASeedWithOneWorker) {
  std::vector<std::string> files;
  for (const char* seed : {"5", "5", "6"}) {
    ASSERT_EQ(train({"--epochs", "2", "--seed", seed, "--overwrite"}).code, 0);
    files.push_back(read(folder() / "run/checkpoint/model.safetensors"));
  }
  EXPECT_EQ(files[0], files[1]);
  EXPECT_NE(files[0], files[2]);
}

TEST_F(Program, MarksEmulatedSpeedsAndDealsByThem) {
  ASSERT_EQ(train({"--epochs", "1", "--slowdown", "1:100", "--batch", "100"}, {{"STARPU_NCPU", "2"}}).code, 0);
  auto s = summary();
  EXPECT_EQ(s["emulated"], true);
  EXPECT_EQ(s["workers"][1]["slowdown"], 100);
  EXPECT_LT(s["workers"][1]["minibatches"], s["workers"][0]["minibatches"]);
  ASSERT_EQ(train({"--epochs", "1", "--slowdown", "1:100", "--batch", "100", "--balance", "uniform", "--overwrite"},
                  {{"STARPU_NCPU", "2"}})
                .code,
            0);
  s = summary();
  EXPECT_EQ(s["workers"][1]["minibatches"], s["workers"][0]["minibatches"]);
}

TEST_F(Program, SaysThatTf32ChangesNothingWithoutACudaWorker) {
  const std::map<std::string, std::string> no_gpu{{"STARPU_NCUDA", "0"}};
  const std::string sentence = "--tf32 changes nothing here: there is no CUDA worker";
  Output o = train({"--epochs", "1"}, no_gpu);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err.find(sentence), std::string::npos) << o.err;
  const std::string plain = read(folder() / "run/checkpoint/model.safetensors");
  o = train({"--epochs", "1", "--tf32", "--overwrite"}, no_gpu);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find(sentence), std::string::npos) << o.err;
  EXPECT_EQ(summary()["tf32"], false);
  EXPECT_EQ(read(folder() / "run/checkpoint/model.safetensors"), plain);
  o = run({"eval", "run", "--model", "small.toml", "--dataset", "synthetic", "--json", "--tf32"}, no_gpu);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(o.out)["tf32"], false);
}

TEST_F(Program, EvaluatesARunToTheAccuracyOfItsSummary) {
  ASSERT_EQ(run({"train", "--model", "small.toml", "--dataset", "synthetic", "--out", "run", "--epochs", "1"}).code, 0);
  for (const char* path : {"run", "run/checkpoint/model.safetensors"}) {
    const Output o = run({"eval", path, "--model", "small.toml", "--dataset", "synthetic", "--json"});
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(nlohmann::json::parse(o.out)["test_accuracy"], summary()["test_accuracy"]);
  }
}

TEST_F(Program, NamesParametersAsPyTorchDoes) {
  ASSERT_EQ(train({"--epochs", "1"}).code, 0);
  const std::string file = read(folder() / "run/checkpoint/model.safetensors");
  std::uint64_t length = 0;
  file.copy(reinterpret_cast<char*>(&length), sizeof(length));
  EXPECT_EQ(length % 8, 0u);
  const auto header = nlohmann::json::parse(file.substr(8, length));
  EXPECT_EQ(header["conv.weight"]["shape"], nlohmann::json({2, 1, 3, 3}));
  EXPECT_EQ(header["conv.bias"]["shape"], nlohmann::json({2}));
  EXPECT_EQ(header["fc.weight"]["shape"], nlohmann::json({3, 32}));
  EXPECT_EQ(header["fc.bias"]["dtype"], "F32");
  EXPECT_EQ(file.size(), 8 + length + 4 * (2 * 9 + 2 + 3 * 32 + 3));
}

TEST_F(Program, SaysThatItDiverged) {
  // Three layers without a rectifier, whose dead units would keep a network finite.
  std::string deep = "name = \"deep\"\ninput = [6, 6, 1]\nclasses = 3\n";
  for (const char* units : {"8", "8", "3"}) deep += std::string("[[layer]]\ntype = \"dense\"\nunits = ") + units + "\n";
  write("small.toml", deep);
  const Output o = train({"--epochs", "3", "--lr", "1000"});
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("--lr"), std::string::npos);
  EXPECT_EQ(summary()["stopped_by"], "divergence");
  EXPECT_FALSE(fs::exists(folder() / "run/checkpoint/model.safetensors"));
}

class Stopped : public Program, public ::testing::WithParamInterface<int> {};

TEST_P(Stopped, EndsCleanlyWithWhatIsDone) {
  const fs::path metrics = folder() / "run" / "metrics.jsonl";
  bool sent = false;
  const Output o =
      run({"train", "--model", "small.toml", "--dataset", "synthetic", "--out", "run", "--epochs", "100000"}, {},
          [&](pid_t program) {
            if (sent || !fs::exists(metrics) || read(metrics).find("\"epoch\",") == std::string::npos) return;
            sent = kill(program, GetParam()) == 0;
          });
  EXPECT_EQ(o.code, 128 + GetParam());
  const auto s = summary();
  EXPECT_EQ(s["stopped_by"], GetParam() == SIGINT ? "SIGINT" : "SIGTERM");
  EXPECT_GE(s["epochs"], 1);
  EXPECT_LT(s["epochs"], 100000);
  EXPECT_GE(s["samples"], 6000);
  EXPECT_EQ(run({"eval", "run", "--model", "small.toml", "--dataset", "synthetic"}).code, 0);
}

INSTANTIATE_TEST_SUITE_P(Signals, Stopped, ::testing::Values(SIGINT, SIGTERM));

}  // namespace
}  // namespace prorata::test
