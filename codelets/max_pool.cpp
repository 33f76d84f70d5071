// Not by cuDNN: its backward wants x and y, which the codelet's backward has not, and its forward files no place of the
// maximum, which whatever implementation runs backward reads.
#include "codelets/max_pool.h"

#include "codelets/backend/onednn.h"
#include "codelets/kernels/kernels.h"

#include <algorithm>
#include <vector>

namespace prorata {
namespace {

using dnnl::algorithm;
using dnnl::memory;

// Plain loops that vectorize whatever the number of channels: oneDNN's code wants a multiple of 8, and takes 3.2 ms
// forward and 3.1 ms back where this takes 0.28 and 0.2 ms for [64, 28, 28, 6] (Zen 3). So it comes first.
namespace loops {

// A line of the image in work: the largest value found so far, and its place in the window.
struct Maxima {
  void resize(std::size_t n) {
    value.resize(n);
    place.resize(n);
  }
  std::vector<float> value;
  std::vector<std::int32_t> place;
};

// Element by element the larger of `best` and `value`; of equal ones the smaller place. Not a number is larger than
// everything, for a diverged network must be seen to be one.
inline void take_larger(std::size_t count, const float* __restrict value, const std::int32_t* __restrict place,
                        std::int32_t move, float* __restrict best, std::int32_t* __restrict best_place) {
  for (std::size_t i = 0; i < count; ++i) {
    const float v = value[i];
    const std::int32_t here = place[i] + move;
    const bool wins = (v > best[i]) | (v != v) | ((v == best[i]) & (here < best_place[i]));
    best_place[i] = wins ? here : best_place[i];
    best[i] = wins ? v : best[i];
  }
}

// First the maximum of each column over the window's rows, then over the window's columns, each for a whole line at
// once; where windows do not touch each place of the line some of that is for nothing, and still faster than loops as
// short as the channels. Of equal ones the first in reading order wins: smaller row, then smaller column.
void forward(const MaxPoolArgs& args, const float* x, float* y, std::uint8_t* argmax) {
  const MaxPoolShape& s = args.shape;
  const std::size_t line = std::size_t(s.width) * s.channels;
  const std::size_t corners = line - std::size_t(s.window - 1) * s.channels;  // where a window may begin
  thread_local Maxima columns, windows;
  thread_local std::vector<std::int32_t> zeros;
  columns.resize(line);
  windows.resize(line);
  zeros.resize(line);
  float* const best = windows.value.data();
  std::int32_t* const place = windows.place.data();
  for (std::int32_t n = 0; n < s.batch; ++n)
    for (std::int32_t oh = 0; oh < s.out_height(); ++oh) {
      const float* top = x + (std::size_t(n) * s.height + std::size_t(oh) * s.stride) * line;
      std::copy_n(top, line, columns.value.data());
      std::fill_n(columns.place.data(), line, 0);
      for (std::int32_t kh = 1; kh < s.window; ++kh)
        take_larger(line, top + kh * line, zeros.data(), kh * s.window, columns.value.data(), columns.place.data());

      std::copy_n(columns.value.data(), corners, best);
      std::copy_n(columns.place.data(), corners, place);
      for (std::int32_t kw = 1; kw < s.window; ++kw) {
        const std::size_t right = std::size_t(kw) * s.channels;
        take_larger(corners, columns.value.data() + right, columns.place.data() + right, kw, best, place);
      }
      for (std::int32_t ow = 0; ow < s.out_width(); ++ow) {
        const std::size_t corner = std::size_t(ow) * s.stride * s.channels;
        for (std::int32_t c = 0; c < s.channels; ++c) {
          *y++ = best[corner + c];
          *argmax++ = static_cast<std::uint8_t>(place[corner + c]);
        }
      }
    }
}

void backward(const MaxPoolArgs& args, const std::uint8_t* argmax, const float* dy, float* dx) {
  const MaxPoolShape& s = args.shape;
  const std::size_t line = std::size_t(s.width) * s.channels;
  std::size_t offset[256];  // of each place in a window from its corner
  for (std::int32_t place = 0; place < s.window * s.window; ++place)
    offset[place] = place / s.window * line + std::size_t(place % s.window) * s.channels;
  std::fill_n(dx, std::size_t(s.batch) * s.height * line, 0.0f);
  for (std::int32_t n = 0; n < s.batch; ++n)
    for (std::int32_t oh = 0; oh < s.out_height(); ++oh) {
      float* corner = dx + (std::size_t(n) * s.height + std::size_t(oh) * s.stride) * line;
      for (std::int32_t ow = 0; ow < s.out_width(); ++ow, corner += std::size_t(s.stride) * s.channels)
        for (std::int32_t c = 0; c < s.channels; ++c) corner[offset[*argmax++] + c] += *dy++;
    }
}

}  // namespace loops

namespace with_onednn {

// oneDNN files the place of the maximum exactly as we do, so its workspace is our argmax.
struct Pooling {
  explicit Pooling(const MaxPoolShape& s)
      : x(onednn::plain({s.batch, s.channels, s.height, s.width}, memory::format_tag::nhwc)),
        y(onednn::plain({s.batch, s.channels, s.out_height(), s.out_width()}, memory::format_tag::nhwc)),
        strides{s.stride, s.stride},
        window{s.window, s.window},
        none{0, 0},
        // Negative end padding drops the rows and columns that fill no window.
        end{(s.out_height() - 1) * s.stride + s.window - s.height, (s.out_width() - 1) * s.stride + s.window - s.width},
        forward_description({dnnl::prop_kind::forward_training, algorithm::pooling_max, x, y, strides, window, none,
                             end},
                            onednn::engine()),
        backward_description({algorithm::pooling_max, x, y, strides, window, none, end}, onednn::engine(),
                             forward_description),
        forward(forward_description),
        backward(backward_description) {}

