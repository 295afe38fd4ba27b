// Rebuilding from folders that hold logs of several masters: one of them died, another recovered
// its data and went on, and not all folders know that.
#include <map>
#include <string>
#include <vector>

#include "backup/testing/replication_rig.h"
#include "log/log_test_support.h"

namespace ramcloud {
namespace {

using testing::ReplicationRig;

constexpr uint64_t kTable = 1;

constexpr uint64_t kLastHash = ~uint64_t{0};

/// Whether the heads of a log list the tablets that the master owns. Those of former builds do not.
enum class Heads : uint8_t { kWithoutTablets, kWithTablets };

/// A master's log on two backups of its own; appended objects are returned with their versions.
class MasterLog {
 public:
  explicit MasterLog(uint64_t id, Heads heads = Heads::kWithoutTablets) : rig_(id) {
    rig_.master_id_ = id;
    if (heads == Heads::kWithTablets) {
      rig_.owned_tablets_ = [this](log::OwnedTabletsEncoder& encoder) {
        for (const log::OwnedTablet& tablet : owned_) encoder.add(tablet);
      };
    }
    rig_.start(2, 2);
  }
  /// Listed by the heads that are opened from now on.
  void own(log::OwnedTablets tablets) { owned_ = std::move(tablets); }
  void put(const std::string& key, uint64_t version, const std::string& value) {
    const log::TestObject object(kTable, version, key, value);
    append(object.source);
  }
  void remove(const std::string& key, uint64_t version) {
    const log::TestTombstone tombstone(kTable, version, 1, key, true);
    append(tombstone.source);
  }
  void roll() {
    ASSERT_EQ(rig_.log_->roll_head(), StatusCode::kOk);
    ASSERT_TRUE(rig_.scheduler_.run_until([&] { return rig_.log_->ready(); }, 60s));
  }
  uint64_t head() const { return rig_.log_->head().segment_id(); }
  /// As a pass of cleaning that finds nothing live in the segment.
  void clean(uint64_t segment) {
    log::SegmentChange change;
    change.leave = {rig_.log_->find_segment(segment)};
    ASSERT_EQ(rig_.log_->commit(change, log::Roll::kNow), StatusCode::kOk);
    ASSERT_TRUE(rig_.scheduler_.run_until([&] { return change.done(); }, 60s));
  }
  /// Frames of each backup.
  void collect(std::vector<std::string>& images) {
    ASSERT_TRUE(rig_.all_durable());
    for (uint32_t i = 0; i < 2; ++i) images.push_back(rig_.image_of(i));
  }

