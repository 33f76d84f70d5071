#include "models/layers.h"

#include "codelets/add.h"
#include "codelets/avg_pool.h"
#include "codelets/batch_norm.h"
#include "codelets/conv2d.h"
#include "codelets/dense.h"
#include "codelets/dropout.h"
#include "codelets/max_pool.h"
#include "codelets/relu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace prorata {
namespace {

using Reads = std::vector<std::size_t>;

class Dense : public Operation {
 public:
  Dense(const LayerSpec& layer, Reads reads, bool relu)
      : Operation(layer, std::move(reads)),
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
    plan.add(dense_forward, {b.x[0], b.params, b.y}, args_);
  }
  void plan_backward(Plan& plan, const LayerBuffers& b) const override {
    if (b.dx[0])
      plan.add(dense_backward, {b.x[0], b.params, b.y, b.dy, b.dparams, b.dx[0]}, args_);
    else
      plan.add(dense_backward_parameters, {b.x[0], b.y, b.dy, b.dparams}, args_);
  }

 private:
  DenseArgs args_;
};

class Conv2d : public Operation {
 public:
  Conv2d(const LayerSpec& layer, Reads reads, const Conv2dSpec& spec, bool relu)
      : Operation(layer, std::move(reads)),
        args_{{0, layer.input.height, layer.input.width, layer.input.channels, spec.channels, spec.kernel, spec.stride,
               spec.padding, relu, spec.groups, spec.bias}} {}

  std::size_t weight_count() const override { return args_.shape.weights(); }
  std::size_t bias_count() const override { return args_.shape.bias ? args_.shape.out_channels : 0; }
  std::vector<std::int64_t> torch_weight_shape() const override {
    const Conv2dShape& s = args_.shape;
    return {s.out_channels, s.in_channels / s.groups, s.kernel, s.kernel};
  }
  std::size_t torch_weight_index(std::size_t i, const ImageShape& /*flattened*/) const override {
    const std::size_t channels = args_.shape.in_channels / args_.shape.groups;
    const std::size_t window = std::size_t(args_.shape.kernel) * args_.shape.kernel;
    const std::size_t out = i / (channels * window);
    const std::size_t in = i / window % channels;
    return (out * window + i % window) * channels + in;
  }

  void plan_forward(Plan& plan, const LayerBuffers& b) const override {
    plan.add(conv2d_forward, {b.x[0], b.params, b.y}, args_);
  }
  void plan_backward(Plan& plan, const LayerBuffers& b) const override {
    if (b.dx[0])
      plan.add(conv2d_backward, {b.x[0], b.params, b.y, b.dy, b.dparams, b.dx[0]}, args_);
    else
      plan.add(conv2d_backward_parameters, {b.x[0], b.y, b.dy, b.dparams}, args_);
  }

 private:
  Conv2dArgs args_;
};

class BatchNorm : public Operation {
 public:
  BatchNorm(const LayerSpec& layer, Reads reads, const BatchNormSpec& spec, bool relu)
      : Operation(layer, std::move(reads)),
        args_{{0, layer.input.height * layer.input.width, layer.input.channels, relu}, spec.epsilon},
        momentum_(spec.momentum) {}

  std::size_t weight_count() const override { return args_.shape.channels; }
  std::size_t bias_count() const override { return args_.shape.channels; }
  std::vector<std::int64_t> torch_weight_shape() const override { return {args_.shape.channels}; }
  std::size_t extra_bytes(std::size_t /*batch*/) const override { return 3 * weight_count() * sizeof(float); }
  std::size_t statistics_channels() const override { return weight_count(); }
  float statistics_momentum() const override { return momentum_; }

  void initialize(std::span<float> params, Random& /*random*/) const override {
    std::ranges::fill(params.first(weight_count()), 1.0f);
    std::ranges::fill(params.subspan(weight_count()), 0.0f);
  }

  void plan_forward(Plan& plan, const LayerBuffers& b) const override {
    plan.add(batch_norm_forward, {b.x[0], b.params, b.y, b.extra}, args_);
  }
  void plan_inference(Plan& plan, const LayerBuffers& b) const override {
    plan.add(batch_norm_inference, {b.x[0], b.params, b.running, b.y}, args_);
  }
  void plan_backward(Plan& plan, const LayerBuffers& b) const override {
    if (b.dx[0])
      plan.add(batch_norm_backward, {b.x[0], b.params, b.extra, b.y, b.dy, b.dparams, b.dx[0]}, args_);
    else
      plan.add(batch_norm_backward_parameters, {b.x[0], b.extra, b.y, b.dy, b.dparams}, args_);
  }

 private:
  BatchNormArgs args_;
  float momentum_;
};

class MaxPool : public Operation {
 public:
  MaxPool(const LayerSpec& layer, Reads reads, const MaxPoolSpec& spec)
      : Operation(layer, std::move(reads)),
        args_{{0, layer.input.height, layer.input.width, layer.input.channels, spec.window, spec.stride}} {}

  std::size_t extra_bytes(std::size_t batch) const override {
    return batch * static_cast<std::size_t>(output().size());
  }

  void plan_forward(Plan& plan, const LayerBuffers& b) const override {
    plan.add(max_pool_forward, {b.x[0], b.y, b.extra}, args_);
  }
  void plan_backward(Plan& plan, const LayerBuffers& b) const override {
    plan.add(max_pool_backward, {b.extra, b.dy, b.dx[0]}, args_);
  }

