// Entries of a dead master's log, in random order, against a model of its objects.
#include "store/tablet_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "log/group_reader.h"
#include "log/log_test_support.h"
#include "log/replay.h"
#include "store/invariants.h"
#include "store/recovered_slots.h"
#include "store/testing/dead_log.h"

namespace ramcloud::store {
namespace {

using log::EntryType;
using ::testing::IsEmpty;

using testing::entry_bytes;
using testing::History;
using testing::kDeadMaster;
using testing::Model;
using testing::object_entry;
using testing::tombstone_entry;
using testing::view_of;

constexpr uint64_t kTable = testing::kDeadTable;
constexpr TabletReplay::Range kAll{kTable, 0, ~uint64_t{0}};

const std::string& pick(Random& random, const std::vector<std::string>& entries) {
  return entries[random.below(entries.size())];
}

struct Rig {
  explicit Rig(uint32_t segments = 16) : parts(segments, true, 1, false) { parts.log.start(); }

  void replay(TabletReplay& replay, const std::string& entry) {
    ASSERT_EQ(replay.replay(view_of(entry)), StatusCode::kOk);
  }
  void pass() {
    slots.want_pass();
    while (slots.step()) {
    }
    (void)store.take_retired();
  }
  void commit(TabletReplay& replay) {
    replay.side().close();
    log::SegmentChange change;
    change.enter = replay.side().segments();
    ASSERT_EQ(parts.log.commit(change, log::Roll::kNow), StatusCode::kOk);
    ASSERT_TRUE(change.done());
    (void)replay.side().release();
  }
  std::vector<std::string> broken() { return Invariants(store).check(); }
  Model served() {
    Model found;
    std::vector<log::ObjectView> page(1000);
    EnumerateResult result;
    EXPECT_EQ(store.enumerate(kTable, 0, 0, {.max_bytes = 64 << 20}, page, result),
              StatusCode::kOk);
    EXPECT_TRUE(result.done);
    for (uint32_t i = 0; i < result.count; ++i) {
      std::string key(page[i].key_length, '\0'), value(page[i].value_length, '\0');
      page[i].entry.read(page[i].key_offset, key.data(), page[i].key_length);
      page[i].entry.read(page[i].value_offset, value.data(), page[i].value_length);
      found[key] = {page[i].version, value};
    }
    return found;
  }
  /// The objects that a recovery of this master would find in its own log.
  Model rebuilt() {
    log::Replay replay(log::kTestCluster, log::kTestMaster);
    std::vector<std::string> images;
    images.reserve(64);
    for (const log::Segment* segment : parts.log.segments()) {
      images.push_back(log::image_of(*segment));
      log::ReplicaImage image;
      image.segment_id = segment->id();
      image.bytes = images.back();
      replay.add(image);
    }
    EXPECT_TRUE(replay.run().ok());
    Model found;
    replay.for_each([&](const log::ReplayedObject& object) {
      found[std::string(object.key)] = {object.version, std::string(object.value)};
    });
    return found;
  }
  uint32_t tombstones_for(uint64_t log_id, uint64_t segment) {
    uint32_t count = 0;
    const auto all = {parts.log.segments(), parts.log.others()};
    for (const auto& list : all) {
      for (const log::Segment* s : list) {
        log::scan_segment(s->identity(), s->bytes(), {}, [&](const log::GroupView& group) {
          for (auto e = group.first(); e; e = group.next(*e)) {
            const auto dead = log::parse_tombstone(e->view);
            if (dead && dead->log_id == log_id && dead->segment_id == segment) ++count;
          }
        });
      }
    }
    return count;
  }

