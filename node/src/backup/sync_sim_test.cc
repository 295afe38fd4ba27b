// With durability "buffered": everything below the log's synced position survives a power cut of
// all machines, although replicas were lost meanwhile; and the position rises, because backups are
// asked to sync.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "backup/testing/replication_rig.h"

namespace ramcloud {
namespace {

using testing::ReplicationRig;

class SyncRig : public ReplicationRig {
 public:
  SyncRig(uint64_t seed, uint32_t reactors) : ReplicationRig(seed) {
    reactors_ = reactors;
    // A backup syncs only when it is asked to.
    service_options_.flush_interval = std::chrono::hours(1);
  }
  void put(const std::string& key, uint64_t size) { must_put(key, std::string(size, 'v')); }
  bool run_until(const std::function<bool()>& is_so) { return scheduler_.run_until(is_so, 60s); }
  bool becomes_synced(log::LogPosition position) {
    log_->want_synced(position);
    return run_until([&] { return log_->synced() >= position; });
  }
  /// How many whole replicas of this closed segment there would be if all lost their power now.
  uint32_t whole_after_power_cut(uint64_t segment_id) {
    const uint32_t bytes = log_->find_segment(segment_id)->published();
    uint32_t whole = 0;
    for_each_after_power_cut([&](const ReplicaDump& replica) {
      const bool is_it = replica.identity.segment_id == segment_id && replica.complete();
      whole += is_it && replica.scan.valid_bytes >= bytes ? 1 : 0;
    });
    return whole;
  }
  /// For each head, how many replicas would have its synced bytes if all lost their power now: the
  /// minimum over all heads.
  uint32_t fewest_after_power_cut() {
    const log::LogPosition synced = log_->synced();
    std::map<uint64_t, uint32_t> whole;
    for_each_after_power_cut([&](const ReplicaDump& replica) {
      const uint64_t id = replica.identity.segment_id;
      const bool last = id == synced.segment_id();
      const log::Segment* segment = log_->find_segment(id);
      if (segment == nullptr || id > synced.segment_id() || !replica.complete()) return;
      const uint32_t wanted = last ? synced.offset() : segment->published();
      whole[id] += replica.scan.valid_bytes >= wanted ? 1 : 0;
    });
    uint32_t fewest = ~0u;
    for (const log::Segment* segment : log_->segments()) {
      if (segment->id() <= synced.segment_id()) fewest = std::min(fewest, whole[segment->id()]);
    }
    return fewest;
  }

