// Maximum over square windows, without padding; the last rows and columns that fill no window are dropped.
//
// Shapes: x [batch, height, width, channels], y and argmax [batch, out_height, out_width, channels].
// argmax is the place of the maximum in its window, row * window + column, the first one where several are
// equal; so window <= 15 (oneDNN wants four bytes a place from 16 on).
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct MaxPoolShape {
  std::int32_t batch;
  std::int32_t height;
  std::int32_t width;
  std::int32_t channels;
  std::int32_t window;
  std::int32_t stride;

  std::int32_t out_height() const { return (height - window) / stride + 1; }
  std::int32_t out_width() const { return (width - window) / stride + 1; }
};

struct MaxPoolArgs {
  MaxPoolShape shape;
};

extern const Codelet max_pool_forward;   // x R, y W, argmax W (bytes)
extern const Codelet max_pool_backward;  // argmax R (bytes), dy R, dx W

}  // namespace prorata
