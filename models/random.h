// Random numbers that are the same for a seed on every platform: the standard fixes its engines, but not its
// distributions.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace prorata {

class Random {
 public:
  // One stream per (seed, stream): two streams of a seed have nothing in common.
  Random(std::uint64_t seed, std::uint64_t stream) {
    std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                           static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)};
    engine_.seed(sequence);
  }

  // Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

  // Uniform in [0, bound), bound > 0 (the bias of the remainder is below 2^-32 for 32-bit bounds).
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }

  // Every order equally likely (Fisher-Yates).
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace prorata
