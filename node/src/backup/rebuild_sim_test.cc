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

/// A master's log on two backups of its own; appended objects are returned with their versions.
class MasterLog {
 public:
  explicit MasterLog(uint64_t id) : rig_(id) {
    rig_.master_id_ = id;
    rig_.start(2, 2);
  }
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
