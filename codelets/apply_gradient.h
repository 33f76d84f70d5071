// Stochastic gradient descent with momentum and weight decay, on the shared parameters of a layer.
//
// Shapes: params, velocity and gradient [count]. As PyTorch's SGD:
//     d = gradient + weight_decay * params;  velocity = momentum * velocity + d;
//     params = params - learning_rate * velocity.
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
};

extern const Codelet apply_gradient;  // params RW, velocity RW, gradient R

}  // namespace prorata
