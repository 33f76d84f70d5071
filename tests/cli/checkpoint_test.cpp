// Going on from a checkpoint: as if the run had never been stopped, and never from something else.
#include "tests/cli/program.h"

#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <csignal>
#include <fstream>

namespace prorata::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Words = std::vector<std::string>;

// What two runs that computed the same have in common, to the bit: parameters, optimizer, and all that is no time.
class Resumed : public Program {
 protected:
  Output resume(Words more = {}, const std::map<std::string, std::string>& environment = {}) {
    more.insert(more.begin(), {"train", "--resume", "--out", "run"});
    return run(more, environment);
  }

  // Stops a training into `run` by a signal once it has written a line of metrics. Where the signal met the end of an
  // epoch it is tried again.
  Output stop_within_an_epoch(Words options, const std::map<std::string, std::string>& environment = {}) {
    options.insert(options.begin(),
                   {"train", "--model", "small.toml", "--dataset", "synthetic", "--out", "run", "--overwrite"});
    Output stopped;
    for (int attempt = 0; attempt < 10; ++attempt) {
      fs::remove(folder() / "run" / "metrics.jsonl");
      bool sent = false;
      stopped = run(options, environment, [&](pid_t program) {
        if (!sent && fs::exists(folder() / "run" / "metrics.jsonl") &&
            !read(folder() / "run" / "metrics.jsonl").empty())
          sent = kill(program, SIGTERM) == 0;
      });
      if (stopped.code != 128 + SIGTERM) break;
      const json state = json::parse(read(folder() / "run/checkpoint/state.json"));
      if (state["position"]["epoch_tally"]["samples"] > 0) break;
    }
    return stopped;
  }

  // As who changes a checkpoint by hand would write it.
  static std::string sealed(json state) {
    state.erase("crc32");
    const std::string text = state.dump();
    state["crc32"] = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
    return state.dump();
  }

  json lines(const std::string& run) const {
    json all = json::array();
    std::istringstream text(read(folder() / run / "metrics.jsonl"));
    for (std::string line; std::getline(text, line);) {
      json j = json::parse(line);
      for (const char* time : {"seconds", "samples_per_second"}) j.erase(time);
      all.push_back(j);
    }
    return all;
  }

  void expect_same(const std::string& a, const std::string& b) const {
    for (const char* file : {"checkpoint/model.safetensors", "checkpoint/optimizer.safetensors"})
      EXPECT_EQ(read(folder() / a / file), read(folder() / b / file)) << file;
    EXPECT_EQ(lines(a), lines(b));
    const json s = json::parse(read(folder() / a / "summary.json")),
               t = json::parse(read(folder() / b / "summary.json"));
    for (const char* name : {"epochs", "epochs_wanted", "minibatches", "samples", "train_loss", "test_loss",
                             "test_accuracy", "stopped_by", "staleness", "lr_warmup"})
      EXPECT_EQ(s[name], t[name]) << name;
  }
};

struct How {
  const char* name;
  Words options;
  const char* workers;
};

void PrintTo(const How& how, std::ostream* out) { *out << how.name; }

class ResumedRun : public Resumed, public ::testing::WithParamInterface<How> {};

TEST_P(ResumedRun, EndsAsOneThatWasNeverStopped) {
  const auto& [name, how, workers] = GetParam();
  const std::map<std::string, std::string> environment = {{"STARPU_NCPU", workers}};
  Words options = {"--epochs", "4", "--batch", "1", "--seed", "3"};
  options.insert(options.end(), how.begin(), how.end());
  Words whole = options;
  whole.insert(whole.begin(), {"train", "--model", "small.toml", "--dataset", "synthetic", "--out", "whole"});
  ASSERT_EQ(run(whole, environment).code, 0);
  const Output stopped = stop_within_an_epoch(options, environment);
  ASSERT_EQ(stopped.code, 128 + SIGTERM) << stopped.err;
  const json state = json::parse(read(folder() / "run/checkpoint/state.json"));
  EXPECT_GT(state["position"]["epoch_tally"]["samples"], 0) << "it was to be stopped within an epoch";
  EXPECT_LT(summary()["samples"], 4 * 6000);
  // Lines that the checkpoint does not know of, as a killed run leaves them.
  std::ofstream(folder() / "run" / "metrics.jsonl", std::ios::app) << "{\"event\":\"interval\"}\n{\"ev";
  const Output o = resume({}, environment);
  ASSERT_EQ(o.code, 0) << o.err;
  expect_same("whole", "run");
}

