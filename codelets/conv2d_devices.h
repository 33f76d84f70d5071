// Convolution on devices, as conv2d.cpp offers it to StarPU.
#pragma once

#include "codelets/backend/bias.h"
#include "codelets/conv2d.h"
#include "codelets/device.h"
#include "codelets/kernels/grouped_conv2d.h"
#include "codelets/kernels/kernels.h"
#if defined(PRORATA_CUDNN)
#include "codelets/backend/cudnn.h"
#endif

#include <algorithm>
#include <stdexcept>

namespace prorata {

inline void require_valid(const Conv2dShape& s) {
  if (s.out_height() < 1 || s.out_width() < 1)
    throw std::invalid_argument("conv2d: the window is larger than the image and its padding");
  if (s.groups < 1 || s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0)
    throw std::invalid_argument("conv2d: the groups do not divide the channels of input and output");
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

template <class Device>
void convolve(Device& d, const Conv2dShape& s, In<Device> x, In<Device> params, Out<Device> y) {
  const Columns c(s);
  const auto columns = c.room(d);
  c.for_each_lot([&](std::size_t first, std::size_t n, std::size_t at) {
    c.gather(d, first, n, x, columns);
    d.gemm({Transpose::no, Transpose::yes, std::int64_t(n * c.pixels), s.out_channels, std::int64_t(c.row)}, columns, 0,
           params, 0, 0.0f, y, at * s.out_channels);
  });
}

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

}  // namespace by_columns

// Each element of the result by itself.
namespace in_groups {

template <class Device, class Kernel, class... Arrays>
void launch(Device& d, const Kernel& kernel, std::size_t count, const Conv2dShape& s, const Arrays&... rest) {
  d.launch(kernel, count, s.batch, s.height, s.width, s.in_channels, s.out_height(), s.out_width(), s.out_channels,
           s.kernel, s.stride, s.padding, s.groups, rest...);
}

template <class Device>
void convolve(Device& d, const Conv2dShape& s, In<Device> x, In<Device> params, Out<Device> y) {
  launch(d, kernels::grouped_conv2d, s.outputs(), s, x, params, y);
}

template <class Device>
void weight_gradient(Device& d, const Conv2dShape& s, In<Device> x, In<Device> dy, Out<Device> dparams) {
  const std::size_t weights = s.weights();
  const std::size_t room = std::max<std::size_t>(kConv2dWorkspace / sizeof(float) / weights, 1);
  const std::size_t parts = std::min(parts_of_sum(rows_of_output(s)), room);
  const auto partial = d.template workspace<float>(parts * weights);
  launch(d, kernels::grouped_conv2d_weight_gradient, parts * weights, s, as_int(parts), x, dy, partial);
  d.launch(kernels::sum_parts, weights, as_int(weights), as_int(parts), partial, dparams, 0);
}

template <class Device>
void input_gradient(Device& d, const Conv2dShape& s, In<Device> params, In<Device> dy, Out<Device> dx) {
  const std::size_t inputs = std::size_t(s.batch) * s.height * s.width * s.in_channels;
  launch(d, kernels::grouped_conv2d_input_gradient, inputs, s, params, dy, dx);
}

}  // namespace in_groups

// By our own kernels.
namespace on_our_own {

// Without bias and rectifier, and the gradients from dy, which is masked already.
template <class Device>
void convolve(Device& d, const Conv2dShape& s, In<Device> x, In<Device> params, Out<Device> y) {
  s.groups == 1 ? by_columns::convolve<Device>(d, s, x, params, y) : in_groups::convolve<Device>(d, s, x, params, y);
}
template <class Device>
void weight_gradient(Device& d, const Conv2dShape& s, In<Device> x, In<Device> dy, Out<Device> dparams) {
  s.groups == 1 ? by_columns::weight_gradient<Device>(d, s, x, dy, dparams)
                : in_groups::weight_gradient<Device>(d, s, x, dy, dparams);
}
template <class Device>
void input_gradient(Device& d, const Conv2dShape& s, In<Device> params, In<Device> dy, Out<Device> dx) {
  s.groups == 1 ? by_columns::input_gradient<Device>(d, s, params, dy, dx)
                : in_groups::input_gradient<Device>(d, s, params, dy, dx);
}

// What comes behind a convolution, and before its gradients.
template <class Device>
void finish(Device& d, const Conv2dShape& s, In<Device> params, Out<Device> y) {
  if (s.bias)
    add_bias(d, rows_of_output(s), s.out_channels, params, s.weights(), s.relu, y);
  else if (s.relu)
    d.launch(kernels::rectify, s.outputs(), as_int(s.outputs()), y, y);
}
template <class Device>
void finish_backward(Device& d, const Conv2dShape& s, In<Device> y, Out<Device> dy, Out<Device> dparams) {
  if (s.bias)
    add_bias_backward(d, rows_of_output(s), s.out_channels, y, s.relu, dy, dparams, s.weights());
  else if (s.relu)
    d.launch(kernels::rectify_backward, s.outputs(), as_int(s.outputs()), y, dy, dy);
}

struct Forward {
  template <class Device>
  static void run(Device& d, const Conv2dArgs& args, In<Device> x, In<Device> params, Out<Device> y) {
    require_valid(args.shape);
    convolve<Device>(d, args.shape, x, params, y);
    finish<Device>(d, args.shape, params, y);
  }
};

struct BackwardParameters {
  template <class Device>
  static void run(Device& d, const Conv2dArgs& args, In<Device> x, In<Device> y, Out<Device> dy, Out<Device> dparams) {
    require_valid(args.shape);
    finish_backward<Device>(d, args.shape, y, dy, dparams);
    weight_gradient<Device>(d, args.shape, x, dy, dparams);
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

}  // namespace on_our_own

// By cuDNN on CUDA devices, where that is built in; on our own where it has nothing for a shape. Bias and rectifier are
// our own kernels: cuDNN's rectifier turns not-a-number into 0, and a diverged network would look healthy.
namespace with_cudnn {

struct Forward;
struct BackwardParameters;
struct Backward;

#if defined(PRORATA_CUDNN)

struct Forward {
  static void run(Cuda& d, const Conv2dArgs& args, const float* x, const float* params, float* y) {
    const Conv2dShape& s = args.shape;
    require_valid(s);
    if (!d.cudnn().forward(d, s, x, params, y)) on_our_own::convolve<Cuda>(d, s, x, params, y);
    on_our_own::finish<Cuda>(d, s, params, y);
  }
};

struct BackwardParameters {
  static void run(Cuda& d, const Conv2dArgs& args, const float* x, const float* y, float* dy, float* dparams) {
    const Conv2dShape& s = args.shape;
    require_valid(s);
    on_our_own::finish_backward<Cuda>(d, s, y, dy, dparams);
    if (!d.cudnn().backward_weights(d, s, x, dy, dparams)) on_our_own::weight_gradient<Cuda>(d, s, x, dy, dparams);
  }
};

struct Backward {
  static void run(Cuda& d, const Conv2dArgs& args, const float* x, const float* params, const float* y, float* dy,
                  float* dparams, float* dx) {
    BackwardParameters::run(d, args, x, y, dy, dparams);
    if (!d.cudnn().backward_data(d, args.shape, params, dy, dx))
      on_our_own::input_gradient<Cuda>(d, args.shape, params, dy, dx);
  }
};

#endif

}  // namespace with_cudnn
}  // namespace prorata
