// Dropout in a network: drawn for each mini-batch from its place in the training, and not at all in evaluation.
#include "driver/evaluation.h"
#include "driver/trainer.h"
#include "models/random.h"
#include "tests/starpu_fixture.h"
#include "tests/tiny_networks.h"

#include <gtest/gtest.h>

#include <numeric>

namespace prorata {
namespace {

using test::WithStarpu;

constexpr std::size_t kSamples = 16;

class DropoutInANetwork : public WithStarpu {
 protected:
  static Samples make_samples() {
    Random random(3, 8);
    std::vector<std::uint8_t> images;
    std::vector<std::int32_t> labels;
    for (std::size_t i = 0; i < kSamples; ++i) {
      labels.push_back(static_cast<std::int32_t>(random.below(4)));
      for (std::size_t f = 0; f < 40; ++f) images.push_back(static_cast<std::uint8_t>(random.below(256)));
    }
    return {std::move(images), std::move(labels)};
  }

  // Of a mini-batch of all samples, which changes nothing.
  double training_loss(float probability, std::uint64_t seed, std::uint64_t first_sample) const {
    Network network(test::with_dropout(probability), seed);
    for (std::size_t i = 0; i < network.depth(); ++i)  // the same whatever the seed
      if (const ParameterBlock* block = network.parameters(i)) {
        Random random(7, i);
        for (float& v : block->values.span()) v = static_cast<float>(random.uniform() - 0.5);
      }
    const SampleHandles handles(samples_);
    std::vector<std::uint32_t> order(kSamples);
    std::iota(order.begin(), order.end(), 0u);
    double loss = 0;
    const Pass pass{.kind = GroupKind::train,
                    .data = handles.source(),
                    .order = order,
                    .step =
                        [&](std::size_t) {
                          return UpdateStep{
                              .learning_rate = 0, .momentum = 0, .weight_decay = 0, .first_sample = first_sample};
                        },
                    .balance = PRORATA_PRORATA,
                    .round = 0,
                    .record =
                        [&loss](const MinibatchResult& m) {
                          loss = m.loss;
                          return true;
                        }};
    Trainer trainer(network, {.batch = kSamples, .replicas = 1});
    trainer.run(
        pass, [] { return false; }, [] {});
    return loss;
  }

  const Samples samples_ = make_samples();
};

TEST_F(DropoutInANetwork, DrawsFromSeedAndPlaceInTheTraining) {
  start(1);
  const double loss = training_loss(0.5f, 1, 0);
  EXPECT_EQ(training_loss(0.5f, 1, 0), loss);
  EXPECT_NE(training_loss(0.5f, 1, kSamples), loss);
  EXPECT_NE(training_loss(0.5f, 2, 0), loss);
  EXPECT_NE(training_loss(0, 1, 0), loss);
}

TEST_F(DropoutInANetwork, EvaluationDropsNothing) {
  start(1);
  std::vector<double> losses;
  for (const float probability : {0.0f, 0.5f}) {
    Network network(test::with_dropout(probability), 1);
    Trainer trainer(network, {.batch = kSamples, .replicas = 1});
    losses.push_back(evaluate(trainer, samples_, [] { return false; }).loss);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

}  // namespace
}  // namespace prorata
