#include "codelets/apply_gradient.h"

#include "codelets/kernels/kernels.h"

namespace prorata {
namespace {

inline void step(const ApplyGradientArgs& args, float gradient, float& param, float& momentum_buffer) {
  const float d = args.weight * gradient + args.weight_decay * param;
  momentum_buffer = args.momentum * momentum_buffer + d;
  param -= args.learning_rate * (args.nesterov ? d + args.momentum * momentum_buffer : momentum_buffer);
}

void sgd(const ApplyGradientArgs& args, float* __restrict params, float* __restrict momentum_buffer,
         const float* __restrict gradient) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) step(args, gradient[i], params[i], momentum_buffer[i]);
}

void compensated_sgd(const ApplyCompensatedGradientArgs& args, float* __restrict params,
                     float* __restrict momentum_buffer, const float* __restrict gradient,
                     const float* __restrict snapshot) {
  for (std::int32_t i = 0; i < args.shape.count; ++i)
    step(args, kernels::compensated(gradient[i], args.compensation, params[i], snapshot[i]), params[i],
         momentum_buffer[i]);
}

void accumulate(const AccumulateGradientArgs& args, float* __restrict sum, const float* __restrict gradient) {
  if (args.first)
    for (std::int32_t i = 0; i < args.shape.count; ++i) sum[i] = args.weight * gradient[i];
  else
    for (std::int32_t i = 0; i < args.shape.count; ++i) sum[i] += args.weight * gradient[i];
}

template <class Device>
void step_on(Device& d, const ApplyGradientArgs& a, float compensation, Out<Device> params, Out<Device> momentum_buffer,
             In<Device> gradient, In<Device> snapshot) {
  d.launch(kernels::sgd, static_cast<std::size_t>(a.shape.count), a.shape.count, a.learning_rate, a.momentum,
           a.weight_decay, a.weight, a.nesterov, compensation, params, momentum_buffer, gradient, snapshot);
}

struct Apply {
  template <class Device>
  static void run(Device& d, const ApplyGradientArgs& args, Out<Device> params, Out<Device> momentum_buffer,
                  In<Device> gradient) {
    step_on(d, args, 0.0f, params, momentum_buffer, gradient, gradient);
  }
};

struct ApplyCompensated {
  template <class Device>
  static void run(Device& d, const ApplyCompensatedGradientArgs& args, Out<Device> params, Out<Device> momentum_buffer,
                  In<Device> gradient, In<Device> snapshot) {
    step_on(d, args, args.compensation, params, momentum_buffer, gradient, snapshot);
  }
};

struct Accumulate {
  template <class Device>
  static void run(Device& d, const AccumulateGradientArgs& args, Out<Device> sum, In<Device> gradient) {
    d.launch(kernels::accumulate, static_cast<std::size_t>(args.shape.count), args.shape.count, args.weight, args.first,
             gradient, sum);
  }
};

}  // namespace

const Codelet apply_gradient{"apply_gradient",
                             {STARPU_RW, STARPU_RW, STARPU_R},
                             footprint_of<ApplyGradientArgs>(),
                             {{"loops", cpu<sgd>}},
                             on_devices<Apply>()};

const Codelet apply_compensated_gradient{"apply_compensated_gradient",
                                         {STARPU_RW, STARPU_RW, STARPU_R, STARPU_R},
                                         footprint_of<ApplyCompensatedGradientArgs>(),
                                         {{"loops", cpu<compensated_sgd>}},
                                         on_devices<ApplyCompensated>()};

const Codelet accumulate_gradient{"accumulate_gradient",
                                  {STARPU_RW, STARPU_R},
                                  footprint_of<AccumulateGradientArgs>(),
                                  {{"loops", cpu<accumulate>}},
                                  on_devices<Accumulate>()};

}  // namespace prorata
