// Run by mpirun, the same tests on each rank.
#include "driver/cluster/job.h"

#include "models/errors.h"
#include "tests/driver/cluster/main.h"

#include <gtest/gtest.h>

namespace prorata {
namespace {

using test::job;

std::string said_by(const std::function<void()>& step) {
  try {
    step();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Job, GathersWhatEachSays) {
  const std::vector<std::string> all = job().gather(std::string(static_cast<std::size_t>(job().rank()), 'x'));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(job().ranks()));
  for (std::size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], std::string(r, 'x'));
  const std::vector<double> numbers = job().gather(job().rank() * 0.5);
  for (std::size_t r = 0; r < numbers.size(); ++r) EXPECT_EQ(numbers[r], static_cast<double>(r) * 0.5);
}

TEST(Job, SumsAndBroadcasts) {
  const int ranks = job().ranks();
  EXPECT_EQ(job().sum({1.0, job().rank() + 0.5}),
            (std::vector<double>{1.0 * ranks, ranks * (ranks - 1) / 2 + 0.5 * ranks}));
  std::vector<float> values(3, static_cast<float>(job().rank()));
  job().broadcast(values, ranks - 1);
  EXPECT_EQ(values, std::vector<float>(3, static_cast<float>(ranks - 1)));
}

// The one that fails has not come as far as the others.
TEST(Job, OneRanksErrorIsEverybodys) {
  const int last = job().ranks() - 1;
  std::string said;
  int code = 0;
  try {
    code = job().run([&]() -> int {
      if (job().rank() == last) throw InputError("no such file");
      job().gather("what the others are about to do");
      return 0;
    });
  } catch (const InputError& e) {
    said = e.what();
  }
  EXPECT_EQ(said, job().first() ? "rank " + std::to_string(last) + ": no such file" : "");
  EXPECT_EQ(code, job().first() ? 0 : 2);
}

TEST(Job, NamesTheRankThatDiffers) {
  const int last = job().ranks() - 1;
  EXPECT_EQ(said_by([&] {
              job().must_agree({{"--seed", "1"}, {"--batch", job().rank() == last ? "32" : "64"}});
            }),
            "all ranks are to be started alike, but rank " + std::to_string(last) +
                " has --batch 32, and rank 0 has 64");
  job().must_agree({{"--seed", "1"}});
}

}  // namespace
}  // namespace prorata
