#include "codelets/apply_gradient.h"

namespace prorata {
namespace {

void sgd(const ApplyGradientArgs& args, float* __restrict params, float* __restrict velocity,
         const float* __restrict gradient) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) {
    const float d = gradient[i] + args.weight_decay * params[i];
    velocity[i] = args.momentum * velocity[i] + d;
    params[i] -= args.learning_rate * velocity[i];
  }
}

}  // namespace

const Codelet apply_gradient{
    "apply_gradient", {STARPU_RW, STARPU_RW, STARPU_R}, footprint_of<ApplyGradientArgs>(), {{"loops", cpu<sgd>}}};

}  // namespace prorata
