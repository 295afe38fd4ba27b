#include "log/side_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "log/group_reader.h"
#include "log/invariants.h"
#include "log/log_test_support.h"
#include "log/replay.h"

namespace ramcloud::log {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string kMiBValue(1 << 20, 'v');

StatusCode append_to(SideLog& side, uint64_t version, ByteView key, ByteView value,
                     const char** ref = nullptr) {
  const TestObject object(1, version, key, value);
  const char* ignored = nullptr;
  return side.append(std::span(&object.source, 1), ref != nullptr ? ref : &ignored);
}

std::vector<uint64_t> ids_of(const std::vector<Segment*>& segments) {
  std::vector<uint64_t> ids;
  for (const Segment* segment : segments) ids.push_back(segment->id());
  return ids;
}

std::vector<uint64_t> digest_of(const Segment& segment) {
  return scan_segment(segment.identity(), segment.bytes()).digest;
}

/// A log whose head is half full, so that the next one (2) is opened ahead; only the test makes
/// replication progress.
struct OpenedAhead : TestLog {
  explicit OpenedAhead(uint32_t segments = 12) : TestLog(segments, false) {
    replicator.finish_open(1);
    while (log.segments().size() < 2) {
      EXPECT_EQ(append_object(log, 1, 1, "k", kMiBValue), StatusCode::kOk);
    }
    replicator.finish_open(2);
    replicator.finish_data(1);
    replicator.events.clear();
  }
  /// A side log with one segment (id 3), complete on its replicas.
  void fill(SideLog& side, uint64_t version = 7) {
    ASSERT_EQ(append_to(side, version, "side", "value"), StatusCode::kOk);
    side.close();
    replicator.finish_open(side.segments().back()->id());
    replicator.finish_close(side.segments().back()->id());
    ASSERT_TRUE(side.all_durable());
  }
};

TEST(SideLog, IsFilledAndReplicatedBesideTheHead) {
  TestLog t(8);
  SideLog side(t.log);
  const char* ref = nullptr;
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(append_to(side, 5, "key", kMiBValue, &ref), StatusCode::kOk);
    ASSERT_EQ(append_object(t.log, 1, 1, "k", "v"), StatusCode::kOk);
  }
  EXPECT_FALSE(side.all_durable());
  side.close();
  EXPECT_TRUE(side.all_durable());
  EXPECT_EQ(side.segments().size(), 2u);
  EXPECT_EQ(ids_of(t.log.segments()), (std::vector<uint64_t>{1})) << "not in the log";
  const auto object = parse_object(t.log.entry(ref));
  ASSERT_TRUE(object && object->entry.verify());
  EXPECT_LE(t.log.position_of(ref), t.log.durable()) << "a reader of it waits for nothing";
  for (const Segment* segment : side.segments()) {
    const SegmentScan scan = scan_segment(segment->identity(), segment->bytes());
    EXPECT_EQ(scan.end, ScanEnd::kClosed);
    EXPECT_FALSE(scan.is_head);
  }
  EXPECT_EQ(append_to(side, 5, "key", "late"), StatusCode::kInvalidArgument);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(SideLog, ACopyKeepsTheChecksumOfItsOriginal) {
  TestLog t(8);
  SideLog side(t.log);
  TestObject object(1, 5, "key", "value");
  object.source.verified_crc = 77;  // the bytes were damaged after they were verified
  const char* ref = nullptr;
  ASSERT_EQ(side.append(std::span(&object.source, 1), &ref), StatusCode::kOk);
  EXPECT_EQ(t.log.entry(ref).stored_checksum(), 77u);
  EXPECT_FALSE(t.log.entry(ref).verify()) << "and are found out, at the latest when they are read";
}

TEST(SideLog, EntersWithAFreshHeadAndTheOneOpenedAheadIsClosedEmpty) {
  OpenedAhead t;
  SideLog side(t.log);
  t.fill(side);
  t.replicator.events.clear();
  SegmentChange change;
  change.enter = side.segments();
  ASSERT_EQ(t.log.commit(change, Roll::kNow), StatusCode::kOk);
  EXPECT_THAT(t.replicator.events, ElementsAre("open 4"));
  EXPECT_EQ(digest_of(*t.log.find_segment(4)), (std::vector<uint64_t>{1, 3, 4}));
  EXPECT_EQ(append_object(t.log, 1, 9, "k", "v"), StatusCode::kOk) << "nobody waits meanwhile";
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());