INSTANTIATE_TEST_SUITE_P(
    Ways, ResumedRun,
    ::testing::Values(
        How{"OneWorker", {}, "1"}, How{"OneWorkerAndManyCheckpoints", {"--checkpoint-every", "77"}, "1"},
        How{"OneWorkerBySize", {"--share", "size"}, "1"}, How{"ConstantRate", {"--lr-schedule", "constant"}, "1"},
        How{"RateInSteps", {"--lr-schedule", "step", "--lr-step-epochs", "1"}, "1"},
        How{"Nesterov", {"--nesterov", "--weight-decay", "0.01"}, "1"}, How{"Dana", {"--dana"}, "1"},
        How{"Adam", {"--optimizer", "adam", "--checkpoint-every", "77"}, "1"},
        How{"AdamWClipped", {"--optimizer", "adamw", "--clip-norm", "0.5"}, "1"},
        How{"SgdClippedDelayCompensated", {"--clip-norm", "0.5", "--delay-compensation", "0.04"}, "1"},
        How{"BspOfTwoWorkers", {"--consistency", "bsp"}, "2"},
        How{"BspAdamClipped", {"--consistency", "bsp", "--optimizer", "adam", "--clip-norm", "0.5"}, "2"},
        How{"BspOfThreeMinibatches", {"--consistency", "bsp", "--round", "3", "--checkpoint-every", "100"}, "2"}),
    [](const auto& tested) { return std::string(tested.param.name); });

// Steps of as many mini-batches as before, also by default.
TEST_F(Resumed, BspGoesOnWithOtherWorkers) {
  ASSERT_EQ(run({"train", "--model", "small.toml", "--dataset", "synthetic", "--out", "whole", "--epochs", "4",
                 "--batch", "2", "--consistency", "bsp"},
                {{"STARPU_NCPU", "2"}})
                .code,
            0);
  ASSERT_EQ(
      stop_within_an_epoch({"--epochs", "4", "--batch", "2", "--consistency", "bsp"}, {{"STARPU_NCPU", "2"}}).code,
      128 + SIGTERM);
  ASSERT_EQ(resume({}, {{"STARPU_NCPU", "3"}}).code, 0);
  expect_same("whole", "run");
  EXPECT_EQ(summary()["workers"].size(), 3u);
}

// A second run of three workers goes on with a first one's two; what a worker that is gone did stays in the sums.
TEST_F(Resumed, AddsUpOverWorkersThatComeAndGo) {
  ASSERT_EQ(stop_within_an_epoch({"--epochs", "3", "--batch", "2"}, {{"STARPU_NCPU", "2"}}).code, 128 + SIGTERM);
  ASSERT_EQ(resume({}, {{"STARPU_NCPU", "1"}}).code, 0);
  const json s = summary();
  std::uint64_t samples = 0, histogram = 0;
  double share = 0;
  for (const auto& w : s["workers"]) {
    samples += w["samples"].get<std::uint64_t>();
    share += w["share"].get<double>();
    for (const auto& n : w["staleness"]["histogram"]) histogram += n.get<std::uint64_t>();
  }
  EXPECT_EQ(s["workers"].size(), 2u);
  EXPECT_EQ(s["samples"], 3 * 6000);
  EXPECT_EQ(samples, 3u * 6000);
  EXPECT_EQ(histogram, 3u * 3000);
  EXPECT_NEAR(share, 1, 1e-9);
}

TEST_F(Resumed, FinishedRunIsGoneOnWithOnlyForMoreEpochs) {
  ASSERT_EQ(train({"--epochs", "2", "--lr-schedule", "constant"}).code, 0);
  const std::string before = read(folder() / "run/checkpoint/state.json");
  ASSERT_EQ(resume().code, 0);
  EXPECT_EQ(read(folder() / "run/checkpoint/state.json"), before);
  EXPECT_EQ(lines("run").size(), 2u);
  expect_refused(resume({"--epochs", "1"}), {"--epochs", "1", "2"});
  // The warm-up is that of the run as it was begun: a fifth of two epochs.
  ASSERT_EQ(resume({"--epochs", "4"}).code, 0);
  ASSERT_EQ(run({"train", "--model", "small.toml", "--dataset", "synthetic", "--out", "whole", "--epochs", "4",
                 "--lr-schedule", "constant", "--lr-warmup", std::to_string(summary()["lr_warmup"].get<int>())})
                .code,
            0);
  expect_same("whole", "run");
  EXPECT_EQ(lines("run").size(), 4u);
}

