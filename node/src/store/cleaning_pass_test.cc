// Single cases of a pass of combined cleaning; cleaning_test.cc has the random ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "log/group_reader.h"
#include "log/log_test_support.h"
#include "log/replay.h"
#include "store/cleaning_pass.h"
#include "store/invariants.h"
#include "store/recovered_slots.h"
#include "store/tablet_replay.h"
#include "store/testing/dead_log.h"

namespace ramcloud::store {
namespace {

using Progress = log::CleaningWork::Progress;
constexpr wire::RejectRules kNoRules{};

struct Bench {
  Bench() : parts(8, false, 1, true, 1), store(parts.log, clock, {.buckets = 512}) {
    parts.replicator.finish_all();
    EXPECT_TRUE(store.take_tablet(1, 0, ~uint64_t{0}).ok());
  }
  void write(const std::string& key, const std::string& value) {
    uint64_t version = 0;
    log::LogPosition depends;
    ASSERT_EQ(store.write(1, key, value, kNoRules, version, depends), StatusCode::kOk);
  }
  void remove(const std::string& key) {
    uint64_t version = 0;
    log::LogPosition depends;
    ASSERT_EQ(store.remove(1, key, kNoRules, version, depends), StatusCode::kOk);
    parts.replicator.finish_all();
  }
  void roll() {
    ASSERT_EQ(parts.log.roll_head(), StatusCode::kOk);
    parts.replicator.finish_all();
  }
  VirtualClock clock;
  log::TestLog parts;
  ObjectStore store;
};

/// The first bytes of a segment, and how many of them are durable.
using Left = uint32_t (*)(const log::Segment&, uint32_t, log::LogPosition synced);
uint32_t all_durable(const log::Segment&, uint32_t durable, log::LogPosition) {
  return durable;
}
/// All machines lose their power at once: only synced bytes of heads remain.
uint32_t all_synced(const log::Segment& segment, uint32_t durable, log::LogPosition synced) {
  if (segment.side() || segment.id() < synced.segment_id()) return durable;
  const uint32_t there = segment.id() == synced.segment_id() ? synced.offset() : 0;
  return std::max(segment.header_length(), there);
}

/// The key's value in a replay of the remaining bytes, or "-".
std::string after_crash(Bench& b, const std::string& key, Left left = all_durable) {
  std::vector<std::pair<uint64_t, std::string>> images;
  for (const auto& replica : b.parts.replicator.replicas()) {
    const log::Segment& s = *replica.segment;
    if (!s.opened_durable()) continue;
    images.emplace_back(s.id(), log::image_of(s, left(s, replica.durable, b.parts.log.synced())));
  }
  log::Replay choice(log::kTestCluster, log::kTestMaster);
  for (size_t i = 0; i < images.size(); ++i) {
    log::ReplicaImage image;
    image.segment_id = images[i].first;
    image.bytes = images[i].second;
    image.name = std::to_string(i);
    choice.add(image);
  }
  const Status status = choice.run();
  if (!status.ok()) return "replay: " + std::string(status.message());
  log::TestLog parts(8);
  ObjectStore store(parts.log, b.clock, {.buckets = 512});
  TabletReplay replay(store, 1);
  EXPECT_TRUE(replay.begin({1, 0, ~uint64_t{0}}, 0).ok());
  std::vector<std::string> entries;
  for (const auto& r : choice.report().replicas) {
    if (!r.chosen) continue;
    const std::string& image = images[std::stoul(r.name)].second;
    const log::SegmentIdentity identity{log::kTestCluster, log::kTestMaster, r.segment_id};
    log::scan_segment(identity, log::SegmentBytes(image), {}, [&](const log::GroupView& group) {
      for (auto e = group.first(); e; e = group.next(*e)) {
        if (e->view.type() != log::EntryType::kObject &&
            e->view.type() != log::EntryType::kTombstone)
          continue;
        entries.push_back(image.substr(e->offset, e->view.total_length()));
      }
    });
  }
  for (const std::string& entry : entries) {
    const log::EntryView view(log::SegmentBytes(entry), 0, load<log::EntryHeader>(entry.data()));
    EXPECT_EQ(replay.replay(view), StatusCode::kOk);
  }
  EXPECT_TRUE(replay.serve({1, 0, ~uint64_t{0}}));
  ReadResult result;
  std::string value = "-";
  if (store.read(1, key, kNoRules, result) == StatusCode::kOk) {
    value.resize(result.value_length);
    result.entry.read(result.value_offset, value.data(), result.value_length);
  }
  replay.side().abort();
  return value;
}

/// The pass sees that the object was replaced, and no replica has that yet.
TEST(CleaningPass, AnOverwriteThatIsNotDurableLosesNothing) {
  Bench b;
  b.write("key", "acknowledged");
  b.roll();
  log::Segment* victim = b.parts.log.segments().front();
  ASSERT_TRUE(may_clean(b.store, *victim));
  b.write("key", "in memory only");  // not acknowledged
  CleaningPass pass(b.store, {victim});
  pass.commit_now();
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 10; ++i) (void)pass.step();
    EXPECT_EQ(after_crash(b, "key"), "acknowledged") << round << ": before the next head is open";
    // Opens are answered, and the survivors are durable; the head's bytes are late.
    std::vector<uint64_t> opened, survivors;
    for (const auto& r : b.parts.replicator.replicas()) {
      if (!r.segment->opened_durable()) opened.push_back(r.segment->id());
      if (r.segment->side() && r.segment->closed()) survivors.push_back(r.segment->id());
    }
    for (const uint64_t id : opened) b.parts.replicator.finish_open(id);
    for (const uint64_t id : survivors) b.parts.replicator.finish_close(id);
    EXPECT_EQ(after_crash(b, "key"), "acknowledged") << round << ": the present head is late";
  }
  b.parts.replicator.finish_all();
  for (int i = 0; i < 1000 && pass.step() != Progress::kDone; ++i) b.parts.replicator.finish_all();
}

