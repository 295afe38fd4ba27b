// Heads that were closed empty: they leave the log with the next head.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "log/group_reader.h"
#include "log/invariants.h"
#include "log/log_test_support.h"

namespace ramcloud::log {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;

const std::string kMiBValue(1 << 20, 'v');

std::vector<uint64_t> ids_of(const std::vector<Segment*>& segments) {
  std::vector<uint64_t> ids;
  ids.reserve(segments.size());
  for (const Segment* segment : segments) ids.push_back(segment->id());
  return ids;
}

std::vector<uint64_t> digest_of(const Segment& head) {
  return scan_segment(head.identity(), head.bytes()).digest;
}

using Ids = std::vector<uint64_t>;

TEST(EmptyHeads, RollingForEverNeedsNoMoreMemory) {
  TestLog t(4);
  ASSERT_EQ(append_object(t.log, 1, 1, "k", "v"), StatusCode::kOk);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(t.log.roll_head(), StatusCode::kOk) << i;
    t.log.reclaim(t.log.take_retired());
    ASSERT_LE(t.log.segments().size(), 3u) << "the entry's, the one before, and the head";
    ASSERT_LE(t.replicator.replicas().size(), 3u);
  }
  ASSERT_NE(t.log.find_segment(1), nullptr) << "it has an entry";
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(EmptyHeads, AHeadWithAnEntryStays) {
  TestLog t(6);
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  const char* ref = nullptr;
  ASSERT_EQ(append_object(t.log, 1, 1, "k", "v", nullptr, &ref), StatusCode::kOk);
  t.log.mark_dead(ref);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  EXPECT_EQ(ids_of(t.log.segments()), (Ids{2, 4, 5})) << "also when the entry is dead";
  EXPECT_EQ(digest_of(*t.log.segments().back()), (Ids{2, 4, 5}));
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

/// Until the head before it is closed, that head's digest decides if no replica of the next one is
/// found.
TEST(EmptyHeads, OneIsFreedWhenNoDigestThatNamesItCanDecide) {
  TestLog t(6, false);
  t.replicator.finish_all();
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  t.replicator.finish_open(2);
  EXPECT_EQ(digest_of(*t.log.find_segment(2)), (Ids{1, 2})) << "1 was open when 2 was opened";
  t.replicator.finish_close(1);
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  EXPECT_EQ(digest_of(*t.log.find_segment(3)), (Ids{2, 3}));
  EXPECT_THAT(ids_of(t.log.others()), Contains(1));
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
  t.replicator.finish_open(3);
  EXPECT_THAT(t.replicator.events, Not(Contains("removed 1"))) << "2 is open, and names 1";
  EXPECT_FALSE(t.log.has_retired());
  t.replicator.finish_close(2);
  EXPECT_THAT(t.replicator.events, Contains("removed 1"));
  EXPECT_EQ(ids_of(t.log.take_retired()), Ids{1});
}

TEST(EmptyHeads, OneThatLeftWithAnAbandonedHeadIsFreedWithTheFreshOne) {
  TestLog t(8, false);
  t.replicator.finish_all();
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  t.replicator.finish_all();
  while (t.log.find_segment(3) == nullptr) {
    ASSERT_EQ(append_object(t.log, 1, 1, "k", kMiBValue), StatusCode::kOk);
  }
  t.replicator.finish_open(3);
  SegmentChange change;
  ASSERT_EQ(t.log.commit(change, Roll::kNow), StatusCode::kOk);
  EXPECT_EQ(digest_of(*t.log.find_segment(4)), (Ids{2, 4}));
  EXPECT_THAT(t.replicator.events, Not(Contains("removed 1"))) << "2 is open, and names 1";
  t.replicator.finish_all();
  EXPECT_TRUE(change.done());
  EXPECT_THAT(t.replicator.events, Contains("removed 1"));
  EXPECT_THAT(t.replicator.events, Contains("removed 3"));
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

/// Otherwise it would be in two changes at once.
TEST(EmptyHeads, CleaningDoesNotTakeThem) {
  TestLog t(8, true, 1, true, 1);
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  const Segment* empty = t.log.find_segment(1);
  ASSERT_TRUE(empty != nullptr && empty->closed_durable());
  EXPECT_EQ(t.log.closed_member(empty->number()), nullptr);
}

TEST(EmptyHeads, WhatAWaitingChangeTakesOutLeavesOnce) {
  TestLog t(8);
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  SegmentChange change{.enter = {}, .leave = {t.log.find_segment(1)}};
  ASSERT_EQ(t.log.commit(change, Roll::kNext), StatusCode::kOk);
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  ASSERT_TRUE(change.done());
  EXPECT_EQ(ids_of(t.log.take_retired()), Ids{1});
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

}  // namespace
}  // namespace ramcloud::log
