// The shapes at which the operations are tested. Batches of 1, odd ones and large ones; extents that are no multiples
// of a vector's length; and the edges of what an operation allows.
#pragma once

#include "codelets/add.h"
#include "codelets/apply_adam.h"
#include "codelets/apply_gradient.h"
#include "codelets/avg_pool.h"
#include "codelets/batch_norm.h"
#include "codelets/clip_gradient.h"
#include "codelets/conv2d.h"
#include "codelets/dense.h"
#include "codelets/dropout.h"
#include "codelets/exchange.h"
#include "codelets/gather_batch.h"
#include "codelets/gather_patches.h"
#include "codelets/max_pool.h"
#include "codelets/preprocess.h"
#include "codelets/relu.h"
#include "codelets/snapshot.h"
#include "codelets/softmax_cross_entropy.h"

#include <array>
#include <vector>

namespace prorata::selftest {

inline constexpr unsigned kGatheredFrom = 97;  // samples in the data set
inline constexpr unsigned kClasses = 10;

// Out of order, the last sample first, and some of them twice.
inline const auto kIndices = [] {
  std::array<std::uint32_t, 128> indices{};
  for (std::uint32_t i = 0; i < indices.size(); ++i) indices[i] = (i * 37 + kGatheredFrom - 1) % kGatheredFrom;
  return indices;
}();

inline std::vector<GatherBatchArgs> gather_batch_shapes() {
  constexpr float scale = 1.0f / 255;
  return {{{1, 1}, kIndices.data(), scale},
          {{1, 1}, kIndices.data() + 3, 0.5f},
          {{3, 7}, kIndices.data() + 1, scale},
          {{5, 784}, kIndices.data() + 9, scale},
          {{128, 33}, kIndices.data(), scale}};
}

// Windows that lie inside, reach over an edge, and cover the whole scene and more.
inline std::vector<GatherPatchesArgs> gather_patches_shapes() {
  return {{{1, 1, 1, 1}, kIndices.data(), 4, 5},
          {{3, 3, 5, 2}, kIndices.data() + 1, 4, 5},
          {{7, 4, 2, 9}, kIndices.data() + 9, 6, 3},
          {{5, 7, 3, 3}, kIndices.data() + 2, 3, 2},
          {{128, 5, 5, 11}, kIndices.data(), 5, 7}};
}

// Each step alone, all together, none, and windows as large as the image.
inline std::vector<PreprocessArgs> preprocess_shapes() {
  constexpr std::uint64_t seed = 0xfedcba9876543210;
  return {{{1, 1, 1, 1, 0, 0, 0}, kIndices.data(), 1, 1},   {{7, 4, 5, 3, 0, 0, 0}, kIndices.data(), seed, 1},
          {{33, 5, 4, 2, 2, 0, 0}, kIndices.data(), 1, 2},  {{33, 4, 5, 1, 0, 1, 0}, kIndices.data(), seed, 0},
          {{33, 6, 7, 3, 0, 0, 3}, kIndices.data(), 2, 1},  {{5, 3, 4, 2, 0, 0, 20}, kIndices.data(), 3, 1},
          {{128, 8, 9, 3, 4, 1, 4}, kIndices.data(), 1, 7}, {{9, 32, 32, 3, 4, 1, 16}, kIndices.data() + 5, seed, 3},
          {{3, 2, 2, 200, 5, 1, 1}, kIndices.data(), 4, 1}};
}

inline std::vector<DenseArgs> dense_shapes() {
  std::vector<DenseArgs> shapes;
  for (std::int32_t relu : {0, 1}) {
    for (std::int32_t batch : {1, 3, 17, 64})
      for (auto [inputs, outputs] : {std::pair{1, 1}, {1, 10}, {7, 1}, {13, 5}, {16, 16}, {33, 24}, {84, 10}})
        shapes.push_back({{batch, inputs, outputs, relu}});
    shapes.push_back({{1000, 9, 4, relu}});
    shapes.push_back({{2, 784, 128, relu}});
    shapes.push_back({{31, 400, 120, relu}});
  }
  return shapes;
}

inline std::vector<DenseArgs> dense_gradient_shapes() {
  return {{{1, 1, 1, 1}}, {{1, 3, 5, 0}}, {{3, 4, 6, 1}}, {{5, 9, 2, 1}}};
}

inline std::vector<Conv2dArgs> conv2d_shapes() {
  std::vector<Conv2dArgs> shapes;
  std::int32_t turn = 0;
  const std::pair<std::int32_t, std::int32_t> channels[] = {{1, 1}, {1, 6}, {3, 5}, {6, 16}, {8, 8}, {16, 3}, {9, 24}};
  // Every window at every stride and padding on two images that are no squares, with the other extents in turn.
  for (std::int32_t kernel : {1, 2, 3, 5})
    for (std::int32_t stride : {1, 2, 3})
      for (std::int32_t padding = 0; padding < kernel; ++padding)
        for (auto [height, width] : {std::pair{7, 10}, {9, 6}})
          for (std::int32_t relu : {0, 1}) {
            const auto [in, out] = channels[turn % std::size(channels)];
            const std::int32_t batch = 1 + turn % 3;
            shapes.push_back({{batch, height, width, in, out, kernel, stride, padding, relu}});
            ++turn;
          }
  for (std::int32_t relu : {0, 1}) {
    shapes.push_back({{1, 1, 1, 1, 1, 1, 1, 0, relu}});
    shapes.push_back({{2, 3, 4, 2, 3, 5, 1, 2, relu}});  // the window is larger than the image
    shapes.push_back({{2, 1, 2, 3, 7, 5, 2, 4, relu}});
    shapes.push_back({{3, 5, 7, 4, 6, 5, 1, 0, relu}});  // as high as the image
    shapes.push_back({{1, 4, 5, 64, 40, 3, 1, 1, relu}});
    shapes.push_back({{5, 28, 28, 1, 6, 5, 1, 2, relu}});  // LeNet-5
    shapes.push_back({{3, 14, 14, 6, 16, 5, 1, 0, relu}});
    shapes.push_back({{200, 6, 5, 2, 3, 3, 1, 1, relu}});
    shapes.push_back({{2, 6, 7, 5, 4, 3, 1, 1, relu, 1, 0}});
  }
  // In groups of one channel and of several, with more channels behind than before and with fewer.
  constexpr std::array kGroups{std::array{2, 2, 2},   std::array{8, 8, 8},   std::array{17, 17, 17},
                               std::array{4, 12, 4},  std::array{6, 6, 2},   std::array{9, 6, 3},
                               std::array{8, 24, 2},  std::array{32, 32, 4}, std::array{64, 64, 64},
                               std::array{40, 24, 8}, std::array{24, 24, 3}};
  for (auto [in, out, groups] : kGroups)
    for (auto [kernel, stride, padding] : {std::array{1, 1, 0}, {3, 1, 1}, {3, 2, 1}, {5, 2, 0}, {2, 3, 1}})
      for (std::int32_t bias : {0, 1}) {
        shapes.push_back({{1 + turn % 3, 7, 5, in, out, kernel, stride, padding, turn / 3 % 2, groups, bias}});
        ++turn;
      }
  shapes.push_back({{3, 20, 21, 16, 16, 3, 1, 1, 1, 16, 0}});
  return shapes;
}

inline std::vector<Conv2dArgs> conv2d_gradient_shapes() {
  return {{{1, 1, 1, 1, 1, 1, 1, 0, 1}},      {{2, 4, 5, 2, 3, 3, 1, 1, 1}},       {{1, 5, 4, 3, 2, 3, 2, 0, 0}},
          {{1, 6, 7, 1, 4, 5, 3, 4, 1}},      {{2, 4, 3, 2, 3, 3, 1, 1, 1, 1, 0}}, {{2, 4, 5, 4, 4, 3, 1, 1, 1, 4, 0}},
          {{1, 5, 4, 4, 6, 3, 2, 0, 0, 2, 1}}};
}

inline std::vector<MaxPoolArgs> max_pool_shapes() {
  return {{{1, 2, 2, 1, 2, 2}},   {{3, 28, 28, 6, 2, 2}},
          {{3, 8, 8, 16, 2, 2}},  {{2, 5, 7, 3, 2, 2}},   // last row and column dropped
          {{2, 8, 10, 9, 3, 3}},                          // two rows and a column dropped
          {{2, 7, 5, 8, 3, 2}},                           // windows overlap
          {{1, 9, 8, 5, 3, 1}},   {{1, 8, 9, 17, 5, 3}},  // overlap, and a column dropped
          {{4, 6, 9, 16, 2, 3}},                          // gaps between the windows
          {{2, 4, 4, 2, 4, 4}},                           // the whole image
          {{1, 3, 4, 2, 1, 1}},   {{1, 5, 4, 3, 1, 2}},
          {{100, 4, 6, 3, 2, 1}}, {{1, 15, 16, 3, 15, 1}}};  // the largest window
}

inline std::vector<MaxPoolArgs> max_pool_gradient_shapes() {
  return {{{1, 2, 2, 1, 2, 2}}, {{2, 5, 7, 3, 2, 2}}, {{2, 5, 6, 2, 3, 1}}, {{1, 6, 5, 2, 2, 3}}};
}

inline std::vector<AvgPoolArgs> avg_pool_shapes() {
  return {{{1, 2, 2, 1, 2, 2, 2}},   {{3, 12, 8, 6, 2, 2, 2}}, {{3, 8, 8, 16, 2, 2, 2}},
          {{2, 5, 7, 3, 2, 2, 2}},                             // last row and column dropped
          {{2, 7, 5, 8, 3, 3, 2}},   {{1, 9, 8, 5, 3, 2, 1}},  // windows overlap; are no squares
          {{4, 6, 9, 16, 2, 2, 3}},                            // gaps between the windows
          {{1, 8, 9, 17, 2, 5, 3}},  {{1, 5, 4, 3, 1, 1, 2}},  {{2, 7, 7, 64, 7, 7, 1}},
          {{3, 5, 8, 33, 5, 8, 1}},  // the whole image
          {{100, 4, 6, 3, 4, 6, 9}}, {{1, 1, 1, 5, 1, 1, 1}},  {{2, 28, 30, 1, 28, 30, 1}}};
}

inline std::vector<AvgPoolArgs> avg_pool_gradient_shapes() {
  return {{{1, 2, 2, 1, 2, 2, 2}}, {{2, 5, 7, 3, 2, 2, 2}}, {{2, 5, 6, 2, 3, 2, 1}}, {{1, 4, 5, 2, 4, 5, 1}}};
}

// Lots of rows of the loops' size and one more, a row longer than a lot, parts of unequal size; a single value.
inline std::vector<BatchNormArgs> batch_norm_shapes() {
  std::vector<BatchNormArgs> shapes;
  for (std::int32_t relu : {0, 1}) {
    for (auto [batch, pixels, channels] : {std::array{1, 1, 1},
                                           {1, 1, 5},
                                           {2, 1, 7},
                                           {3, 1, 33},
                                           {1, 49, 3},
                                           {5, 14, 6},
                                           {64, 1, 64},
                                           {7, 35, 16},
                                           {3, 100, 24},
                                           {2, 3, 5000}})
      shapes.push_back({{batch, pixels, channels, relu}, 1e-5f});
    shapes.push_back({{4, 128, 8, relu}, 1e-3f});
    shapes.push_back({{1, 513, 8, relu}, 1.0f});
    shapes.push_back({{10, 420, 2, relu}, 1e-5f});
  }
  return shapes;
}
inline std::vector<BatchNormArgs> batch_norm_gradient_shapes() {
  return {{{2, 1, 1, 0}, 1e-2f}, {{3, 4, 2, 0}, 1e-5f}, {{2, 3, 3, 1}, 1e-5f}, {{4, 1, 2, 1}, 1e-1f}};
}
inline std::vector<RunningStatisticsArgs> running_statistics_shapes() {
  return {{{1}, 0.1f}, {{7}, 0.1f}, {{64}, 0}, {{64}, 1}, {{513}, 0.01f}};
}

inline std::vector<AddArgs> add_shapes() {
  std::vector<AddArgs> shapes;
  for (std::int32_t relu : {0, 1})
    for (auto [batch, features] : {std::pair{1, 1}, {3, 7}, {64, 101}, {1000, 3}})
      shapes.push_back({{batch, features, relu}});
  return shapes;
}
inline std::vector<AddArgs> add_gradient_shapes() { return {{{1, 1, 0}}, {{3, 7, 0}}, {{3, 7, 1}}}; }

inline std::vector<DropoutArgs> dropout_shapes() {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  return {{{1, 1}, 0.5f, 1, 0, 0},    {{1, 3}, 0.2f, 1, 1, 0},          {{3, 7}, 0, 7, 1, 2},
          {{64, 101}, 0.5f, 1, 9, 1}, {{5, 784}, 0.25f, kAll, kAll, 1}, {{1000, 3}, 0.9f, 1ull << 32, 1ull << 33, 5},
          {{2, 64}, 0.999f, 2, 3, 4}, {{1, 65}, 0.1f, 3, 2, 1}};
}

inline std::vector<ReluArgs> relu_shapes() { return {{{1, 1}}, {{3, 7}}, {{64, 101}}, {{1000, 3}}}; }
inline std::vector<ReluArgs> relu_gradient_shapes() { return {{{1, 1}}, {{3, 7}}}; }

inline std::vector<SoftmaxCrossEntropyArgs> softmax_cross_entropy_shapes() {
  return {{{2, 1}}, {{1, 2}}, {{1, 10}}, {{5, 10}}, {{64, 10}}, {{333, 7}}, {{3, 1000}}};
}
inline std::vector<SoftmaxCrossEntropyArgs> softmax_cross_entropy_gradient_shapes() {
  return {{{1, 2}}, {{3, 5}}, {{7, 10}}};
}

inline std::vector<SnapshotArgs> snapshot_shapes() { return {{{1}}, {{7}}, {{64}}, {{61706}}}; }

inline std::vector<ApplyGradientArgs> apply_gradient_shapes() {
  return {{{1}, 0.1f, 0, 0},
          {{7}, 0.1f, 0.9f, 0},
          {{7}, 0.05f, 0.9f, 1e-2f},
          {{64}, 0.3f, 0, 1e-2f},
          {{65}, 0, 0.5f, 0.5f},
          {{61706}, 0.01f, 0.9f, 5e-4f},
          {{7}, 0.1f, 0.9f, 1e-2f, 0.25f},
          {{9}, 0.1f, 0.9f, 0, 0},
          {{7}, 0.1f, 0, 0, 1, 1},
          {{65}, 0.1f, 0.9f, 1e-2f, 0.5f, 1}};
}
inline std::vector<ApplyCompensatedGradientArgs> apply_compensated_gradient_shapes() {
  std::vector<ApplyCompensatedGradientArgs> all;
  for (const ApplyGradientArgs& args : apply_gradient_shapes())
    for (float compensation : {0.0f, 0.04f, 2.0f}) all.push_back({args, compensation});
  return all;
}
inline std::vector<ApplyAdamArgs> apply_adam_shapes() {
  return {{{1}, 0.1f, 0.9, 0.999, 1e-8f, 0, 0},          {{7}, 0.1f, 0.9, 0.999, 1e-8f, 0.5f, 0},
          {{7}, 0.1f, 0.9, 0.999, 1e-8f, 0.5f, 1},       {{64}, 0.01f, 0.5, 0.9, 1e-2f, 0, 0, 0.25f, 3},
          {{65}, 0.02f, 0, 0, 1e-3f, 0.1f, 1, 0.5f, 10}, {{61706}, 0.001f, 0.9, 0.999, 1e-8f, 0.01f, 1, 1, 1000000}};
}
inline std::vector<ApplyCompensatedAdamArgs> apply_compensated_adam_shapes() {
  std::vector<ApplyCompensatedAdamArgs> all;
  for (const ApplyAdamArgs& args : apply_adam_shapes())
    for (float compensation : {0.0f, 0.04f, 2.0f}) all.push_back({args, compensation});
  return all;
}
inline std::vector<SumOfSquaresArgs> sum_of_squares_shapes() {
  return {{{1}, 0}, {{1}, 1}, {{7}, 1}, {{16}, 0}, {{255}, 1}, {{1000}, 0}, {{5001}, 1}};
}
inline std::vector<ClipGradientArgs> clip_gradient_shapes() {
  return {{{1}, 1e-3f}, {{7}, 0.5f}, {{64}, 100}, {{5001}, 0.25f}};
}
inline std::vector<AccumulateGradientArgs> accumulate_gradient_shapes() {
  return {{{1}, 1, 0}, {{1}, 1, 1}, {{7}, 0.25f, 0}, {{7}, 0.25f, 1}, {{64}, 0, 0}, {{61706}, 0.5f, 0}};
}
inline std::vector<ExchangeArgs> exchange_shapes() {
  return {{{1}},
          {{7}},
          {{64}, 0.25f},
          {{61706}, 0.5f},
          {{777, WireFormat::bfloat16}, 0.35f},
          {{777, WireFormat::float16}},
          {{778}, 0.25f, true},
          {{778, WireFormat::bfloat16}, 0.25f, true}};
}
inline std::vector<NarrowArgs> narrow_shapes() {
  return {{{1, WireFormat::bfloat16}},
          {{61706, WireFormat::bfloat16}},
          {{7, WireFormat::float16}},
          {{61706, WireFormat::float16}}};
}

}  // namespace prorata::selftest
