// Clipping of a gradient by the L2 norm of all its blocks together, as torch.nn.utils.clip_grad_norm_.
//
// sum_of_squares:  sum = sum of the squares of gradient [count] where `first`, else sum + that. The order of the
// additions depends on nothing but the count and the implementation.
//
// clip_gradient:  gradient = gradient * min(1, most / (sqrt(squares) + 1e-6)); where the norm is not a number, neither
// is what comes out.
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct ClipGradientShape {
  std::int32_t count;
};

struct SumOfSquaresArgs {
  ClipGradientShape shape;
  std::int32_t first;
};

struct ClipGradientArgs {
  ClipGradientShape shape;
  float most;  // the largest norm
};

extern const Codelet sum_of_squares;  // gradient R, sum RW (one float)
extern const Codelet clip_gradient;   // gradient RW, squares R (one float)

}  // namespace prorata
