// The bound of `ssp` holds for every mini-batch, and never stops the work.
#include "driver/staleness_bound.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace prorata {
namespace {

struct Simulation {
  explicit Simulation(std::uint64_t bound) : rule(bound) {}

  void begin(int minibatch) {
    rule.begin(&names[minibatch]);
    staleness[minibatch] = 0;
  }
  // Returns its staleness.
  std::uint64_t end(int minibatch) {
    rule.end(&names[minibatch]);
    const std::uint64_t own = staleness[minibatch];
    staleness.erase(minibatch);
    for (auto& [other, seen] : staleness) ++seen;
    return own;
  }

  StalenessBound rule;
  std::map<int, int> names;
  std::map<int, std::uint64_t> staleness;
};

TEST(StalenessBound, HoldsWhateverTheOrderInWhichMinibatchesEnd) {
  std::mt19937 random(1);
  for (std::uint64_t bound : {0, 1, 2, 3, 7}) {
    Simulation s(bound);
    std::uint64_t largest = 0, most_at_once = 0;
    int next = 0;
    for (int event = 0; event < 20000; ++event) {
      if (random() % 2 == 0 && s.rule.may_begin()) {
        s.begin(next++);
      } else if (!s.staleness.empty()) {
        const auto one = std::next(s.staleness.begin(), std::ptrdiff_t(random() % s.staleness.size()));
        largest = std::max(largest, s.end(one->first));
      }
      most_at_once = std::max<std::uint64_t>(most_at_once, s.staleness.size());
      if (s.staleness.empty()) {
        ASSERT_TRUE(s.rule.may_begin());
      }
    }
    EXPECT_EQ(largest, bound) << "the bound is reached, and not passed";
    EXPECT_EQ(most_at_once, bound + 1) << "as many at once as the bound allows";
  }
}

TEST(StalenessBound, LetsAFastWorkerGoOnUntilASlowOneIsAtTheBound) {
  Simulation s(3);
  s.begin(0);  // the slow one
  for (int fast = 1; fast <= 3; ++fast) {
    ASSERT_TRUE(s.rule.may_begin()) << fast;
    s.begin(fast);
    s.end(fast);
  }
  EXPECT_FALSE(s.rule.may_begin());
  EXPECT_EQ(s.end(0), 3u);
  EXPECT_TRUE(s.rule.may_begin());
}

}  // namespace
}  // namespace prorata
