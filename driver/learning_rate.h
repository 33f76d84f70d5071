// The learning rate over a run: it rises to its value over the first mini-batches, and then follows a schedule.
//
// The rise (warm-up) is what keeps asynchronous training from failing at once: while the gradients are largest, stale
// ones add up to steps that a network may never come back from (docs/staleness.md).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace prorata {

enum class LrSchedule { cosine, constant };

struct LearningRate {
  double value;
  LrSchedule schedule;
  std::int64_t warmup;  // mini-batches
  std::int64_t total;   // mini-batches of the run

  // Of the run's n-th mini-batch, from 0.
  double at(std::int64_t n) const {
    const auto done = static_cast<double>(n);
    const double risen = n < warmup ? (done + 1) / static_cast<double>(warmup) : 1;
    if (schedule == LrSchedule::constant) return value * risen;
    return value * risen * (1 + std::cos(std::numbers::pi * done / static_cast<double>(total))) / 2;
  }
};

// As many mini-batches as the zoo's networks were seen to need, but no more than a fifth of the run.
inline std::int64_t default_warmup(std::int64_t total) { return std::min<std::int64_t>(200, total / 5); }

}  // namespace prorata
