#include "codelets/gather_batch.h"

#include "codelets/kernels/kernels.h"

namespace prorata {
namespace {

void loops(const GatherBatchArgs& args, const std::uint8_t* images, const std::uint8_t* labels, float* x,
           std::int32_t* y) {
  const auto [batch, features] = args.shape;
  for (std::int32_t n = 0; n < batch; ++n) {
    const std::uint32_t sample = args.indices[n];
    const std::uint8_t* from = images + std::size_t(sample) * features;
    float* to = x + std::size_t(n) * features;
    for (std::int32_t i = 0; i < features; ++i) to[i] = static_cast<float>(from[i]) * args.scale;
    y[n] = labels[sample];
  }
}

struct Gather {
  template <class Device>
  static void run(Device& d, const GatherBatchArgs& args, In<Device, std::uint8_t> images,
                  In<Device, std::uint8_t> labels, Out<Device> x, Out<Device, std::int32_t> y) {
    const auto [batch, features] = args.shape;
    const auto samples = static_cast<std::size_t>(batch);
    const auto indices = d.upload(args.indices, samples);
    d.launch(kernels::gather_images, samples * features, batch, features, images, indices, args.scale, x);
    d.launch(kernels::gather_labels, samples, batch, labels, indices, y);
  }
};

}  // namespace

const Codelet gather_batch{"gather_batch",
                           {STARPU_R, STARPU_R, STARPU_W, STARPU_W},
                           footprint_of<GatherBatchArgs>(),
                           {{"loops", cpu<loops>}},
                           on_devices<Gather>()};

}  // namespace prorata
