// Another program is run to its end, whatever that is.
#include "driver/child_process.h"

#include <gtest/gtest.h>

#include <csignal>

namespace prorata {
namespace {

using End = ChildResult::End;
constexpr double kLong = 60;  // seconds, far more than any of these needs

ChildResult shell(const std::string& script, const std::map<std::string, std::string>& environment = {},
                  double timeout = kLong) {
  return run_child("sh", {"-c", script}, environment, timeout);
}

TEST(ChildProcess, KeepsWhatTheProgramSaidAndItsExitCode) {
  const ChildResult r = shell("echo result; echo complaint >&2; exit 3");
  EXPECT_EQ(r.end, End::exited);
  EXPECT_EQ(r.code, 3);
  EXPECT_EQ(r.out, "result\n");
  EXPECT_EQ(r.err, "complaint\n");
  EXPECT_FALSE(r.succeeded());
  EXPECT_TRUE(shell("true").succeeded());
}

TEST(ChildProcess, TakesMoreThanAPipeHolds) { EXPECT_EQ(shell("head -c 1000000 /dev/zero").out.size(), 1000000u); }

TEST(ChildProcess, HasThisEnvironmentButForTheChanges) {
  ::setenv("PRORATA_TEST_KEPT", "kept", 1);
  ::setenv("PRORATA_TEST_CHANGED", "old", 1);
  ::setenv("PRORATA_TEST_GONE", "old", 1);
  EXPECT_EQ(shell("echo $PRORATA_TEST_KEPT $PRORATA_TEST_CHANGED ${PRORATA_TEST_GONE-gone} $PRORATA_TEST_NEW",
                  {{"PRORATA_TEST_CHANGED", "new"}, {"PRORATA_TEST_GONE", ""}, {"PRORATA_TEST_NEW", "a=b"}})
                .out,
            "kept new gone a=b\n");
}

TEST(ChildProcess, SaysWhichSignalEndedIt) {
  const ChildResult r = shell("kill -ABRT $$");
  EXPECT_EQ(r.end, End::signalled);
  EXPECT_EQ(r.code, SIGABRT);
}

TEST(ChildProcess, IsEndedWhenItsTimeIsUp) {
  EXPECT_EQ(run_child("sleep", {"1000"}, {}, 0.1).end, End::timed_out);
  // One that does not heed SIGTERM.
  EXPECT_EQ(shell("trap '' TERM; while :; do sleep 0.1; done", {}, 0.1).end, End::timed_out);
}

TEST(ChildProcess, SaysThatAProgramIsNotThere) {
  EXPECT_EQ(run_child("prorata-no-such-program", {}, {}, kLong).end, End::not_found);
}

}  // namespace
}  // namespace prorata
