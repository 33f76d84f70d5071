// Dropout and its random numbers, besides what the table tests of every operation.
#include "codelets/kernels/dropout.h"
#include "tests/codelets/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace prorata::selftest {
namespace {

struct PhiloxVector {
  std::array<std::uint32_t, 4> counter;
  std::array<std::uint32_t, 2> key;
  std::array<std::uint32_t, 4> random;
};

TEST(Philox, GivesTheNumbersThatItsAuthorsPublished) {
  // kat_vectors of Random123, philox4x32 10.
  const PhiloxVector vectors[] = {{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                                  {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                                   {0xffffffff, 0xffffffff},
                                   {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                                  {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                                   {0xa4093822, 0x299f31d0},
                                   {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const auto& [counter, key, random] : vectors) {
    EXPECT_EQ(reference::philox(counter, key), random);
    const kernels::Philox ours = kernels::philox({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
    EXPECT_TRUE(std::equal(random.begin(), random.end(), ours.word));
  }
}

TEST(Dropout, DropsByThePublishedNumbers) {
  // Those of the first four elements where all else is 0, as above, are 0.399, 0.881, 0.736 and 0.606 of 2^32.
  const std::pair<float, std::array<bool, 4>> all[] = {{0.39f, {true, true, true, true}},
                                                       {0.4f, {false, true, true, true}},
                                                       {0.61f, {false, true, true, false}},
                                                       {0.74f, {false, true, false, false}},
                                                       {0.89f, {false, false, false, false}}};
  for (const auto& [probability, kept] : all)
    for (const Implementation& i : present(dropout)) {
      const DropoutArgs args{{1, 4}, probability, 0, 0, 0};
      std::vector<Buffer> buffers{{f32, {1, 1, 1, 1}}, {f32, 4}};
      i.call(&args, buffers);
      for (std::size_t k = 0; k < 4; ++k)
        EXPECT_NEAR(buffers[1].at(k), kept[k] ? 1 / (1 - double(probability)) : 0, 1e-6) << i.name << " " << k;
    }
}

TEST(Dropout, IsTheSameToTheBitWhateverRunsIt) {
  const DropoutArgs args{{50, 201}, 0.3f, 42, 7, 3};
  Random random(1, Random::Grain::fine);
  const Values x = random.uniform(args.shape.elements());
  Results first;
  for (const Implementation& i : present(dropout)) {
    std::vector<Buffer> buffers{{f32, x}, {f32, x.size()}};
    i.call(&args, buffers);
    if (first.empty())
      for (std::size_t k = 0; k < x.size(); ++k) first.push_back({buffers[1].at(k)});
    EXPECT_EQ(difference(buffers[1], first), "") << i.name;
  }
}

// How often what is dropped by two sets of arguments is the same, of `elements`; and how many the first one keeps.
std::pair<int, int> alike_and_kept(const DropoutArgs& a, const DropoutArgs& b) {
  const Values ones(a.shape.elements(), 1);
  const Results from_a = reference::dropout(a, ones), from_b = reference::dropout(b, ones);
  int alike = 0, kept = 0;
  for (std::size_t i = 0; i < ones.size(); ++i) {
    alike += (from_a[i].value == 0) == (from_b[i].value == 0);
    kept += from_a[i].value != 0;
  }
  return {alike, kept};
}

TEST(Dropout, DropsWhatItShouldAndAnewForEachSeedLayerAndMinibatch) {
  const DropoutArgs args{{100, 100}, 0.5f, 1, 1, 1};
  DropoutArgs seed = args, layer = args, minibatch = args, later = args;
  seed.seed = 2;
  layer.layer = 2;
  minibatch.minibatch = 2;
  later.minibatch = (std::uint64_t{1} << 32) + 1;
  EXPECT_EQ(alike_and_kept(args, args).first, 10000);
  for (const DropoutArgs& other : {seed, layer, minibatch, later}) {
    const auto [alike, kept] = alike_and_kept(args, other);
    EXPECT_NEAR(alike, 5000, 250);  // 5 standard deviations of 10000 tosses
    EXPECT_NEAR(kept, 5000, 250);
  }
}

TEST(Diverged, DropoutPassesNotANumberOnEvenWhereItDrops) {
  const DropoutArgs args{{1, 64}, 0.5f, 1, 1, 1};
  for (const Implementation& i : present(dropout)) {
    std::vector<Buffer> buffers{{f32, Values(64, kNaN)}, {f32, 64}};
    i.call(&args, buffers);
    EXPECT_EQ(difference(buffers[1], Results(64, {kNaN})), "") << i.name;
  }
}

}  // namespace
}  // namespace prorata::selftest
