// Batch normalisation of each channel (Ioffe and Szegedy, 1502.03167), as PyTorch's BatchNorm2d:
//     y = relu?((x - mean) / sqrt(variance + epsilon) * gamma + beta).
//
// Shapes: x, y and their gradients [batch, pixels, channels]; `params` and its gradient hold gamma [channels], then
// beta [channels].
//
// In training, mean and variance are those of the mini-batch's n = batch * pixels values of the channel. Forward files
// them in `statistics` [3, channels]: the mean; 1 / sqrt(variance + epsilon); the unbiased variance, n / (n - 1) of the
// one that normalises. Backward reads the first two. Of a single value (n = 1), where PyTorch refuses, the variance is
// 0: y is beta, and dx is 0.
//
// For inference there are `running` statistics [2, channels], mean and variance, which update_running_statistics moves
// towards a mini-batch's:  running = (1 - momentum) * running + momentum * (mean, unbiased variance).
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct BatchNormShape {
  std::int32_t batch;
  std::int32_t pixels;
  std::int32_t channels;
  std::int32_t relu;  // 1: rectified output

  std::size_t rows() const { return std::size_t(batch) * pixels; }
  std::size_t elements() const { return rows() * channels; }
};

struct BatchNormArgs {
  BatchNormShape shape;
  float epsilon;
};

struct RunningStatisticsShape {
  std::int32_t count;  // channels
};

struct RunningStatisticsArgs {
  RunningStatisticsShape shape;
  float momentum;
};

extern const Codelet batch_norm_forward;              // x R, params R, y W, statistics W
extern const Codelet batch_norm_inference;            // x R, params R, running R, y W
extern const Codelet batch_norm_backward;             // x R, params R, statistics R, y R, dy R, dparams W, dx W
extern const Codelet batch_norm_backward_parameters;  // x R, statistics R, y R, dy R, dparams W: for a first layer
extern const Codelet update_running_statistics;       // running RW, statistics R

}  // namespace prorata
