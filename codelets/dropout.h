// Dropout (Srivastava et al., JMLR 15, 2014), as PyTorch's: each element of y is 0 with the given probability, and else
// that of x divided by 1 - probability.
//
// Shapes: x, y [batch, features]. Backward is the same codelet with the same arguments, from dy to dx: what is dropped
// is worked out again rather than kept.
//
// What is dropped is a function of seed, layer, mini-batch and the element's number in the mini-batch, the same on
// every device: Philox4x32-10 with the seed as key and [element / 4, layer, mini-batch (low, high)] as counter gives
// the words of four elements, and an element is dropped where its word is less than probability * 2^32.
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct DropoutShape {
  std::int32_t batch;
  std::int32_t features;

  std::size_t elements() const { return std::size_t(batch) * features; }
};

struct DropoutArgs {
  DropoutShape shape;
  float probability;  // 0 <= probability < 1
  std::uint64_t seed;
  std::uint64_t minibatch;  // its number in the training
  std::uint32_t layer;      // tells apart those of one network
};

extern const Codelet dropout;  // x R, y W

}  // namespace prorata
