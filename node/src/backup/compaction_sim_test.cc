// Compacted segments on simulated backups: the bytes from which replicas are made, and the result
// of a rebuild.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "backup/testing/replication_rig.h"
#include "log/compacted_segment.h"
#include "log/group_reader.h"
#include "log/invariants.h"

namespace ramcloud {
namespace {

using ::testing::IsEmpty;

struct CompactionRig : testing::ReplicationRig {
  CompactionRig(uint64_t seed, uint32_t reactors) : ReplicationRig(seed) { reactors_ = reactors; }

  /// Two closed segments; half of the objects in the first are overwritten.
  void fill() {
    for (int i = 0; i < 80; ++i) put_one(i);
    for (int i = 0; i < 80; i += 2) put_one(i);
    for (int i = 100; i < 160; ++i) put_one(i);
    ASSERT_TRUE(all_durable());
    ASSERT_GE(log_->head().segment_id(), 3u);
    ASSERT_EQ(log_->roll_head(), StatusCode::kOk);
    must_put("last", "v");
    ASSERT_TRUE(all_durable());
    ASSERT_TRUE(log_->may_compact(*log_->find_segment(1)));
  }
  void put_one(int i) { must_put(fmt::format("k{}", i), fmt::format("{:100000}", version_)); }
  /// Compacts: leaves out overwritten objects. Returns the original.
  log::Segment* compact(uint64_t id) {
    log::Segment* original = log_->find_segment(id);
    log::CompactedSegment copy(*log_, *original);
    EXPECT_EQ(copy.open(original->memory_bytes() / log::kSegletBytes - 1), StatusCode::kOk);
    log::scan_segment(
        original->identity(), original->bytes(), {}, [&](const log::GroupView& group) {
          for (auto e = group.first(); e; e = group.next(*e)) {
            const auto object = log::parse_object(e->view);
            if (e->view.type() != log::EntryType::kObject) continue;
            std::string key(object->key_length, '\0'), value(object->value_length, '\0');
            e->view.read(object->key_offset, key.data(), object->key_length);
            e->view.read(object->value_offset, value.data(), object->value_length);
            if (model_[key] != value) continue;
            const log::TestObject source(1, object->version, key, value);
            const char* refs[1];
            EXPECT_EQ(copy.append({&source.source, 1}, refs), StatusCode::kOk);
          }
        });
    copy.close(log_->head());
    copy.replace();
    EXPECT_LT(log_->find_segment(id)->published(), original->published() * 6 / 10);
    return original;
  }
  bool run_until(const std::function<bool()>& is_so) { return scheduler_.run_until(is_so, 60s); }
  void crash_holder(uint64_t segment) {
    crash_backup(static_cast<uint32_t>(manager_->replica_servers(segment).front() - 1));
  }
  bool is_whole() {
    return run_until([&] { return manager_->stats().under_replicated == 0; });
  }
  /// Whether a replica of it is incomplete.
  bool is_being_made(uint64_t segment) {
    bool made = false;
    manager_->for_each_slot(segment, [&](const ReplicaSlot& slot) {
      made = made || (slot.segment().id() == segment && slot.placed() && !slot.closed());
    });
    return made;
  }
  /// Without any one of the folders.
  void expect_all_is_found(size_t most_missing) {
    EXPECT_EQ(manager_->check_counts(), "");
    EXPECT_THAT(log::Invariants(*log_).check(), IsEmpty());
    std::vector<std::string> images;
    for (uint32_t i = 0; i < nodes_.size(); ++i) images.push_back(image_of(i));
    for (size_t missing = 0; missing <= most_missing; ++missing) {
      std::vector<VolumeImage> volumes;
      for (size_t i = 0; i < images.size(); ++i) {
        if (i + 1 != missing) volumes.push_back({fmt::format("b{}", i + 1), images[i]});
      }
      std::map<std::string, std::string> found;
      const Status status = rebuild_images(volumes, [&](const log::ReplayedObject& object) {
        found[std::string(object.key)] = std::string(object.value);
      });
      EXPECT_TRUE(status.ok()) << missing << ": " << status.to_string();
      EXPECT_TRUE(found == model_) << found.size() << " of " << model_.size();
    }
  }
};

class CompactionSim : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Reactors, CompactionSim, ::testing::Values(1u, 3u));

TEST_P(CompactionSim, ReplicasStayAsTheyAre) {
  CompactionRig rig(1, GetParam());
  rig.start(4, 2);
  rig.fill();
  const log::Segment* original = rig.compact(1);
  ASSERT_TRUE(rig.run_until([&] { return original->released(); }));
  rig.scheduler_.run_for(std::chrono::seconds(30));  // backups are asked whether they have them
  EXPECT_EQ(rig.manager_->stats().replicas_lost, 0u);
  EXPECT_EQ(rig.manager_->stats().replicas_recreated, 0u);
  rig.expect_all_is_found(4);
}

TEST_P(CompactionSim, AReplicaThatIsLostIsMadeFromWhatIsLeft) {
  CompactionRig rig(2, GetParam());
  rig.start(5, 2);
  rig.fill();
  (void)rig.compact(1);
  for (int i = 0; i < 2; ++i) {  // then no replica of the original is left
    rig.crash_holder(1);
    ASSERT_TRUE(rig.is_whole());
  }
  rig.expect_all_is_found(0);
}

/// One has all entries, the other one half of them: each is whole.
TEST_P(CompactionSim, ReplicasOfBothKindsAreAlike) {
  CompactionRig rig(3, GetParam());
  rig.start(4, 2);
  rig.fill();
  (void)rig.compact(1);
  rig.crash_holder(1);
  ASSERT_TRUE(rig.is_whole());
  rig.expect_all_is_found(0);
}

TEST_P(CompactionSim, AReplicaThatIsBeingMadeKeepsTheOriginal) {
  CompactionRig rig(4, GetParam());
  rig.start(5, 2);
  rig.fill();
  rig.crash_holder(1);
  ASSERT_TRUE(rig.run_until([&] { return rig.is_being_made(1); }));
  log::Segment* first = rig.compact(1);
  // And once more, while it waits.
  log::Segment* second = rig.log_->find_segment(1);
  for (int i = 1; i < 80; i += 4) rig.put_one(i);
  (void)rig.compact(1);
  while (rig.is_being_made(1)) {
    EXPECT_FALSE(first->released());
    ASSERT_TRUE(rig.scheduler_.step());
  }
  ASSERT_TRUE(rig.run_until([&] { return first->released() && second->released(); }));
  ASSERT_TRUE(rig.is_whole());
  rig.expect_all_is_found(0);
}

/// The sync that its copies wait for does not wait for them.
TEST_P(CompactionSim, AllReplicasThatAreLostAtOnceAreMadeFromWhatIsLeft) {
  CompactionRig rig(6, GetParam());
  rig.start(6, 2);
  rig.fill();
  (void)rig.compact(1);
  ASSERT_LT(rig.log_->synced(), rig.log_->find_segment(1)->judged());
  for (const uint64_t holder : rig.manager_->replica_servers(1)) {
    rig.kill_backup(static_cast<uint32_t>(holder - 1));
  }
  rig.tell_backups();
  rig.tell_master();
  ASSERT_TRUE(rig.run_until([&] { return rig.manager_->replica_servers(1).size() == 2; }));
  ASSERT_TRUE(rig.is_whole());
  rig.expect_all_is_found(0);
}

/// Otherwise a power cut could lose both an object and the newer entry that replaced it.
TEST_P(CompactionSim, ACopyWaitsUntilWhatKilledTheRestIsSynced) {
  CompactionRig rig(5, GetParam());
  rig.start(5, 2);
  rig.fill();
  (void)rig.compact(1);
  const log::LogPosition judged = rig.log_->find_segment(1)->judged();
  ASSERT_LT(rig.log_->synced(), judged);
  rig.crash_holder(1);
  ASSERT_TRUE(rig.run_until([&] {
    const bool made = rig.is_being_made(1);
    if (made) EXPECT_GE(rig.log_->synced(), judged);
    return made;
  }));
  ASSERT_TRUE(rig.is_whole());
  rig.expect_all_is_found(0);
}

/// A late message of the former copy has bytes of the original: in a copy of what is left they would
/// be damage.
TEST_P(CompactionSim, ABackupThatFreedTheOriginalGetsNoCopyOfWhatIsLeft) {
  for (const bool freed_first : {true, false}) {
    CompactionRig rig(8, GetParam());
    rig.backup_silence_ = std::chrono::seconds(1);
    rig.start(3, 2);
    for (int i = 0; i < 40; ++i) rig.put_one(i);
    ASSERT_TRUE(rig.all_durable());
    const auto holders = rig.manager_->replica_servers(1);
    const auto given_up = static_cast<uint32_t>(holders[1] - 1);
    const auto successor = static_cast<uint32_t>(6 - holders[0] - holders[1] - 1);
    rig.cut_off(*rig.nodes_[given_up]);
    ASSERT_TRUE(rig.run_until([&] { return rig.fence_.epoch > 0; }));
    ASSERT_TRUE(rig.is_whole());
    const auto has = [&] {
      return rig.backups_[given_up]->service->find(testing::kMaster, 1).has_value();
    };
    const auto free = [&] {
      rig.network_.heal_all();
      ASSERT_TRUE(rig.run_until([&] { return !has(); }));
    };
    if (freed_first) free();
    rig.fill();
    const log::Segment* original = rig.compact(1);
    ASSERT_TRUE(rig.run_until([&] { return original->released(); }));
    if (!freed_first) free();
    rig.crash_backup(successor);
    EXPECT_FALSE(rig.run_until(has)) << freed_first;
  }
}

}  // namespace
}  // namespace ramcloud
