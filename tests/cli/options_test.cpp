// Every option does what it says, and refuses what it cannot take.
#include "tests/cli/program.h"

namespace prorata::test {
namespace {

using Words = std::vector<std::string>;

TEST_F(Program, HelpAndVersionNeedNothingElse) {
  for (const Words& a : std::vector<Words>{{"--help"},
                                           {"train", "--help"},
                                           {"compare", "--help"},
                                           {"eval", "--help"},
                                           {"devices", "--help"},
                                           {"calibrate", "--help"},
                                           {"--version"}}) {
    const Output o = run(a);
    EXPECT_EQ(o.code, 0);
    EXPECT_NE(o.out, "");
    EXPECT_EQ(o.err, "");
  }
}

TEST_F(Program, RefusesWhatItDoesNotKnow) {
  expect_refused(run({}), {"subcommand"});
  expect_refused(run({"fly"}), {"subcommand"});
  expect_refused(run({"train", "--bogus"}), {"--bogus"});
}

TEST_F(Program, RefusesValuesOutOfRange) {
  const std::vector<Words> wrong = {{"--epochs", "0"},
                                    {"--epochs", "many"},
                                    {"--batch", "0"},
                                    {"--batch", "70000"},
                                    {"--lr", "0"},
                                    {"--lr", "nan"},
                                    {"--lr", "-1"},
                                    {"--lr", "inf"},
                                    {"--momentum", "1.5"},
                                    {"--weight-decay", "-1"},
                                    {"--optimizer", "magic"},
                                    {"--beta1", "1"},
                                    {"--eps", "-1"},
                                    {"--clip-norm", "0"},
                                    {"--lr-gamma", "0"},
                                    {"--lr-step-epochs", "0"},
                                    {"--seed", "-3"},
                                    {"--balance", "fair"},
                                    {"--share", "half"},
                                    {"--consistency", "none"},
                                    {"--round", "0"},
                                    {"--replicas", "0"},
                                    {"--progress", "maybe"},
                                    {"--slowdown", "1"},
                                    {"--slowdown", "1:0.5"},
                                    {"--slowdown", "1:2,1:3"},
                                    {"--slowdown", "a:2"},
                                    {"--slowdown", "0:2,"},
                                    {"--slowdown", "-1:2"},
                                    {"--lr-schedule", "steps"},
                                    {"--lr-warmup", "-1"},
                                    {"--dataset", "cats"},
                                    {"--epochs"}};
  for (const Words& w : wrong) {
    Words arguments{"train"};
    arguments.insert(arguments.end(), w.begin(), w.end());
    expect_refused(run(arguments), {w[0]});
  }
}

TEST_F(Program, RefusesToSlowAWorkerThatIsNotThere) {
  expect_refused(train({"--slowdown", "7:2"}), {"--slowdown", "7"});
  EXPECT_FALSE(std::filesystem::exists(folder() / "run"));
}

TEST_F(Program, TakesEachTrainingOptionIntoTheSummary) {
  Words options = {"--no-deterministic"};
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"--epochs", "2"},
                                                                                    {"--batch", "50"},
                                                                                    {"--lr", "0.03"},
                                                                                    {"--lr-schedule", "constant"},
                                                                                    {"--lr-warmup", "7"},
                                                                                    {"--momentum", "0.5"},
                                                                                    {"--optimizer", "sgd"},
                                                                                    {"--seed", "9"},
                                                                                    {"--weight-decay", "0.001"},
                                                                                    {"--balance", "dynamic"},
                                                                                    {"--share", "count"},
                                                                                    {"--round", "5"},
                                                                                    {"--consistency", "asp"},
                                                                                    {"--replicas", "3"}})
    options.insert(options.end(), {name, value});
  const Output o = train(options);
  ASSERT_EQ(o.code, 0) << o.err;
  const auto s = summary();
  EXPECT_EQ(s["epochs"], 2);
  EXPECT_EQ(s["batch"], 50);
  EXPECT_EQ(s["learning_rate"], 0.03);
  EXPECT_EQ(s["momentum"], 0.5);
  EXPECT_EQ(s["weight_decay"], 0.001);
  EXPECT_EQ(s["optimizer"], "sgd");
  EXPECT_EQ(s["lr_schedule"], "constant");
  EXPECT_EQ(s["lr_warmup"], 7);
  EXPECT_EQ(s["seed"], 9);
  EXPECT_EQ(s["balance"], "dynamic");
  EXPECT_EQ(s["share"], "count");
  EXPECT_EQ(s["consistency"], "asp");
  EXPECT_EQ(s["replicas"], 3);
  EXPECT_EQ(s["deterministic"], false);
  EXPECT_EQ(s["emulated"], false);
  EXPECT_EQ(s["minibatches"], 2 * 6000 / 50);
}

