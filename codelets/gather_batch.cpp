#include "codelets/gather_batch.h"

#include "codelets/kernels/kernels.h"

namespace prorata {
namespace {

template <class Element>
void loops(const GatherBatchArgs& args, const Element* images, const std::int32_t* labels, float* x, std::int32_t* y) {
  const auto [batch, features] = args.shape;
  for (std::int32_t n = 0; n < batch; ++n) {
    const std::uint32_t sample = args.indices[n];
    const Element* from = images + std::size_t(sample) * features;
    float* to = x + std::size_t(n) * features;
    for (std::int32_t i = 0; i < features; ++i) to[i] = static_cast<float>(from[i]) * args.scale;
    y[n] = labels[sample];
  }
}

template <class Element, const auto& Kernel>
struct Gather {
  template <class Device>
  static void run(Device& d, const GatherBatchArgs& args, In<Device, Element> images, In<Device, std::int32_t> labels,
                  Out<Device> x, Out<Device, std::int32_t> y) {
    const auto [batch, features] = args.shape;
    const auto samples = static_cast<std::size_t>(batch);
    const auto indices = d.upload(args.indices, samples);
    d.launch(Kernel, samples * features, batch, features, images, indices, args.scale, x);
    d.launch(kernels::gather_labels, samples, batch, labels, indices, y);
  }
};

}  // namespace

const Codelet gather_batch{"gather_batch",
                           {STARPU_R, STARPU_R, STARPU_W, STARPU_W},
                           footprint_of<GatherBatchArgs>(),
                           {{"loops", cpu<loops<std::uint8_t>>}},
                           on_devices<Gather<std::uint8_t, kernels::gather_bytes>>()};

const Codelet gather_floats{"gather_floats",
                            {STARPU_R, STARPU_R, STARPU_W, STARPU_W},
                            footprint_of<GatherBatchArgs>(),
                            {{"loops", cpu<loops<float>>}},
                            on_devices<Gather<float, kernels::gather_floats>>()};

}  // namespace prorata
