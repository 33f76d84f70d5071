// Fully connected layer: y = relu?(x W^T + b).
//
// Shapes: x [batch, inputs], W [outputs, inputs] (PyTorch's layout), b [outputs], y [batch, outputs].
// `params` and its gradient hold W, then b.
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct DenseShape {
  std::int32_t batch;
  std::int32_t inputs;
  std::int32_t outputs;
  std::int32_t relu;  // 1: rectified output
};

struct DenseArgs {
  DenseShape shape;
};

extern const Codelet dense_forward;              // x R, params R, y W
extern const Codelet dense_backward;             // x R, params R, y R, dy RW, dparams W, dx W
extern const Codelet dense_backward_parameters;  // x R, y R, dy RW, dparams W: for a first layer, no dx
// dy is read-write: with relu it is masked in place first.

}  // namespace prorata