/// The pass sees that the object was replaced; that is acknowledged, but only in page caches.
TEST(CleaningPass, AnOverwriteThatIsNotSyncedLosesNothingWithThePower) {
  Bench b;
  b.write("key", "synced");
  b.roll();
  b.parts.log.want_synced(b.parts.log.durable());
  ASSERT_EQ(after_crash(b, "key", all_synced), "synced");
  b.parts.replicator.syncs = false;
  log::Segment* victim = b.parts.log.segments().front();
  b.write("key", "in page caches");
  b.parts.replicator.finish_all();
  ASSERT_EQ(after_crash(b, "key"), "in page caches");
  ASSERT_EQ(after_crash(b, "key", all_synced), "synced");
  CleaningPass pass(b.store, {victim});
  pass.commit_now();
  for (int i = 0; i < 1000; ++i) {
    (void)pass.step();
    b.parts.replicator.finish_all();
    ASSERT_NE(after_crash(b, "key", all_synced), "-") << "step " << i;
  }
  EXPECT_NE(pass.step(), Progress::kDone) << "its digest would drop what is synced";
  EXPECT_NE(b.parts.log.find_segment(victim->id()), nullptr);
  b.parts.replicator.finish_sync();
  for (int i = 0; i < 1000 && pass.step() != Progress::kDone; ++i) b.parts.replicator.finish_all();
  EXPECT_EQ(pass.step(), Progress::kDone);
  EXPECT_EQ(after_crash(b, "key", all_synced), "in page caches");
}

void finish(Bench& b, CleaningPass& pass) {
  pass.commit_now();
  for (int i = 0; i < 1000 && pass.step() != Progress::kDone; ++i) b.parts.replicator.finish_all();
  ASSERT_EQ(pass.step(), Progress::kDone);
  b.parts.log.reclaim(b.parts.log.take_retired());
  EXPECT_THAT(Invariants(b.store).check(), ::testing::IsEmpty());
}

TEST(CleaningPass, WhatDiesBetweenTheScanAndTheCopyIsNotCopied) {
  Bench b;
  b.write("key", "value");
  b.write("other", "value");
  b.roll();
  CleaningPass pass(b.store, {b.parts.log.segments().front()});
  (void)pass.step();  // the scan
  b.remove("key");
  finish(b, pass);
  EXPECT_EQ(pass.counts().objects, 1u);
  EXPECT_EQ(pass.counts().dead_copies, 0u);
}

/// In a survivor it would be above the tablet's creation position, and a replay would delete
/// present objects.
TEST(CleaningPass, ATombstoneOfATabletThatComesBackBetweenTheScanAndTheCopyIsNotCopied) {
  Bench b;
  b.write("key", "value");
  b.remove("key");
  b.roll();
  (void)b.store.sweep();
  CleaningPass pass(b.store, {b.parts.log.segments().front()});
  (void)pass.step();  // the scan: what it names is in the log
  ASSERT_TRUE(b.store.drop_table(1).ok());
  b.store.may_purge(b.store.drops());
  while (b.store.purge_step()) {
  }
  (void)b.store.take_retired();
  b.roll();
  ASSERT_TRUE(b.store.take_tablet(1, 0, ~uint64_t{0}, b.parts.log.head().segment_id()).ok());
  finish(b, pass);
  EXPECT_EQ(pass.counts().tombstones, 0u);
  EXPECT_EQ(pass.counts().of_no_tablet, 1u);
}

