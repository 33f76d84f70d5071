#include "codelets/relu.h"

#include "codelets/kernels/elementwise.h"
#include "codelets/kernels/kernels.h"

#include <algorithm>

namespace prorata {
namespace {

std::size_t elements(const ReluArgs& args) { return std::size_t(args.shape.batch) * args.shape.features; }

void forward(const ReluArgs& args, const float* x, float* y) {
  std::transform(x, x + elements(args), y, [](float v) { return elementwise::rectify(v, 0.0f); });
}

void backward(const ReluArgs& args, const float* y, const float* dy, float* dx) {
  elementwise::relu_backward(elements(args), y, dy, dx);
}

struct Forward {
  template <class Device>
  static void run(Device& d, const ReluArgs& args, In<Device> x, Out<Device> y) {
    d.launch(kernels::rectify, elements(args), as_int(elements(args)), x, y);
  }
};

struct Backward {
  template <class Device>
  static void run(Device& d, const ReluArgs& args, In<Device> y, In<Device> dy, Out<Device> dx) {
    d.launch(kernels::rectify_backward, elements(args), as_int(elements(args)), y, dy, dx);
  }
};

}  // namespace

const Codelet relu_forward{
    "relu_forward", {STARPU_R, STARPU_W}, footprint_of<ReluArgs>(), {{"loops", cpu<forward>}}, on_devices<Forward>()};

const Codelet relu_backward{"relu_backward",
                            {STARPU_R, STARPU_R, STARPU_W},
                            footprint_of<ReluArgs>(),
                            {{"loops", cpu<backward>}},
                            on_devices<Backward>()};

}  // namespace prorata
