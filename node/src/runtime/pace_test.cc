#include "runtime/pace.h"

#include <gtest/gtest.h>

#include "runtime/manual_source.h"

namespace ramcloud {
namespace {

class PaceTest : public ::testing::Test {
 protected:
  /// When the unit after these begins.
  Duration after(Pace& pace, uint64_t units) {
    pace.charge(units);
    const Time begun = clock.now();
    Task<void> waiting = pace.wait();
    waiting.resume();
    for (int i = 0; !waiting.done(); ++i) {
      EXPECT_LT(i, 100'000);
      if (!reactor.turn()) clock.advance(1ms);
    }
    return clock.now() - begun;
  }
  VirtualClock clock;
  ManualSource events;
  Reactor reactor{clock, events, 1, {}};
};

TEST_F(PaceTest, WhatWasDoneIsPaidForBeforeMoreBegins) {
  Pace pace(reactor, 1000);
  EXPECT_EQ(after(pace, 0), 0s);
  EXPECT_GE(after(pace, 500), 500ms);
  EXPECT_LE(after(pace, 500), 510ms) << "the first is paid for";
  pace.charge(1000);
  EXPECT_GE(after(pace, 1000), 2s);
}

TEST_F(PaceTest, TimeWithoutWorkIsNotSaved) {
  Pace pace(reactor, 1000);
  clock.advance(60s);
  (void)reactor.turn();  // it looks at the clock
  EXPECT_GE(after(pace, 500), 500ms);
}

TEST_F(PaceTest, WithoutALimitNothingWaits) {
  Pace pace(reactor, 0);
  EXPECT_EQ(after(pace, uint64_t{1} << 60), 0s);
}

}  // namespace
}  // namespace ramcloud
