#include "models/apply_task.h"

#include "codelets/apply_adam.h"
#include "codelets/apply_gradient.h"
#include "codelets/backend/happens_before.h"
#include "codelets/clip_gradient.h"

namespace prorata {
namespace {

ApplyGradientArgs sgd_args(ApplyGradientShape shape, bool nesterov) {
  return {.shape = shape, .learning_rate = 0, .momentum = 0, .weight_decay = 0, .nesterov = nesterov};
}

ApplyAdamArgs adam_args(const Optimizer& optimizer, ApplyGradientShape shape) {
  return {.shape = shape,
          .learning_rate = 0,
          .beta1 = optimizer.beta1,
          .beta2 = optimizer.beta2,
          .epsilon = static_cast<float>(optimizer.epsilon),
          .weight_decay = 0,
          .decoupled = optimizer.kind == OptimizerKind::adamw};
}

}  // namespace

ApplyTask::ApplyTask(Plan& plan, const Optimizer& optimizer, ParameterBlock& block, starpu_data_handle_t gradient,
                     const std::optional<Compensation>& compensation, const OptimizerState* momentum)
    : block_(&block) {
  const ApplyGradientShape shape{static_cast<std::int32_t>(block.values.count)};
  std::vector<starpu_data_handle_t> buffers{block.values_handle.get()};
  for (const OptimizerState& state : block.state) buffers.push_back((momentum ? momentum : &state)->handle.get());
  buffers.push_back(gradient);
  if (compensation) buffers.push_back(compensation->snapshot);

  if (is_adam(optimizer.kind)) {
    const ApplyAdamArgs args = adam_args(optimizer, shape);
    args_ = compensation ? &plan.add_at_home(apply_compensated_adam, std::move(buffers),
                                             ApplyCompensatedAdamArgs{args, compensation->lambda})
                         : &plan.add_at_home(apply_adam, std::move(buffers), args);
  } else {
    const ApplyGradientArgs args = sgd_args(shape, optimizer.nesterov || momentum);
    args_ = compensation ? &plan.add_at_home(apply_compensated_gradient, std::move(buffers),
                                             ApplyCompensatedGradientArgs{args, compensation->lambda})
                         : &plan.add_at_home(apply_gradient, std::move(buffers), args);
  }
}

void ApplyTask::set(const UpdateStep& step) {
  std::visit(
      [&step](auto* args) {
        args->learning_rate = step.learning_rate;
        args->weight_decay = step.weight_decay;
        args->weight = step.weight;
        if constexpr (requires { args->momentum; }) args->momentum = step.momentum;
      },
      args_);
}

std::uint64_t ApplyTask::begin() {
  const HandleHeld held(block_);
  const std::uint64_t before = block_->version++;
  if (ApplyAdamArgs** adam = std::get_if<ApplyAdamArgs*>(&args_)) (*adam)->step = block_->version;
  return before;
}

void ApplyTask::divide_weight(float by) {
  std::visit([by](auto* args) { args->weight /= by; }, args_);
}

void plan_clipping(Plan& plan, std::span<const BlockGradient> gradients, float most, starpu_data_handle_t squares,
                   bool at_home) {
  const auto add = [&](const Codelet& codelet, starpu_data_handle_t gradient, const auto& args) {
    if (at_home)
      plan.add_at_home(codelet, {gradient, squares}, args);
    else
      plan.add(codelet, {gradient, squares}, args);
  };
  bool first = true;
  for (const BlockGradient& block : gradients) {
    add(sum_of_squares, block.gradient, SumOfSquaresArgs{{block.count}, first});
    first = false;
  }
  for (const BlockGradient& block : gradients)
    add(clip_gradient, block.gradient, ClipGradientArgs{{block.count}, most});
}

}  // namespace prorata
