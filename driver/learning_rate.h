// The learning rate over a run: it rises to its value over the first mini-batches, and follows a schedule.
//
// The rise (warm-up) is what keeps asynchronous training from failing at once: while the gradients are largest, stale
// ones add up to steps that a network may never come back from (docs/staleness.md).
#pragma once

#include "models/specification.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace prorata {

// Whether a run of more epochs has other rates from the start.
inline bool depends_on_total(LrSchedule schedule) { return schedule == LrSchedule::cosine; }

struct LearningRate {
  double value;
  LrSchedule schedule;
  std::int64_t warmup;    // mini-batches
  std::int64_t total;     // mini-batches of the run, of LrSchedule::cosine
  std::int64_t step = 0;  // of LrSchedule::step: mini-batches until the rate is multiplied by
  double gamma = 1;       // this, again and again

  // Of the run's n-th mini-batch, from 0: PyTorch's CosineAnnealingLR (to 0, a step a mini-batch) or StepLR, times the
  // rise of its LinearLR.
  double at(std::int64_t n) const {
    const double risen = n < warmup ? static_cast<double>(n + 1) / static_cast<double>(warmup) : 1;
    return value * risen * scheduled(n);
  }

 private:
  double scheduled(std::int64_t n) const {
    switch (schedule) {
      case LrSchedule::cosine:
        return (1 + std::cos(std::numbers::pi * static_cast<double>(n) / static_cast<double>(total))) / 2;
      case LrSchedule::step: {
        const std::int64_t falls = n / step;
        return std::pow(gamma, static_cast<double>(falls));
      }
      case LrSchedule::constant: break;
    }
    return 1;
  }
};

// As many mini-batches as the zoo's networks were seen to need, but no more than a fifth of the run.
inline std::int64_t default_warmup(std::int64_t total) { return std::min<std::int64_t>(200, total / 5); }

}  // namespace prorata
