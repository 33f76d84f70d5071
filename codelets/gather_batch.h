// Collects the samples of a mini-batch from the data set and turns them into numbers.
//
// Shapes: images [all samples, features] of bytes or floats, labels [all samples] int32, x [batch, features],
// y [batch] int32. x = element * scale.
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct GatherBatchShape {
  std::int32_t batch;
  std::int32_t features;
};

struct GatherBatchArgs {
  GatherBatchShape shape;
  const std::uint32_t* indices;  // `batch` numbers of samples, in main memory, alive until the task has run
  float scale;
};

// images R, labels R (int32), x W, y W (int32)
extern const Codelet gather_batch;   // of bytes
extern const Codelet gather_floats;  // of floats

}  // namespace prorata
