// Mean over rectangular windows, without padding; the last rows and columns that fill no window are dropped. A window
// as large as the image makes it global average pooling.
//
// Shapes: x [batch, height, width, channels], y [batch, out_height, out_width, channels]. The same stride holds for
// rows and columns.
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct AvgPoolShape {
  std::int32_t batch;
  std::int32_t height;
  std::int32_t width;
  std::int32_t channels;
  std::int32_t window_height;
  std::int32_t window_width;
  std::int32_t stride;

  std::int32_t out_height() const { return (height - window_height) / stride + 1; }
  std::int32_t out_width() const { return (width - window_width) / stride + 1; }
  std::size_t inputs() const { return std::size_t(batch) * height * width * channels; }
  std::size_t outputs() const { return std::size_t(batch) * out_height() * out_width() * channels; }
};

struct AvgPoolArgs {
  AvgPoolShape shape;
};

extern const Codelet avg_pool_forward;   // x R, y W
extern const Codelet avg_pool_backward;  // dy R, dx W

}  // namespace prorata
