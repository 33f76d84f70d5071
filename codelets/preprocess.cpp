#include "codelets/preprocess.h"

#include "codelets/kernels/preprocess.h"

namespace prorata {
namespace {

std::uint32_t low(std::uint64_t seed) { return static_cast<std::uint32_t>(seed); }
std::uint32_t high(std::uint64_t seed) { return static_cast<std::uint32_t>(seed >> 32); }

void loops(const PreprocessArgs& args, const float* raw, const float* normalization, float* x) {
  const auto [batch, height, width, channels, crop, flip, cutout] = args.shape;
  const float* const factor = normalization + channels;
  for (std::int32_t n = 0; n < batch; ++n) {
    const kernels::Augmentation a = kernels::draw_augmentation(low(args.seed), high(args.seed), args.epoch,
                                                               args.indices[n], height, width, crop, flip, cutout);
    const float* const image = raw + std::size_t(n) * height * width * channels;
    for (std::int32_t h = 0; h < height; ++h)
      for (std::int32_t w = 0; w < width; ++w) {
        const std::int32_t from = kernels::source_of(a, h, w, height, width, cutout);
        const float* const pixel = from >= 0 ? image + std::size_t(from) * channels : nullptr;
        for (std::int32_t c = 0; c < channels; ++c)
          *x++ = from == kernels::kCut ? 0.0f : ((pixel ? pixel[c] : 0.0f) - normalization[c]) * factor[c];
      }
  }
}

struct Preprocess {
  template <class Device>
  static void run(Device& d, const PreprocessArgs& args, In<Device> raw, In<Device> normalization, Out<Device> x) {
    const auto [batch, height, width, channels, crop, flip, cutout] = args.shape;
    const auto samples = static_cast<std::size_t>(batch);
    const auto indices = d.upload(args.indices, samples);
    d.launch(kernels::preprocess, samples * height * width, batch, height, width, channels, crop, flip, cutout,
             low(args.seed), high(args.seed), args.epoch, indices, raw, normalization, x);
  }
};

}  // namespace

const Codelet preprocess{"preprocess",
                         {STARPU_R, STARPU_R, STARPU_W},
                         footprint_of<PreprocessArgs>(),
                         {{"loops", cpu<loops>}},
                         on_devices<Preprocess>()};

}  // namespace prorata