 private:
  void for_each_after_power_cut(const std::function<void(const ReplicaDump&)>& fn) {
    for (SimNode* node : nodes_) {
      node->disk().power_loss();
      std::string image = node->disk().contents("/data/frames");
      const uint64_t bytes = std::max<uint64_t>(image.size(), kSuperblockBytes) - kSuperblockBytes;
      image.resize(kSuperblockBytes + (bytes + kFrameStride - 1) / kFrameStride * kFrameStride);
      EXPECT_TRUE(dump_image(image, fn).has_value());
    }
  }
};

class SyncSim : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Reactors, SyncSim, ::testing::Values(1u, 3u));

TEST_P(SyncSim, WhatIsDurableIsSyncedWhenItIsWanted) {
  SyncRig rig(1, GetParam());
  rig.start(4, 3);
  for (int i = 0; i < 100; ++i) rig.put(fmt::format("k{}", i), 100'000);  // two segments
  ASSERT_TRUE(rig.all_durable());
  rig.scheduler_.run_for(std::chrono::seconds(5));
  EXPECT_LT(rig.log_->synced(), rig.log_->durable()) << "nobody wants it";
  const log::LogPosition end = rig.log_->durable();
  ASSERT_TRUE(rig.becomes_synced(end));
  rig.put("later", 100);
  ASSERT_TRUE(rig.all_durable());
  EXPECT_LT(rig.log_->synced(), rig.log_->durable());
  EXPECT_EQ(rig.fewest_after_power_cut(), 3u);
}

/// A backup that cannot sync, or is dead, holds the synced position back until another backup has
/// its replicas.
TEST_P(SyncSim, ABackupThatIsLostMeanwhileIsReplaced) {
  SyncRig rig(2, GetParam());
  rig.start(4, 2);
  for (int i = 0; i < 100; ++i) rig.put(fmt::format("k{}", i), 100'000);
  ASSERT_TRUE(rig.all_durable());
  const uint64_t lost = rig.manager_->replica_servers(rig.log_->head().segment_id()).front();
  rig.kill_backup(static_cast<uint32_t>(lost - 1));
  const log::LogPosition end = rig.log_->durable();
  rig.log_->want_synced(end);
  rig.scheduler_.run_for(std::chrono::seconds(1));
  EXPECT_LT(rig.log_->synced(), end) << "one of its holders has not said so";
  rig.tell_backups();
  rig.tell_master();
  ASSERT_TRUE(rig.run_until([&] { return rig.log_->synced() >= end; }));
  EXPECT_GE(rig.fewest_after_power_cut(), 2u);
}

/// It lives for the coordinator, and only the master does not reach it. It has a closed head.
TEST_P(SyncSim, ABackupThatIsCutOffIsReplaced) {
  SyncRig rig(4, GetParam());
  rig.backup_silence_ = std::chrono::seconds(1);
  rig.start(6, 2);
  for (int i = 0; i < 100; ++i) rig.put(fmt::format("k{}", i), 100'000);
  ASSERT_TRUE(rig.all_durable());
  const uint64_t cut_off = rig.manager_->replica_servers(1).front();
  rig.cut_off(*rig.nodes_[cut_off - 1]);
  const log::LogPosition end = rig.log_->durable();
  ASSERT_TRUE(rig.becomes_synced(end));
  EXPECT_GE(rig.fewest_after_power_cut(), 2u);
}

/// It is cut off for long. What the master gave up there takes room until it is freed.
TEST_P(SyncSim, ABackupThatIsBackFreesWhatWasGivenUp) {
  SyncRig rig(5, GetParam());
  rig.backup_silence_ = std::chrono::seconds(1);
  rig.start(6, 2);
  for (int i = 0; i < 100; ++i) rig.put(fmt::format("k{}", i), 100'000);
  ASSERT_TRUE(rig.all_durable());
  const uint64_t back = rig.manager_->replica_servers(1).front();
  rig.cut_off(*rig.nodes_[back - 1]);
  ASSERT_TRUE(rig.becomes_synced(rig.log_->durable()));
  rig.scheduler_.run_for(std::chrono::minutes(2));
  const auto has = [&] {
    return rig.backups_[back - 1]->service->find(testing::kMaster, 1).has_value();
  };
  ASSERT_TRUE(has());
  rig.network_.heal_all();
  EXPECT_TRUE(rig.run_until([&] { return !has(); }));
  EXPECT_EQ(rig.manager_->replica_servers(1).size(), 2u);
  EXPECT_EQ(rig.manager_->check_counts(), "");
}

/// None can take the place of another. What it has there counts when they are back.
TEST_P(SyncSim, AMasterThatReachesNoBackupGoesOnWhenItDoes) {
  SyncRig rig(6, GetParam());
  rig.backup_silence_ = std::chrono::seconds(1);
  rig.start(5, 2);
  for (int i = 0; i < 100; ++i) rig.put(fmt::format("k{}", i), 100'000);
  ASSERT_TRUE(rig.all_durable());
  const log::LogPosition end = rig.log_->durable();
  rig.log_->want_synced(end);
  for (const SimNode* node : rig.nodes_) rig.cut_off(*node);
  rig.scheduler_.run_for(std::chrono::minutes(2));
  EXPECT_LT(rig.log_->synced(), end);
  rig.network_.heal_all();
  ASSERT_TRUE(rig.becomes_synced(end));
  ASSERT_TRUE(rig.all_durable());
  ASSERT_TRUE(rig.run_until([&] { return rig.manager_->stats().under_replicated == 0; }));
  EXPECT_EQ(rig.manager_->check_counts(), "");
  EXPECT_GE(rig.fewest_after_power_cut(), 2u);
}

/// Cleaning waits for the sync of what was written last, and not for the copies of all that the lost
/// backup had.
TEST_P(SyncSim, WhatASyncNeedsIsCopiedFirst) {
  SyncRig rig(3, GetParam());
  rig.log_bytes_ = 128 << 20;
  rig.start(4, 3, 1 << 30);
  const auto roll = [&] {
    const uint64_t head = rig.log_->head().segment_id();
    rig.put(fmt::format("k{}", head), 100);
    ASSERT_EQ(rig.log_->roll_head(), StatusCode::kOk);
    ASSERT_TRUE(rig.run_until([&] { return rig.log_->head().segment_id() > head; }));
  };
  for (int i = 0; i < 60; ++i) roll();
  ASSERT_TRUE(rig.all_durable());
  ASSERT_TRUE(rig.becomes_synced(rig.log_->durable()));
  const uint64_t needed = rig.log_->head().segment_id();
  roll();
  // Some leave: the places of their replicas in the list of a backup go to the latest ones.
  log::SegmentChange change;
  for (uint64_t id = 1; id <= 10; ++id) change.leave.push_back(rig.log_->find_segment(id));
  ASSERT_EQ(rig.log_->commit(change, log::Roll::kNow), StatusCode::kOk);
  ASSERT_TRUE(rig.run_until([&] { return change.done(); }));
  rig.scheduler_.run_for(std::chrono::milliseconds(50));
  ASSERT_TRUE(rig.all_durable());
  const uint64_t lost = rig.manager_->replica_servers(needed).front();
  rig.crash_backup(static_cast<uint32_t>(lost - 1));
  rig.log_->want_synced(rig.log_->durable());
  ASSERT_TRUE(rig.run_until([&] { return rig.manager_->replica_servers(needed).size() == 2; }));
  ASSERT_TRUE(rig.run_until([&] { return rig.manager_->replica_servers(needed).size() == 3; }));
  EXPECT_GT(rig.manager_->stats().under_replicated, 15u) << "its copy is one of the first";
  EXPECT_EQ(rig.manager_->check_counts(), "");
}

/// A head before it that the power cuts short would pass for the end, because too few servers have
/// the later head: they may all be away.
TEST_P(SyncSim, AHeadOnFewerServersWaitsUntilTheOneBeforeIsOnADevice) {
  // A power cut takes each sector that is not synced with a probability of one half.
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SyncRig rig(seed, GetParam());
    rig.start(3, 3);
    rig.put("a", 1000);
    ASSERT_TRUE(rig.all_durable());
    rig.crash_backup(0);
    ASSERT_TRUE(rig.run_until([&] { return rig.log_->find_segment(1)->closed(); }));
    // No later open has its device synced, and the close with it, before something is durable.
    for (SimNode* node : rig.nodes_) node->disk().set_sync_time(std::chrono::milliseconds(50));
    ASSERT_TRUE(rig.run_until([&] { return rig.log_->head().segment_id() > 1; }));
    const log::LogPosition start = rig.log_->head();
    rig.put("b", 1000);
    ASSERT_TRUE(rig.run_until([&] { return rig.log_->durable() > start; }));
    EXPECT_GE(rig.whole_after_power_cut(1), 1u) << "seed " << seed;
    EXPECT_EQ(rig.manager_->check_counts(), "");
  }
}

TEST_P(SyncSim, OneHolderOfTheHeadBeforeIsEnough) {
  SyncRig rig(9, GetParam());
  rig.start(3, 3);
  rig.put("a", 1000);
  ASSERT_TRUE(rig.all_durable());
  rig.crash_backup(0);
  ASSERT_TRUE(rig.run_until([&] { return rig.log_->find_segment(1)->closed(); }));
  rig.nodes_[1]->disk().set_sync_time(std::chrono::hours(1));
  ASSERT_TRUE(rig.run_until([&] { return rig.log_->head().segment_id() > 1; }));
  rig.put("b", 1000);
  EXPECT_TRUE(rig.all_durable()) << "although one does not say that it synced";
}

/// No server is missing that the head before names.
TEST_P(SyncSim, AHeadOnAsManyServersWaitsForNoSync) {
  SyncRig rig(8, GetParam());
  rig.start(2, 3);
  rig.put("a", 1000);
  ASSERT_TRUE(rig.all_durable());
  ASSERT_EQ(rig.log_->roll_head(), StatusCode::kOk);
  ASSERT_TRUE(rig.run_until([&] { return rig.log_->find_segment(1)->closed(); }));
  for (SimNode* node : rig.nodes_) node->disk().set_sync_time(std::chrono::hours(1));
  ASSERT_TRUE(rig.run_until([&] { return rig.log_->head().segment_id() > 1; }));
  rig.put("b", 1000);
  EXPECT_TRUE(rig.all_durable());
}

TEST_P(SyncSim, APowerCutAtAnyMomentTakesNothingThatIsSynced) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SyncRig rig(seed, GetParam());
    Random random(seed);
    rig.start(4, 2);
    const uint64_t puts = 50 + random.below(150);
    for (uint64_t i = 0; i < puts; ++i) {
      rig.put(fmt::format("k{}", i), 100 + random.below(120'000));
      if (random.chance(0.3)) {
        rig.scheduler_.run_for(std::chrono::microseconds(random.below(5'000)));
      }
      if (random.chance(0.2)) rig.log_->want_synced(rig.log_->durable());
    }
    rig.scheduler_.run_for(std::chrono::microseconds(random.below(20'000)));
    EXPECT_GT(rig.log_->synced().value, 0u) << seed;
    EXPECT_EQ(rig.fewest_after_power_cut(), 2u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ramcloud