 private:
  void append(const log::EntrySource& source) {
    ASSERT_TRUE(rig_.scheduler_.run_until(
        [&] {
          log::Appended appended;
          const char* refs[1];
          return rig_.log_->append({&source, 1}, false, appended, refs) == StatusCode::kOk;
        },
        60s));
  }
  log::OwnedTablets owned_;
  ReplicationRig rig_;
};

struct Rebuilt {
  Status status;
  RebuildSummary summary;
  std::map<std::string, std::string> values;
};

Rebuilt rebuild_of(const std::vector<std::string>& images, const KnownOfMasters& known = {}) {
  std::vector<VolumeImage> volumes;
  for (const std::string& image : images) {
    volumes.push_back({"b" + std::to_string(volumes.size() + 1), image});
  }
  Rebuilt rebuilt;
  rebuilt.status = rebuild_images(
      volumes,
      [&](const log::ReplayedObject& object) {
        rebuilt.values[std::string(object.key)] = std::string(object.value);
      },
      &rebuilt.summary, known);
  return rebuilt;
}

using Values = std::map<std::string, std::string>;

TEST(RebuildSim, WhatTheNextOwnerDeletedStaysDeleted) {
  std::vector<std::string> images;
  MasterLog dead(100);
  dead.put("deleted", 5, "old");
  dead.put("overwritten", 6, "old");
  dead.put("untouched", 7, "old");
  dead.collect(images);
  MasterLog owner(101);  // without the objects that it recovered and did not change
  owner.put("overwritten", 21, "new");
  owner.remove("deleted", 20);
  owner.collect(images);

  const Rebuilt rebuilt = rebuild_of(images);
  ASSERT_TRUE(rebuilt.status.ok()) << rebuilt.status.to_string();
  EXPECT_EQ(rebuilt.values, (Values{{"overwritten", "new"}, {"untouched", "old"}}));
  EXPECT_EQ(rebuilt.summary.objects, 2u);
}

/// A tablet that came back to a master that had deleted in it before.
TEST(RebuildSim, AnOldTombstoneOfAnotherMasterKillsNothingNewer) {
  std::vector<std::string> images;
  MasterLog former(100);
  former.put("key", 5, "first");
  former.remove("key", 5);
  former.collect(images);
  MasterLog owner(101);
  owner.put("key", 6, "second");
  owner.collect(images);

  const Rebuilt rebuilt = rebuild_of(images);
  ASSERT_TRUE(rebuilt.status.ok()) << rebuilt.status.to_string();
  EXPECT_EQ(rebuilt.values, (Values{{"key", "second"}}));
}

/// A key of a table that was dropped; then cleaning dropped the tombstone of the key, and kept the
/// object, which is in another segment.
std::vector<std::string> dropped_and_cleaned(Heads heads) {
  std::vector<std::string> images;
  MasterLog owner(100, heads);
  owner.own({{kTable, 0, kLastHash, 0}});
  owner.put("key", 5, "value");
  owner.roll();
  owner.own({});
  owner.remove("key", 5);
  const uint64_t with_tombstone = owner.head();
  owner.roll();
  owner.clean(with_tombstone);
  owner.collect(images);
  return images;
}

TEST(RebuildSim, ADroppedTableStaysDroppedWhenItsTombstonesAreCleaned) {
  const Rebuilt rebuilt = rebuild_of(dropped_and_cleaned(Heads::kWithTablets));
  ASSERT_TRUE(rebuilt.status.ok()) << rebuilt.status.to_string();
  EXPECT_EQ(rebuilt.values, Values());
  ASSERT_EQ(rebuilt.summary.masters.size(), 1u);
  EXPECT_EQ(rebuilt.summary.masters[0].objects, 0u);
  EXPECT_EQ(rebuilt.summary.masters[0].objects_not_owned, 1u);
}

/// What its log does not tell is not guessed.
TEST(RebuildSim, ALogWithoutListsOfTabletsIsRebuiltWithAllItsTables) {
  const Rebuilt rebuilt = rebuild_of(dropped_and_cleaned(Heads::kWithoutTablets));
  ASSERT_TRUE(rebuilt.status.ok()) << rebuilt.status.to_string();
  EXPECT_EQ(rebuilt.values, (Values{{"key", "value"}}));
  EXPECT_EQ(rebuilt.summary.masters[0].objects_not_owned, 0u);
}

/// The newest head does not list it.
TEST(RebuildSim, ATabletThatWasTakenSinceTheNewestHeadWasOpenedIsThere) {
  std::vector<std::string> images;
  MasterLog owner(100, Heads::kWithTablets);
  owner.own({});
  owner.roll();
  owner.own({{kTable, 0, kLastHash, 0}});
  owner.put("key", 5, "value");
  owner.collect(images);
  const Rebuilt rebuilt = rebuild_of(images);
  ASSERT_TRUE(rebuilt.status.ok()) << rebuilt.status.to_string();
  EXPECT_EQ(rebuilt.values, (Values{{"key", "value"}}));
}

/// The next owner dropped the table. Its tombstones are true of the log of the master before, too,
/// which lists the table for ever.
TEST(RebuildSim, TombstonesOfADroppedTableCountInTheLogOfItsFormerOwner) {
  std::vector<std::string> images;
  MasterLog dead(100, Heads::kWithTablets);
  dead.own({{kTable, 0, kLastHash, 0}});
  dead.put("key", 5, "value");
  dead.roll();
  dead.collect(images);
  MasterLog owner(101, Heads::kWithTablets);
  owner.remove("key", 5);
  owner.roll();
  owner.collect(images);
  const Rebuilt rebuilt = rebuild_of(images);
  ASSERT_TRUE(rebuilt.status.ok()) << rebuilt.status.to_string();
  EXPECT_EQ(rebuilt.values, Values());
}

/// A tablet went from a master that died to another one, which had it once before.
TEST(RebuildSim, ATabletThatMovedIsMergedFromBothLogs) {
  std::vector<std::string> images;
  MasterLog dead(100, Heads::kWithTablets);
  dead.own({{kTable, 0, kLastHash, 0}});
  dead.put("overwritten", 5, "old");
  dead.put("untouched", 6, "old");
  dead.roll();
  dead.collect(images);
  MasterLog owner(101, Heads::kWithTablets);
  owner.put("of the time before", 3, "old");
  owner.roll();
  owner.own({{kTable, 0, kLastHash, owner.head()}});
  owner.put("overwritten", 20, "new");
  owner.roll();
  owner.put("last", 21, "new");
  owner.collect(images);
  const Rebuilt rebuilt = rebuild_of(images);
  ASSERT_TRUE(rebuilt.status.ok()) << rebuilt.status.to_string();
  EXPECT_EQ(rebuilt.values,
            (Values{{"last", "new"}, {"overwritten", "new"}, {"untouched", "old"}}));
}

/// Backups free the frames of a recovered master one by one: its log is not whole any more.
TEST(RebuildSim, ARecoveredMasterIsLeftOutWhateverIsLeftOfIt) {
  std::vector<std::string> images;
  MasterLog dead(100);
  dead.put("key", 5, "old");
  dead.roll();
  dead.collect(images);
  // The frame of the first segment is free already.
  for (std::string& image : images) {
    image.replace(frame_metadata_offset(0), 2 * kFrameSlotStride, 2 * kFrameSlotStride, '\0');
  }
  MasterLog owner(101);
  owner.put("key", 6, "new");
  owner.collect(images);

  const Rebuilt with = rebuild_of(images);
  EXPECT_EQ(with.status.code(), StatusCode::kNotFound) << with.status.to_string();
  EXPECT_TRUE(with.values.empty());
  const Rebuilt without = rebuild_of(images, {.fences = {}, .recovered = {100}});
  ASSERT_TRUE(without.status.ok()) << without.status.to_string();
  EXPECT_EQ(without.values, (Values{{"key", "new"}}));
  EXPECT_GT(without.summary.left_out.at(100), 0u);
}

}  // namespace
}  // namespace ramcloud
