#include "models/graph.h"

#include "tests/tiny_networks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace prorata {
namespace {

TEST(Layers, FusesReluIntoDenseAndConvolutionAndLeavesOutFlatten) {
  const auto operations = make_operations(test::every_layer());
  std::vector<std::string> names;
  for (const auto& op : operations) names.push_back(op->name());
  EXPECT_EQ(names, (std::vector<std::string>{"conv1", "2", "3", "conv2", "fc1", "fc2"}));
}

TEST(Layers, ReadTheValuesThatTheirInputsNameAndFuseAReluThatAloneReads) {
  const auto operations = make_operations(test::residual());
  struct Expected {
    std::string name;
    std::vector<std::size_t> reads;
  };
  // The stem has three readers, so its relu stays; those of conv1, add2, conv3 and conv4 are fused.
  const std::vector<Expected> expected = {{"stem", {kNetworkInput}}, {"1", {0}},       {"conv1", {0}}, {"conv2", {0}},
                                          {"add1", {2, 3}},          {"add2", {4, 1}}, {"conv3", {5}}, {"conv4", {5}},
                                          {"add3", {6, 7}},          {"pool", {8}},    {"mean", {9}},  {"fc", {10}}};
  ASSERT_EQ(operations.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(operations[i]->name(), expected[i].name);
    EXPECT_EQ(operations[i]->reads(), expected[i].reads) << expected[i].name;
  }
}

TEST(Layers, CountsParametersAsPyTorchDoes) {
  const auto operations = make_operations(test::every_layer());
  EXPECT_EQ(operations[0]->parameter_count(), 3u * 2 * 3 * 3 + 3);
  EXPECT_EQ(operations[1]->parameter_count(), 0u);
  EXPECT_EQ(operations[4]->parameter_count(), 20u * 7 + 7);
}

TEST(Layers, MapsPyTorchsWeightsOneToOne) {
  const auto operations = make_operations(test::every_layer());
  ImageShape before{9, 8, 2};
  for (const auto& op : operations) {
    std::set<std::size_t> places;
    for (std::size_t i = 0; i < op->weight_count(); ++i) places.insert(op->torch_weight_index(i, before));
    before = op->output();
    EXPECT_EQ(places.size(), op->weight_count()) << op->name();
    if (!places.empty()) {
      EXPECT_EQ(*places.rbegin(), op->weight_count() - 1) << op->name();
    }
  }
}

TEST(Layers, PutsConvolutionWeightsChannelsLast) {
  const auto operations = make_operations(test::every_layer());
  const Operation& conv = *operations[0];  // PyTorch: [3, 2, 3, 3]; ours: [3, 3, 3, 2]
  const auto torch = [](std::size_t o, std::size_t i, std::size_t h, std::size_t w) {
    return ((o * 2 + i) * 3 + h) * 3 + w;
  };
  const auto ours = [](std::size_t o, std::size_t i, std::size_t h, std::size_t w) {
    return ((o * 3 + h) * 3 + w) * 2 + i;
  };
  for (std::size_t o = 0; o < 3; ++o)
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t h = 0; h < 3; ++h)
        for (std::size_t w = 0; w < 3; ++w) EXPECT_EQ(conv.torch_weight_index(torch(o, i, h, w), {}), ours(o, i, h, w));
}

TEST(Layers, OrdersFlattenedInputsChannelsFirstForPyTorch) {
  const auto operations = make_operations(test::every_layer());
  const Operation& dense = *operations[4];  // 20 inputs, from [2, 2, 5] = [height, width, channel]
  for (std::size_t unit = 0; unit < 7; ++unit)
    for (std::size_t h = 0; h < 2; ++h)
      for (std::size_t w = 0; w < 2; ++w)
        for (std::size_t c = 0; c < 5; ++c)
          EXPECT_EQ(dense.torch_weight_index(unit * 20 + (c * 2 + h) * 2 + w, {2, 2, 5}),
                    unit * 20 + (h * 2 + w) * 5 + c);
}

TEST(Layers, InitializesWithinHesBoundAndBiasesToZero) {
  const auto operations = make_operations(test::every_layer());
  for (const auto& op : operations) {
    if (op->parameter_count() == 0) continue;
    std::vector<float> params(op->parameter_count(), NAN);
    Random random(1, 1);
    op->initialize(params, random);
    const double bound =
        std::sqrt(6.0 * static_cast<double>(op->bias_count()) / static_cast<double>(op->weight_count()));
    double sum_of_squares = 0;
    for (std::size_t i = 0; i < op->weight_count(); ++i) {
      EXPECT_LE(std::abs(params[i]), bound);
      sum_of_squares += static_cast<double>(params[i]) * params[i];
    }
    // A uniform within +-b has the variance b^2 / 3; with a few dozen weights it is met within a factor of two.
    const double variance = sum_of_squares / static_cast<double>(op->weight_count());
    EXPECT_GT(variance, bound * bound / 6);
    EXPECT_LT(variance, bound * bound / 1.5);
    for (std::size_t i = op->weight_count(); i < params.size(); ++i) EXPECT_EQ(params[i], 0);
  }
}

}  // namespace
}  // namespace prorata