 private:
  MaxPoolArgs args_;
};

class AvgPool : public Operation {
 public:
  AvgPool(const LayerSpec& layer, Reads reads, std::int32_t window_height, std::int32_t window_width,
          std::int32_t stride)
      : Operation(layer, std::move(reads)),
        args_{{0, layer.input.height, layer.input.width, layer.input.channels, window_height, window_width, stride}} {}

  void plan_forward(Plan& plan, const LayerBuffers& b) const override {
    plan.add(avg_pool_forward, {b.x[0], b.y}, args_);
  }
  void plan_backward(Plan& plan, const LayerBuffers& b) const override {
    plan.add(avg_pool_backward, {b.dy, b.dx[0]}, args_);
  }

 private:
  AvgPoolArgs args_;
};

class Dropout : public Operation {
 public:
  Dropout(const LayerSpec& layer, Reads reads, const DropoutSpec& spec, std::size_t value)
      : Operation(layer, std::move(reads)),
        args_{{0, static_cast<std::int32_t>(layer.input.size())},
              spec.probability,
              0,
              0,
              static_cast<std::uint32_t>(value)} {}

  void plan_forward(Plan& plan, const LayerBuffers& b) const override { plan.add(dropout, {b.x[0], b.y}, args_); }
  void plan_inference(Plan& plan, const LayerBuffers& b) const override {
    DropoutArgs none = args_;
    none.probability = 0;
    plan.add(dropout, {b.x[0], b.y}, none);
  }
  void plan_backward(Plan& plan, const LayerBuffers& b) const override { plan.add(dropout, {b.dy, b.dx[0]}, args_); }

 private:
  DropoutArgs args_;
};

class Add : public Operation {
 public:
  Add(const LayerSpec& layer, Reads reads, bool relu)
      : Operation(layer, std::move(reads)), args_{{0, static_cast<std::int32_t>(layer.input.size()), relu}} {}

  void plan_forward(Plan& plan, const LayerBuffers& b) const override {
    plan.add(add_forward, {b.x[0], b.x[1], b.y}, args_);
  }
  void plan_backward(Plan& plan, const LayerBuffers& b) const override {
    plan.add(add_backward, {b.y, b.dy, b.dx[0] ? b.dx[0] : b.unwanted, b.dx[1] ? b.dx[1] : b.unwanted}, args_);
  }

 private:
  AddArgs args_;
};

class Relu : public Operation {
 public:
  Relu(const LayerSpec& layer, Reads reads)
      : Operation(layer, std::move(reads)), args_{{0, static_cast<std::int32_t>(layer.input.size())}} {}

  void plan_forward(Plan& plan, const LayerBuffers& b) const override { plan.add(relu_forward, {b.x[0], b.y}, args_); }
  void plan_backward(Plan& plan, const LayerBuffers& b) const override {
    plan.add(relu_backward, {b.y, b.dy, b.dx[0]}, args_);
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
  if (planned.at_home && starpu_cpu_worker_get_count() > 0) {
    task->where = STARPU_CPU;
    task->priority = STARPU_MAX_PRIO;
  }
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
  const double fan_in = static_cast<double>(weight_count()) / static_cast<double>(torch_weight_shape().front());
  const double bound = std::sqrt(6.0 / fan_in);
  for (float& w : params.first(weight_count())) w = static_cast<float>((2 * random.uniform() - 1) * bound);
}

bool takes_relu(const LayerSpec& layer) {
  return std::holds_alternative<DenseSpec>(layer.type) || std::holds_alternative<Conv2dSpec>(layer.type) ||
         std::holds_alternative<BatchNormSpec>(layer.type) || std::holds_alternative<AddSpec>(layer.type);
}

std::unique_ptr<const Operation> make_operation(const LayerSpec& layer, Reads reads, std::size_t value, bool relu) {
  using Made = std::unique_ptr<const Operation>;
  return std::visit(
      Overloaded{[&](const DenseSpec&) -> Made { return std::make_unique<Dense>(layer, reads, relu); },
                 [&](const Conv2dSpec& s) -> Made { return std::make_unique<Conv2d>(layer, reads, s, relu); },
                 [&](const BatchNormSpec& s) -> Made { return std::make_unique<BatchNorm>(layer, reads, s, relu); },
                 [&](const MaxPoolSpec& s) -> Made { return std::make_unique<MaxPool>(layer, reads, s); },
                 [&](const AvgPoolSpec& s) -> Made {
                   return std::make_unique<AvgPool>(layer, reads, s.window, s.window, s.stride);
                 },
                 [&](const GlobalAvgPoolSpec&) -> Made {
                   return std::make_unique<AvgPool>(layer, reads, layer.input.height, layer.input.width, 1);
                 },
                 [&](const DropoutSpec& s) -> Made { return std::make_unique<Dropout>(layer, reads, s, value); },
                 [&](const AddSpec&) -> Made { return std::make_unique<Add>(layer, reads, relu); },
                 [&](const ReluSpec&) -> Made { return std::make_unique<Relu>(layer, reads); },
                 [&](const auto&) -> Made { throw std::logic_error("no operation of this layer"); }},
      layer.type);
}

}  // namespace prorata
