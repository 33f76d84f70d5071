// Collects a mini-batch of patches from a scene: sample i is the window around the pixel places[i]. So the patches of a
// hyperspectral cube, which overlap, are never all made.
//
// Shapes: scene [rows, columns, channels] floats, places [all samples] uint32 (row * columns + column), labels
// [all samples] int32, x [batch, height, width, channels], y [batch] int32. The pixel is at [height / 2, width / 2] of
// its window. What lies outside the scene is mirrored at its edge, which is repeated (NumPy's `symmetric`); height / 2
// must not exceed rows, nor width / 2 columns.
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct GatherPatchesShape {
  std::int32_t batch;
  std::int32_t height, width, channels;
};

struct GatherPatchesArgs {
  GatherPatchesShape shape;
  const std::uint32_t* indices;  // `batch` numbers of samples, in main memory, alive until the task has run
  std::int32_t rows, columns;
};

extern const Codelet gather_patches;  // scene R, places R (uint32), labels R (int32), x W, y W (int32)

}  // namespace prorata