  VirtualClock clock;
  log::TestLog parts;
  ObjectStore store{parts.log, clock, {.buckets = 64}};
  RecoveredSlots slots{store};
};

class TabletReplayRandom : public ::testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, TabletReplayRandom, ::testing::Range<uint64_t>(1, 41));

TEST_P(TabletReplayRandom, TheHighestVersionsStayInWhateverOrderTheyCome) {
  Random random(GetParam());
  const History history(random, 300, 40);
  Rig rig;
  uint64_t attempt = 1;
  // Attempts that are given up on the way leave nothing.
  for (; random.chance(0.6); ++attempt) {
    TabletReplay replay(rig.store, attempt);
    ASSERT_TRUE(replay.begin(kAll, 0).ok());
    const uint64_t entries = random.below(history.entries.size());
    for (uint64_t i = 0; i < entries; ++i) rig.replay(replay, pick(random, history.entries));
    EXPECT_THAT(rig.broken(), IsEmpty());
    ASSERT_TRUE(replay.give_up(kAll));
    rig.replay(replay, pick(random, history.entries));  // one that was in flight
    rig.pass();
    replay.side().abort();
    rig.parts.log.reclaim(rig.parts.log.take_retired());
    EXPECT_THAT(rig.broken(), IsEmpty());
    EXPECT_EQ(rig.store.table().entries(), 0u);
    EXPECT_THAT(rig.store.tablets(), IsEmpty());
  }
  TabletReplay replay(rig.store, attempt);
  ASSERT_TRUE(replay.begin(kAll, 0).ok());
  auto entries = history.entries;
  for (size_t i = entries.size(); i > 1; --i) std::swap(entries[i - 1], entries[random.below(i)]);
  for (size_t at = 0; at < entries.size();) {
    std::vector<log::EntryView> together;
    for (uint64_t n = 1 + random.below(2 * TabletReplay::kAtOnce); n > 0 && at < entries.size();
         --n) {
      together.push_back(view_of(entries[at++]));
      if (random.chance(0.1)) together.push_back(view_of(pick(random, history.entries)));
    }
    const TabletReplay::Replayed replayed = replay.replay(together);
    ASSERT_EQ(replayed.status, StatusCode::kOk);
    ASSERT_EQ(replayed.count, together.size());
    if (random.chance(0.2)) rig.pass();  // for others
  }
  EXPECT_THAT(rig.broken(), IsEmpty());
  EXPECT_EQ(replay.live_objects(), history.model.size());
  rig.store.raise_version_floor(history.highest + 1);
  rig.commit(replay);
  EXPECT_EQ(rig.rebuilt(), history.model);
  ASSERT_TRUE(replay.serve(kAll));
  EXPECT_EQ(rig.served(), history.model) << "before the tombstones are swept";
  rig.pass();
  EXPECT_EQ(rig.served(), history.model);
  EXPECT_EQ(rig.store.table().entries(), history.model.size()) << "no tombstone is left";
  EXPECT_THAT(rig.broken(), IsEmpty());
}

TEST_P(TabletReplayRandom, ServedItIsATabletLikeOthers) {
  Random random(GetParam() + 1000);
  const History history(random, 100, 20);
  Rig rig;
  TabletReplay replay(rig.store, 1);
  ASSERT_TRUE(replay.begin(kAll, 0).ok());
  for (const auto& entry : history.entries) rig.replay(replay, entry);
  rig.store.raise_version_floor(history.highest + 1);
  rig.commit(replay);
  ASSERT_TRUE(replay.serve(kAll));
  rig.slots.want_pass();
  Model model = history.model;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "key" + std::to_string(random.below(20));
    uint64_t version = 0;
    log::LogPosition depends_on;
    if (random.chance(0.3)) {
      ASSERT_EQ(rig.store.remove(kTable, key, {}, version, depends_on), StatusCode::kOk);
      model.erase(key);
    } else {
      const std::string value = "new" + std::to_string(i);
      ASSERT_EQ(rig.store.write(kTable, key, value, {}, version, depends_on), StatusCode::kOk);
      EXPECT_GT(version, history.highest) << "above all that the dead master assigned";
      model[key] = {version, value};
    }
    if (random.chance(0.2)) (void)rig.slots.step();
    if (random.chance(0.2)) (void)rig.store.sweep();
  }
  rig.pass();
  EXPECT_EQ(rig.served(), model);
  EXPECT_EQ(rig.rebuilt(), model);
  EXPECT_THAT(rig.broken(), IsEmpty());
}

TEST(TabletReplay, NothingIsServedBeforeItIsSaid) {
  Rig rig;
  TabletReplay replay(rig.store, 1);
  ASSERT_TRUE(replay.begin(kAll, 5).ok());
  rig.replay(replay, object_entry(3, "a", "1"));
  ReadResult result;
  EXPECT_EQ(rig.store.read(kTable, "a", {}, result), StatusCode::kUnknownTablet);
  uint64_t version = 0;
  log::LogPosition depends_on;
  EXPECT_EQ(rig.store.write(kTable, "a", "2", {}, version, depends_on), StatusCode::kUnknownTablet);
  EXPECT_EQ(rig.store.take_tablet(kTable, 0, 9), StatusCode::kRetry) << "it is being recovered";
  ASSERT_TRUE(replay.serve(kAll));
  EXPECT_FALSE(replay.serve(kAll)) << "once";
  EXPECT_FALSE(replay.give_up(kAll)) << "what is served stays";
  ASSERT_EQ(rig.store.read(kTable, "a", {}, result), StatusCode::kOk);
  EXPECT_EQ(result.version, 3u);
  EXPECT_EQ(result.depends_on, log::LogPosition());
  EXPECT_EQ(rig.store.tablets()[0].first_segment, 5u);
  EXPECT_EQ(rig.store.tablets()[0].attempt, 1u);
}

