#include "runtime/turn_meter.h"

#include <gtest/gtest.h>

namespace ramcloud {
namespace {

int64_t cpu = 0;
int reads = 0;
int64_t read_cpu() {
  ++reads;
  return cpu;
}

class TurnMeterTest : public ::testing::Test {
 protected:
  TurnMeterTest() { cpu = reads = 0; }
  /// A turn that took so much processor time, and lost its core for the rest.
  void turn(int64_t busy, int64_t lost = 0) {
    cpu += busy;
    meter_.worked(busy + lost);
  }
  void idle(int64_t used, int64_t lost = 0) {
    cpu += used;
    meter_.idle(used + lost);
  }
  Histogram turns_;
  TurnMeter meter_{turns_, &read_cpu};
};

TEST_F(TurnMeterTest, ALostCoreIsNotALongTurn) {
  turn(10'000);
  turn(30'000);
  turn(40'000, 4'000'000);
  turn(20'000);
  turn(60'000, 1'000'000);
  EXPECT_EQ(turns_.count(), 5u);
  EXPECT_LE(turns_.quantile(1), 62'000u);
}

TEST_F(TurnMeterTest, ALongTurnIsMeasured) {
  turn(10'000);
  turn(3'000'000, 500'000);
  EXPECT_GE(turns_.quantile(1), 2'990'000u);
  EXPECT_LE(turns_.quantile(1), 3'100'000u);
}

TEST_F(TurnMeterTest, WhatIdleTurnsUsedIsNotTheNextTurns) {
  turn(10'000);
  for (int i = 0; i < 1000; ++i) idle(1'000);
  turn(60'000, 1'000'000);
  EXPECT_LE(turns_.quantile(1), 62'000u);
}

TEST_F(TurnMeterTest, ACoreThatWasGivenAwayIsNotTakenFromTheNextTurn) {
  turn(10'000);
  for (int i = 0; i < 30; ++i) idle(1'000, 4'000'000);
  turn(3'000'000, 500'000);
  EXPECT_GE(turns_.quantile(1), 2'990'000u);
}

TEST_F(TurnMeterTest, TheProcessorTimeIsReadRarely) {
  for (int i = 0; i < 1000; ++i) turn(20'000);
  EXPECT_LE(reads, 1 + 1000 * 20'000 / TurnMeter::kMarkEvery);
}

TEST_F(TurnMeterTest, TheProcessorTimeIsReadRarelyWhilePolling) {
  for (int i = 0; i < 1000; ++i) {
    turn(3'000);
    for (int look = 0; look < 7; ++look) idle(1'000);
  }
  EXPECT_LE(reads, 1 + 1000 * 10'000 / TurnMeter::kMarkEvery);
}

TEST_F(TurnMeterTest, TheProcessorTimeIsReadRarelyOnASharedCore) {
  for (int i = 0; i < 1000; ++i) idle(1'000, 8'000);
  EXPECT_LE(reads, 1 + 1000 * 9'000 / TurnMeter::kMarkEvery);
}

}  // namespace
}  // namespace ramcloud
