// Running statistics: moved by every mini-batch, read by evaluation only, saved and read back.
#include "driver/evaluation.h"
#include "driver/trainer.h"
#include "models/parameter_file.h"
#include "models/random.h"
#include "tests/starpu_fixture.h"
#include "tests/tiny_networks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>

namespace prorata {
namespace {

using test::WithStarpu;

constexpr std::int32_t kBatch = 4;
constexpr std::size_t kSamples = 40;  // ten mini-batches
constexpr float kMomentum = 0.25f;

// The samples themselves are normalised, so what the statistics are to be is known.
NetworkSpec normalized_input() {
  const ImageShape image{2, 2, 3};
  NetworkSpec spec;
  spec.name = "normalized-input";
  spec.input = image;
  spec.classes = 3;
  spec.layers = {test::layer("bn", BatchNormSpec{.momentum = kMomentum}, image, image),
                 test::layer("fc", DenseSpec{3}, image, {1, 1, 3})};
  return spec;
}

class RunningStatisticsOf : public WithStarpu {
 protected:
  static Samples make_samples() {
    Random random(2, 8);
    std::vector<std::uint8_t> images;
    std::vector<std::int32_t> labels;
    for (std::size_t i = 0; i < kSamples; ++i) {
      labels.push_back(static_cast<std::int32_t>(random.below(3)));
      for (std::size_t f = 0; f < 12; ++f)  // channels of unlike mean
        images.push_back(static_cast<std::uint8_t>(f % 3 * 64 + random.below(64)));
    }
    return {std::move(images), std::move(labels)};
  }

  void train(Network& network, const TrainerOptions& options, float learning_rate) {
    std::vector<std::uint32_t> order(samples_.size());
    std::iota(order.begin(), order.end(), 0u);
    const SampleHandles handles(samples_);
    const Pass pass{.kind = GroupKind::train,
                    .data = handles.source(),
                    .order = order,
                    .step =
                        [=](std::size_t) {
                          return UpdateStep{learning_rate, 0.9f, 0};
                        },
                    .balance = PRORATA_PRORATA,
                    .round = 0,
                    .record = [](const MinibatchResult&) { return true; }};
    Trainer trainer(network, options);
    trainer.run(
        pass, [] { return false; }, [] {});
  }

  static std::vector<float> values_of(const RunningStatistics& statistics) {
    return {statistics.values.span().begin(), statistics.values.span().end()};
  }

  const Samples samples_ = make_samples();
};

TEST_F(RunningStatisticsOf, EachMinibatchInTurnMoveThemByTheMomentum) {
  start(1);
  Network network(normalized_input(), 1);
  const RunningStatistics& statistics = *network.statistics(0);
  EXPECT_EQ(values_of(statistics), (std::vector<float>{0, 0, 0, 1, 1, 1}));
  train(network, {.batch = kBatch, .replicas = 1}, 0.1f);

  const std::span<const std::uint8_t> images = samples_.images.as<std::uint8_t>();
  std::vector<double> mean(3, 0), variance(3, 1);
  for (std::size_t first = 0; first < kSamples; first += kBatch)
    for (std::size_t c = 0; c < 3; ++c) {
      double sum = 0, squares = 0;
      const std::size_t n = std::size_t{4} * kBatch;
      const auto value = [&](std::size_t i) { return images[first * 12 + i * 3 + c] / 255.0; };
      for (std::size_t i = 0; i < n; ++i) sum += value(i);
      for (std::size_t i = 0; i < n; ++i) squares += std::pow(value(i) - sum / static_cast<double>(n), 2);
      mean[c] += kMomentum * (sum / static_cast<double>(n) - mean[c]);
      variance[c] += kMomentum * (squares / static_cast<double>(n - 1) - variance[c]);
    }
  EXPECT_EQ(statistics.updates, kSamples / kBatch);
  for (std::size_t c = 0; c < 3; ++c) {
    // Ten roundings of float, of numbers up to 1.
    EXPECT_NEAR(statistics.values.data[c], mean[c], 1e-6);
    EXPECT_NEAR(statistics.values.data[3 + c], variance[c], 1e-6);
  }
}

TEST_F(RunningStatisticsOf, EachMicroBatchMovesThemWhereGradientsAreAccumulated) {
  start(1);
  Network one_each(normalized_input(), 1), accumulated(normalized_input(), 1);
  train(one_each, {.batch = kBatch, .replicas = 1}, 0.1f);
  train(accumulated, {.batch = {3 * kBatch, kBatch}, .replicas = 1}, 0.1f);
  EXPECT_EQ(accumulated.statistics(0)->updates, kSamples / kBatch);
  EXPECT_EQ(values_of(*accumulated.statistics(0)), values_of(*one_each.statistics(0)));
}

TEST_F(RunningStatisticsOf, NoMinibatchIsLostWhereManyOverlap) {
  start(4);
  Network network(normalized_input(), 1);
  for (int pass = 0; pass < 5; ++pass) train(network, {.batch = kBatch, .replicas = 4}, 0.01f);
  const RunningStatistics& statistics = *network.statistics(0);
  EXPECT_EQ(statistics.updates, 5 * kSamples / kBatch);
  // After 50 updates what they began with counts 0.75^50; means of 16 values between c/4 and (c + 1)/4 remain.
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(statistics.values.data[c], (64.0 * static_cast<double>(c) + 31.5) / 255, 0.05);
    EXPECT_NEAR(statistics.values.data[3 + c], std::pow(64.0 / 255, 2) / 12, 0.002);
  }
}

TEST_F(RunningStatisticsOf, StepsAreTheSameToTheBitWhateverTheWorkers) {
  std::vector<std::vector<float>> results;
  for (const int workers : {1, 3}) {
    start(workers);
    Network network(normalized_input(), 1);
    train(network, {.batch = kBatch, .replicas = 3, .consistency = Consistency::bsp}, 0.1f);
    EXPECT_EQ(network.statistics(0)->updates, kSamples / kBatch);
    std::vector<float>& all = results.emplace_back(values_of(*network.statistics(0)));
    for (std::size_t i = 0; i < network.depth(); ++i)
      for (const float v : network.parameters(i)->values.span()) all.push_back(v);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(RunningStatisticsOf, EvaluationReadsThemAndLeavesThem) {
  start(2);
  Network network(normalized_input(), 1);
  train(network, {.batch = kBatch, .replicas = 2}, 0.01f);
  const std::vector<float> before = values_of(*network.statistics(0));
  Trainer trainer(network, {.batch = kBatch, .replicas = 2});
  const auto loss = [&] { return evaluate(trainer, samples_, [] { return false; }).loss; };
  const double usual = loss();
  EXPECT_EQ(values_of(*network.statistics(0)), before);
  EXPECT_EQ(network.statistics(0)->updates, kSamples / kBatch);
  network.statistics(0)->values.data[0] += 0.5f;  // two standard deviations and more
  EXPECT_GT(std::abs(loss() - usual), 0.01);
}

TEST_F(RunningStatisticsOf, ComeBackFromAFile) {
  start(1);
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "prorata_running_statistics";
  Network network(normalized_input(), 1);
  train(network, {.batch = kBatch, .replicas = 1}, 0.1f);
  write_parameters(network, file);
  Network other(normalized_input(), 2);
  read_parameters(other, file);
  EXPECT_EQ(values_of(*other.statistics(0)), values_of(*network.statistics(0)));
  EXPECT_EQ(other.statistics(0)->updates, kSamples / kBatch);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace prorata
