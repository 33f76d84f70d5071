// Credits, the tail and a new phase, by explicit examples: what ledger_test.cpp leaves open.
#include "scheduler/ledger.h"

#include <gtest/gtest.h>

namespace prorata {
namespace {

void tell(Ledger& ledger, const std::vector<double>& seconds) {
  for (std::size_t w = 0; w < seconds.size(); ++w) ledger.set_seconds(w, seconds[w]);
}

TEST(ProrataCredit, IsTheShareLessWhatWasTakenAhead) {
  Ledger ledger(2);
  tell(ledger, {1, 1});
  ledger.begin(Balance::prorata, 100, 4);
  EXPECT_EQ(ledger.credit(0), 2);
  ledger.take(1, 0);
  EXPECT_EQ(ledger.credit(1), 1);
  for (int i = 0; i < 2; ++i) {
    ledger.take(0, 0);
    ledger.finish(0);
  }
  EXPECT_EQ(ledger.credit(0), 0);
  ASSERT_TRUE(ledger.may_take(0, 0)) << "borrows rather than idle";
  ledger.take(0, 0);  // the round's last: debt 1, next share 2; worker 1's unspent one lapses
  EXPECT_EQ(ledger.credit(0), 1);
  EXPECT_EQ(ledger.credit(1), 2);
}

TEST(ProrataCredit, ForgetsADebtLongerThanARound) {
  Ledger ledger(2);
  tell(ledger, {1, 1});
  ledger.begin(Balance::prorata, 1000, 4);
  for (int i = 0; i < 100; ++i) {
    ledger.take(0, 0);
    ledger.finish(0);
    ASSERT_GE(ledger.credit(0), -4 - 4) << "a round's debt and a round taken on top of it";
  }
}

TEST(ProrataTail, CountsOnAWorkerThatFinishedEarlyFromNowOn) {
  Ledger ledger(2);
  tell(ledger, {4, 7});
  ledger.begin(Balance::prorata, 2, 2);
  ledger.take(0, 0);
  ledger.finish(0);
  // At 1 both are free, one is left: 5 is before 8. Were worker 0 held for busy until 4, 8 would not be.
  EXPECT_FALSE(ledger.may_take(1, 1));
  EXPECT_TRUE(ledger.may_take(0, 1));
}

TEST(Phase, BeginsWithFreeWorkersAndWithoutDebts) {
  Ledger ledger(2);
  tell(ledger, {4, 7});
  ledger.begin(Balance::prorata, 100, 4);
  for (int i = 0; i < 4; ++i) ledger.take(0, 0);  // never finished
  ledger.begin(Balance::prorata, 2, 2);
  EXPECT_EQ(ledger.credit(0), 1);
  EXPECT_EQ(ledger.credit(1), 1);
  ledger.take(1, 1);
  ledger.finish(1);
  EXPECT_FALSE(ledger.may_take(1, 1)) << "worker 0 is free and ends first";
}

}  // namespace
}  // namespace prorata
