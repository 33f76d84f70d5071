// The rhythm of rounds, without anybody to exchange with.
#include "driver/cluster/rounds.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace prorata {
namespace {

// Others that answer when they are told to.
class Others {
 public:
  void begin(bool last, std::function<void(bool)> answered) {
    const std::lock_guard lock(mutex_);
    ++begun_;
    last_ = last;
    answered_ = std::move(answered);
    changed_.notify_all();
  }
  // When so many rounds have begun in all: answers the latest. Whether that was this rank's last.
  bool answer(std::size_t round, bool ended = false) {
    std::function<void(bool)> answered;
    bool last;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return begun_ == round; });
      answered = std::move(answered_);
      last = last_;
    }
    answered(ended);
    return last;
  }
  std::size_t begun() {
    const std::lock_guard lock(mutex_);
    return begun_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t begun_ = 0;
  bool last_ = false;
  std::function<void(bool)> answered_;
};

TEST(Rounds, BeginInProportionToWhatIsDone) {
  Others others;
  Rounds rounds(
      false, [&](bool last, auto answered) { others.begin(last, std::move(answered)); }, [] {});
  rounds.start(4, 100);
  rounds.trained(24);
  EXPECT_EQ(rounds.behind(), 0u);
  rounds.trained(1);
  EXPECT_EQ(rounds.behind(), 1u);
  others.answer(1);
  EXPECT_EQ(rounds.behind(), 0u);
  rounds.trained(50);  // two at once
  EXPECT_EQ(rounds.behind(), 2u);
  EXPECT_TRUE(rounds.may_begin()) << "not bounded";
  EXPECT_FALSE(others.answer(2));
  EXPECT_EQ(rounds.behind(), 0u) << "made as one";
  std::thread rest([&] {
    EXPECT_TRUE(others.answer(3));
    EXPECT_TRUE(others.answer(4)) << "for the others' sake";
    others.answer(5, true);
  });
  rounds.finish();
  rest.join();
  EXPECT_EQ(others.begun(), 5u);
  EXPECT_EQ(rounds.made(), 3u);
  EXPECT_EQ(rounds.behind(), 0u);
}

TEST(Rounds, WithoutSamplesEndWithTheOthers) {
  Others others;
  Rounds rounds(
      true, [&](bool last, auto answered) { others.begin(last, std::move(answered)); }, [] {});
  for (std::size_t pass = 0; pass < 2; ++pass) {
    rounds.start(3, 0);
    std::thread answers([&] {
      for (std::size_t r = 1; r <= 3; ++r) others.answer(3 * pass + r, r == 3);
    });
    rounds.finish();
    answers.join();
  }
  EXPECT_EQ(others.begun(), 6u);
}

TEST(Rounds, BoundedHoldsBackWhileTwoAreNotAnswered) {
  Others others;
  std::mutex mutex;
  std::condition_variable changed;
  int opened = 0;
  Rounds rounds(
      true, [&](bool last, auto answered) { others.begin(last, std::move(answered)); },
      [&] {
        const std::lock_guard lock(mutex);
        ++opened;
        changed.notify_all();
      });
  rounds.start(10, 10);
  rounds.trained(1);
  EXPECT_TRUE(rounds.may_begin());
  rounds.trained(1);
  EXPECT_FALSE(rounds.may_begin());
  others.answer(1);
  EXPECT_TRUE(rounds.may_begin());
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return opened == 1; });
  }
  EXPECT_GT(rounds.closed_seconds(), 0);
  std::thread answers([&] { others.answer(2, true); });
  rounds.finish();
  answers.join();
}

TEST(Rounds, TellsWhatWentWrong) {
  Rounds rounds(
      true, [](bool, auto) { throw std::runtime_error("no way"); }, [] {});
  rounds.start(2, 10);
  rounds.trained(10);
  EXPECT_THROW(rounds.finish(), std::runtime_error);
}

}  // namespace
}  // namespace prorata
