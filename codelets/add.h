// Element-wise sum of two values: y = relu?(a + b), as at the end of a residual block.
//
// Shapes: a, b, y and their gradients [batch, features].
//
// Backward is needed with relu only: without it both gradients are dy itself. add_forward without relu also adds the
// gradients of a value that two layers read. A task names three handles: where the kernels would work
// in place, StarPU need not keep the contents of one that is to be overwritten.
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct AddShape {
  std::int32_t batch;
  std::int32_t features;
  std::int32_t relu;  // 1: rectified output
};

struct AddArgs {
  AddShape shape;
};

extern const Codelet add_forward;   // a R, b R, y W
extern const Codelet add_backward;  // y R, dy R, da W, db W

}  // namespace prorata
