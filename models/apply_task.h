// The task by which a gradient updates a block of the shared parameters: which codelet that is, for which optimizer, is
// decided here.
//
// The block's `version`, its number of updates, is also the number of the step that Adam's bias correction goes by. It
// is read and raised as the task holds the block, so under asynchrony, too, each update has a number of its own, in the
// order in which they are made.
#pragma once

#include "models/layers.h"
#include "models/network.h"
#include "models/optimizer.h"

#include <cstdint>
#include <optional>
#include <span>
#include <variant>

namespace prorata {

struct ApplyAdamArgs;
struct ApplyGradientArgs;

class ApplyTask {
 public:
  // Delay compensation: codelets/apply_gradient.h.
  struct Compensation {
    float lambda;
    starpu_data_handle_t snapshot;
  };

  // Appends the task to the plan, which is to outlive this; it is to be run at home. It is the plan's last task then.
  // `momentum`: of sgd, to be used in place of the block's, by Nesterov's formula (Remedies::dana).
  ApplyTask(Plan& plan, const Optimizer& optimizer, ParameterBlock& block, starpu_data_handle_t gradient,
            const std::optional<Compensation>& compensation = {}, const OptimizerState* momentum = nullptr);

  // Before the task is submitted.
  void set(const UpdateStep& step);
  // When a worker takes the task, which then holds the block: counts the update, and returns how many there were
  // before.
  std::uint64_t begin();
  // After begin(): lets the gradient count for less.
  void divide_weight(float by);

 private:
  ParameterBlock* block_;
  std::variant<ApplyGradientArgs*, ApplyAdamArgs*> args_;
};

struct BlockGradient {
  starpu_data_handle_t gradient;
  std::int32_t count;
};

// Appends tasks that clip the gradients, all together, to a norm of at most `most`. `squares`: one float in main
// memory, of the caller's. `at_home`: where the tasks are to be run.
void plan_clipping(Plan& plan, std::span<const BlockGradient> gradients, float most, starpu_data_handle_t squares,
                   bool at_home);

}  // namespace prorata