TEST_F(Program, TakesTheOptimizerIntoTheSummary) {
  ASSERT_EQ(train(
                {"--epochs", "1", "--nesterov", "--momentum", "0.5", "--lr-schedule", "step", "--lr-step-epochs", "2"})
                .code,
            0);
  auto s = summary();
  EXPECT_EQ(s["nesterov"], true);
  EXPECT_EQ(s["lr_schedule"], "step");
  EXPECT_EQ(s["lr_step_epochs"], 2);
  EXPECT_EQ(s["lr_gamma"], 0.1);
  for (const char* name : {"betas", "eps", "clip_norm"}) EXPECT_TRUE(s[name].is_null()) << name;

  // Three workers: with sgd each would have a momentum of its own.
  ASSERT_EQ(train({"--epochs", "1", "--overwrite", "--optimizer", "adamw", "--beta1", "0.8", "--eps", "1e-7",
                   "--clip-norm", "2.5", "--delay-compensation", "0.04", "--staleness-aware-lr"},
                  {{"STARPU_NCPU", "3"}})
                .code,
            0);
  s = summary();
  EXPECT_EQ(s["optimizer"], "adamw");
  EXPECT_EQ(s["learning_rate"], 0.001);
  EXPECT_EQ(s["weight_decay"], 0.01);
  EXPECT_EQ(s["betas"], nlohmann::json({0.8, 0.999}));
  EXPECT_EQ(s["eps"], 1e-7);
  EXPECT_EQ(s["clip_norm"], 2.5);
  EXPECT_EQ(s["dana"], false);
  for (const char* name : {"momentum", "effective_momentum", "nesterov", "lr_gamma"})
    EXPECT_TRUE(s[name].is_null()) << name;
}

TEST_F(Program, RefusesWhatIsAnotherOptimizersOrSchedules) {
  for (const auto& [words, name] : std::vector<std::pair<Words, std::string>>{
           {{"--optimizer", "adam", "--momentum", "0.9"}, "--momentum"},
           {{"--optimizer", "adam", "--nesterov"}, "--nesterov"},
           {{"--optimizer", "adam", "--momentum-correction"}, "--momentum-correction"},
           {{"--optimizer", "adam", "--dana"}, "--dana"},
           {{"--dana", "--momentum", "0"}, "--dana"},
           {{"--dana", "--consistency", "bsp"}, "--dana"},
           {{"--beta1", "0.5"}, "--beta1"},
           {{"--beta2", "0.5"}, "--beta2"},
           {{"--eps", "1"}, "--eps"},
           {{"--nesterov", "--momentum", "0"}, "--nesterov"},
           {{"--lr-schedule", "step"}, "--lr-step-epochs"},
           {{"--lr-step-epochs", "3"}, "--lr-step-epochs"},
           {{"--lr-gamma", "0.5"}, "--lr-gamma"}})
    expect_refused(train(words), {name});
}

TEST_F(Program, TakesTheOptimizerFromTheNetworksFile) {
  std::string network = kNetwork;
  network.insert(network.find("[[layer]]"),
                 "[defaults]\nepochs = 1\noptimizer = \"adam\"\nlr_schedule = \"step\"\nlr_step_epochs = 1\n");
  write("other.toml", network);
  const auto run_with = [&](const Words& more) {
    Words words = {"train", "--model", "other.toml", "--dataset", "synthetic", "--out", "run", "--overwrite"};
    words.insert(words.end(), more.begin(), more.end());
    const Output o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return summary();
  };
  const auto as_said = run_with({});
  EXPECT_EQ(as_said["optimizer"], "adam");
  EXPECT_EQ(as_said["learning_rate"], 0.001);
  EXPECT_EQ(as_said["lr_schedule"], "step");
  const auto another = run_with({"--optimizer", "sgd", "--lr-schedule", "cosine"});
  EXPECT_EQ(another["learning_rate"], 0.02);
  EXPECT_EQ(another["momentum"], 0.9);
}

// What nobody gave depends on the run.
TEST_F(Program, ChoosesDeterminismAndMomentumByTheWorkers) {
  struct Case {
    Words options;
    const char* cpus;
    bool deterministic, dana;
    double momentum;
  };
  for (const Case& c : std::vector<Case>{{{}, "1", true, false, 0.9},
                                         {{}, "3", false, true, 0.9},
                                         {{"--consistency", "bsp"}, "3", true, false, 0.9},
                                         {{"--consistency", "ssp", "--staleness", "0"}, "3", false, false, 0.9},
                                         {{"--no-dana"}, "3", false, false, 0.9},
                                         {{"--dana"}, "1", true, true, 0.9},
                                         {{"--momentum-correction"}, "2", false, false, 0.8},
                                         {{"--momentum-correction", "--dana"}, "2", false, true, 0.8},
                                         {{"--deterministic"}, "2", true, true, 0.9},
                                         {{"--no-deterministic"}, "1", false, false, 0.9}}) {
    Words options = {"--epochs", "1", "--momentum", "0.9", "--overwrite"};
    options.insert(options.end(), c.options.begin(), c.options.end());
    const Output o = train(options, {{"STARPU_NCPU", c.cpus}});
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(summary()["deterministic"], c.deterministic) << ::testing::PrintToString(options);
    EXPECT_EQ(summary()["dana"], c.dana) << ::testing::PrintToString(options);
    EXPECT_NEAR(summary()["effective_momentum"], c.momentum, 1e-9) << ::testing::PrintToString(options);
  }
}

