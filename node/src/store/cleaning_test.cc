// Cleaning under random changes with crashes: a few rounds with segments of their real size.
// cleaning_rounds_test.cc has many.
#include <gtest/gtest.h>

#include "store/testing/cleaning_round.h"

namespace ramcloud::store {
namespace {

TEST(Cleaning, NothingIsLostAndNothingReturnsWheneverACrashComes) {
  constexpr uint64_t kRounds = 6;
  testing::Totals totals;
  testing::run_rounds(1, kRounds, 0.0015, totals);
  totals.expect_complete(kRounds);
}

}  // namespace
}  // namespace ramcloud::store
