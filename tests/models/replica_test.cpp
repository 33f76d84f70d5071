// The task group of a mini-batch: that its gradient is the network's, and that it does what it says.
#include "models/replica.h"

#include "driver/evaluation.h"
#include "driver/trainer.h"
#include "models/random.h"
#include "tests/models/samples.h"
#include "tests/starpu_fixture.h"
#include "tests/tiny_networks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace prorata {
namespace {

using test::copy_of;
using test::random_samples;
using test::WithStarpu;

Pass training_pass(const SampleHandles& handles, std::span<const std::uint32_t> order, UpdateStep step) {
  return {.kind = GroupKind::train,
          .data = handles.source(),
          .order = order,
          .step = [step](std::size_t) { return step; },
          .balance = PRORATA_PRORATA,
          .round = 0,
          .record = [](const MinibatchResult&) { return true; }};
}

void run(Trainer& trainer, const Pass& pass) {
  trainer.run(
      pass, [] { return false; }, [] {});
}

struct Differentiated {
  NetworkSpec (*spec)();
  std::size_t batch;
};

class GradientOfWholeNetwork : public WithStarpu, public ::testing::WithParamInterface<Differentiated> {};

// For each block, the slope of the mean loss along the gradient's own direction and along random ones.
//
// The loss is computed in float by the kernels themselves: its error of about 1e-7, over a step of 2e-4 in all, is
// 5e-4; a longer step crosses kinks of relu and max_pool (at 3e-4 one of them already costs 2 %). The gradients here
// are 0.3 to 1.5 long, so 1 % of the length is the tolerance; a wrong term is an error of order 1.
TEST_P(GradientOfWholeNetwork, AgreesWithFiniteDifferences) {
  const std::size_t batch = GetParam().batch;
  start(1);
  NetworkSpec spec = GetParam().spec();
  const Samples samples = random_samples(spec, batch, 5);
  Network network(spec, 3);
  const SampleHandles handles(samples);
  std::vector<std::uint32_t> order(batch);
  std::iota(order.begin(), order.end(), 0u);
  Trainer trainer(network, {static_cast<std::int32_t>(batch), 1});
  // Of training, where a batch normalisation goes by the mini-batch.
  const auto loss = [&] {
    double sum = 0;
    Pass pass = training_pass(handles, order, {.learning_rate = 0, .momentum = 0, .weight_decay = 0});
    pass.record = [&sum](const MinibatchResult& m) {
      sum += m.loss;
      return true;
    };
    run(trainer, pass);
    return sum / static_cast<double>(batch);
  };

  loss();
  for (std::size_t i = 0; i < network.depth(); ++i) {
    ParameterBlock* block = network.parameters(i);
    if (!block) continue;
    const std::vector<float> gradient = copy_of(trainer.replica(0).gradient(i), block->values.count);
    double length = 0;
    for (float g : gradient) length += static_cast<double>(g) * g;
    length = std::sqrt(length);
    ASSERT_GT(length, 0.2) << network.operation(i).name() << ": too flat to compare anything";

    const std::vector<float> values(block->values.span().begin(), block->values.span().end());
    Random random(11, i);
    for (int direction = 0; direction < 4; ++direction) {
      std::vector<double> d(gradient.size());
      double norm = 0;
      for (std::size_t j = 0; j < d.size(); ++j) {
        d[j] = direction == 0 ? gradient[j] : random.uniform() - 0.5;
        norm += d[j] * d[j];
      }
      norm = std::sqrt(norm);
      double expected = 0;
      for (std::size_t j = 0; j < d.size(); ++j) expected += gradient[j] * (d[j] /= norm);

      constexpr double kStep = 1e-4;
      const auto loss_at = [&](double step) {
        for (std::size_t j = 0; j < d.size(); ++j) block->values.data[j] = static_cast<float>(values[j] + step * d[j]);
        return loss();
      };
      const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      loss_at(0);
      EXPECT_NEAR(slope, expected, 0.01 * length) << network.operation(i).name() << ", direction " << direction;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, GradientOfWholeNetwork,
                         ::testing::Values(Differentiated{test::every_layer, 1}, Differentiated{test::every_layer, 3},
                                           Differentiated{test::every_layer, 16}, Differentiated{test::residual, 1},
                                           Differentiated{test::residual, 3}, Differentiated{test::residual, 16},
                                           Differentiated{test::skip_from_input, 3},
                                           Differentiated{test::normalized, 4}, Differentiated{test::normalized, 16},
                                           Differentiated{test::dropout, 16}),
                         [](const auto& tested) {
                           return tested.param.spec().name.substr(0, 4) + "_" + std::to_string(tested.param.batch);
                         });

// With out = (x + x) + x the gradient of x, and of all before it, is three times that with out = x.
TEST_F(WithStarpu, AValueThatSeveralReadGetsTheSumOfTheirGradients) {
  start(1);
  const ImageShape flat{1, 1, 3};
  NetworkSpec one;
  one.name = "one";
  one.input = {2, 2, 1};
  one.classes = 3;
  one.layers = {test::layer("fc", DenseSpec{3}, one.input, flat)};
  NetworkSpec thrice = one;
  thrice.layers.push_back(test::layer("twice", AddSpec{}, flat, flat, {0, 0}));
  thrice.layers.push_back(test::layer("thrice", AddSpec{}, flat, flat, {1, 0}));
  const Samples samples = random_samples(one, 4, 5);
  const SampleHandles handles(samples);
  const std::vector<std::uint32_t> order = {0, 1, 2, 3};
  std::vector<std::vector<float>> gradients;
  for (const NetworkSpec& spec : {one, thrice}) {
    Network network(spec, 3);
    // With weights of 0 the loss has the same gradient for the outputs of both.
    std::ranges::fill(network.parameters(0)->values.span(), 0.0f);
    Trainer trainer(network, {4, 1});
    run(trainer, training_pass(handles, order, {.learning_rate = 0, .momentum = 0, .weight_decay = 0}));
    gradients.push_back(copy_of(trainer.replica(0).gradient(0), network.parameters(0)->values.count));
  }
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    EXPECT_NE(gradients[0][i], 0.0f);
    // Three roundings of float, on numbers below 1.
    EXPECT_NEAR(gradients[1][i], 3 * gradients[0][i], 1e-6) << i;
  }
}

TEST_F(WithStarpu, ReplicaOfALargerBatchGivesTheSameGradientForAPartialOne) {
  start(1);
  NetworkSpec spec = test::every_layer();
  const Samples samples = random_samples(spec, 3, 5);
  const SampleHandles handles(samples);
  const std::vector<std::uint32_t> order = {2, 0, 1};
  std::vector<std::vector<float>> gradients[2];
  for (int larger = 0; larger < 2; ++larger) {
    Network network(spec, 3);
    Trainer trainer(network, {larger ? 8 : 3, 1});
    run(trainer, training_pass(handles, order, {.learning_rate = 0, .momentum = 0, .weight_decay = 0}));
    for (std::size_t i = 0; i < network.depth(); ++i)
      if (network.parameters(i))
        gradients[larger].push_back(copy_of(trainer.replica(0).gradient(i), network.parameters(i)->values.count));
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

// Of 7 samples by 3, 3 and 1; of the 2 that are left by one micro-batch.
TEST_F(WithStarpu, AccumulatedGradientIsThatOfTheWholeMinibatch) {
  start(2);
  for (const NetworkSpec& spec : {test::every_layer(), test::residual()}) {
    const Samples samples = random_samples(spec, 9, 5);
    const SampleHandles handles(samples);
    for (const std::vector<std::uint32_t>& order : {std::vector<std::uint32_t>{4, 0, 1, 8, 2, 7, 6}, {3, 5}}) {
      struct Outcome {
        std::vector<std::vector<float>> gradients;
        MinibatchResult result;
      };
      const auto outcome = [&](const BatchSizes& sizes) {
        Outcome o;
        Network network(spec, 3);
        Trainer trainer(network, {sizes, 1});
        Pass pass = training_pass(handles, order, {.learning_rate = 0.1f, .momentum = 0, .weight_decay = 0});
        pass.record = [&o](const MinibatchResult& m) {
          o.result = m;
          return true;
        };
        run(trainer, pass);
        for (std::size_t i = 0; i < network.depth(); ++i)
          if (const ParameterBlock* block = network.parameters(i)) {
            o.gradients.push_back(copy_of(trainer.replica(0).gradient(i), block->values.count));
            EXPECT_EQ(block->version, 1u);
          }
        return o;
      };
      const Outcome whole = outcome(7), accumulated = outcome({7, 3});
      EXPECT_EQ(accumulated.result.samples, order.size());
      EXPECT_EQ(accumulated.result.correct, whole.result.correct);
      // Roundings of float, of numbers up to 10.
      EXPECT_NEAR(accumulated.result.loss, whole.result.loss, 1e-5);
      ASSERT_EQ(accumulated.gradients.size(), whole.gradients.size());
      for (std::size_t b = 0; b < whole.gradients.size(); ++b)
        for (std::size_t i = 0; i < whole.gradients[b].size(); ++i)
          EXPECT_NEAR(accumulated.gradients[b][i], whole.gradients[b][i], 1e-6) << b << " " << i;
    }
  }
}

TEST_F(WithStarpu, TrainingStepMovesParametersAsSgdSays) {
  start(1);
  NetworkSpec spec = test::small_mlp();
  const Samples samples = random_samples(spec, 6, 5);
  const SampleHandles handles(samples);
  const std::vector<std::uint32_t> order = {0, 1, 2, 3, 4, 5};
  Network network(spec, 3);
  const std::vector<float> before(network.parameters(0)->values.span().begin(),
                                  network.parameters(0)->values.span().end());
  Trainer trainer(network, {6, 1});
  run(trainer, training_pass(handles, order, {.learning_rate = 0.5f, .momentum = 0.9f, .weight_decay = 0.1f}));
  const std::vector<float> gradient = copy_of(trainer.replica(0).gradient(0), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    // The first velocity is the gradient with its decay. Three roundings of float.
    const double expected = before[i] - 0.5 * (gradient[i] + 0.1 * before[i]);
    EXPECT_NEAR(network.parameters(0)->values.data[i], expected, 1e-6);
  }
  EXPECT_EQ(network.parameters(0)->version, 1u);
}

TEST_F(WithStarpu, EvaluationLeavesParametersAlone) {
  start(2);
  NetworkSpec spec = test::every_layer();
  const Samples samples = random_samples(spec, 50, 5);
  Network network(spec, 3);
  std::vector<std::vector<float>> before;
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (auto* b = network.parameters(i)) before.emplace_back(b->values.span().begin(), b->values.span().end());
  Trainer trainer(network, {8, 3});
  const Score first = evaluate(trainer, samples, [] { return false; });
  const Score second = evaluate(trainer, samples, [] { return false; });
  EXPECT_EQ(first.samples, 50u);
  EXPECT_EQ(first.accuracy, second.accuracy);
  std::size_t next = 0;
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (auto* b = network.parameters(i)) {
      EXPECT_TRUE(std::equal(b->values.span().begin(), b->values.span().end(), before[next++].begin()));
      EXPECT_EQ(b->version, 0u);
    }
}

TEST_F(WithStarpu, WeightsAreThoseOfTheSeedWhateverTheWorkers) {
  NetworkSpec spec = test::every_layer();
  std::vector<float> first;
  for (int workers : {1, 2}) {
    start(workers);
    const Network network(spec, 42);
    const auto values = network.parameters(0)->values.span();
    if (first.empty())
      first.assign(values.begin(), values.end());
    else
      EXPECT_TRUE(std::equal(values.begin(), values.end(), first.begin()));
  }
}

}  // namespace
}  // namespace prorata
