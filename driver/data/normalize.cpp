#include "driver/data/normalize.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace prorata {
namespace {

constexpr std::size_t kPart = std::size_t{1} << 22;  // numbers that are read before the file's pages are let go

// Sums of one channel, of numbers less `origin`: without it the variance of numbers far from 0 would be lost to
// rounding.
struct Moments {
  double origin = 0, sum = 0, squares = 0;

  void add(double value) {
    sum += value - origin;
    squares += (value - origin) * (value - origin);
  }
};

template <class T>
std::vector<Moments> moments(const Elements& images, std::size_t channels) {
  const std::span<const T> values = images.as<T>();
  std::vector<Moments> all(channels);
  for (std::size_t c = 0; c < channels; ++c) all[c].origin = values[c];
  const std::size_t part = std::max(kPart / channels, std::size_t{1}) * channels;
  for (std::size_t from = 0; from < values.size(); from += part) {
    const std::size_t end = std::min(values.size(), from + part);
    for (std::size_t i = from; i < end; i += channels)
      for (std::size_t c = 0; c < channels; ++c) all[c].add(values[i + c]);
    images.forget();
  }
  return all;
}

}  // namespace

void normalize(Dataset& data) {
  const Elements& images = data.train.images;
  const auto channels = static_cast<std::size_t>(data.shape.channels);
  const std::size_t pixels = images.size() / channels;
  const auto count = static_cast<double>(pixels);
  const double scale = scale_of(images.type());
  const std::vector<Moments> all =
      images.type() == ElementType::uint8 ? moments<std::uint8_t>(images, channels) : moments<float>(images, channels);
  std::vector<float> normalization(2 * channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const Moments& m = all[c];
    const double mean = m.sum / count, variance = m.squares / count - mean * mean;
    normalization[c] = static_cast<float>((m.origin + mean) * scale);
    const double factor = 1 / (std::sqrt(variance) * scale);
    // So small a deviation that a float has no factor for it is as good as none.
    normalization[channels + c] = factor <= std::numeric_limits<float>::max() ? static_cast<float>(factor) : 1.0f;
  }
  data.train.normalization = data.test.normalization = std::move(normalization);
}

}  // namespace prorata
