// Whatever the ranks, every sample is of exactly one.
#include "driver/cluster/part.h"

#include "driver/cluster/node_share.h"
#include "driver/cluster/owners.h"

#include <gtest/gtest.h>

#include <numeric>

namespace prorata {
namespace {

std::vector<std::uint32_t> counted(std::size_t n) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 100u);
  return order;
}

TEST(Divide, InProportionInWholeMinibatches) {
  EXPECT_EQ(divide(1000, 10, {1, 1}), (std::vector<std::size_t>{0, 500, 1000}));
  EXPECT_EQ(divide(1000, 10, {4, 1}), (std::vector<std::size_t>{0, 800, 1000}));
  EXPECT_EQ(divide(1003, 10, {1, 1}), (std::vector<std::size_t>{0, 510, 1003}));
  EXPECT_EQ(divide(5, 10, {1, 1, 1}), (std::vector<std::size_t>{0, 0, 5, 5})) << "one mini-batch";
  EXPECT_EQ(divide(1000, 10, {4, 0}), (std::vector<std::size_t>{0, 500, 1000})) << "a speed is not known";
}

TEST(Part, ContiguousPartsKnowTheirPlaceAndProgress) {
  const std::vector<std::uint32_t> order = counted(100);
  const Part first(order, 20, 100, 80, 0, 60), second(order, 20, 100, 80, 60, 20);
  EXPECT_EQ(first.samples().size(), 60u);
  EXPECT_EQ(second.samples(), std::vector<std::uint32_t>(order.begin() + 80, order.end()));
  EXPECT_EQ(second.place(0), 80u);
  EXPECT_EQ(second.place(19), 99u);
  // Half of its own is done: half of all is.
  EXPECT_EQ(first.progress(30), 60u);
  EXPECT_EQ(second.progress(10), 60u);
}

TEST(Part, OfEachStepTheSamePart) {
  const std::vector<std::uint32_t> order = counted(50);
  // Steps of 20: 12 of one rank, 8 of the other; the last has 10.
  const Part first(order, 0, 50, 20, 0, 12), second(order, 0, 50, 20, 12, 8);
  EXPECT_EQ(first.stretches(), 3u);
  EXPECT_EQ(first.samples().size(), 12u + 12 + 10);
  EXPECT_EQ(second.samples().size(), 8u + 8);
  EXPECT_EQ(second.samples()[8], order[32]);
  EXPECT_EQ(second.place(8), 32u);
  EXPECT_EQ(first.place(13), 21u);
  // All ranks begin a step at the same place, those without samples too.
  EXPECT_EQ(first.progress(12), 20u);
  EXPECT_EQ(second.progress(8), 20u);
  EXPECT_EQ(second.progress(16), 40u);
  EXPECT_EQ(second.in_stretch(8), 20u);
  EXPECT_EQ(second.in_stretch(16), 10u);
}

TEST(Part, OfOneRankIsAll) {
  const std::vector<std::uint32_t> order = counted(30);
  const Part all(order, 10, 30);
  EXPECT_EQ(all.samples(), std::vector<std::uint32_t>(order.begin() + 10, order.end()));
  for (std::size_t n = 0; n < 20; ++n) {
    EXPECT_EQ(all.place(n), 10 + n);
    EXPECT_EQ(all.progress(n), 10 + n);
  }
}

TEST(ShareOut, TheLargestFirst) {
  EXPECT_EQ(share_out(std::vector<std::size_t>{10, 100, 60, 50}, 2), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(share_out(std::vector<std::size_t>{5}, 3), (std::vector<int>{0}));
}

using Cores = std::vector<std::vector<unsigned>>;

TEST(ShareCores, AsTheLauncherBoundOrInEqualParts) {
  EXPECT_EQ(share_cores({{0, 1}, {2, 3, 4}}), (Cores{{0, 1}, {2, 3, 4}}));
  EXPECT_EQ(share_cores({{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}}), (Cores{{0, 1, 2}, {3, 4}}));
  EXPECT_EQ(share_cores({{0, 2}, {0, 2}, {0, 2}}), (Cores{{0}, {2}, {0}})) << "more ranks than cores";
}

using Devices = std::vector<std::vector<std::string>>;

TEST(ShareDevices, AsTheLauncherGaveOrEachToOneRank) {
  EXPECT_EQ(share_devices({{"b"}, {"a"}}), (Devices{{"b"}, {"a"}}));
  EXPECT_EQ(share_devices({{"a", "b", "c"}, {"a", "b", "c"}}), (Devices{{"a", "b"}, {"c"}}));
  EXPECT_EQ(share_devices({{"a"}, {"a"}, {"a"}}), (Devices{{"a"}, {}, {}})) << "more ranks than devices";
  EXPECT_EQ(share_devices({{}, {}}), (Devices{{}, {}}));
}

}  // namespace
}  // namespace prorata
