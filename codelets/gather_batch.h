// Collects the samples of a mini-batch from the data set and turns their bytes into numbers.
//
// Shapes: images [all samples, features] bytes, labels [all samples] bytes, x [batch, features],
// y [batch] int32. x = byte * scale.
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

extern const Codelet gather_batch;  // images R (bytes), labels R (bytes), x W, y W (int32)

}  // namespace prorata