/// It keeps older entries of that log out; when the tablet is served, that log is not read any
/// more.
TEST(CleaningPass, ATombstoneThatNamesAnotherLogStaysUntilItsTabletIsServed) {
  Bench b;
  constexpr TabletReplay::Range kRecovered{2, 0, ~uint64_t{0}};
  TabletReplay replay(b.store, 1);
  ASSERT_TRUE(replay.begin(kRecovered, 0).ok());
  log::TestTombstone dead(2, 5, 1000, "key", true);
  dead.body.log_id = testing::kDeadMaster;
  const std::string entries[] = {
      testing::entry_bytes(log::EntryType::kTombstone, std::string(bytes_of(dead.body)) + "key"),
      testing::object_entry(5, "other", "value", 2)};
  for (const std::string& entry : entries) {
    ASSERT_EQ(replay.replay(testing::view_of(entry)), StatusCode::kOk);
  }
  replay.side().close();
  b.parts.replicator.finish_all();
  log::SegmentChange change;
  change.enter = replay.side().release();
  ASSERT_EQ(b.parts.log.commit(change, log::Roll::kNow), StatusCode::kOk);
  b.parts.replicator.finish_all();
  ASSERT_TRUE(change.done());
  CleaningPass early(b.store, {change.enter[0]});
  finish(b, early);
  EXPECT_EQ(early.counts().tombstones, 1u);
  EXPECT_EQ(early.counts().tombstones_dropped, 0u);
  const auto all = b.parts.log.segments();
  const auto survivor = std::ranges::find_if(all, [](const auto* s) { return s->side(); });
  ASSERT_NE(survivor, all.end());
  ASSERT_TRUE(replay.serve(kRecovered));
  RecoveredSlots slots(b.store);
  slots.want_pass();
  while (slots.step()) {
  }
  ASSERT_EQ(b.store.table().entries(), 1u) << "its slot is cleared";
  CleaningPass pass(b.store, {*survivor});
  finish(b, pass);
  EXPECT_EQ(pass.counts().tombstones, 0u);
  EXPECT_EQ(pass.counts().tombstones_dropped, 1u);
}

/// Its segment may be cleaned as soon as the recovery is committed; what is older may come until the
/// tablet is served.
TEST(CleaningPass, ATombstoneOfATabletThatIsBeingRecoveredStays) {
  Bench b;
  constexpr TabletReplay::Range kRecovered{2, 0, ~uint64_t{0}};
  TabletReplay replay(b.store, 1);
  ASSERT_TRUE(replay.begin(kRecovered, 0).ok());
  // The newer object leaves a tombstone, which names this log, for the copy of the older one.
  for (const uint64_t version : {4, 5}) {
    const std::string entry = testing::object_entry(version, "key", "value", 2);
    ASSERT_EQ(replay.replay(testing::view_of(entry)), StatusCode::kOk);
  }
  const uint64_t side = replay.side().segments()[0]->id();
  replay.side().close();
  b.parts.replicator.finish_all();
  log::SegmentChange change;
  change.enter = replay.side().release();
  ASSERT_EQ(b.parts.log.commit(change, log::Roll::kNow), StatusCode::kOk);
  b.parts.replicator.finish_all();
  CleaningPass first(b.store, {change.enter[0]});
  finish(b, first);
  EXPECT_EQ(first.counts().tombstones, 1u) << "what it names is in the log";
  ASSERT_FALSE(b.parts.log.may_be_found(side));
  std::vector<log::Segment*> survivors;
  for (log::Segment* segment : b.parts.log.segments()) {
    if (segment->side()) survivors.push_back(segment);
  }
  CleaningPass second(b.store, survivors);
  finish(b, second);
  EXPECT_EQ(second.counts().tombstones, 1u);
  EXPECT_EQ(second.counts().tombstones_dropped, 0u);
  ASSERT_TRUE(replay.serve(kRecovered));
}

/// Otherwise sweep() would use memory that no longer holds the tombstone.
TEST(CleaningPass, NoDeleteWaitsThatRefersToAVictim) {
  Bench b;
  for (int i = 0; i < 300; ++i) b.write("key" + std::to_string(i), "value");
  for (int i = 0; i < 300; ++i) b.remove("key" + std::to_string(i));
  b.roll();
  ASSERT_EQ(b.store.pending_deletes(), 300u);
  CleaningPass pass(b.store, {b.parts.log.segments().front()});
  finish(b, pass);
  EXPECT_EQ(b.store.pending_deletes(), 0u);
}

}  // namespace
}  // namespace ramcloud::store
