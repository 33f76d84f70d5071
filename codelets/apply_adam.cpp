#include "codelets/apply_adam.h"

#include "codelets/kernels/kernels.h"

#include <cmath>

namespace prorata {
namespace {

// What is the same for all elements.
struct Factors {
  explicit Factors(const ApplyAdamArgs& a)
      : keep(a.decoupled ? static_cast<float>(1 - double{a.learning_rate} * a.weight_decay) : 1.0f),
        decay(a.decoupled ? 0.0f : a.weight_decay),
        beta1(static_cast<float>(a.beta1)),
        rest1(static_cast<float>(1 - a.beta1)),
        beta2(static_cast<float>(a.beta2)),
        rest2(static_cast<float>(1 - a.beta2)),
        step_size(static_cast<float>(a.learning_rate / (1 - std::pow(a.beta1, static_cast<double>(a.step))))),
        correction2(static_cast<float>(std::sqrt(1 - std::pow(a.beta2, static_cast<double>(a.step))))) {}

  float keep, decay, beta1, rest1, beta2, rest2, step_size, correction2;
};

inline void step(const Factors& f, const ApplyAdamArgs& args, float gradient, float& param, float& exp_avg,
                 float& exp_avg_sq) {
  const float p = f.keep * param;
  const float d = args.weight * gradient + f.decay * p;
  exp_avg = f.beta1 * exp_avg + f.rest1 * d;
  exp_avg_sq = f.beta2 * exp_avg_sq + f.rest2 * d * d;
  param = p - f.step_size * exp_avg / (std::sqrt(exp_avg_sq) / f.correction2 + args.epsilon);
}

void adam(const ApplyAdamArgs& args, float* __restrict params, float* __restrict exp_avg, float* __restrict exp_avg_sq,
          const float* __restrict gradient) {
  const Factors f(args);
  for (std::int32_t i = 0; i < args.shape.count; ++i) step(f, args, gradient[i], params[i], exp_avg[i], exp_avg_sq[i]);
}

void compensated_adam(const ApplyCompensatedAdamArgs& args, float* __restrict params, float* __restrict exp_avg,
                      float* __restrict exp_avg_sq, const float* __restrict gradient,
                      const float* __restrict snapshot) {
  const Factors f(args);
  for (std::int32_t i = 0; i < args.shape.count; ++i)
    step(f, args, kernels::compensated(gradient[i], args.compensation, params[i], snapshot[i]), params[i], exp_avg[i],
         exp_avg_sq[i]);
}

template <class Device>
void step_on(Device& d, const ApplyAdamArgs& args, float compensation, Out<Device> params, Out<Device> exp_avg,
             Out<Device> exp_avg_sq, In<Device> gradient, In<Device> snapshot) {
  const Factors f(args);
  d.launch(kernels::adam, static_cast<std::size_t>(args.shape.count), args.shape.count, f.keep, f.decay, args.weight,
           f.beta1, f.rest1, f.beta2, f.rest2, f.step_size, f.correction2, args.epsilon, compensation, params, exp_avg,
           exp_avg_sq, gradient, snapshot);
}

struct Apply {
  template <class Device>
  static void run(Device& d, const ApplyAdamArgs& args, Out<Device> params, Out<Device> exp_avg, Out<Device> exp_avg_sq,
                  In<Device> gradient) {
    step_on(d, args, 0.0f, params, exp_avg, exp_avg_sq, gradient, gradient);
  }
};

struct ApplyCompensated {
  template <class Device>
  static void run(Device& d, const ApplyCompensatedAdamArgs& args, Out<Device> params, Out<Device> exp_avg,
                  Out<Device> exp_avg_sq, In<Device> gradient, In<Device> snapshot) {
    step_on(d, args, args.compensation, params, exp_avg, exp_avg_sq, gradient, snapshot);
  }
};

}  // namespace

const Codelet apply_adam{"apply_adam",
                         {STARPU_RW, STARPU_RW, STARPU_RW, STARPU_R},
                         footprint_of<ApplyAdamArgs>(),
                         {{"loops", cpu<adam>}},
                         on_devices<Apply>()};

const Codelet apply_compensated_adam{"apply_compensated_adam",
                                     {STARPU_RW, STARPU_RW, STARPU_RW, STARPU_R, STARPU_R},
                                     footprint_of<ApplyCompensatedAdamArgs>(),
                                     {{"loops", cpu<compensated_adam>}},
                                     on_devices<ApplyCompensated>()};

}  // namespace prorata