TEST(TabletReplay, ASupersededCopyGetsATombstoneThatNamesItsSideSegment) {
  Rig rig;
  TabletReplay replay(rig.store, 1);
  ASSERT_TRUE(replay.begin(kAll, 0).ok());
  rig.replay(replay, object_entry(3, "a", "old"));
  const uint64_t side = replay.side().segments().front()->id();
  rig.replay(replay, object_entry(3, "a", "old"));
  EXPECT_EQ(rig.tombstones_for(log::kTestMaster, side), 0u) << "nothing was superseded";
  rig.replay(replay, object_entry(4, "a", "newer"));
  EXPECT_EQ(rig.tombstones_for(log::kTestMaster, side), 1u);
  rig.replay(replay, tombstone_entry(4, "a"));  // which names the dead master's log
  EXPECT_EQ(rig.tombstones_for(log::kTestMaster, side), 2u);
  EXPECT_EQ(rig.tombstones_for(kDeadMaster, 3), 1u);
  rig.replay(replay, object_entry(4, "a", "newer"));
  EXPECT_EQ(replay.live_objects(), 0u) << "a tombstone is above the object of its version";
  EXPECT_EQ(replay.counts().skipped, 2u);
  EXPECT_EQ(replay.counts().objects, 2u);
  EXPECT_EQ(replay.counts().tombstones, 1u);
  EXPECT_THAT(rig.broken(), IsEmpty());
  (void)replay.give_up(kAll);
  rig.pass();
}

TEST(TabletReplay, GivingUpWritesNothing) {
  Rig rig;
  TabletReplay replay(rig.store, 1);
  ASSERT_TRUE(replay.begin(kAll, 0).ok());
  for (int i = 0; i < 100; ++i) rig.replay(replay, object_entry(9, std::to_string(i), "value"));
  const auto before = rig.parts.log.statistics();
  const uint32_t aside = replay.side().segments().back()->published();
  ASSERT_TRUE(replay.give_up(kAll));
  rig.pass();
  EXPECT_EQ(rig.parts.log.statistics().appended_groups, before.appended_groups);
  EXPECT_EQ(replay.side().segments().back()->published(), aside);
  EXPECT_EQ(rig.store.table().entries(), 0u);
}

TEST(TabletReplay, TabletsAreGivenUpOneByOne) {
  constexpr uint64_t kHalf = ~uint64_t{0} / 2;
  constexpr TabletReplay::Range kLow{kTable, 0, kHalf}, kHigh{kTable, kHalf + 1, ~uint64_t{0}};
  Rig rig;
  TabletReplay replay(rig.store, 1);
  ASSERT_TRUE(replay.begin(kLow, 0).ok());
  ASSERT_TRUE(replay.begin(kHigh, 0).ok());
  uint64_t high = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string key = std::to_string(i);
    high += key_hash(kTable, key) > kHalf ? 1 : 0;
    rig.replay(replay, object_entry(9, key, "value"));
  }
  ASSERT_TRUE(replay.give_up(kLow));
  rig.pass();
  EXPECT_EQ(replay.live_objects(), high);
  rig.store.raise_version_floor(10);
  rig.commit(replay);
  ASSERT_TRUE(replay.serve(kHigh));
  EXPECT_EQ(rig.store.object_count(kTable), high);
  EXPECT_EQ(rig.store.tablets().size(), 1u);
  EXPECT_TRUE(rig.store.may_hold(kTable, 0, kHalf)) << "its entries are still in the log";
  EXPECT_THAT(rig.broken(), IsEmpty());
}

TEST(TabletReplay, AnotherAttemptDoesNotTouchIt) {
  Rig rig;
  TabletReplay first(rig.store, 1), second(rig.store, 2);
  ASSERT_TRUE(first.begin(kAll, 0).ok());
  EXPECT_EQ(second.begin({kTable, 5, 6}, 0), StatusCode::kRetry);
  rig.replay(second, object_entry(1, "a", "1"));
  EXPECT_EQ(second.counts().skipped, 1u);
  EXPECT_FALSE(second.serve(kAll));
  EXPECT_FALSE(second.give_up(kAll));
  ASSERT_TRUE(first.serve(kAll));
  EXPECT_EQ(second.begin(kAll, 0), StatusCode::kExists);
}

