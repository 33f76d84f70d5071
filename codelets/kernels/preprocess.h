// Augmentation and normalisation of samples: codelets/preprocess.h.
#ifndef __OPENCL_VERSION__
#pragma once
#include "codelets/kernels/philox.h"
#endif

KERNELS_BEGIN

// source_of() where a pixel is taken from nowhere.
enum { kOutside = -1, kCut = -2 };

// What a random word stands for where a whole number from 0 to bound - 1 is drawn.
INLINE int draw_below(u32 word, int bound) { return (int)((ULONG)word * (u32)bound >> 32); }

// How a sample is changed (preprocess.h): where its upper left corner is taken from, whether it is mirrored, and where
// the square that is cut out begins.
typedef struct {
  int top, left, flip, cut_top, cut_left;
} Augmentation;

INLINE Augmentation draw_augmentation(u32 seed_low, u32 seed_high, u32 epoch, u32 sample, int height, int width,
                                      int crop, int flip, int cutout) {
  Philox counter;
  counter.word[0] = sample;
  counter.word[1] = epoch;
  counter.word[2] = 0u;
  counter.word[3] = kPhiloxOfAugmentation;
  const Philox drawn = philox(counter, seed_low, seed_high);
  const Augmentation a = {draw_below(drawn.word[0], 2 * crop + 1) - crop,
                          draw_below(drawn.word[1], 2 * crop + 1) - crop,
                          flip && (drawn.word[0] & 1u),  // the lowest bit, for the place goes by the highest ones
                          draw_below(drawn.word[2], height) - cutout / 2,
                          draw_below(drawn.word[3], width) - cutout / 2};
  return a;
}

// The pixel of the image, in reading order, that the pixel [h, w] is taken from.
INLINE int source_of(Augmentation a, int h, int w, int height, int width, int cutout) {
  if (h >= a.cut_top && h < a.cut_top + cutout && w >= a.cut_left && w < a.cut_left + cutout) return kCut;
  const int row = h + a.top, column = (a.flip ? width - 1 - w : w) + a.left;
  return row >= 0 && row < height && column >= 0 && column < width ? row * width + column : kOutside;
}

KERNEL(preprocess, int batch, int height, int width, int channels, int crop, int flip, int cutout, u32 seed_low,
       u32 seed_high, u32 epoch, GLOBAL const u32* indices, GLOBAL const float* raw, GLOBAL const float* normalization,
       GLOBAL float* x) {
  FOR_EACH(i, batch * height * width) {
    const int w = i % width, h = i / width % height, n = i / width / height;
    const Augmentation a = draw_augmentation(seed_low, seed_high, epoch, indices[n], height, width, crop, flip, cutout);
    const int from = source_of(a, h, w, height, width, cutout);
    GLOBAL const float* image = raw + (LONG)n * height * width * channels;
    for (int c = 0; c < channels; ++c) {
      const float v = from >= 0 ? image[from * channels + c] : 0.0f;
      x[(LONG)i * channels + c] = from == kCut ? 0.0f : (v - normalization[c]) * normalization[channels + c];
    }
  }
}

KERNELS_END
