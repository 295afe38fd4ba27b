// Log, when memory is short: the reserves, emergency heads, and the notice about segments that
// could be cleaned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "log/group_reader.h"
#include "log/invariants.h"
#include "log/log_test_support.h"
#include "log/side_log.h"

namespace ramcloud::log {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

const std::string kMiBValue(1 << 20, 'v');
constexpr uint32_t kWhole = kSegletsPerSegment;

std::vector<uint64_t> digest_of(const Segment& segment) {
  return scan_segment(segment.identity(), segment.bytes()).digest;
}

StatusCode append_to(SideLog& side, ByteView value) {
  const TestObject object(1, 1, "survivor", value);
  const char* ref = nullptr;
  return side.append(std::span(&object.source, 1), &ref);
}

/// A log of 8 segments whose cleaner has two of them, full of objects.
struct FullLog : TestLog {
  explicit FullLog(bool immediate = true) : TestLog(8, immediate, 1, true, 2) {
    while (append() == StatusCode::kOk || (!log.ready() && !immediate)) replicator.finish_all();
    replicator.finish_all();
  }
  StatusCode append(ByteView value = kMiBValue) { return append_object(log, 1, 1, "k", value); }
  StatusCode remove(ByteView key = "k") {
    const TestTombstone tombstone(1, 1, 1, key, true);
    Appended appended;
    const char* ref = nullptr;
    return log.append(std::span(&tombstone.source, 1), true, appended, &ref);
  }
  void use_reserve_up() {
    const std::string key(60'000, 'k');
    while (remove(key) == StatusCode::kOk || !log.ready()) replicator.finish_all();
    while (remove() == StatusCode::kOk) replicator.finish_all();
  }
  /// A pass that frees the log's first segments completely.
  SegmentChange leaving(size_t count) {
    const auto segments = log.segments();
    return {.enter = {}, .leave = {segments.begin(), segments.begin() + static_cast<int>(count)}};
  }
  void reclaim() { log.reclaim(log.take_retired()); }
};

TEST(LogMemory, EachLeavesTheOthersWhatIsTheirs) {
  FullLog t;
  const uint32_t emergency = t.log.must_stay_free(MemoryPurpose::kSurvivors);
  EXPECT_EQ(emergency, 2u) << "two heads of a seglet";
  EXPECT_EQ(t.log.must_stay_free(MemoryPurpose::kDeletes), emergency + 2 * kWhole);
  EXPECT_EQ(t.log.must_stay_free(MemoryPurpose::kWrites), emergency + 3 * kWhole);
  EXPECT_EQ(t.append(), StatusCode::kOutOfMemory);
  EXPECT_GE(t.arena.free_seglets(), t.log.must_stay_free(MemoryPurpose::kDeletes))
      << "and a head for deletes";
  EXPECT_FALSE(t.log.has_segment_for(MemoryPurpose::kWrites));
  SideLog recovery(t.log);
  EXPECT_EQ(append_to(recovery, "v"), StatusCode::kOutOfMemory);

  t.use_reserve_up();
  EXPECT_EQ(t.remove(), StatusCode::kOutOfMemory);
  EXPECT_GE(t.arena.free_seglets(), t.log.must_stay_free(MemoryPurpose::kDeletes));
  EXPECT_FALSE(t.log.has_segment_for(MemoryPurpose::kDeletes));

  SideLog survivors(t.log, MemoryPurpose::kSurvivors);
  StatusCode status = StatusCode::kOk;
  while (status == StatusCode::kOk) status = append_to(survivors, kMiBValue);
  EXPECT_EQ(status, StatusCode::kOutOfMemory);
  EXPECT_GE(survivors.segments().size(), 2u);
  EXPECT_GE(t.arena.free_seglets(), emergency);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(LogMemory, WithoutCleaningNothingIsKeptForIt) {
  TestLog t(8);
  EXPECT_EQ(t.log.must_stay_free(MemoryPurpose::kSurvivors), 0u);
  EXPECT_EQ(t.log.must_stay_free(MemoryPurpose::kWrites), kWhole);
}

/// All memory is used, by survivors of a pass, too. It is committed nevertheless.
TEST(LogMemory, APassCanBeCommittedWithoutASegmentForTheHead) {
  FullLog t;
  t.use_reserve_up();
  SideLog survivors(t.log, MemoryPurpose::kSurvivors);
  while (append_to(survivors, kMiBValue) == StatusCode::kOk) {
  }
  survivors.close();
  SegmentChange change = t.leaving(5);
  change.enter = survivors.release();
  const uint64_t before = t.log.head().segment_id();
  ASSERT_EQ(t.log.commit(change, Roll::kNow), StatusCode::kOk);
  ASSERT_TRUE(change.done());
  const uint64_t emergency = t.log.head().segment_id();
  EXPECT_GT(emergency, before);
  EXPECT_EQ(t.log.statistics().emergency_heads, 1u);
  EXPECT_EQ(digest_of(*t.log.find_segment(emergency)).back(), emergency);
  EXPECT_EQ(t.append("small"), StatusCode::kOutOfMemory) << "it has a digest and nothing else";
  EXPECT_EQ(t.remove(), StatusCode::kOutOfMemory);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());

  t.reclaim();
  EXPECT_EQ(t.remove(), StatusCode::kOk);
  EXPECT_GT(t.log.head().segment_id(), emergency);
  EXPECT_EQ(t.log.find_segment(emergency), nullptr);
  EXPECT_THAT(digest_of(*t.log.segments().back()), Not(Contains(emergency)));
  EXPECT_THAT(t.replicator.events, Contains("removed " + std::to_string(emergency)));
  t.reclaim();
  EXPECT_THAT(t.log.others(), IsEmpty()) << "its memory is free again";
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

/// It is closed on its replicas before the next head takes data, and its memory stays until then:
/// its digest, which lacks the next head, must not decide any more.
TEST(LogMemory, AnEmergencyHeadDecidesNothingOnceTheNextHasData) {
  FullLog t(false);
  t.use_reserve_up();
  SegmentChange change = t.leaving(3);
  t.replicator.events.clear();
  const uint64_t last = t.log.head().segment_id();
  ASSERT_EQ(t.log.commit(change, Roll::kNow), StatusCode::kOk);
  const uint64_t emergency = t.replicator.replicas().back().segment->id();
  const std::string e = std::to_string(emergency);
  EXPECT_THAT(t.replicator.events, ElementsAre("open " + e));
  t.replicator.finish_open(emergency);
  EXPECT_FALSE(change.done());
  t.replicator.finish_data(last);
  t.replicator.finish_close(last);
  ASSERT_TRUE(change.done());
  t.replicator.events.clear();

  t.reclaim();
  const uint64_t next = t.replicator.replicas().back().segment->id();
  const std::string n = std::to_string(next);
  EXPECT_THAT(t.replicator.events, ElementsAre("open " + n));
  EXPECT_THAT(digest_of(*t.log.find_segment(next)), Not(Contains(emergency)));
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
  EXPECT_EQ(t.append("v"), StatusCode::kRetry) << "the next is not open yet";
  t.replicator.finish_open(next);
  EXPECT_EQ(t.append("v"), StatusCode::kRetry) << "the emergency head is not closed";
  EXPECT_THAT(t.replicator.events, ElementsAre("open " + n, "opened " + n, "close " + e));
  t.replicator.finish_data(emergency);
  t.replicator.finish_close(emergency);
  EXPECT_THAT(t.replicator.events,
              ElementsAre("open " + n, "opened " + n, "close " + e, "closed " + e, "removed " + e));
  EXPECT_EQ(t.append("v"), StatusCode::kOk);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

/// Passes that free less than a segment each still work: emergency heads take turns.
TEST(LogMemory, EmergencyHeadsTakeTurnsUntilASegmentIsFree) {
  FullLog t;
  t.use_reserve_up();
  uint64_t heads = 0;
  for (int pass = 0; pass < 20; ++pass) {
    SideLog survivors(t.log, MemoryPurpose::kSurvivors);
    // It frees as much as it takes.
    ASSERT_EQ(append_to(survivors, kMiBValue), StatusCode::kOk) << pass;
    survivors.close();
    SegmentChange change;
    change.enter = survivors.release();
    if (pass > 0) {
      for (Segment* segment : t.log.segments()) {
        if (segment->side()) change.leave.push_back(segment);
      }
    }
    ASSERT_EQ(t.log.commit(change, Roll::kNow), StatusCode::kOk) << pass;
    ASSERT_TRUE(change.done()) << pass;
    t.reclaim();
    ASSERT_THAT(Invariants(t.log).check(), IsEmpty()) << pass;
    heads = t.log.statistics().emergency_heads;
  }
  EXPECT_GE(heads, 10u);
  EXPECT_LE(t.log.segments().size(), 8u) << "none of them stays in the log";
}

TEST(LogMemory, AHeadForDeletesTakesAllWhenTheReserveIsWholeAgain) {
  TestLog t(8, true, 1, true, 2);
  SideLog recovery(t.log);
  while (recovery.segments().size() < 2) {
    ASSERT_EQ(append_to(recovery, kMiBValue), StatusCode::kOk);
  }
  while (append_object(t.log, 1, 1, "k", kMiBValue) == StatusCode::kOk) {
  }
  const std::string key(60'000, 'k');
  const TestTombstone tombstone(1, 1, 1, key, true);
  Appended appended;
  const char* ref = nullptr;
  while (!t.log.find_segment(t.log.head().segment_id())->from_reserve()) {
    ASSERT_EQ(t.log.append(std::span(&tombstone.source, 1), true, appended, &ref), StatusCode::kOk);
  }
  EXPECT_EQ(append_object(t.log, 1, 1, "k", "small"), StatusCode::kOutOfMemory);
  const uint64_t head = t.log.head().segment_id();
  // The recovery is given up.
  recovery.abort();
  t.log.reclaim(t.log.take_retired());
  EXPECT_EQ(append_object(t.log, 1, 1, "k", "small"), StatusCode::kOk);
  EXPECT_EQ(t.log.head().segment_id(), head);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

/// Small segments: the log has as many as it can have while most of its memory is free. A head for
/// deletes that took everything would use up those that cleaning needs.
TEST(LogMemory, WritersLeaveSegmentsToCleaning) {
  TestLog t(8, true, 1, true, 2);
  StatusCode written = StatusCode::kOk;
  for (int i = 0; i < 100'000 && written == StatusCode::kOk; ++i) {
    written = append_object(t.log, 1, 1, "k", "small");
    (void)t.log.roll_head();
  }
  EXPECT_EQ(written, StatusCode::kOutOfMemory);
  EXPECT_GT(t.log.memory().free_seglets, t.log.must_stay_free(MemoryPurpose::kWrites) + kWhole);
  const TestTombstone tombstone(1, 1, 1, "k", true);
  Appended appended;
  const char* ref = nullptr;
  EXPECT_EQ(t.log.append(std::span(&tombstone.source, 1), true, appended, &ref), StatusCode::kOk);
  EXPECT_EQ(append_object(t.log, 1, 1, "k", "small"), StatusCode::kOutOfMemory);
  SideLog survivors(t.log, MemoryPurpose::kSurvivors);
  EXPECT_EQ(append_to(survivors, "v"), StatusCode::kOk);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

/// Each head for deletes takes a whole segment, also where three seglets for each segment of the log
/// are none.
TEST(LogMemory, DeletesHaveWholeSegments) {
  for (uint32_t segments = 8; segments < 400; segments += 7) {
    TestLog t(segments, true, 1, true, 2);
    const uint32_t kept = t.log.must_stay_free(MemoryPurpose::kWrites) -
                          t.log.must_stay_free(MemoryPurpose::kDeletes);
    EXPECT_EQ(kept % kWhole, 0u) << segments;
    EXPECT_GE(kept, 3 * segments) << segments;
  }
}

/// Until it is free, the cleaner must not report that nothing more can be freed.
TEST(LogMemory, WhatLeavesIsCountedUntilItIsFree) {
  TestLog t(8, true, 1, true, 2);
  SideLog recovery(t.log);
  ASSERT_EQ(append_to(recovery, kMiBValue), StatusCode::kOk);
  const uint32_t free = t.log.memory().free_seglets;
  recovery.abort();
  ASSERT_EQ(t.log.memory().leaving_seglets, kSegletsPerSegment);
  const auto retired = t.log.take_retired();
  EXPECT_EQ(t.log.memory().leaving_seglets, kSegletsPerSegment) << "readers may still be there";
  t.log.reclaim(retired);
  EXPECT_EQ(t.log.memory().leaving_seglets, 0u);
  EXPECT_EQ(t.log.memory().free_seglets, free + kSegletsPerSegment);
}

TEST(LogMemory, WhatCouldBeCleanedIsTold) {
  TestLog t(8);
  const auto taken = [&] {
    std::vector<uint64_t> ids;
    for (const uint32_t number : t.log.take_changed(100)) {
      const Segment* segment = t.log.closed_member(number);
      ids.push_back(segment == nullptr ? 0 : segment->id());
    }
    std::ranges::sort(ids);
    return ids;
  };
  const char* first = nullptr;
  ASSERT_EQ(append_object(t.log, 1, 1, "k", kMiBValue, nullptr, &first), StatusCode::kOk);
  EXPECT_THAT(taken(), IsEmpty()) << "the head";
  while (t.log.head().segment_id() < 3) {
    ASSERT_EQ(append_object(t.log, 1, 1, "k", kMiBValue), StatusCode::kOk);
  }
  EXPECT_THAT(taken(), ElementsAre(1, 2)) << "closed";
  t.log.mark_dead(first);
  EXPECT_THAT(taken(), ElementsAre(1)) << "less is live";
  EXPECT_THAT(taken(), IsEmpty());
  SideLog side(t.log);
  ASSERT_EQ(append_to(side, "v"), StatusCode::kOk);
  side.close();
  const uint64_t survivor = side.segments().front()->id();
  SegmentChange change{.enter = side.release(), .leave = {t.log.find_segment(1)}};
  ASSERT_EQ(t.log.commit(change, Roll::kNow), StatusCode::kOk);
  ASSERT_TRUE(change.done());
  EXPECT_THAT(taken(), testing::IsSupersetOf({uint64_t{0}, survivor}));
}

TEST(LogMemory, SaysWhatIsFreeAndWhatLeaves) {
  FullLog t;
  EXPECT_EQ(t.log.memory().total_seglets, 8 * kWhole);
  EXPECT_EQ(t.log.memory().leaving_seglets, 0u);
  const auto before = t.log.memory();
  SegmentChange change = t.leaving(2);
  ASSERT_EQ(t.log.commit(change, Roll::kNow), StatusCode::kOk);
  EXPECT_GE(t.log.memory().leaving_seglets, kWhole);
  EXPECT_GE(t.log.memory().segments, before.segments);
  t.reclaim();
  t.reclaim();  // an emergency head, if there was one
  EXPECT_EQ(t.log.memory().leaving_seglets, 0u);
  EXPECT_GT(t.log.memory().free_seglets, before.free_seglets + kWhole);
}

}  // namespace
}  // namespace ramcloud::log
