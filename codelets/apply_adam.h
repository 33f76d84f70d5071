// Adam and AdamW (Kingma and Ba, 1412.6980; Loshchilov and Hutter, 1711.05101), on the shared parameters of a layer.
//
// Shapes: all buffers [count]. As PyTorch's, where `weight` is 1. Adam (`decoupled` is 0) adds the decay to the
// gradient, AdamW takes it from the parameters themselves:
//     params = params - learning_rate * weight_decay * params         AdamW
//     d = weight * gradient + weight_decay * params                   Adam;  AdamW: d = weight * gradient
//     exp_avg = beta1 * exp_avg + (1 - beta1) * d;  exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * d^2
//     params = params - learning_rate / (1 - beta1^step) * exp_avg
//                       / (sqrt(exp_avg_sq) / sqrt(1 - beta2^step) + epsilon)
// Both averages begin as 0. `step`: of these parameters' own updates the number of this one, from 1 on.
//
// apply_compensated_adam compensates the gradient for its delay first, as apply_compensated_gradient does
// (apply_gradient.h), by the parameters before their decay.
#pragma once

#include "codelets/apply_gradient.h"
#include "codelets/codelet.h"

namespace prorata {

// Double where 1 - x is needed: the float next to 0.999 leaves 1 - 0.999 wrong in the fifth digit.
struct ApplyAdamArgs {
  ApplyGradientShape shape;
  float learning_rate;
  double beta1;
  double beta2;
  float epsilon;
  float weight_decay;
  std::int32_t decoupled;
  float weight = 1;
  std::uint64_t step = 1;
};

struct ApplyCompensatedAdamArgs : ApplyAdamArgs {
  float compensation;
};

extern const Codelet apply_adam;              // params RW, exp_avg RW, exp_avg_sq RW, gradient R
extern const Codelet apply_compensated_adam;  // params RW, exp_avg RW, exp_avg_sq RW, gradient R, snapshot R

}  // namespace prorata
