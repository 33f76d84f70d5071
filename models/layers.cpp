#include "models/layers.h"

#include "codelets/conv2d.h"
#include "codelets/dense.h"
#include "codelets/max_pool.h"
#include "codelets/relu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace prorata {
namespace {

class Dense : public Operation {
 public:
  Dense(const LayerSpec& layer, bool relu)
      : Operation(layer.name, layer.input, layer.output),
        args_{{0, static_cast<std::int32_t>(layer.input.size()), layer.output.channels, relu}} {}

  std::size_t weight_count() const override { return std::size_t(args_.shape.inputs) * args_.shape.outputs; }
  std::size_t bias_count() const override { return args_.shape.outputs; }
  std::vector<std::int64_t> torch_weight_shape() const override { return {args_.shape.outputs, args_.shape.inputs}; }
  std::size_t torch_weight_index(std::size_t i, const ImageShape& flattened) const override {
    const std::size_t inputs = args_.shape.inputs;
    const std::size_t pixels = std::size_t(flattened.height) * flattened.width;
    const std::size_t in = i % inputs;
    return i / inputs * inputs + in % pixels * flattened.channels + in / pixels;
  }

  void plan_forward(Plan& plan, const LayerBuffers& b) const override {
    plan.add(dense_forward, {b.x, b.params, b.y}, args_);
  }
  void plan_backward(Plan& plan, const LayerBuffers& b) const override {
    if (b.dx)
      plan.add(dense_backward, {b.x, b.params, b.y, b.dy, b.dparams, b.dx}, args_);
    else
      plan.add(dense_backward_parameters, {b.x, b.y, b.dy, b.dparams}, args_);
  }

 private:
  DenseArgs args_;
};

class Conv2d : public Operation {
 public:
  Conv2d(const LayerSpec& layer, const Conv2dSpec& spec, bool relu)
      : Operation(layer.name, layer.input, layer.output),
        args_{{0, layer.input.height, layer.input.width, layer.input.channels, spec.channels, spec.kernel, spec.stride,
               spec.padding, relu}} {}

  std::size_t weight_count() const override { return args_.shape.weights(); }
  std::size_t bias_count() const override { return args_.shape.out_channels; }
  std::vector<std::int64_t> torch_weight_shape() const override {
    const Conv2dShape& s = args_.shape;
    return {s.out_channels, s.in_channels, s.kernel, s.kernel};
  }
  std::size_t torch_weight_index(std::size_t i, const ImageShape& /*flattened*/) const override {
    const std::size_t channels = args_.shape.in_channels;
    const std::size_t window = std::size_t(args_.shape.kernel) * args_.shape.kernel;
    const std::size_t out = i / (channels * window);
    const std::size_t in = i / window % channels;
    return (out * window + i % window) * channels + in;
  }

  void plan_forward(Plan& plan, const LayerBuffers& b) const override {
    plan.add(conv2d_forward, {b.x, b.params, b.y}, args_);
  }
  void plan_backward(Plan& plan, const LayerBuffers& b) const override {
    if (b.dx)
      plan.add(conv2d_backward, {b.x, b.params, b.y, b.dy, b.dparams, b.dx}, args_);
    else
      plan.add(conv2d_backward_parameters, {b.x, b.y, b.dy, b.dparams}, args_);
  }

 private:
  Conv2dArgs args_;
};

class MaxPool : public Operation {
 public:
  MaxPool(const LayerSpec& layer, const MaxPoolSpec& spec)
      : Operation(layer.name, layer.input, layer.output),
        args_{{0, layer.input.height, layer.input.width, layer.input.channels, spec.window, spec.stride}} {}

  std::size_t extra_bytes() const override { return static_cast<std::size_t>(output().size()); }

  void plan_forward(Plan& plan, const LayerBuffers& b) const override {
    plan.add(max_pool_forward, {b.x, b.y, b.extra}, args_);
  }
  void plan_backward(Plan& plan, const LayerBuffers& b) const override {
    if (b.dx) plan.add(max_pool_backward, {b.extra, b.dy, b.dx}, args_);
  }

 private:
  MaxPoolArgs args_;
};

class Relu : public Operation {
 public:
  explicit Relu(const LayerSpec& layer)
      : Operation(layer.name, layer.input, layer.output), args_{{0, static_cast<std::int32_t>(layer.input.size())}} {}

  void plan_forward(Plan& plan, const LayerBuffers& b) const override { plan.add(relu_forward, {b.x, b.y}, args_); }
  void plan_backward(Plan& plan, const LayerBuffers& b) const override {
    if (b.dx) plan.add(relu_backward, {b.y, b.dy, b.dx}, args_);
  }

 private:
  ReluArgs args_;
};

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // C++20 has it implied, clang 14 does not

}  // namespace

starpu_task* make_task(const TaskPlan& planned) {
  starpu_task* task = starpu_task_create();
  task->cl = planned.codelet->starpu();
  std::copy(planned.buffers.begin(), planned.buffers.end(), task->handles);
  task->cl_arg = planned.args;
  task->cl_arg_size = 0;
  if (planned.at_home && starpu_cpu_worker_get_count() > 0) task->where = STARPU_CPU;
  return task;
}

void submit_task(starpu_task* task) {
  if (const int error = starpu_task_submit(task); error != 0)
    throw std::runtime_error(std::string("StarPU refused the task ") + task->cl->name + ": " + std::strerror(-error) +
                             "; no worker can run it");
}

void Operation::initialize(std::span<float> params, Random& random) const {
  std::fill(params.begin(), params.end(), 0.0f);
  if (weight_count() == 0) return;
  const double fan_in = static_cast<double>(weight_count()) / static_cast<double>(bias_count());
  const double bound = std::sqrt(6.0 / fan_in);
  for (float& w : params.first(weight_count())) w = static_cast<float>((2 * random.uniform() - 1) * bound);
}

std::vector<std::unique_ptr<const Operation>> make_operations(const NetworkSpec& spec) {
  std::vector<std::unique_ptr<const Operation>> operations;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    const bool relu = i + 1 < spec.layers.size() && std::holds_alternative<ReluSpec>(spec.layers[i + 1].type);
    const bool fused =
        relu && (std::holds_alternative<DenseSpec>(layer.type) || std::holds_alternative<Conv2dSpec>(layer.type));
    std::visit(Overloaded{[&](const DenseSpec&) { operations.push_back(std::make_unique<Dense>(layer, fused)); },
                          [&](const Conv2dSpec& s) { operations.push_back(std::make_unique<Conv2d>(layer, s, fused)); },
                          [&](const MaxPoolSpec& s) { operations.push_back(std::make_unique<MaxPool>(layer, s)); },
                          [&](const ReluSpec&) { operations.push_back(std::make_unique<Relu>(layer)); },
                          [&](const FlattenSpec&) {}},
               layer.type);
    if (fused) ++i;
  }
  return operations;
}

}  // namespace prorata
