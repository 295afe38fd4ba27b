#include "store/compaction_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "log/group_reader.h"
#include "log/log_test_support.h"
#include "log/replay.h"
#include "store/cleaning_pass.h"
#include "store/invariants.h"
#include "store/testing/cleaning_rig.h"

namespace ramcloud::store {
namespace {

using log::Segment;
using Progress = log::CleaningWork::Progress;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

using testing::kNoRules;

class Compaction : public ::testing::Test, protected testing::CleaningRig {
 protected:
  Compaction() : CleaningRig(16) {}
  static std::string key(int i) { return "key" + std::to_string(i); }
  void write(const std::string& key, const std::string& value) {
    ASSERT_EQ(CleaningRig::write(key, value), StatusCode::kOk);
  }
  /// And it is swept.
  void remove(const std::string& key) {
    ASSERT_EQ(CleaningRig::remove(key), StatusCode::kOk);
    parts.replicator.finish_all();
    while (store.sweep() > 0) {
    }
  }
  /// Keys 0 to 99 with 10,000 bytes each, in one closed segment that may be compacted. Returns its id.
  uint64_t fill_one() {
    const uint64_t id = parts.log.head().segment_id();
    for (int i = 0; i < 100; ++i)
      write(key(i), std::string(10'000, static_cast<char>('a' + i % 26)));
    roll();
    roll();
    return id;
  }
  void roll() {
    write("filler", "x");
    ASSERT_EQ(parts.log.roll_head(), StatusCode::kOk);
  }
  Progress run(Relocation& pass) {
    for (int i = 0; i < 100'000; ++i) {
      const Progress now = pass.step();
      if (now != Progress::kMore && now != Progress::kWaits) return now;
      parts.replicator.finish_all();
      (void)store.sweep();
    }
    ADD_FAILURE() << "the pass does not end";
    return Progress::kMore;
  }
  Progress compact(uint64_t id) {
    CompactionPass pass(store, *parts.log.find_segment(id));
    return run(pass);
  }
  void expect_invariants() { EXPECT_THAT(Invariants(store).check(), IsEmpty()); }
};

TEST_F(Compaction, TheSegmentKeepsItsIdAndTakesLessMemory) {
  const uint64_t id = fill_one();
  for (int i = 0; i < 100; i += 2) remove(key(i));
  const Segment* before = parts.log.find_segment(id);
  const uint32_t memory = before->memory_bytes();
  const uint32_t free = parts.log.memory().free_seglets;

  ASSERT_EQ(compact(id), Progress::kDone);
  const Segment* after = parts.log.find_segment(id);
  ASSERT_NE(after, before);
  EXPECT_EQ(after->compactions(), 1u);
  EXPECT_LT(after->memory_bytes(), memory * 6 / 10);
  EXPECT_TRUE(after->closed_durable());
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(read(key(i)),
              i % 2 == 0 ? "-" : std::string(10'000, static_cast<char>('a' + i % 26)));
  }
  expect_invariants();
  reclaim();
  EXPECT_EQ(parts.log.memory().free_seglets,
            free + (memory - after->memory_bytes()) / log::kSegletBytes);
  expect_invariants();
}

/// The replicator is notified, and no segment has left or entered.
/// Also while some slots point at the original, and some at the copy.
TEST_F(Compaction, TheInvariantsHoldAfterEachStep) {
  const uint64_t id = fill_one();
  for (int i = 0; i < 20; ++i) remove(key(i));
  CompactionPass pass(store, *parts.log.find_segment(id));
  int steps = 0;
  for (Progress now = Progress::kMore; now != Progress::kDone && steps < 1'000; ++steps) {
    now = pass.step();
    expect_invariants();
    parts.replicator.finish_all();
    (void)store.sweep();
  }
  EXPECT_LT(steps, 1'000);
}

TEST_F(Compaction, ItNeedsNoHeadAndNoReplica) {
  const uint64_t id = fill_one();
  for (int i = 0; i < 100; i += 2) remove(key(i));
  const uint64_t head = parts.log.head().segment_id();
  parts.replicator.events.clear();
  ASSERT_EQ(compact(id), Progress::kDone);
  EXPECT_THAT(parts.replicator.events, ::testing::ElementsAre("compacted " + std::to_string(id)));
  EXPECT_EQ(parts.log.head().segment_id(), head);
}

TEST_F(Compaction, WhoeverRefersToTheOriginalKeepsItsMemory) {
  const uint64_t id = fill_one();
  for (int i = 2; i < 100; ++i) remove(key(i));
  ReadResult result;
  ASSERT_EQ(store.read(1, key(1), kNoRules, result), StatusCode::kOk);
  log::Pin pin = parts.log.pin(result.entry);
  const uint32_t free = parts.log.memory().free_seglets;
  ASSERT_EQ(compact(id), Progress::kDone);
  reclaim();
  EXPECT_LE(parts.log.memory().free_seglets, free);
  EXPECT_TRUE(result.entry.verify());
  pin.release();
  reclaim();
  EXPECT_GT(parts.log.memory().free_seglets, free);
}

/// Nor is what left the log found because somebody still reads what it was before it was compacted.
TEST_F(Compaction, APinnedOriginalIsFoundByNoReplay) {
  const uint64_t id = fill_one();
  for (int i = 2; i < 100; ++i) remove(key(i));
  ReadResult result;
  ASSERT_EQ(store.read(1, key(1), kNoRules, result), StatusCode::kOk);
  const log::Pin pin = parts.log.pin(result.entry);
  ASSERT_EQ(compact(id), Progress::kDone);
  EXPECT_TRUE(parts.log.may_be_found(id));
  EXPECT_THAT(parts.log.ids_that_may_be_found(), Contains(id));
  CleaningPass pass(store, {parts.log.find_segment(id)});
  pass.commit_now();
  ASSERT_EQ(run(pass), Progress::kDone);
  reclaim();
  EXPECT_FALSE(parts.log.may_be_found(id));
  EXPECT_THAT(parts.log.ids_that_may_be_found(), Not(Contains(id)));
}

/// One names a segment that is still in the log, the other one that left.
TEST_F(Compaction, OnlyTombstonesOfWhatHasLeftAreDropped) {
  const uint64_t first = fill_one();  // is compacted, so it stays
  write("gone", "v");
  const uint64_t second = parts.log.head().segment_id();
  roll();
  const uint64_t third = parts.log.head().segment_id();
  remove(key(0));
  remove("gone");
  for (int i = 200; i < 300; ++i) write(key(i), std::string(10'000, 'x'));
  roll();
  roll();
  for (int i = 200; i < 300; ++i) remove(key(i));
  roll();
  {
    CleaningPass pass(store, {parts.log.find_segment(second)});
    pass.commit_now();
    ASSERT_EQ(run(pass), Progress::kDone);
    reclaim();
  }
  ASSERT_FALSE(parts.log.may_be_found(second));
  CompactionPass pass(store, *parts.log.find_segment(third));
  ASSERT_EQ(run(pass), Progress::kDone);
  EXPECT_EQ(pass.counts().tombstones, 1u) << "that of key 0, in segment " << first;
  EXPECT_EQ(pass.counts().tombstones_dropped, 2u) << "that of \"gone\", and of the filler";
  expect_invariants();
}

/// A copy and its original have one id, so the tombstone of an object that dies meanwhile names both.
TEST_F(Compaction, AnObjectThatDiesMeanwhileStaysDead) {
  const uint64_t id = fill_one();
  for (int i = 0; i < 100; i += 2) remove(key(i));
  CompactionPass pass(store, *parts.log.find_segment(id));
  while (pass.counts().objects < 20) ASSERT_EQ(pass.step(), Progress::kMore);
  remove(key(1));
  ASSERT_EQ(run(pass), Progress::kDone);
  EXPECT_EQ(pass.counts().dead_copies, 1u);
  EXPECT_EQ(read(key(1)), "-");
  EXPECT_FALSE(store.cleaned().has_dead_copies(id)) << "nothing has to be kept for it";
  reclaim();
  expect_invariants();
}

TEST_F(Compaction, AgainAndAgainUntilNothingIsLeft) {
  const uint64_t id = fill_one();
  uint32_t memory = parts.log.find_segment(id)->memory_bytes();
  for (int i = 0; i < 100; i += 20) {
    for (int k = i; k < i + 20; ++k) remove(key(k));
    ASSERT_EQ(compact(id), Progress::kDone);
    reclaim();
    EXPECT_LT(parts.log.find_segment(id)->memory_bytes(), memory);
    memory = parts.log.find_segment(id)->memory_bytes();
    expect_invariants();
  }
  EXPECT_EQ(memory, log::kSegletBytes);
  // It does not count as a head that was closed empty: only combined cleaning removes it.
  CleaningPass pass(store, {parts.log.find_segment(id)});
  pass.commit_now();
  ASSERT_EQ(run(pass), Progress::kDone);
  EXPECT_EQ(parts.log.find_segment(id), nullptr);
}

TEST_F(Compaction, WithNothingToWinNothingChanges) {
  const uint64_t id = fill_one();
  const Segment* before = parts.log.find_segment(id);
  EXPECT_EQ(compact(id), Progress::kNoGain);
  EXPECT_EQ(parts.log.find_segment(id), before);
  EXPECT_FALSE(store.cleaned().being_cleaned(id));
  reclaim();
  expect_invariants();
}

TEST_F(Compaction, WithoutMemoryNothingChanges) {
  const uint64_t id = fill_one();
  for (int i = 0; i < 100; i += 2) remove(key(i));
  Segment& original = *parts.log.find_segment(id);
  std::vector<std::unique_ptr<log::CompactedSegment>> others;
  do {
    others.push_back(std::make_unique<log::CompactedSegment>(parts.log, original));
  } while (others.back()->open(1) == StatusCode::kOk);
  const Segment* before = parts.log.find_segment(id);
  EXPECT_EQ(compact(id), Progress::kFailed);
  EXPECT_EQ(parts.log.find_segment(id), before);
  EXPECT_FALSE(store.cleaned().being_cleaned(id));
  others.clear();
  reclaim();
  EXPECT_EQ(compact(id), Progress::kDone);
}

TEST_F(Compaction, APassThatIsGivenUpLeavesNothingBehind) {
  const uint64_t id = fill_one();
  for (int i = 0; i < 100; i += 2) remove(key(i));
  const Segment* before = parts.log.find_segment(id);
  const uint32_t free = parts.log.memory().free_seglets;
  {
    CompactionPass pass(store, *parts.log.find_segment(id));
    while (pass.counts().objects < 20) ASSERT_EQ(pass.step(), Progress::kMore);
    CompactionPass other(store, *parts.log.find_segment(id));
    EXPECT_EQ(other.step(), Progress::kDone) << "one at a time";
  }
  reclaim();
  EXPECT_EQ(parts.log.find_segment(id), before);
  EXPECT_EQ(parts.log.memory().free_seglets, free);
  EXPECT_FALSE(store.cleaned().being_cleaned(id));
  expect_invariants();
}

/// Recovery learns versions from the newest head's header, from that head, and from the one before it.
/// A tombstone that stands only there, and is dropped, may be all that has a version.
TEST_F(Compaction, TheHeadBeforeThePresentOneIsLeftAsItIs) {
  const uint64_t id = parts.log.head().segment_id();
  for (int i = 0; i < 100; ++i) write(key(i), std::string(10'000, 'v'));
  for (int i = 0; i < 100; ++i) remove(key(i));
  roll();
  EXPECT_FALSE(parts.log.may_compact(*parts.log.find_segment(id)));
  EXPECT_EQ(compact(id), Progress::kDone);
  EXPECT_EQ(parts.log.find_segment(id)->compactions(), 0u);
  roll();
  EXPECT_TRUE(parts.log.may_compact(*parts.log.find_segment(id)));
  EXPECT_EQ(compact(id), Progress::kDone);
  EXPECT_EQ(parts.log.find_segment(id)->compactions(), 1u);
}

/// Replicas of both kinds, and one that is cut off: whichever is chosen, all is there.
TEST_F(Compaction, AReplayTakesReplicasOfBothKinds) {
  parts.replicator.keeps_originals = true;
  const uint64_t id = fill_one();
  for (int i = 0; i < 100; i += 2) remove(key(i));
  ASSERT_EQ(compact(id), Progress::kDone);
  for (const int kinds : {1, 2, 3}) {
    log::Replay replay(log::kTestCluster, log::kTestMaster);
    std::deque<std::string> images;  // that the replay looks at
    const auto add = [&](uint64_t segment, std::string bytes) {
      log::ReplicaImage image;
      image.segment_id = segment;
      image.bytes = images.emplace_back(std::move(bytes));
      replay.add(image);
    };
    for (const auto& replica : parts.replicator.replicas()) {
      const uint64_t segment = replica.segment->id();
      if (segment != id || (kinds & 1) != 0) add(segment, log::image_of(*replica.segment));
      if (segment != id) continue;
      // A durable-up-to mark of the cut-off replica is above the compacted one's length.
      const size_t length = replica.original.size();
      add(segment, replica.original.substr(0, (kinds & 2) != 0 ? length : length - 100'000));
    }
    const Status status = replay.run();
    ASSERT_TRUE(status.ok()) << kinds << ": " << status.message();
    EXPECT_EQ(replay.live_objects(), 51u) << "50 keys, and the filler";
  }
}

}  // namespace
}  // namespace ramcloud::store
