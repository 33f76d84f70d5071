// Rectifier as an operation of its own; dense and conv2d have it fused.
//
// Shapes: x, y and their gradients [batch, features]. y = max(0, x).
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct ReluShape {
  std::int32_t batch;
  std::int32_t features;
};

struct ReluArgs {
  ReluShape shape;
};

extern const Codelet relu_forward;   // x R, y W
extern const Codelet relu_backward;  // y R, dy R, dx W

}  // namespace prorata
