// What a trained network says of samples.
#include "tests/cli/program.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace prorata::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

class Predict : public Program {
 protected:
  static std::vector<json> lines(const std::string& text) {
    std::vector<json> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) all.push_back(json::parse(line));
    return all;
  }
};

// Two workers classify as many samples right as the run's summary says, in the samples' order.
TEST_F(Predict, ClassifiesTheTestSetAsTrainingDid) {
  ASSERT_EQ(train({"--epochs", "1"}).code, 0);
  const Output o = run({"predict", "run", "--dataset", "synthetic"}, {{"STARPU_NCPU", "2"}});
  ASSERT_EQ(o.code, 0) << o.err;
  const std::vector<json> all = lines(o.out);
  ASSERT_EQ(all.size(), 1000u);
  int correct = 0;
  double loss = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto p = all[i]["probabilities"].get<std::vector<double>>();
    ASSERT_EQ(p.size(), 3u);
    EXPECT_EQ(all[i]["index"], i);
    EXPECT_NEAR(p[0] + p[1] + p[2], 1, 1e-12);
    EXPECT_EQ(*std::max_element(p.begin(), p.end()), p[all[i]["class"].get<std::size_t>()]);
    correct += all[i]["class"] == all[i]["label"];
    loss -= std::log(p[all[i]["label"].get<std::size_t>()]) / 1000;
  }
  EXPECT_EQ(correct / 1000.0, summary()["test_accuracy"]);
  // The kernel's softmax is in single precision.
  EXPECT_NEAR(loss, summary()["test_loss"].get<double>(), 1e-5);
}

TEST_F(Predict, GivesTheImagesShapeToANetworkThatLeavesItOpen) {
  write("open.toml", "name = \"open\"\n[[layer]]\ntype = \"dense\"\n");
  write("closed.toml", "name = \"closed\"\ninput = [6, 6, 1]\nclasses = 10\n[[layer]]\ntype = \"dense\"\n");
  ASSERT_EQ(run({"train", "--model", "closed.toml", "--dataset", "synthetic", "--epochs", "1", "--out", "run"}).code,
            0);
  const std::string header("\0\0\x08\x03\0\0\0\x01\0\0\0", 11);
  const auto predict = [&] {
    return run({"predict", "run/checkpoint/model.safetensors", "--model", "open.toml", "one.idx"});
  };
  write("one.idx", header + std::string("\x06\0\0\0\x06", 5) + std::string(36, '\1'));
  EXPECT_EQ(predict().code, 0);
  write("one.idx", header + std::string("\x05\0\0\0\x06", 5) + std::string(30, '\1'));
  expect_refused(predict(), {"model.safetensors", "30"});
}

TEST_F(Predict, TakesAFileOfImages) {
  ASSERT_EQ(train({"--epochs", "1"}).code, 0);
  const std::string header("\0\0\x08\x03\0\0\0\x02\0\0\0\x06\0\0\0\x06", 16);
  std::string rising;  // no filter of 3 x 3 is blind to all of such
  for (int i = 0; i < 36; ++i) rising.push_back(static_cast<char>(i * i % 251));
  write("two.idx", header + std::string(36, '\0') + rising);
  const Output o = run({"predict", "run", "two.idx"});
  ASSERT_EQ(o.code, 0) << o.err;
  const std::vector<json> all = lines(o.out);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1]["index"], 1);
  EXPECT_FALSE(all[0].contains("label"));
  EXPECT_NE(all[0]["probabilities"], all[1]["probabilities"]);
  write("two.idx", header + std::string(36, '\x10'));
  expect_refused(run({"predict", "run", "two.idx"}), {"two.idx", "truncated"});
  write("two.idx", std::string("\0\0\x08\x03\0\0\0\x01\0\0\0\x09\0\0\0\x04", 16) + std::string(36, '\x10'));
  expect_refused(run({"predict", "run", "two.idx"}), {"two.idx", "[9, 4, 1]", "[6, 6, 1]"});
  expect_refused(run({"predict", "run", "none.idx"}), {"none.idx"});
  expect_refused(run({"predict"}), {"checkpoint"});
}

TEST_F(Predict, EvaluationIsSharedByAllWorkers) {
  ASSERT_EQ(train({"--epochs", "1"}).code, 0);
  const Output o = run({"eval", "run", "--dataset", "synthetic", "--batch", "10", "--json"}, {{"STARPU_NCPU", "2"}});
  ASSERT_EQ(o.code, 0) << o.err;
  const json result = json::parse(o.out);
  for (const char* name : {"model", "dataset", "checkpoint", "batch", "samples", "test_loss", "test_accuracy",
                           "wall_seconds", "samples_per_second", "scheduler", "workers"})
    EXPECT_TRUE(result.contains(name)) << name;
  EXPECT_EQ(result["test_accuracy"], summary()["test_accuracy"]);
  ASSERT_EQ(result["workers"].size(), 2u);
  std::uint64_t samples = 0, minibatches = 0;
  for (const json& w : result["workers"]) {
    EXPECT_GT(w["minibatches"], 0) << "nothing was dealt to " << w["name"];
    samples += w["samples"].get<std::uint64_t>();
    minibatches += w["minibatches"].get<std::uint64_t>();
  }
  EXPECT_EQ(samples, 1000u);
  EXPECT_EQ(minibatches, 100u);
}

// The network that was trained is kept with its parameters.
TEST_F(Predict, KnowsItsNetwork) {
  ASSERT_EQ(train({"--epochs", "1"}).code, 0);
  std::filesystem::remove(folder() / "small.toml");
  const Output o = run({"eval", "run", "--dataset", "synthetic", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(json::parse(o.out)["model"], "small");
  expect_refused(run({"eval", "run", "--model", "mlp"}), {"model.safetensors", "mlp"});
}

}  // namespace
}  // namespace prorata::test
