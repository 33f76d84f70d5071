#include "codelets/apply_gradient.h"

namespace prorata {
namespace {

inline void step(const ApplyGradientArgs& args, float gradient, float& param, float& velocity) {
  velocity = args.momentum * velocity + (args.weight * gradient + args.weight_decay * param);
  param -= args.learning_rate * velocity;
}

void sgd(const ApplyGradientArgs& args, float* __restrict params, float* __restrict velocity,
         const float* __restrict gradient) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) step(args, gradient[i], params[i], velocity[i]);
}

void compensated_sgd(const ApplyCompensatedGradientArgs& args, float* __restrict params, float* __restrict velocity,
                     const float* __restrict gradient, const float* __restrict snapshot) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) {
    const float g = gradient[i];
    step(args, g + args.compensation * g * g * (params[i] - snapshot[i]), params[i], velocity[i]);
  }
}

void accumulate(const AccumulateGradientArgs& args, float* __restrict sum, const float* __restrict gradient) {
  if (args.first)
    for (std::int32_t i = 0; i < args.shape.count; ++i) sum[i] = args.weight * gradient[i];
  else
    for (std::int32_t i = 0; i < args.shape.count; ++i) sum[i] += args.weight * gradient[i];
}

}  // namespace

const Codelet apply_gradient{
    "apply_gradient", {STARPU_RW, STARPU_RW, STARPU_R}, footprint_of<ApplyGradientArgs>(), {{"loops", cpu<sgd>}}};

const Codelet apply_compensated_gradient{"apply_compensated_gradient",
                                         {STARPU_RW, STARPU_RW, STARPU_R, STARPU_R},
                                         footprint_of<ApplyCompensatedGradientArgs>(),
                                         {{"loops", cpu<compensated_sgd>}}};

const Codelet accumulate_gradient{
    "accumulate_gradient", {STARPU_RW, STARPU_R}, footprint_of<AccumulateGradientArgs>(), {{"loops", cpu<accumulate>}}};

}  // namespace prorata