TEST_F(Resumed, RefusesWhatWouldChangeTheResultByNameWithBothValues) {
  ASSERT_EQ(train({"--epochs", "1", "--lr", "0.02"}).code, 0);
  write("other.toml", std::string(kNetwork) + "[defaults]\nepochs = 7\n");
  for (const Words& w : std::vector<Words>{{"--lr", "0.5", "0.02"},
                                           {"--batch", "10", "64"},
                                           {"--seed", "2", "1"},
                                           {"--momentum", "0.25", "0.9"},
                                           {"--weight-decay", "0.125", "0.0"},
                                           {"--lr-schedule", "constant", "cosine"},
                                           {"--lr-warmup", "3", "18"},
                                           {"--consistency", "bsp", "asp"},
                                           {"--share", "size", "count"},
                                           {"--delay-compensation", "0.5", "0.0"},
                                           {"--optimizer", "adam", "sgd"},
                                           {"--clip-norm", "0.5", "not given"},
                                           {"--epochs", "3", "1"},  // the cosine is of the whole run
                                           {"--model", "other.toml", "network.toml"}})
    expect_refused(resume({w[0], w[1]}), w);
  expect_refused(resume({"--staleness-aware-lr"}), {"--staleness-aware-lr", "true", "false"});
  expect_refused(resume({"--nesterov"}), {"--nesterov", "true", "false"});
  expect_refused(resume({"--tf32"}), {"--tf32", "true", "false"});
  expect_refused(resume({"--no-deterministic"}), {"--deterministic", "false", "not given"});
  for (const Words& harmless : std::vector<Words>{{"--lr", "0.02"},
                                                  {"--model", "small.toml"},
                                                  {"--progress", "off"},
                                                  {"--balance", "uniform"},
                                                  {"--replicas", "3"},
                                                  {"--keep-checkpoints", "1"},
                                                  {"--checkpoint-every", "5"}})
    EXPECT_EQ(resume(harmless).code, 0) << harmless[0];
}

TEST_F(Resumed, NeedsARunThatHasACheckpoint) {
  expect_refused(run({"train", "--resume"}), {"--out"});
  expect_refused(resume(), {"run", "no such"});
  fs::create_directory(folder() / "run");
  expect_refused(resume(), {"run", "no checkpoint", "--overwrite"});
  expect_refused(resume({"--overwrite"}), {"--resume", "--overwrite"});
  expect_refused(resume({"--init", "run"}), {"--resume", "--init"});
}

TEST_F(Resumed, RefusesOtherConstantsOfAdamAndOtherSteps) {
  ASSERT_EQ(train({"--epochs", "1", "--optimizer", "adam", "--lr-schedule", "step", "--lr-step-epochs", "2"}).code, 0);
  for (const Words& w : std::vector<Words>{{"--beta1", "0.5", "0.9"},
                                           {"--beta2", "0.5", "0.999"},
                                           {"--eps", "0.25", "1e-08"},
                                           {"--lr-step-epochs", "3", "2"},
                                           {"--lr-gamma", "0.5", "0.1"},
                                           {"--optimizer", "adamw", "adam"}})
    expect_refused(resume({w[0], w[1]}), w);
  EXPECT_EQ(resume({"--epochs", "2"}).code, 0);
}

// Killed between its first checkpoint and the link to it, or copied with links followed.
TEST_F(Resumed, GoesOnWithoutTheLink) {
  ASSERT_EQ(train({"--epochs", "2", "--lr-schedule", "constant"}).code, 0);
  ASSERT_TRUE(fs::remove(folder() / "run/checkpoint"));
  EXPECT_EQ(run({"eval", "run", "--dataset", "synthetic"}).code, 0);
  fs::copy(folder() / "run/checkpoints/2", folder() / "run/checkpoint");
  expect_refused(resume(), {"checkpoint", "link", "remove it"});
  fs::remove_all(folder() / "run/checkpoint");
  ASSERT_EQ(resume({"--epochs", "3"}).code, 0);
  EXPECT_EQ(fs::read_symlink(folder() / "run/checkpoint"), "checkpoints/3");
  EXPECT_EQ(lines("run").size(), 3u);
}

