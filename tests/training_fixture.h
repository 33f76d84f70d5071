// A small network, random samples, and a trainer for them.
#pragma once

#include "driver/evaluation.h"
#include "driver/trainer.h"
#include "models/random.h"
#include "tests/tiny_networks.h"

#include <functional>
#include <numeric>
#include <vector>

namespace prorata::test {

inline constexpr UpdateStep kStep{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0};

// A network of 16 features and 3 classes, on samples in a shuffled order.
struct Fixture {
  Fixture(std::size_t samples, std::int32_t batch, std::size_t replicas)
      : Fixture(samples, TrainerOptions{.batch = batch, .replicas = replicas}) {}
  Fixture(std::size_t samples, const TrainerOptions& options, NetworkSpec spec = test::small_mlp())
      : data(make(samples)), handles(data), network(std::move(spec), 1), trainer(network, options), order(samples) {
    std::iota(order.begin(), order.end(), 0u);
    Random(1, 7).shuffle(order);
  }

  static Samples make(std::size_t samples) {
    Random random(2, 8);
    std::vector<std::uint8_t> images;
    std::vector<std::int32_t> labels;
    for (std::size_t i = 0; i < samples; ++i) {
      labels.push_back(static_cast<std::int32_t>(random.below(3)));
      for (int f = 0; f < 16; ++f) images.push_back(static_cast<std::uint8_t>(random.below(256)));
    }
    return {std::move(images), std::move(labels)};
  }

  void run(prorata_balance balance, std::function<bool(const MinibatchResult&)> record) {
    const Pass pass{.kind = GroupKind::train,
                    .data = handles.source(),
                    .order = order,
                    .step = [](std::size_t) { return kStep; },
                    .balance = balance,
                    .round = 0,
                    .record = std::move(record)};
    trainer.run(
        pass, [] { return false; }, [] {});
  }

  std::vector<float> parameters() const {
    std::vector<float> all;
    for (std::size_t i = 0; i < network.depth(); ++i)
      if (auto* b = network.parameters(i)) all.insert(all.end(), b->values.span().begin(), b->values.span().end());
    return all;
  }

  Samples data;
  SampleHandles handles;
  Network network;
  Trainer trainer;
  std::vector<std::uint32_t> order;
};

}  // namespace prorata::test
