// Sums over some mini-batches, and the line of metrics.jsonl that they make.
#pragma once

#include "models/replica.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace prorata {

struct Tally {
  std::uint64_t minibatches = 0, samples = 0, correct = 0, staleness = 0;
  double loss = 0;

  void add(const MinibatchResult& m) {
    ++minibatches;
    samples += m.samples;
    correct += m.correct;
    staleness += m.staleness;
    loss += m.loss;
  }
  Tally operator+(const Tally& t) const {
    return {minibatches + t.minibatches, samples + t.samples, correct + t.correct, staleness + t.staleness,
            loss + t.loss};
  }
  Tally operator-(const Tally& t) const {
    return {minibatches - t.minibatches, samples - t.samples, correct - t.correct, staleness - t.staleness,
            loss - t.loss};
  }
  double mean_loss() const { return samples ? loss / static_cast<double>(samples) : 0; }
  double accuracy() const { return samples ? static_cast<double>(correct) / static_cast<double>(samples) : 0; }
  double mean_staleness() const {
    return minibatches ? static_cast<double>(staleness) / static_cast<double>(minibatches) : 0;
  }

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Tally, minibatches, samples, correct, staleness, loss)
};

inline nlohmann::ordered_json metrics_line(const char* event, int epoch, const Tally& t, double seconds) {
  return {{"event", event},
          {"epoch", epoch},
          {"minibatches", t.minibatches},
          {"samples", t.samples},
          {"seconds", seconds},
          {"samples_per_second", seconds > 0 ? static_cast<double>(t.samples) / seconds : 0},
          {"train_loss", std::isfinite(t.mean_loss()) ? nlohmann::ordered_json(t.mean_loss()) : nullptr},
          {"train_accuracy", t.accuracy()},
          {"staleness_mean", t.mean_staleness()}};
}

}  // namespace prorata
