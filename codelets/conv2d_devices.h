// Convolution on devices, as conv2d.cpp offers it to StarPU.
#pragma once

#include "codelets/backend/bias.h"
#include "codelets/conv2d.h"
#include "codelets/device.h"
#include "codelets/kernels/kernels.h"
#if defined(PRORATA_CUDNN)
#include "codelets/backend/cudnn.h"
#endif

#include <algorithm>
#include <stdexcept>

namespace prorata {

inline void require_output(const Conv2dShape& s) {
  if (s.out_height() < 1 || s.out_width() < 1)
    throw std::invalid_argument("conv2d: the window is larger than the image and its padding");
}

// Pixels of all images of y, each a row of out_channels numbers.
inline std::size_t rows_of_output(const Conv2dShape& s) {
  return std::size_t(s.batch) * std::size_t(s.out_height()) * std::size_t(s.out_width());
}

// A matrix whose rows are the windows of the image, and products with it. It is made for as many images at
// a time as kConv2dWorkspace has room for, at least one.
namespace by_columns {

struct Columns {
  explicit Columns(const Conv2dShape& shape)
      : s(shape),
        pixels(std::size_t(s.out_height()) * s.out_width()),
        row(std::size_t(s.kernel) * s.kernel * s.in_channels),
        images(std::clamp<std::size_t>(kConv2dWorkspace / sizeof(float) / (pixels * row), 1, std::size_t(s.batch))) {}

  // Calls visit(first image, images, first row of y) for one lot after the other.
  template <class Visit>
  void for_each_lot(const Visit& visit) const {
    for (std::size_t first = 0; first < std::size_t(s.batch); first += images)
      visit(first, std::min(images, std::size_t(s.batch) - first), first * pixels);
  }

  template <class Device>
  Out<Device> room(Device& d) const {
    return d.template workspace<float>(images * pixels * row);
  }

  // From x to the matrix, and from there to dx.
  template <class Device>
  void gather(Device& d, std::size_t first, std::size_t n, In<Device> x, Out<Device> columns) const {
    const auto run = d.one_thread() ? s.kernel * s.in_channels : 1;
    d.launch(kernels::image_to_columns, n * pixels * row / std::size_t(run), as_int(n), as_int(first), s.height,
             s.width, s.in_channels, s.out_height(), s.out_width(), s.kernel, s.stride, s.padding, run, x, columns);
  }
  template <class Device>
  void scatter(Device& d, std::size_t first, std::size_t n, In<Device> columns, Out<Device> dx) const {
    d.launch(kernels::columns_to_image, n * std::size_t(s.height) * s.width * s.in_channels, as_int(n), as_int(first),
             s.height, s.width, s.in_channels, s.out_height(), s.out_width(), s.kernel, s.stride, s.padding, columns,
             dx);
  }

  const Conv2dShape& s;
  std::size_t pixels, row, images;  // row: of the matrix; images: at a time
};

struct Forward {
  template <class Device>
  static void run(Device& d, const Conv2dArgs& args, In<Device> x, In<Device> params, Out<Device> y) {
    const Conv2dShape& s = args.shape;
    require_output(s);
    const Columns c(s);
    const auto columns = c.room(d);
    c.for_each_lot([&](std::size_t first, std::size_t n, std::size_t at) {
      c.gather(d, first, n, x, columns);
      d.gemm({Transpose::no, Transpose::yes, std::int64_t(n * c.pixels), s.out_channels, std::int64_t(c.row)}, columns,
             0, params, 0, 0.0f, y, at * s.out_channels);
    });
    add_bias(d, rows_of_output(s), s.out_channels, params, s.weights(), s.relu, y);
  }
};

// dweights from dy, which is masked already.
template <class Device>
void weight_gradient(Device& d, const Conv2dShape& s, In<Device> x, In<Device> dy, Out<Device> dparams) {
  const Columns c(s);
  const auto columns = c.room(d);
  c.for_each_lot([&](std::size_t first, std::size_t n, std::size_t at) {
    c.gather(d, first, n, x, columns);
    d.gemm({Transpose::yes, Transpose::no, s.out_channels, std::int64_t(c.row), std::int64_t(n * c.pixels)}, dy,
           at * s.out_channels, columns, 0, first == 0 ? 0.0f : 1.0f, dparams, 0);
  });
}

template <class Device>
void input_gradient(Device& d, const Conv2dShape& s, In<Device> params, In<Device> dy, Out<Device> dx) {
  const Columns c(s);
  const auto columns = c.room(d);
  c.for_each_lot([&](std::size_t first, std::size_t n, std::size_t at) {
    d.gemm({Transpose::no, Transpose::no, std::int64_t(n * c.pixels), std::int64_t(c.row), s.out_channels}, dy,
           at * s.out_channels, params, 0, 0.0f, columns, 0);
    c.scatter(d, first, n, columns, dx);
  });
}

struct BackwardParameters {
  template <class Device>
  static void run(Device& d, const Conv2dArgs& args, In<Device> x, In<Device> y, Out<Device> dy, Out<Device> dparams) {
    const Conv2dShape& s = args.shape;
    require_output(s);
    add_bias_backward(d, rows_of_output(s), s.out_channels, y, s.relu, dy, dparams, s.weights());
    weight_gradient<Device>(d, s, x, dy, dparams);
  }
};

struct Backward {
  template <class Device>
  static void run(Device& d, const Conv2dArgs& args, In<Device> x, In<Device> params, In<Device> y, Out<Device> dy,
                  Out<Device> dparams, Out<Device> dx) {
    BackwardParameters::run<Device>(d, args, x, y, dy, dparams);
    input_gradient<Device>(d, args.shape, params, dy, dx);
  }
};

}  // namespace by_columns

// By cuDNN on CUDA devices, where that is built in; by columns where it has nothing for a shape. Bias and rectifier are
// our own kernels: cuDNN's rectifier turns not-a-number into 0, and a diverged network would look healthy.
namespace with_cudnn {

struct Forward;
struct BackwardParameters;
struct Backward;

#if defined(PRORATA_CUDNN)

struct Forward {
  static void run(Cuda& d, const Conv2dArgs& args, const float* x, const float* params, float* y) {
    const Conv2dShape& s = args.shape;
    require_output(s);
    if (!d.cudnn().forward(d, s, x, params, y)) return by_columns::Forward::run(d, args, x, params, y);
    add_bias(d, rows_of_output(s), s.out_channels, params, s.weights(), s.relu, y);
  }
};

struct BackwardParameters {
  static void run(Cuda& d, const Conv2dArgs& args, const float* x, const float* y, float* dy, float* dparams) {
    const Conv2dShape& s = args.shape;
    require_output(s);
    add_bias_backward(d, rows_of_output(s), s.out_channels, y, s.relu, dy, dparams, s.weights());
    if (!d.cudnn().backward_weights(d, s, x, dy, dparams)) by_columns::weight_gradient(d, s, x, dy, dparams);
  }
};

struct Backward {
  static void run(Cuda& d, const Conv2dArgs& args, const float* x, const float* params, const float* y, float* dy,
                  float* dparams, float* dx) {
    BackwardParameters::run(d, args, x, y, dy, dparams);
    if (!d.cudnn().backward_data(d, args.shape, params, dy, dx))
      by_columns::input_gradient(d, args.shape, params, dy, dx);
  }
};

#endif

}  // namespace with_cudnn
}  // namespace prorata