  // In this order: the fresh head is open, the abandoned one closed, the old one closed.
  t.replicator.finish_open(4);
  EXPECT_THAT(t.replicator.events, ElementsAre("open 4", "opened 4", "close 2"));
  EXPECT_FALSE(t.log.find_segment(1)->closed());
  EXPECT_EQ(append_object(t.log, 1, 9, "k", "v"), StatusCode::kOk);
  EXPECT_FALSE(change.done());
  EXPECT_FALSE(t.log.withdraw(change)) << "a digest has it";
  t.replicator.finish_close(2);
  EXPECT_TRUE(t.log.find_segment(1)->closed());
  EXPECT_FALSE(change.done());
  t.replicator.finish_data(1);
  t.replicator.finish_close(1);
  EXPECT_TRUE(change.done());
  EXPECT_THAT(t.replicator.events, ElementsAre("open 4", "opened 4", "close 2", "closed 2",
                                               "close 1", "closed 1", "removed 2"));
  EXPECT_EQ(ids_of(t.log.segments()), (std::vector<uint64_t>{1, 3, 4}));
  EXPECT_EQ(append_object(t.log, 1, 9, "k", "v"), StatusCode::kOk);
  EXPECT_EQ(t.log.head().segment_id(), 4u);
  EXPECT_EQ(ids_of(t.log.take_retired()), (std::vector<uint64_t>{2}));
  EXPECT_EQ(side.release().size(), 1u);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(SideLog, RidesTheNextHeadThatIsOpenedAnyway) {
  TestLog t(12);
  SideLog side(t.log);
  ASSERT_EQ(append_to(side, 7, "side", "value"), StatusCode::kOk);
  side.close();
  SegmentChange change;
  change.enter = side.release();
  ASSERT_EQ(t.log.commit(change, Roll::kNext), StatusCode::kOk);
  EXPECT_EQ(change.state.load(), SegmentChange::State::kWaiting);
  while (!change.done()) {
    ASSERT_EQ(append_object(t.log, 1, 1, "k", kMiBValue), StatusCode::kOk);
    ASSERT_LT(t.log.head().segment_id(), 4u);
  }
  EXPECT_EQ(ids_of(t.log.segments()), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_THAT(t.replicator.events, testing::Not(testing::Contains(testing::StartsWith("removed"))));
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(SideLog, SeveralChangesShareAHeadAndOneThatComesLateHasTheNext) {
  OpenedAhead t;
  SideLog first(t.log), second(t.log), late(t.log);
  t.fill(first);
  t.fill(second);
  SegmentChange a, b, c;
  a.enter = first.segments();
  b.enter = second.segments();
  ASSERT_EQ(t.log.commit(a, Roll::kNext), StatusCode::kOk);
  ASSERT_EQ(t.log.commit(b, Roll::kNow), StatusCode::kOk);
  EXPECT_EQ(a.state.load(), SegmentChange::State::kCarried);
  t.fill(late);
  c.enter = late.segments();
  ASSERT_EQ(t.log.commit(c, Roll::kNow), StatusCode::kOk);
  EXPECT_EQ(c.state.load(), SegmentChange::State::kWaiting);
  t.replicator.finish_all();
  EXPECT_TRUE(a.done() && b.done() && c.done());
  const auto segments = t.log.segments();
  EXPECT_EQ(digest_of(*segments.back()), ids_of(segments));
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
  for (SideLog* side : {&first, &second, &late}) (void)side->release();
}

/// What is left of the memory, less than a segment, is enough for the last entries of a pass.
TEST(SideLog, ASurvivorTakesLessThanASegmentWhenThereIsNotMore) {
  TestLog t(4, true, 1, true, 1);
  const auto free_for_survivors = [&] {
    return t.arena.free_seglets() - t.log.must_stay_free(MemoryPurpose::kSurvivors);
  };
  SideLog first(t.log, MemoryPurpose::kSurvivors);
  while (free_for_survivors() >= kSegletsPerSegment) {
    ASSERT_EQ(append_to(first, 5, "key", kMiBValue), StatusCode::kOk);
  }
  const uint32_t left = free_for_survivors();
  ASSERT_GT(left, 20u);
  SideLog recovered(t.log);
  EXPECT_EQ(append_to(recovered, 5, "key", "value"), StatusCode::kOutOfMemory);
  SideLog second(t.log, MemoryPurpose::kSurvivors);
  ASSERT_EQ(append_to(second, 5, "key", kMiBValue), StatusCode::kOk);
  EXPECT_EQ(second.segments().at(0)->memory_bytes(), left * kSegletBytes);
  EXPECT_EQ(append_to(second, 5, "key", kMiBValue), StatusCode::kOutOfMemory);
  second.close();
  first.close();
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
  second.abort();
  first.abort();
}

/// A pass of cleaning waits until the head is full: the next head carries its change already.
struct CarriesAChange : OpenedAhead {
  CarriesAChange() {
    fill(first);
    patient.enter = first.release();
    EXPECT_EQ(log.commit(patient, Roll::kNext), StatusCode::kOk);
    EXPECT_EQ(log.roll_head(), StatusCode::kOk);
    replicator.finish_all();
    while (patient.state.load() == SegmentChange::State::kWaiting) {
      EXPECT_EQ(append_object(log, 1, 1, "k", kMiBValue), StatusCode::kOk);
    }
    replicator.finish_all();
    EXPECT_EQ(patient.state.load(), SegmentChange::State::kCarried);
    fill(second);
    late.enter = second.release();
  }
  SideLog first{log}, second{log};
  SegmentChange patient, late;
};

/// A recovery is committed meanwhile, and nobody writes any more.
TEST(SideLog, AnUrgentChangeDoesNotWaitForOneThatIsCarriedAlready) {
  CarriesAChange t;
  ASSERT_EQ(t.log.commit(t.late, Roll::kNow), StatusCode::kOk);
  t.replicator.finish_all();
  EXPECT_TRUE(t.patient.done());
  EXPECT_TRUE(t.late.done());
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(SideLog, NorDoesAChangeThatIsHurriedLater) {
  CarriesAChange t;
  ASSERT_EQ(t.log.commit(t.late, Roll::kNext), StatusCode::kOk);
  t.replicator.finish_all();
  ASSERT_FALSE(t.patient.done());
  t.log.hurry(t.late);
  t.replicator.finish_all();
  EXPECT_TRUE(t.late.done());
}

TEST(SideLog, SegmentsLeaveWhenNoDigestWithThemCanDecide) {
  TestLog t(12);
  while (t.log.head().segment_id() < 4) {
    ASSERT_EQ(append_object(t.log, 1, 1, "k", kMiBValue), StatusCode::kOk);
  }
  const uint32_t free_before = t.log.statistics().free_segments;
  Segment* second = t.log.find_segment(2);
  SideLog side(t.log);
  ASSERT_EQ(append_to(side, 7, "survivor", "value"), StatusCode::kOk);
  side.close();
  SegmentChange change{.enter = side.release(), .leave = {second}};
  ASSERT_EQ(t.log.commit(change, Roll::kNow), StatusCode::kOk);
  ASSERT_TRUE(change.done());
  EXPECT_EQ(t.log.find_segment(2), nullptr);
  EXPECT_EQ(digest_of(*t.log.segments().back()), ids_of(t.log.segments()));
  EXPECT_THAT(t.replicator.events, testing::Contains("removed 2"));
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());

  // A pin still refers to it: the memory stays.
  Pin pin(*second);
  auto retired = t.log.take_retired();
  EXPECT_THAT(ids_of(retired), testing::Contains(2));
  t.log.reclaim(retired);
  EXPECT_EQ(second->id(), 2u);
  pin.release();
  retired = t.log.take_retired();
  EXPECT_EQ(ids_of(retired), (std::vector<uint64_t>{2}));
  t.log.reclaim(retired);
  EXPECT_THAT(t.log.take_retired(), IsEmpty());
  // The survivor and the closed head take a seglet each; a whole segment came back.
  EXPECT_GE(t.log.statistics().free_segments + 1, free_before);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(SideLog, MemoryComesBackWhenSegmentsComeAndGo) {
  TestLog t(6);
  for (int round = 0; round < 200; ++round) {
    SideLog side(t.log);
    ASSERT_EQ(append_to(side, 7, "survivor", kMiBValue), StatusCode::kOk) << round;
    side.close();
    SegmentChange change;
    change.enter = side.release();
    if (const auto segments = t.log.segments(); segments.front()->closed_durable()) {
      change.leave = {segments.begin(), segments.end() - 1};
    }
    ASSERT_EQ(t.log.commit(change, Roll::kNow), StatusCode::kOk) << round;
    ASSERT_TRUE(change.done());
    t.log.reclaim(t.log.take_retired());
    ASSERT_THAT(Invariants(t.log).check(), IsEmpty());
  }
  EXPECT_GE(t.log.statistics().free_segments, 3u);
}

TEST(SideLog, AbortedItLeavesNothing) {
  TestLog t(4);
  const uint32_t before = t.arena.free_seglets();
  {
    SideLog side(t.log);
    ASSERT_EQ(append_to(side, 7, "side", kMiBValue), StatusCode::kOk);
  }
  EXPECT_THAT(t.replicator.events, testing::Contains("removed 2"));
  t.log.reclaim(t.log.take_retired());
  EXPECT_EQ(t.arena.free_seglets(), before);
  EXPECT_THAT(t.log.others(), IsEmpty());
}

TEST(SideLog, KeepsTheReserveForDeletes) {
  TestLog t(4);
  SideLog side(t.log);
  StatusCode status = StatusCode::kOk;
  for (int i = 0; i < 100 && status == StatusCode::kOk; ++i) {
    status = append_to(side, 7, "side", kMiBValue);
  }
  EXPECT_EQ(status, StatusCode::kOutOfMemory);
  EXPECT_EQ(t.log.statistics().free_segments, 1u);
  side.close();
  SegmentChange change;
  change.enter = side.segments();
  EXPECT_EQ(t.log.commit(change, Roll::kNow), StatusCode::kOutOfMemory);
  EXPECT_EQ(change.state.load(), SegmentChange::State::kNew);
}

TEST(SideLog, AChangeThatWaitsCanBeTakenBackAndWaitsForMemory) {
  TestLog t(4);
  SideLog side(t.log);
  ASSERT_EQ(append_to(side, 7, "side", kMiBValue), StatusCode::kOk);
  side.close();
  SegmentChange change;
  change.enter = side.segments();
  ASSERT_EQ(t.log.commit(change, Roll::kNext), StatusCode::kOk);
  EXPECT_EQ(t.log.commit(change, Roll::kNext), StatusCode::kInvalidArgument) << "twice";
  EXPECT_TRUE(t.log.withdraw(change));
  EXPECT_FALSE(t.log.withdraw(change));
  EXPECT_EQ(change.state.load(), SegmentChange::State::kNew);
  EXPECT_EQ(t.log.roll_head(), StatusCode::kOk);
  EXPECT_EQ(change.state.load(), SegmentChange::State::kNew);
}

TEST(SideLog, OnlyWhatIsDurableAndOfThisLogEnters) {
  OpenedAhead t;
  SideLog side(t.log);
  ASSERT_EQ(append_to(side, 7, "side", "value"), StatusCode::kOk);
  side.close();
  SegmentChange change;
  change.enter = side.segments();
  EXPECT_EQ(t.log.commit(change, Roll::kNow), StatusCode::kInvalidArgument) << "not durable";
  SegmentChange leaving{.enter = {}, .leave = {t.log.find_segment(1)}};
  EXPECT_EQ(t.log.commit(leaving, Roll::kNow), StatusCode::kInvalidArgument) << "the head";
  SegmentChange head{.enter = {t.log.find_segment(1)}, .leave = {}};
  EXPECT_EQ(t.log.commit(head, Roll::kNow), StatusCode::kInvalidArgument) << "no side segment";
  const Segment* aborted = side.segments().front();
  side.abort();
  SegmentChange gone{.enter = {const_cast<Segment*>(aborted)}, .leave = {}};
  EXPECT_EQ(t.log.commit(gone, Roll::kNow), StatusCode::kInvalidArgument) << "aborted";
}

/// Otherwise its memory would be given back twice.
TEST(SideLog, NothingLeavesByTwoChanges) {
  TestLog t(8);
  ASSERT_EQ(append_object(t.log, 1, 1, "k", "v"), StatusCode::kOk);
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  Segment* leaves = t.log.find_segment(1);
  SegmentChange one{.enter = {}, .leave = {leaves}}, other{.enter = {}, .leave = {leaves}};
  ASSERT_EQ(t.log.commit(one, Roll::kNext), StatusCode::kOk);
  EXPECT_EQ(t.log.commit(other, Roll::kNow), StatusCode::kInvalidArgument);
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  ASSERT_TRUE(one.done());
  EXPECT_EQ(t.log.take_retired(), std::vector<Segment*>{leaves});
}

TEST(Log, AHeadThatIsClosedEarlyKeepsOnlyWhatItUses) {
  TestLog t(8);
  const uint32_t before = t.arena.free_seglets();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(append_object(t.log, 1, 1, "k", "v"), StatusCode::kOk);
    ASSERT_EQ(t.log.roll_head(), StatusCode::kOk) << i;
  }
  EXPECT_EQ(t.arena.free_seglets(), before - 20) << "a seglet for each";
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

// ---- what a crash finds at each step

/// The replicas of all segments as they are now. Side segments that are not closed are invisible to
/// recovery, as incomplete copies are.
Status replay_now(const TestLog& t, Replay& replay, std::vector<std::string>& images) {
  std::vector<const FakeReplicator::Replica*> there;
  for (const auto& replica : t.replicator.replicas()) {
    const bool visible =
        replica.segment->side() ? replica.segment->closed_durable() : replica.durable > 0;
    if (visible) there.push_back(&replica);
  }
  images.reserve(there.size());
  for (const auto* replica : there) {
    images.push_back(image_of(*replica->segment, replica->durable));
    ReplicaImage image;
    image.segment_id = replica->segment->id();
    image.bytes = images.back();
    if (replica->segment->closed_durable()) image.known.closed_length = replica->durable;
    replay.add(std::move(image));
  }
  return replay.run();
}

/// After a crash at any moment the log is whole, with the change or without it; once the change is
/// done, with it.
TEST(SideLog, ACrashAtAnyStepFindsAWholeLogWithTheChangeOrWithout) {
  int with = 0, without = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    OpenedAhead t;
    Random random(seed);
    SideLog side(t.log);
    t.fill(side);
    SegmentChange change;
    change.enter = side.release();
    ASSERT_EQ(t.log.commit(change, Roll::kNow), StatusCode::kOk);
    const uint64_t steps = random.below(30);
    uint64_t acknowledged = 0, appended = 0;
    LogPosition end;
    for (uint64_t i = 0; i < steps; ++i) {
      Appended next;
      if (random.chance(0.3) && t.log.durable() >= end &&
          append_object(t.log, 1, 100 + i, "k", "v", &next) == StatusCode::kOk) {
        appended = 100 + i;
        end = next.end;
      }
      (void)t.replicator.step(random);
      if (t.log.durable() >= end) acknowledged = appended;
    }
    std::vector<std::string> images;
    Replay replay(kTestCluster, kTestMaster);
    const Status status = replay_now(t, replay, images);
    ASSERT_TRUE(status.ok()) << seed << ": " << status.message();
    bool found = false;
    uint64_t newest = 0;
    replay.for_each([&](const ReplayedObject& object) {
      if (object.key == "side") found = true;
      if (object.key == "k") newest = object.version;
    });
    if (change.done()) EXPECT_TRUE(found) << seed;
    EXPECT_GE(newest, acknowledged) << seed;
    (found ? with : without)++;
  }
  EXPECT_GT(with, 5);
  EXPECT_GT(without, 5);
}

}  // namespace
}  // namespace ramcloud::log
