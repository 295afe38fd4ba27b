#include "log/balancer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "log/format.h"

namespace ramcloud::log {
namespace {

using testing::HasSubstr;

/// 1,000 segments: half of the memory is used, and three quarters of that is live.
BalancerFigures roomy() {
  return {.total_seglets = 128'000,
          .free_seglets = 64'000,
          .leaving_seglets = 0,
          .reserved_seglets = 400,
          .disk_segments = 500,
          .live_bytes = 3'000'000'000,
          .tombstone_bytes = 300'000'000,
          .gain_bytes = 1'000'000'000,
          .disk_gain_bytes = 1'000'000'000,
          .compaction_gain_bytes = 0};
}

BalancerOptions two_level() {
  BalancerOptions options;
  options.compaction = true;
  return options;
}

struct Case {
  const char* name;
  BalancerOptions options;
  BalancerFigures figures;
  CleaningKind kind;
  CleanerMode mode;
  bool exhausted;
  const char* why;  // a part of it
};

BalancerFigures with(void (*change)(BalancerFigures&)) {
  BalancerFigures figures = roomy();
  change(figures);
  return figures;
}

class Balancer : public testing::TestWithParam<Case> {};

TEST_P(Balancer, Decides) {
  const Case& c = GetParam();
  const CleaningDecision decision = decide(c.options, c.figures);
  EXPECT_EQ(decision.kind, c.kind) << decision.why;
  EXPECT_EQ(decision.mode, c.mode) << decision.why;
  EXPECT_EQ(decision.exhausted, c.exhausted) << decision.why;
  EXPECT_THAT(decision.why, HasSubstr(c.why));
}

using F = BalancerFigures;
using K = CleaningKind;
using M = CleanerMode;

INSTANTIATE_TEST_SUITE_P(
    Table, Balancer,
    testing::Values(
        Case{"enough",
             {},
             roomy(),
             K::kNone,
             M::kIdle,
             false,
             "50.0 % of the memory is free; cleaning starts below 10.0 %"},
        Case{"just enough",
             {},
             with([](F& f) { f.free_seglets = 12'800; }),
             K::kNone,
             M::kIdle,
             false,
             "10.0 %"},
        Case{"below a tenth",
             {},
             with([](F& f) { f.free_seglets = 12'799; }),
             K::kCombined,
             M::kCombined,
             false,
             "less than 10.0 %"},
        Case{"what leaves counts",
             {},
             with([](F& f) {
               f.free_seglets = 6'400;
               f.leaving_seglets = 6'400;
             }),
             K::kNone,
             M::kIdle,
             false,
             "10.0 %"},
        Case{"no head can be opened",
             {},
             with([](F& f) { f.free_seglets = 527; }),
             K::kCombined,
             M::kEmergency,
             false,
             "no new head"},
        Case{"a head can be opened",
             {},
             with([](F& f) { f.free_seglets = 528; }),
             K::kCombined,
             M::kCombined,
             false,
             "0.4 %"},
        Case{"nothing to win, not short",
             {},
             with([](F& f) {
               f.free_seglets = 10'000;
               f.gain_bytes = 0;
             }),
             K::kNone,
             M::kIdle,
             false,
             "no segment has 2.0 %"},
        Case{"nothing to win, short",
             {},
             with([](F& f) {
               f.free_seglets = 500;
               f.gain_bytes = 0;
             }),
             K::kNone,
             M::kIdle,
             true,
             "no segment has 2.0 %"},
        Case{"a little to win, not short",
             {},
             with([](F& f) {
               f.free_seglets = 10'000;
               f.gain_bytes = 0;
               f.seglet_gain = 1;
             }),
             K::kNone,
             M::kIdle,
             false,
             "no segment has 2.0 %"},
        Case{"a little to win, short",
             {},
             with([](F& f) {
               f.free_seglets = 500;
               f.gain_bytes = 0;
               f.seglet_gain = 1;
             }),
             K::kCombined,
             M::kEmergency,
             false,
             "many have a little"},
        Case{"nothing to win, but some leave",
             {},
             with([](F& f) {
               f.free_seglets = 500;
               f.gain_bytes = 0;
               f.leaving_seglets = 1;
             }),
             K::kNone,
             M::kIdle,
             false,
             "no segment has 2.0 %"},
        Case{"disk is near its limit",
             {},
             with([](F& f) { f.disk_segments = 2'250; }),
             K::kCombined,
             M::kCombined,
             false,
             "2250 segments on disk come near the limit of 2500"},
        Case{"disk is near its limit, and all segments are compacted", two_level(), with([](F& f) {
               f.disk_segments = 2'250;
               f.gain_bytes = 0;
             }),
             K::kCombined, M::kCombined, false,
             "2250 segments on disk come near the limit of 2500"},
        Case{"disk is near its limit, and nothing is to be won there",
             {},
             with([](F& f) {
               f.disk_segments = 2'250;
               f.gain_bytes = f.disk_gain_bytes = 0;
             }),
             K::kNone,
             M::kIdle,
             false,
             "no segment has 2.0 %"},
        Case{"disk is not near",
             {},
             with([](F& f) { f.disk_segments = 2'249; }),
             K::kNone,
             M::kIdle,
             false,
             "is free"},
        Case{"compaction first", two_level(), with([](F& f) {
               f.free_seglets = 12'000;
               f.compaction_gain_bytes = 1;
             }),
             K::kCompaction, M::kCompacting, false, "less than 10.0 %"},
        Case{"compaction cannot keep up", two_level(), with([](F& f) {
               f.free_seglets = 2'559;
               f.compaction_gain_bytes = 1;
             }),
             K::kCombined, M::kCombined, false, "less than 2.0 %"},
        Case{"compaction keeps up", two_level(), with([](F& f) {
               f.free_seglets = 2'560;
               f.compaction_gain_bytes = 1;
             }),
             K::kCompaction, M::kCompacting, false, "less than 10.0 %"},
        Case{"tombstones pile up", two_level(), with([](F& f) {
               f.free_seglets = 12'000;
               f.compaction_gain_bytes = 1;
               f.tombstone_bytes = 1'000'000'000;
             }),
             K::kCombined, M::kCombined, false, "33.3 % of the live bytes are tombstones"},
        Case{"memory has only tombstones to win", two_level(), with([](F& f) {
               f.free_seglets = 500;
               f.gain_bytes = 0;
               f.tombstone_bytes = 200'000'000;
             }),
             K::kCombined, M::kEmergency, false, "tombstones that wait for segments"},
        Case{"too few tombstones", two_level(), with([](F& f) {
               f.free_seglets = 500;
               f.gain_bytes = 0;
               f.tombstone_bytes = 100'000'000;
             }),
             K::kNone, M::kIdle, true, "no segment has 2.0 %"},
        Case{"tombstones of segments that the disks cannot win", two_level(), with([](F& f) {
               f.free_seglets = 500;
               f.gain_bytes = f.disk_gain_bytes = 0;
               f.tombstone_bytes = 1'000'000'000;
             }),
             K::kNone, M::kIdle, true, "no segment has 2.0 %"},
        Case{"only compaction wins", two_level(), with([](F& f) {
               f.free_seglets = 500;
               f.gain_bytes = 0;
               f.compaction_gain_bytes = 1;
             }),
             K::kCompaction, M::kCompacting, false, "0.4 %"},
        Case{"without compaction its gain does not count",
             {},
             with([](F& f) {
               f.free_seglets = 12'000;
               f.compaction_gain_bytes = 1;
             }),
             K::kCombined,
             M::kCombined,
             false,
             "less than 10.0 %"}));

/// A tenth of a small log is less than the heads that come next.
TEST(BalancerStart, ASmallLogStartsEarlyEnoughForItsHeads) {
  BalancerFigures small = roomy();
  small.total_seglets = 10 * kSegletsPerSegment;
  small.reserved_seglets = 2 * kSegletsPerSegment;
  EXPECT_EQ(cleaning_starts_below({}, small), 4 * kSegletsPerSegment);
  small.free_seglets = 4 * kSegletsPerSegment - 1;
  small.disk_segments = 6;
  EXPECT_EQ(decide({}, small).kind, CleaningKind::kCombined);
}

/// Segments are looked at before cleaning starts, and not long before.
TEST(BalancerStart, CleaningIsNearBeforeItStarts) {
  EXPECT_FALSE(cleaning_is_near({}, with([](F& f) { f.free_seglets = 25'600; })));
  EXPECT_TRUE(cleaning_is_near({}, with([](F& f) { f.free_seglets = 25'599; })));
  EXPECT_FALSE(cleaning_is_near({}, with([](F& f) {
                                  f.free_seglets = 20'000;
                                  f.leaving_seglets = 5'600;
                                })));
  EXPECT_FALSE(cleaning_is_near({}, with([](F& f) { f.disk_segments = 1'999; })));
  EXPECT_TRUE(cleaning_is_near({}, with([](F& f) { f.disk_segments = 2'000; })));
  EXPECT_TRUE(cleaning_is_near({}, with([](F& f) { f.excess_seglets = 1; }))) << "it shrinks";
}

/// When memory is short, passes do not wait for the next ordinary head.
TEST(BalancerUrgency, IsThereWhenMemoryRunsOut) {
  EXPECT_FALSE(decide({}, with([](F& f) { f.free_seglets = 12'000; })).urgent);
  EXPECT_TRUE(decide({}, with([](F& f) { f.free_seglets = 2'559; })).urgent);
  EXPECT_TRUE(decide({}, with([](F& f) { f.free_seglets = 100; })).urgent);
}

TEST(BalancerResize, WhatIsToBeGivenBackIsNotFree) {
  BalancerFigures f = roomy();
  ASSERT_EQ(decide({}, f).kind, CleaningKind::kNone);
  f.excess_seglets = 60'000;
  const CleaningDecision shrinks = decide({}, f);
  EXPECT_EQ(shrinks.kind, CleaningKind::kCombined) << shrinks.why;
  EXPECT_TRUE(shrinks.urgent) << "what waits for a head would wait for writers";
  EXPECT_FALSE(shrinks.exhausted);
  f.gain_bytes = 0;
  EXPECT_FALSE(decide({}, f).exhausted) << "heads can be opened";
  f.excess_seglets = 50'000;
  EXPECT_EQ(decide({}, f).kind, CleaningKind::kNone) << "enough is free without it";
  EXPECT_TRUE(decide({}, f).urgent) << "what is enough may be what passes hold";
  f.excess_seglets = 500'000;
  EXPECT_EQ(decide({}, f).kind, CleaningKind::kNone) << "nothing to win";
}

TEST(BalancerResize, TheDisksLimitFollowsTheMemoryUpToItsShare) {
  BalancerOptions options;
  options.disk_segments = 2'000;
  BalancerFigures f = roomy();
  f.disk_segments = 1'800;
  EXPECT_THAT(decide(options, f).why, HasSubstr("limit of 2000"));
  f.total_seglets *= 2;
  f.disk_segments = 2'200;
  EXPECT_THAT(decide(options, f).why, HasSubstr("limit of 2400")) << "1.2 times the memory";
}

}  // namespace
}  // namespace ramcloud::log
