#include "codelets/relu.h"

#include "codelets/kernels/elementwise.h"

#include <algorithm>

namespace prorata {
namespace {

std::size_t elements(const ReluArgs& args) { return std::size_t(args.shape.batch) * args.shape.features; }

void forward(const ReluArgs& args, const float* x, float* y) {
  std::transform(x, x + elements(args), y, [](float v) { return kernels::rectify(v, 0.0f); });
}

void backward(const ReluArgs& args, const float* y, const float* dy, float* dx) {
  kernels::relu_backward(elements(args), y, dy, dx);
}

}  // namespace

const Codelet relu_forward{"relu_forward", {STARPU_R, STARPU_W}, footprint_of<ReluArgs>(), {{"loops", cpu<forward>}}};

const Codelet relu_backward{
    "relu_backward", {STARPU_R, STARPU_R, STARPU_W}, footprint_of<ReluArgs>(), {{"loops", cpu<backward>}}};

}  // namespace prorata
