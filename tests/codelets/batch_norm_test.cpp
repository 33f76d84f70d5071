// Batch normalisation, besides what the table tests of every operation.
#include "tests/codelets/table.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <tuple>

namespace prorata::selftest {
namespace {

TEST(BatchNorm, FollowsTheDefinition) {
  // Two channels of values 1, 3 and -4, 4 with gamma 2 and beta 1. Variances 1 and 16, unbiased 2 and 32; with epsilon
  // 3 and 9 they make deviations of 2 and 5.
  const Values x{1, -4, 3, 4}, params{2, 2, 1, 1};
  for (auto [epsilon, channel, inverse, y] :
       {std::tuple{3.0f, 0, 0.5, std::array{0.0, 2.0}}, std::tuple{9.0f, 1, 0.2, std::array{-0.6, 2.6}}})
    for (const Implementation& i : present(batch_norm_forward)) {
      SCOPED_TRACE(i.name);
      const BatchNormArgs args{{1, 2, 2, 0}, epsilon};
      std::vector<Buffer> buffers{{f32, x}, {f32, params}, {f32, 4}, {f32, 6}};
      i.call(&args, buffers);
      const auto at = static_cast<std::size_t>(channel);
      EXPECT_NEAR(buffers[2].at(at), y[0], 1e-6);
      EXPECT_NEAR(buffers[2].at(2 + at), y[1], 1e-6);
      EXPECT_NEAR(buffers[3].at(at), channel == 0 ? 2 : 0, 1e-6);
      EXPECT_NEAR(buffers[3].at(2 + at), inverse, 1e-6);
      EXPECT_NEAR(buffers[3].at(4 + at), channel == 0 ? 2 : 32, 1e-5);
    }
}

TEST(BatchNorm, FindsASmallVarianceBesideALargeMean) {
  // Steps of 1/64 about 4096, where the squares of floats have no more digits left: 0, 1, 2, 3 over and over have a
  // variance of 5/4 steps.
  constexpr std::int32_t kRows = 4096;
  Values x(kRows);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 4096 + static_cast<double>(i % 4) / 64;
  const BatchNormArgs args{{1, kRows, 1, 0}, 0};
  for (const Implementation& i : present(batch_norm_forward)) {
    std::vector<Buffer> buffers{{f32, x}, {f32, {1, 0}}, {f32, x.size()}, {f32, 3}};
    i.call(&args, buffers);
    EXPECT_NEAR(buffers[3].at(1), 64 / std::sqrt(1.25), 1e-4) << i.name;
  }
}

TEST(Diverged, BatchNormPassesNotANumberOnInItsChannel) {
  for (std::int32_t relu : {0, 1}) {
    const BatchNormArgs args{{3, 10, 5, relu}, 1e-5f};
    Random random(1, Random::Grain::fine);
    Arguments in = operation(batch_norm_forward).inputs(&args, random);
    in[0][5 * 17 + 3] = kNaN;
    const Results y = operation(batch_norm_forward).expected(&args, in)[2];
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i].value), i % 5 == 3);
    for (const Implementation& i : present(batch_norm_forward))
      EXPECT_EQ(check(operation(batch_norm_forward), i, &args, in), "") << i.name;
  }
}

TEST(RunningStatistics, FollowTheDefinition) {
  const RunningStatisticsArgs args{{1}, 0.25f};
  for (const Implementation& i : present(update_running_statistics)) {
    std::vector<Buffer> buffers{{f32, {8, 4}}, {f32, {4, kNaN, 12}}};  // what normalised is not read
    i.call(&args, buffers);
    EXPECT_EQ(difference(buffers[0], {{7}, {6}}), "") << i.name;
  }
}

}  // namespace
}  // namespace prorata::selftest
