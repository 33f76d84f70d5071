#include "codelets/dropout.h"

#include "codelets/kernels/dropout.h"

#include <algorithm>
#include <array>

namespace prorata {
namespace {

std::uint32_t low(std::uint64_t n) { return static_cast<std::uint32_t>(n); }
std::uint32_t high(std::uint64_t n) { return static_cast<std::uint32_t>(n >> 32); }

// Words less than this are dropped.
std::uint32_t dropped(const DropoutArgs& args) {
  return static_cast<std::uint32_t>(static_cast<double>(args.probability) * 0x1p32);
}
float scale(const DropoutArgs& args) { return 1.0f / (1.0f - args.probability); }

// As kernels::philox, for as many numbers at once that GCC uses vectors: up to 16 it unrolls the loops instead, and
// takes five times as long. Word k of the number of counter first + i is words[4 * i + k].
constexpr std::size_t kLanes = 64;
using Lanes = std::array<std::uint32_t, kLanes>;

void random_words(const DropoutArgs& args, std::uint32_t first, std::array<std::uint32_t, 4 * kLanes>& words) {
  Lanes c0, c1, c2, c3;
  for (std::uint32_t i = 0; i < kLanes; ++i) c0[i] = first + i;
  c1.fill(args.layer);
  c2.fill(low(args.minibatch));
  c3.fill(high(args.minibatch));
  std::uint32_t key0 = low(args.seed), key1 = high(args.seed);
  for (int round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      const std::uint64_t a = std::uint64_t{0xD2511F53} * c0[i], b = std::uint64_t{0xCD9E8D57} * c2[i];
      c0[i] = high(b) ^ c1[i] ^ key0;
      c1[i] = low(b);
      c2[i] = high(a) ^ c3[i] ^ key1;
      c3[i] = low(a);
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  for (std::size_t i = 0; i < kLanes; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

void loops(const DropoutArgs& args, const float* __restrict x, float* __restrict y) {
  const std::size_t count = args.shape.elements();
  std::array<std::uint32_t, 4 * kLanes> words;
  for (std::size_t at = 0; at < count; at += words.size()) {
    random_words(args, static_cast<std::uint32_t>(at / 4), words);
    const std::size_t n = std::min(words.size(), count - at);
    for (std::size_t i = 0; i < n; ++i) y[at + i] = x[at + i] * (words[i] < dropped(args) ? 0.0f : scale(args));
  }
}

struct OnDevice {
  template <class Device>
  static void run(Device& d, const DropoutArgs& args, In<Device> x, Out<Device> y) {
    const std::size_t count = args.shape.elements();
    d.launch(kernels::dropout, (count + 3) / 4, as_int(count), low(args.seed), high(args.seed), args.layer,
             low(args.minibatch), high(args.minibatch), dropped(args), scale(args), x, y);
  }
};

}  // namespace

const Codelet dropout{
    "dropout", {STARPU_R, STARPU_W}, footprint_of<DropoutArgs>(), {{"loops", cpu<loops>}}, on_devices<OnDevice>()};

}  // namespace prorata
