#include "codelets/avg_pool.h"

#include "codelets/kernels/kernels.h"

#include <algorithm>
#include <vector>

namespace prorata {
namespace {

float share(const AvgPoolShape& s) { return 1.0f / static_cast<float>(s.window_height * s.window_width); }

inline void add_to(std::size_t count, const float* __restrict x, float* __restrict sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += x[i];
}

// First the sums of the columns over the window's rows, a whole line of the image at once, as max_pool does; then over
// the window's columns.
void forward(const AvgPoolArgs& args, const float* x, float* y) {
  const AvgPoolShape& s = args.shape;
  const std::size_t line = std::size_t(s.width) * s.channels;
  thread_local std::vector<float> columns;
  columns.resize(line);
  for (std::int32_t n = 0; n < s.batch; ++n)
    for (std::int32_t oh = 0; oh < s.out_height(); ++oh) {
      const float* top = x + (std::size_t(n) * s.height + std::size_t(oh) * s.stride) * line;
      std::copy_n(top, line, columns.data());
      for (std::int32_t kh = 1; kh < s.window_height; ++kh) add_to(line, top + kh * line, columns.data());
      for (std::int32_t ow = 0; ow < s.out_width(); ++ow, y += s.channels) {
        const float* left = columns.data() + std::size_t(ow) * s.stride * s.channels;
        std::copy_n(left, s.channels, y);
        for (std::int32_t kw = 1; kw < s.window_width; ++kw)
          add_to(static_cast<std::size_t>(s.channels), left + std::size_t(kw) * s.channels, y);
        for (std::int32_t c = 0; c < s.channels; ++c) y[c] *= share(s);
      }
    }
}

// The other way: what a line of windows gives to one of their rows, which is the same for each of them.
void backward(const AvgPoolArgs& args, const float* dy, float* dx) {
  const AvgPoolShape& s = args.shape;
  const std::size_t line = std::size_t(s.width) * s.channels;
  thread_local std::vector<float> columns, shares;
  columns.resize(line);
  shares.resize(static_cast<std::size_t>(s.channels));
  std::fill_n(dx, s.inputs(), 0.0f);
  for (std::int32_t n = 0; n < s.batch; ++n)
    for (std::int32_t oh = 0; oh < s.out_height(); ++oh) {
      std::fill(columns.begin(), columns.end(), 0.0f);
      for (std::int32_t ow = 0; ow < s.out_width(); ++ow, dy += s.channels) {
        for (std::int32_t c = 0; c < s.channels; ++c) shares[c] = dy[c] * share(s);
        float* left = columns.data() + std::size_t(ow) * s.stride * s.channels;
        for (std::int32_t kw = 0; kw < s.window_width; ++kw)
          add_to(shares.size(), shares.data(), left + std::size_t(kw) * s.channels);
      }
      float* top = dx + (std::size_t(n) * s.height + std::size_t(oh) * s.stride) * line;
      for (std::int32_t kh = 0; kh < s.window_height; ++kh) add_to(line, columns.data(), top + kh * line);
    }
}

struct Forward {
  template <class Device>
  static void run(Device& d, const AvgPoolArgs& args, In<Device> x, Out<Device> y) {
    const AvgPoolShape& s = args.shape;
    d.launch(kernels::avg_pool, s.outputs(), s.batch, s.height, s.width, s.channels, s.out_height(), s.out_width(),
             s.window_height, s.window_width, s.stride, share(s), x, y);
  }
};

struct Backward {
  template <class Device>
  static void run(Device& d, const AvgPoolArgs& args, In<Device> dy, Out<Device> dx) {
    const AvgPoolShape& s = args.shape;
    d.launch(kernels::avg_pool_spread, s.inputs(), s.batch, s.height, s.width, s.channels, s.out_height(),
             s.out_width(), s.window_height, s.window_width, s.stride, share(s), dy, dx);
  }
};

}  // namespace

const Codelet avg_pool_forward{"avg_pool_forward",
                               {STARPU_R, STARPU_W},
                               footprint_of<AvgPoolArgs>(),
                               {{"loops", cpu<forward>}},
                               on_devices<Forward>()};

const Codelet avg_pool_backward{"avg_pool_backward",
                                {STARPU_R, STARPU_W},
                                footprint_of<AvgPoolArgs>(),
                                {{"loops", cpu<backward>}},
                                on_devices<Backward>()};

}  // namespace prorata
