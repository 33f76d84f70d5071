// The dealing of tasks without a group, without StarPU: where each goes, in which order they leave, what is stolen.
#include "scheduler/single_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <set>

namespace prorata {
namespace {

constexpr double kCannot = std::numeric_limits<double>::infinity();
const double kUnknown = std::nan("");

// Tasks are opaque: any distinct address will do.
class SingleTasksTest : public ::testing::Test {
 protected:
  starpu_task* task(std::size_t i) { return reinterpret_cast<starpu_task*>(&places_[i]); }

  int deal(SingleTasks& tasks, std::size_t i, std::vector<TaskCost> costs, int priority = 0, double now = 0) {
    const int worker = tasks.choose(costs, priority, now);
    tasks.push(worker, task(i), priority, std::move(costs), now);
    return worker;
  }

 private:
  std::array<char, 4096> places_{};
};

TEST_F(SingleTasksTest, DealsToTheEarliestFinishInProportionToSpeed) {
  SingleTasks tasks(2);
  int of[2] = {0, 0};
  for (std::size_t i = 0; i < 50; ++i) ++of[deal(tasks, i, {{1, 0}, {4, 0}})];
  EXPECT_EQ(of[0], 40);
  EXPECT_EQ(of[1], 10);
}

TEST_F(SingleTasksTest, CountsTheTransferOnceWhereItIsHiddenByTheQueueAndTwiceWhereItIsNot) {
  SingleTasks tasks(2);
  EXPECT_EQ(deal(tasks, 0, {{3, 0}, {2, 0.4}}), 1);  // 2.8 < 3
  EXPECT_EQ(deal(tasks, 1, {{3, 0}, {2, 0.4}}), 0);  // 3 < 2 + 2 + 0.4
  EXPECT_EQ(deal(tasks, 2, {{3, 0}, {2, 2.1}}), 0);  // 3 + 3 < 2.1 + 2 + 2.1
}

TEST_F(SingleTasksTest, LeavesATaskToTheFirstWhoIsFreeWhereAnAbleWorkersTimeIsUnknown) {
  SingleTasks tasks(3);
  EXPECT_EQ(deal(tasks, 0, {{1, 0}, {kUnknown, 0}, {kCannot, 0}}), SingleTasks::kCommon);
  EXPECT_EQ(tasks.pop(2, 0), nullptr);
  EXPECT_EQ(tasks.steal(2, 0), nullptr);
  EXPECT_EQ(tasks.first(1), task(0));
  EXPECT_EQ(tasks.first(1, 1), nullptr) << "its priority is 0";
  EXPECT_EQ(tasks.pop(1, 0), task(0));
  EXPECT_EQ(tasks.first(1), nullptr);
  EXPECT_EQ(tasks.pop(0, 0), nullptr);
}

TEST_F(SingleTasksTest, DealsATaskOnlyToWorkersThatCanRunIt) {
  SingleTasks tasks(2);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(deal(tasks, i, {{kCannot, 0}, {100, 0}}), 1);
  EXPECT_EQ(tasks.steal(0, 1e6), nullptr);
}

TEST_F(SingleTasksTest, HandsOutTheLargestPriorityFirstAndOfEqualsTheOldestFromBothQueues) {
  SingleTasks tasks(1);
  deal(tasks, 0, {{1, 0}}, 0);
  deal(tasks, 1, {{kUnknown, 0}}, 0);
  deal(tasks, 2, {{1, 0}}, 0);
  deal(tasks, 3, {{kUnknown, 0}}, 5);
  deal(tasks, 4, {{1, 0}}, 7);
  deal(tasks, 5, {{kUnknown, 0}}, -1);
  for (const std::size_t i : {4, 3, 0, 1, 2, 5}) {
    EXPECT_EQ(tasks.pop(0, 0), task(i));
    tasks.finish(task(i), 0);
  }
  EXPECT_EQ(tasks.pop(0, 0), nullptr);
}

TEST_F(SingleTasksTest, CountsOnlyWhatIsQueuedOfItsPriorityOrALargerOne) {
  SingleTasks tasks(2);
  for (std::size_t i = 0; i < 5; ++i) deal(tasks, i, {{1, 0}, {kCannot, 0}}, 0);
  EXPECT_EQ(deal(tasks, 5, {{1, 0}, {2, 0}}, 0), 1);
  EXPECT_EQ(deal(tasks, 6, {{1, 0}, {2, 0}}, 3), 0);
}

TEST_F(SingleTasksTest, CountsWhatAWorkerHasBegunAndWhatElseKeepsIt) {
  SingleTasks tasks(2);
  deal(tasks, 0, {{10, 0}, {kCannot, 0}});
  ASSERT_EQ(tasks.pop(0, 0), task(0));
  EXPECT_EQ(tasks.choose(std::vector<TaskCost>{{1, 0}, {8, 0}}, 0, 2), 1);  // 2 + 8 + 1 > 2 + 8
  EXPECT_EQ(tasks.choose(std::vector<TaskCost>{{1, 0}, {8, 0}}, 0, 4), 0);
  tasks.finish(task(0), 4);
  tasks.occupy(0, 20);
  EXPECT_EQ(tasks.choose(std::vector<TaskCost>{{1, 0}, {8, 0}}, 0, 4), 1);
  tasks.release(0, 5);
  EXPECT_EQ(tasks.choose(std::vector<TaskCost>{{1, 0}, {8, 0}}, 0, 5), 0);
}

TEST_F(SingleTasksTest, StealsOnlyWhatTheThiefWouldFinishEarlier) {
  SingleTasks tasks(2);
  for (std::size_t i = 0; i < 8; ++i) deal(tasks, i, {{1, 0}, {kCannot, 0}});
  ASSERT_EQ(tasks.pop(0, 0), task(0));
  EXPECT_EQ(tasks.steal(1, 0), nullptr);  // it cannot run any
  for (std::size_t i = 8; i < 12; ++i) tasks.push(0, task(i), 0, {{1, 0}, {10.5, 0}}, 0);
  EXPECT_EQ(tasks.steal(1, 0), task(10));  // the owner would end the one before at 10, this at 11
  EXPECT_EQ(tasks.steal(1, 0), task(11));  // which the owner would now end at 11
  EXPECT_EQ(tasks.steal(1, 0), nullptr);
}

TEST_F(SingleTasksTest, FindsTheEndOfALongQueueToo) {
  SingleTasks tasks(2);
  for (std::size_t i = 0; i < 500; ++i) tasks.push(0, task(i), 0, {{1, 0}, {400, 0}}, 0);
  EXPECT_EQ(tasks.steal(1, 0), task(499));
}

TEST_F(SingleTasksTest, StealsInTheEndFromAWorkerThatDoesNotComeForItsQueue) {
  SingleTasks tasks(2);
  deal(tasks, 0, {{1, 0}, {5, 0}});
  EXPECT_EQ(tasks.steal(1, 3), nullptr);  // 3 late, so expected to end at 3 + 3 + 1; the thief at 3 + 5
  EXPECT_EQ(tasks.steal(1, 4.5), task(0));
}

TEST_F(SingleTasksTest, StealsFromBehindATaskThatTakesLongerThanExpected) {
  SingleTasks tasks(2);
  deal(tasks, 0, {{1, 0}, {kCannot, 0}});
  ASSERT_EQ(tasks.pop(0, 0), task(0));
  deal(tasks, 1, {{1, 0}, {5, 0}});
  EXPECT_EQ(tasks.steal(1, 1), nullptr);
  EXPECT_EQ(tasks.steal(1, 6), task(1));
}

TEST_F(SingleTasksTest, TreatsATaskThatIsPushedAgainAsNotBegun) {
  SingleTasks tasks(2);
  deal(tasks, 0, {{10, 0}, {20, 0}});
  ASSERT_EQ(tasks.pop(0, 0), task(0));
  EXPECT_EQ(deal(tasks, 0, {{kCannot, 0}, {20, 0}}), 1);
  EXPECT_EQ(tasks.choose(std::vector<TaskCost>{{1, 0}, {2, 0}}, 0, 0), 0);
}

TEST_F(SingleTasksTest, GivesBackAllThatIsQueuedInOrder) {
  SingleTasks tasks(2);
  deal(tasks, 0, {{1, 0}, {1, 0}}, 0);
  deal(tasks, 1, {{kUnknown, 0}, {1, 0}}, 0);
  deal(tasks, 2, {{1, 0}, {1, 0}}, 4);
  deal(tasks, 3, {{1, 0}, {1, 0}}, 0);
  EXPECT_EQ(tasks.take_all(), (std::vector<starpu_task*>{task(2), task(0), task(1), task(3)}));
  EXPECT_EQ(tasks.dealt(), 0u);
  EXPECT_EQ(tasks.pop(0, 0), nullptr);
  EXPECT_EQ(tasks.pop(1, 0), nullptr);
}

// Any mixture of tasks and workers: each task is handed out once, to a worker that can run it, and none is left.
TEST_F(SingleTasksTest, LosesNoTaskAndHandsOutNoneTwice) {
  std::mt19937 random(7);
  const auto draw = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int instance = 0; instance < 500; ++instance) {
    const auto workers = static_cast<std::size_t>(1 + draw(5));
    const auto count = static_cast<std::size_t>(draw(200));
    SingleTasks tasks(workers);
    std::vector<std::vector<TaskCost>> costs(count);
    std::vector<std::vector<starpu_task*>> running(workers);
    std::set<starpu_task*> done;
    std::size_t pushed = 0;
    double now = 0;
    while (done.size() < count) {
      now += draw(100) * 0.01;
      if (pushed < count && draw(2) == 0) {
        for (std::size_t w = 0; w < workers; ++w)
          costs[pushed].push_back({draw(5) == 0   ? kCannot
                                   : draw(9) == 0 ? kUnknown
                                                  : 0.01 * (1 + draw(1000)),
                                   draw(2) * 0.1});
        costs[pushed][static_cast<std::size_t>(draw(static_cast<int>(workers)))].seconds = 0.5;
        deal(tasks, pushed, costs[pushed], draw(4), now);
        ++pushed;
      }
      const int w = draw(static_cast<int>(workers));
      auto& own = running[static_cast<std::size_t>(w)];
      if (!own.empty() && draw(2) == 0) {
        tasks.finish(own.back(), now);
        own.pop_back();
      }
      starpu_task* taken = tasks.pop(w, now);
      if (!taken) taken = tasks.steal(w, now);
      if (!taken) continue;
      const auto i = static_cast<std::size_t>(reinterpret_cast<char*>(taken) - reinterpret_cast<char*>(task(0)));
      ASSERT_FALSE(std::isinf(costs[i][static_cast<std::size_t>(w)].seconds));
      ASSERT_TRUE(done.insert(taken).second);
      own.push_back(taken);
    }
    EXPECT_EQ(tasks.dealt(), 0u);
    EXPECT_TRUE(tasks.take_all().empty());
  }
}

}  // namespace
}  // namespace prorata
