// Samples for a network, and what a replica's handles hold.
#pragma once

#include "driver/data/dataset.h"
#include "models/random.h"

#include <starpu.h>

#include <vector>

namespace prorata::test {

inline Samples random_samples(const NetworkSpec& spec, std::size_t count, std::uint64_t seed) {
  Random random(seed, 99);
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < count; ++i) {
    labels.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(spec.classes))));
    for (std::int64_t f = 0; f < spec.input.size(); ++f) images.push_back(static_cast<std::uint8_t>(random.below(256)));
  }
  return {std::move(images), std::move(labels)};
}

inline std::vector<float> copy_of(starpu_data_handle_t handle, std::size_t count) {
  starpu_data_acquire(handle, STARPU_R);
  const auto* data = reinterpret_cast<const float*>(starpu_vector_get_local_ptr(handle));
  std::vector<float> values(data, data + count);
  starpu_data_release(handle);
  return values;
}

}  // namespace prorata::test
