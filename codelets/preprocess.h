// Augments and normalises the samples of a mini-batch, as PyTorch's RandomCrop(padding), RandomHorizontalFlip and
// Normalize would, and as Cutout (DeVries and Taylor, 1708.04552) does, in this order:
//
//   crop       the image within a border of `crop` zeros, from a corner drawn from the (2 crop + 1)^2 possible ones
//   flip       left and right change places, for every other sample on average
//   normalise  x = (v - mean) * factor, by channel
//   cutout     a square of `cutout` x `cutout` around a pixel of the image, as far as it lies inside, becomes 0
//
// What is drawn depends on (seed, epoch, sample) alone, and the arithmetic has one order, so every implementation on
// every worker makes the same bits of a sample.
//
// Shapes: raw and x [batch, height, width, channels], normalization [2, channels]: the mean, the factor.
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct PreprocessShape {
  std::int32_t batch;
  std::int32_t height, width, channels;
  std::int32_t crop;    // pixels on each side; 0: none
  std::int32_t flip;    // 0 or 1
  std::int32_t cutout;  // pixels; 0: none
};

struct PreprocessArgs {
  PreprocessShape shape;
  const std::uint32_t* indices;  // `batch` numbers of samples, in main memory, alive until the task has run
  std::uint64_t seed;
  std::uint32_t epoch;
};

extern const Codelet preprocess;  // raw R, normalization R, x W

}  // namespace prorata