TEST_F(Program, AccumulatesGradients) {
  const Output o = train({"--epochs", "1", "--batch", "50", "--accumulate", "4"}, {{"STARPU_NCPU", "2"}});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(summary()["batch"], 50);
  EXPECT_EQ(summary()["accumulate"], 4);
  EXPECT_EQ(summary()["minibatches"], 30);
  EXPECT_EQ(summary()["samples"], 6000);
  expect_refused(run({"train", "--resume", "--out", "run", "--accumulate", "2"}), {"--accumulate is 2 and was 4"});
  expect_refused(run({"train", "--accumulate", "0"}), {"--accumulate"});
  expect_refused(
      run({"train", "--model", "resnet20", "--dataset", "synthetic", "--consistency", "bsp", "--accumulate", "2"}),
      {"--accumulate", "batch_norm", "--round"});
}

TEST_F(Program, TakesOptionsFromAFileAndTheCommandLineWins) {
  write("run.toml", "epochs = 2\nlr = 0.5\nseed = 4\n[train]\nbatch = 100\nno-such-thing-elsewhere = false\n");
  expect_refused(train({"--config", "run.toml"}), {"run.toml:6", "no-such-thing-elsewhere"});
  write("run.toml", "epochs = 2\nlr = 0.5\nseed = 4\n[train]\nbatch = 100\nbalance = \"uniform\"\n[eval]\nbatch = 7\n");
  const Output o = train({"--config", "run.toml", "--lr", "0.01"});
  ASSERT_EQ(o.code, 0) << o.err;
  const auto s = summary();
  EXPECT_EQ(s["epochs"], 2);
  EXPECT_EQ(s["learning_rate"], 0.01);
  EXPECT_EQ(s["seed"], 4);
  EXPECT_EQ(s["batch"], 100);
  EXPECT_EQ(s["balance"], "uniform");
}

TEST_F(Program, RefusesAFileOfOptionsThatIsWrong) {
  expect_refused(train({"--config", "none.toml"}), {"none.toml"});
  write("bad.toml", "epochs = \n");
  expect_refused(train({"--config", "bad.toml"}), {"bad.toml:1"});
  write("bad.toml", "seed = 1\nepochs = 0\n");
  expect_refused(train({"--config", "bad.toml"}), {"bad.toml:2", "epochs"});
  write("bad.toml", "epochs = [1]\n");
  expect_refused(train({"--config", "bad.toml"}), {"bad.toml:1"});
}

TEST_F(Program, KeepsItsStreamsApart) {
  const Output json = train({"--epochs", "1", "--json"});
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(nlohmann::json::parse(json.out), summary());
  EXPECT_NE(json.err, "");
  EXPECT_EQ(json.err.find("[starpu]"), std::string::npos) << json.err;
  const Output quiet = train({"--epochs", "1", "--quiet", "--overwrite"});
  EXPECT_EQ(quiet.err, "");
  EXPECT_NE(quiet.out.find("test accuracy"), std::string::npos);
}

TEST_F(Program, ShowsALiveLineOnlyWhereItIsWanted) {
  EXPECT_NE(train({"--epochs", "1", "--batch", "1", "--progress", "on"}).err.find('\r'), std::string::npos);
  EXPECT_EQ(train({"--epochs", "1", "--progress", "off", "--overwrite"}).err.find('\r'), std::string::npos);
  EXPECT_EQ(train({"--epochs", "1", "--overwrite"}).err.find('\r'), std::string::npos);  // standard error is a file
}

TEST_F(Program, NeverOverwritesAResultUnasked) {
  ASSERT_EQ(train({"--epochs", "1"}).code, 0);
  const std::string before = read(folder() / "run" / "summary.json");
  expect_refused(train({"--epochs", "1"}), {"run", "--overwrite"});
  EXPECT_EQ(read(folder() / "run" / "summary.json"), before);
  EXPECT_EQ(train({"--epochs", "2", "--overwrite"}).code, 0);
  EXPECT_EQ(summary()["epochs"], 2);
  write("file", "x");
  for (const char* out : {"file", "file/below"})
    expect_refused(run({"train", "--model", "small.toml", "--dataset", "synthetic", "--out", out}), {out, "--out"});
}

TEST_F(Program, NamesTheRunDirectoryByModelAndTime) {
  const Output o = run({"train", "--model", "small.toml", "--dataset", "synthetic", "--epochs", "1"});
  ASSERT_EQ(o.code, 0) << o.err;
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder() / "runs"))
    found += entry.path().filename().string().starts_with("small-");
  EXPECT_EQ(found, 1);
}

TEST_F(Program, ShowsTheMachineAndItsWorkers) {
  const Output text = run({"devices"}, {{"STARPU_NCPU", "2"}});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("2 worker(s)"), std::string::npos);
  const auto json = nlohmann::json::parse(run({"devices", "--json"}, {{"STARPU_NCPU", "2"}}).out);
  ASSERT_EQ(json["workers"].size(), 2u);
  EXPECT_EQ(json["workers"][1]["kind"], "cpu");
  EXPECT_GE(json["host"]["cores"].get<int>(), 1);
}

}  // namespace
}  // namespace prorata::test