TEST_F(Resumed, KeepsTheLastCheckpoints) {
  for (const auto& [keep, number] : std::map<std::string, std::size_t>{{"1", 1}, {"3", 3}}) {
    ASSERT_EQ(train({"--epochs", "5", "--keep-checkpoints", keep, "--overwrite"}).code, 0);
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder() / "run/checkpoints"))
      names.push_back(entry.path().filename());
    EXPECT_EQ(names.size(), number);
    EXPECT_EQ(fs::read_symlink(folder() / "run/checkpoint"), "checkpoints/5");
  }
  expect_refused(train({"--keep-checkpoints", "0", "--overwrite"}), {"--keep-checkpoints"});
  expect_refused(train({"--checkpoint-every", "0", "--overwrite"}), {"--checkpoint-every"});
  expect_refused(train({"--checkpoint-every", "often", "--overwrite"}), {"--checkpoint-every"});
}

TEST_F(Resumed, WritesACheckpointEachNMinibatches) {
  // 94 mini-batches an epoch: after 40, 80, 120, ... 360 of 376, and at the end.
  ASSERT_EQ(train({"--epochs", "4", "--checkpoint-every", "40", "--keep-checkpoints", "100"}).code, 0);
  std::map<int, std::uint64_t> at;
  for (const auto& entry : fs::directory_iterator(folder() / "run/checkpoints"))
    at[std::stoi(entry.path().filename())] =
        json::parse(read(entry.path() / "state.json"))["position"]["updates"][0].get<std::uint64_t>();
  ASSERT_EQ(at.size(), 10u);
  for (int i = 1; i <= 9; ++i) EXPECT_EQ(at[i], 40u * static_cast<unsigned>(i));
  EXPECT_EQ(at[10], 376u);
}

// Each way of damage is refused with the file's name; nothing is changed by a run that is refused.
TEST_F(Resumed, RefusesADamagedCheckpoint) {
  ASSERT_EQ(train({"--epochs", "2"}).code, 0);
  const fs::path checkpoint = folder() / "run/checkpoint";
  const std::string metrics = read(folder() / "run/metrics.jsonl"), result = read(folder() / "run/summary.json");
  const auto refused = [&](const std::string& file, const std::string& content, Words words) {
    const std::string good = read(checkpoint / file);
    EXPECT_NE(content, good) << "no damage";
    std::ofstream(checkpoint / file, std::ios::binary) << content;
    words.push_back(file);
    SCOPED_TRACE(file + ": " + content.substr(0, 80));
    expect_refused(resume(), words);
    std::ofstream(checkpoint / file, std::ios::binary) << good;
    EXPECT_EQ(read(folder() / "run/metrics.jsonl"), metrics);
    EXPECT_EQ(read(folder() / "run/summary.json"), result);
  };
  for (const std::string file : {"model.safetensors", "optimizer.safetensors", "network.toml"}) {
    const std::string good = read(checkpoint / file);
    refused(file, good.substr(0, good.size() - 1), {"crc32"});
    std::string flipped = good;
    flipped[good.size() - 5] ^= 1;
    refused(file, flipped, {"crc32"});
    refused(file, "", {"crc32"});
    fs::rename(checkpoint / file, folder() / "away");
    expect_refused(resume(), {file, "missing"});
    fs::rename(folder() / "away", checkpoint / file);
  }
  const json state = json::parse(read(checkpoint / "state.json"));
  refused("state.json", "", {"damaged"});
  refused("state.json", "[1, 2]", {"damaged"});
  refused("state.json", state.dump().substr(0, 200), {"damaged"});
  const auto with = [&](const std::string& pointer, const json& value) {
    json changed = state;
    changed[json::json_pointer(pointer)] = value;
    return sealed(changed);
  };
  json flipped = state;
  flipped["position"]["updates"][0] = 3;
  refused("state.json", flipped.dump(), {"crc32"});
  refused("state.json", with("/format", 2), {"format 2", "1 is expected"});
  refused("state.json", with("/files", nullptr), {"crc32"});
  refused("state.json", with("/position", nullptr), {"damaged"});
  refused("state.json", with("/position/epoch", "one"), {"damaged"});
  refused("state.json", with("/position/epoch", 0), {"damaged"});
  refused("state.json", with("/position/epoch", 1000), {"damaged"});
  refused("state.json", with("/position/epoch_tally/samples", 6001), {"damaged"});
  refused("state.json", with("/position/updates", json::array({1})), {"damaged"});
  refused("state.json", with("/position/summary/workers", 3), {"damaged"});
  refused("state.json", with("/options", {{"magic", {"1"}}}), {"options", "magic"});
  refused("state.json", with("/options/epochs", 3), {"options"});
  EXPECT_EQ(resume().code, 0);
}

