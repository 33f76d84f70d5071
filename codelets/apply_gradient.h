// Stochastic gradient descent with momentum and weight decay, on the shared parameters of a layer.
//
// Shapes: all buffers [count]. As PyTorch's SGD, where `weight` is 1:
//     d = weight * gradient + weight_decay * params;  momentum_buffer = momentum * momentum_buffer + d;
//     params = params - learning_rate * momentum_buffer,
// and where `nesterov`  d + momentum * momentum_buffer  in place of the last. The buffer begins as 0.
// `weight` is what the gradient counts for: less than 1 for one that is stale, or of fewer samples than others.
//
// apply_compensated_gradient puts  gradient + compensation * gradient^2 * (params - snapshot)  in place of the
// gradient, element by element: what it would be on the parameters of now, rather than on the snapshot that it was
// computed on (DC-ASGD, Zheng et al., 1609.08326, equation 10: the diagonal of gradient x gradient stands for the
// Hessian).
//
// accumulate_gradient:  sum = weight * gradient where `first`, else sum + weight * gradient.
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct ApplyGradientShape {
  std::int32_t count;
};

struct ApplyGradientArgs {
  ApplyGradientShape shape;
  float learning_rate;
  float momentum;
  float weight_decay;
  float weight = 1;
  std::int32_t nesterov = 0;
};

struct ApplyCompensatedGradientArgs : ApplyGradientArgs {
  float compensation;
};

struct AccumulateGradientArgs {
  ApplyGradientShape shape;
  float weight;
  std::int32_t first;
};

extern const Codelet apply_gradient;              // params RW, momentum_buffer RW, gradient R
extern const Codelet apply_compensated_gradient;  // params RW, momentum_buffer RW, gradient R, snapshot R
extern const Codelet accumulate_gradient;         // sum RW, gradient R

}  // namespace prorata