TEST(TabletReplay, DamagedEntriesAreRefused) {
  Rig rig;
  TabletReplay replay(rig.store, 1);
  ASSERT_TRUE(replay.begin(kAll, 0).ok());
  const std::string entry = object_entry(3, "key", "value");
  for (size_t i = sizeof(log::EntryHeader); i < entry.size(); ++i) {
    std::string damaged = entry;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_EQ(replay.replay(view_of(damaged)), StatusCode::kCorrupt) << i;
  }
  const log::SafeVersionBody other{7};
  EXPECT_EQ(
      replay.replay(view_of(entry_bytes(EntryType::kSafeVersion, std::string(bytes_of(other))))),
      StatusCode::kCorrupt)
      << "neither an object nor a tombstone";
  EXPECT_EQ(rig.store.table().entries(), 0u);
}

TEST(TabletReplay, SaysHowManyItReplayedBeforeTheOneThatIsDamaged) {
  Rig rig;
  TabletReplay replay(rig.store, 1);
  ASSERT_TRUE(replay.begin(kAll, 0).ok());
  std::vector<std::string> entries;
  std::vector<log::EntryView> views;
  for (uint64_t i = 0; i < 3 * TabletReplay::kAtOnce; ++i) {
    entries.push_back(object_entry(i + 1, std::to_string(i), "value"));
  }
  constexpr size_t kDamaged = TabletReplay::kAtOnce + 3;
  entries[kDamaged].back() ^= 1;
  for (const std::string& entry : entries) views.push_back(view_of(entry));
  const TabletReplay::Replayed replayed = replay.replay(views);
  EXPECT_EQ(replayed.status, StatusCode::kCorrupt);
  EXPECT_EQ(replayed.count, kDamaged);
  EXPECT_EQ(rig.store.table().entries(), kDamaged);
  EXPECT_GT(rig.store.safe_version(), kDamaged);
  EXPECT_THAT(rig.broken(), IsEmpty());
}

/// Slots of both stand in the same buckets.
TEST(TabletReplay, OthersWorkInTheirTabletsMeanwhile) {
  constexpr uint64_t kOther = 2;
  Random random(1);
  const History history(random, 500, 100);
  Rig rig(32);
  ASSERT_TRUE(rig.store.take_tablet(kOther, 0, ~uint64_t{0}).ok());
  std::thread other([&] {
    for (int i = 0; i < 5000; ++i) {
      const std::string key = "key" + std::to_string(i % 100);
      uint64_t version = 0;
      log::LogPosition depends_on;
      ReadResult result;
      if (i % 7 == 0) {
        EXPECT_EQ(rig.store.remove(kOther, key, {}, version, depends_on), StatusCode::kOk);
      } else {
        EXPECT_EQ(rig.store.write(kOther, key, "value", {}, version, depends_on), StatusCode::kOk);
        EXPECT_EQ(rig.store.read(kOther, key, {}, result), StatusCode::kOk);
      }
    }
  });
  std::vector<Tablets::Retired> retired;  // the other thread never passes
  const auto pass = [&] {
    rig.slots.want_pass();
    while (rig.slots.step()) {
    }
    retired.push_back(rig.store.take_retired());
  };
  for (uint64_t attempt = 1; attempt < 10; ++attempt) {
    TabletReplay replay(rig.store, attempt);
    ASSERT_TRUE(replay.begin(kAll, 0).ok());
    for (const auto& entry : history.entries) rig.replay(replay, entry);
    ASSERT_TRUE(replay.give_up(kAll));
    pass();
    replay.side().abort();
  }
  TabletReplay replay(rig.store, 10);
  ASSERT_TRUE(replay.begin(kAll, 0).ok());
  for (const auto& entry : history.entries) rig.replay(replay, entry);
  ASSERT_TRUE(replay.serve(kAll));
  pass();
  other.join();
  (void)rig.store.sweep();
  EXPECT_EQ(rig.served(), history.model);
  EXPECT_THAT(rig.broken(), IsEmpty());
}

TEST(TabletReplay, WithoutMemoryItSaysSo) {
  Rig rig(3);  // the head, the reserve, and one for the side log
  TabletReplay replay(rig.store, 1);
  ASSERT_TRUE(replay.begin(kAll, 0).ok());
  const std::string value(1 << 20, 'x');
  StatusCode status = StatusCode::kOk;
  int objects = 0;
  for (; status == StatusCode::kOk && objects < 20; ++objects) {
    status = replay.replay(view_of(object_entry(1, std::to_string(objects), value)));
  }
  EXPECT_EQ(status, StatusCode::kOutOfMemory);
  ASSERT_TRUE(replay.give_up(kAll));
  rig.pass();
  replay.side().abort();
  rig.parts.log.reclaim(rig.parts.log.take_retired());
  EXPECT_EQ(rig.parts.log.statistics().free_segments, 2u);
  EXPECT_THAT(rig.broken(), IsEmpty());
}

}  // namespace
}  // namespace ramcloud::store
