// Two-dimensional convolution with a square window: y = relu?(conv(x, W) + b?).
//
// Shapes: x [batch, height, width, in_channels], W [out_channels, kernel, kernel, in_channels / groups],
// b [out_channels], y [batch, out_height, out_width, out_channels]; `params` and its gradient hold W, then b where
// there is one. As in PyTorch the window is not flipped (cross-correlation), and `padding` zeros surround the image.
//
// `groups` divides both numbers of channels: those of the input and those of the output are so many runs of equal
// length, and each run of the output sees one of the input. As many groups as channels: a depthwise convolution.
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct Conv2dShape {
  std::int32_t batch;
  std::int32_t height;
  std::int32_t width;
  std::int32_t in_channels;
  std::int32_t out_channels;
  std::int32_t kernel;
  std::int32_t stride;
  std::int32_t padding;
  std::int32_t relu;  // 1: rectified output
  std::int32_t groups = 1;
  std::int32_t bias = 1;  // 0: there is no b

  // Of which the footprint is made: what came later counts where it is not as before, so that models that were
  // calibrated before hold.
  std::size_t footprint_bytes() const {
    return groups == 1 && bias ? offsetof(Conv2dShape, groups) : sizeof(Conv2dShape);
  }

  std::int32_t out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  std::int32_t out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
  std::size_t weights() const { return std::size_t(out_channels) * kernel * kernel * (in_channels / groups); }
  std::size_t outputs() const { return std::size_t(batch) * out_height() * out_width() * out_channels; }
};

// Bytes of a device's memory that an operation works in, but for images whose windows need more by themselves.
inline constexpr std::size_t kConv2dWorkspace = std::size_t{32} << 20;

struct Conv2dArgs {
  Conv2dShape shape;
};

extern const Codelet conv2d_forward;              // x R, params R, y W
extern const Codelet conv2d_backward;             // x R, params R, y R, dy RW, dparams W, dx W
extern const Codelet conv2d_backward_parameters;  // x R, y R, dy RW, dparams W: for a first layer, no dx
// dy is read-write: with relu it is masked in place first.

}  // namespace prorata
