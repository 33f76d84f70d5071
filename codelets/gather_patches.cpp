#include "codelets/gather_patches.h"

#include "codelets/kernels/kernels.h"

#include <algorithm>

namespace prorata {
namespace {

void loops(const GatherPatchesArgs& args, const float* scene, const std::uint32_t* places, const std::int32_t* labels,
           float* x, std::int32_t* y) {
  const auto [batch, height, width, channels] = args.shape;
  for (std::int32_t n = 0; n < batch; ++n) {
    const std::uint32_t sample = args.indices[n];
    const auto place = static_cast<std::int32_t>(places[sample]);
    const std::int32_t top = place / args.columns - height / 2, left = place % args.columns - width / 2;
    for (std::int32_t h = 0; h < height; ++h) {
      const std::int64_t row = kernels::mirrored(top + h, args.rows);
      for (std::int32_t w = 0; w < width; ++w) {
        const std::int64_t pixel = row * args.columns + kernels::mirrored(left + w, args.columns);
        x = std::copy_n(scene + pixel * channels, channels, x);
      }
    }
    y[n] = labels[sample];
  }
}

struct GatherPatches {
  template <class Device>
  static void run(Device& d, const GatherPatchesArgs& args, In<Device> scene, In<Device, std::uint32_t> places,
                  In<Device, std::int32_t> labels, Out<Device> x, Out<Device, std::int32_t> y) {
    const auto [batch, height, width, channels] = args.shape;
    const auto samples = static_cast<std::size_t>(batch);
    const auto indices = d.upload(args.indices, samples);
    d.launch(kernels::gather_patches, samples * height * width * channels, batch, height, width, channels, args.rows,
             args.columns, scene, places, indices, x);
    d.launch(kernels::gather_labels, samples, batch, labels, indices, y);
  }
};

}  // namespace

const Codelet gather_patches{"gather_patches",
                             {STARPU_R, STARPU_R, STARPU_R, STARPU_W, STARPU_W},
                             footprint_of<GatherPatchesArgs>(),
                             {{"loops", cpu<loops>}},
                             on_devices<GatherPatches>()};

}  // namespace prorata