TEST_F(Resumed, LeavesTheRunDirectoryToTheRunThatIsInIt) {
  bool tried = false;
  const Output o =
      run({"train", "--model", "small.toml", "--dataset", "synthetic", "--out", "run", "--epochs", "100000"}, {},
          [&](pid_t program) {
            if (tried || !fs::exists(folder() / "run/checkpoint")) return;
            tried = true;
            expect_refused(resume(), {"run", "another run"});
            expect_refused(train({"--overwrite"}), {"run", "another run"});
            kill(program, SIGINT);
          });
  EXPECT_TRUE(tried);
  EXPECT_EQ(o.code, 128 + SIGINT);
}

// Files may grow to so many bytes, which stops the run as a full disk does; the checkpoint before stays whole.
TEST_F(Resumed, KeepsItsCheckpointWhereTheDiskIsFull) {
  ASSERT_EQ(train({"--epochs", "1", "--lr-schedule", "constant"}).code, 0);
  const std::string model = read(folder() / "run/checkpoint/model.safetensors");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{600, before.rlim_max};  // bytes; the parameters have more
  setrlimit(RLIMIT_FSIZE, &full);
  std::signal(SIGXFSZ, SIG_IGN);
  const Output o = resume({"--epochs", "3", "--quiet"});
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(o.code, 1) << o.err;
  EXPECT_NE(o.err.find("cannot be written"), std::string::npos) << o.err;
  EXPECT_EQ(read(folder() / "run/checkpoint/model.safetensors"), model);
  for (const auto& entry : fs::directory_iterator(folder() / "run/checkpoints"))
    EXPECT_NE(entry.path().extension(), ".tmp");
  // StarPU's models were cut off as well, and it does not read such files.
  const Output again = resume({"--epochs", "3"}, {{"STARPU_PERF_MODEL_DIR", (folder() / "other-models").string()}});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(lines("run").size(), 3u);
}

TEST_F(Resumed, RefusesAFolderThatItMayNotWrite) {
  expect_refused(run({"train", "--model", "small.toml", "--dataset", "synthetic", "--out", "/proc/run"}),
                 {"/proc/run"});
  if (geteuid() == 0)
    GTEST_SKIP() << "root may write everywhere: --resume in a folder without permission is not tested";
  ASSERT_EQ(train({"--epochs", "1"}).code, 0);
  fs::permissions(folder() / "run/metrics.jsonl", fs::perms::owner_read);
  expect_refused(resume(), {"metrics.jsonl", "cannot be written"});
}

TEST_F(Resumed, StartsFromGivenParameters) {
  ASSERT_EQ(train({"--epochs", "1"}).code, 0);
  const std::string model = read(folder() / "run/checkpoint/model.safetensors");
  const auto begun_with = [&](const std::string& init) {
    return run({"train", "--model", "small.toml", "--dataset", "synthetic", "--out", "next", "--overwrite", "--epochs",
                "1", "--lr", "1e-30", "--init", init});
  };
  // With steps that are lost in rounding the parameters stay what they were.
  for (const char* init : {"run", "run/checkpoint", "run/checkpoint/model.safetensors"}) {
    ASSERT_EQ(begun_with(init).code, 0);
    EXPECT_EQ(read(folder() / "next/checkpoint/model.safetensors"), model);
  }
  EXPECT_EQ(json::parse(read(folder() / "next/summary.json"))["init"], "run/checkpoint/model.safetensors");
  expect_refused(begun_with("none"), {"none"});
  expect_refused(run({"train", "--model", "mlp", "--out", "mlp", "--init", "run"}), {"model.safetensors", "mlp"});
  EXPECT_FALSE(fs::exists(folder() / "mlp"));
}

}  // namespace
}  // namespace prorata::test
