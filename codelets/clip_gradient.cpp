#include "codelets/clip_gradient.h"

#include "codelets/kernels/kernels.h"

#include <algorithm>
#include <numeric>

namespace prorata {
namespace {

// As many sums as a vector holds, so that additions need not wait for one another.
void squares(const SumOfSquaresArgs& args, const float* gradient, float* sum) {
  constexpr std::int32_t kLanes = 16;
  double lanes[kLanes] = {};
  std::int32_t i = 0;
  for (; i + kLanes <= args.shape.count; i += kLanes)
    for (std::int32_t lane = 0; lane < kLanes; ++lane) {
      const double g = gradient[i + lane];
      lanes[lane] += g * g;
    }
  for (; i < args.shape.count; ++i) lanes[i % kLanes] += static_cast<double>(gradient[i]) * gradient[i];
  *sum = static_cast<float>(std::accumulate(std::begin(lanes), std::end(lanes), args.first ? 0.0 : double{*sum}));
}

void clip(const ClipGradientArgs& args, float* __restrict gradient, const float* __restrict all_squares) {
  const float factor = kernels::clip_factor(args.most, *all_squares);
  for (std::int32_t i = 0; i < args.shape.count; ++i) gradient[i] *= factor;
}

struct SumOfSquares {
  template <class Device>
  static void run(Device& d, const SumOfSquaresArgs& args, In<Device> gradient, Out<Device> sum) {
    constexpr std::int32_t kMostParts = 256;  // which one thread then adds up
    const std::int32_t parts = std::min(args.shape.count, kMostParts);
    const auto partial = d.template workspace<float>(static_cast<std::size_t>(parts));
    d.launch(kernels::square_parts, static_cast<std::size_t>(parts), args.shape.count, parts, gradient, partial);
    d.launch(kernels::add_parts, 1, parts, args.first, partial, sum);
  }
};

struct Clip {
  template <class Device>
  static void run(Device& d, const ClipGradientArgs& args, Out<Device> gradient, In<Device> all_squares) {
    d.launch(kernels::clip, static_cast<std::size_t>(args.shape.count), args.shape.count, args.most, gradient,
             all_squares);
  }
};

}  // namespace

const Codelet sum_of_squares{"sum_of_squares",
                             {STARPU_R, STARPU_RW},
                             footprint_of<SumOfSquaresArgs>(),
                             {{"loops", cpu<squares>}},
                             on_devices<SumOfSquares>()};

const Codelet clip_gradient{"clip_gradient",
                            {STARPU_RW, STARPU_R},
                            footprint_of<ClipGradientArgs>(),
                            {{"loops", cpu<clip>}},
                            on_devices<Clip>()};

}  // namespace prorata