  memory::desc x, y;
  memory::dims strides, window, none, end;
  dnnl::pooling_forward::primitive_desc forward_description;
  dnnl::pooling_backward::primitive_desc backward_description;
  dnnl::pooling_forward forward;
  dnnl::pooling_backward backward;
};

void forward(const MaxPoolArgs& args, const float* x, float* y, std::uint8_t* argmax) {
  auto& pool = onednn::cached<Pooling>(args.shape);
  pool.forward.execute(onednn::stream(),
                       {{DNNL_ARG_SRC, onednn::memory_at(pool.x, x)},
                        {DNNL_ARG_DST, onednn::memory_at(pool.y, y)},
                        {DNNL_ARG_WORKSPACE, onednn::memory_at(pool.forward_description.workspace_desc(), argmax)}});
}

void backward(const MaxPoolArgs& args, const std::uint8_t* argmax, const float* dy, float* dx) {
  auto& pool = onednn::cached<Pooling>(args.shape);
  pool.backward.execute(onednn::stream(),
                        {{DNNL_ARG_DIFF_DST, onednn::memory_at(pool.y, dy)},
                         {DNNL_ARG_DIFF_SRC, onednn::memory_at(pool.x, dx)},
                         {DNNL_ARG_WORKSPACE, onednn::memory_at(pool.forward_description.workspace_desc(), argmax)}});
}

}  // namespace with_onednn

struct Forward {
  template <class Device>
  static void run(Device& d, const MaxPoolArgs& args, In<Device> x, Out<Device> y, Out<Device, std::uint8_t> argmax) {
    const MaxPoolShape& s = args.shape;
    const std::size_t outputs = std::size_t(s.batch) * s.out_height() * s.out_width() * s.channels;
    d.launch(kernels::max_pool, outputs, s.batch, s.height, s.width, s.channels, s.out_height(), s.out_width(),
             s.window, s.stride, x, y, argmax);
  }
};

struct Backward {
  template <class Device>
  static void run(Device& d, const MaxPoolArgs& args, In<Device, std::uint8_t> argmax, In<Device> dy, Out<Device> dx) {
    const MaxPoolShape& s = args.shape;
    const std::size_t inputs = std::size_t(s.batch) * s.height * s.width * s.channels;
    d.launch(kernels::max_pool_spread, inputs, s.batch, s.height, s.width, s.channels, s.out_height(), s.out_width(),
             s.window, s.stride, argmax, dy, dx);
  }
};

}  // namespace

const Codelet max_pool_forward{"max_pool_forward",
                               {STARPU_R, STARPU_W, STARPU_W},
                               footprint_of<MaxPoolArgs>(),
                               {{"loops", cpu<loops::forward>}, {"onednn", cpu<with_onednn::forward>}},
                               on_devices<Forward>()};

const Codelet max_pool_backward{"max_pool_backward",
                                {STARPU_R, STARPU_R, STARPU_W},
                                footprint_of<MaxPoolArgs>(),
                                {{"loops", cpu<loops::backward>}, {"onednn", cpu<with_onednn::backward>}},
                                on_devices<Backward>()};

}  // namespace prorata
