// Replication over the simulated network: which writes are durable, and what a rebuild finds.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>

#include "backup/testing/replication_rig.h"
#include "base/testing/sanitizer.h"
#include "base/testing/temporary_folder.h"

namespace ramcloud {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kCluster;
using testing::kMaster;
using ::testing::UnorderedElementsAre;

/// By how many reactors append and drive replication.
class ReplicationSim : public ::testing::TestWithParam<uint32_t>,
                       protected testing::ReplicationRig {
 protected:
  ReplicationSim() : ReplicationRig(42) { reactors_ = GetParam(); }

  /// Soon all segments have all replicas on other backups. It must take less time than asking the
  /// backup for each replica, one in ten seconds.
  void expect_none_on(uint64_t broken) {
    const auto is_so = [&] {
      for (uint64_t id = 1; id <= log_->head().segment_id(); ++id) {
        const auto holders = manager_->replica_servers(id);
        if (std::ranges::find(holders, broken) != holders.end()) return false;
      }
      return manager_->stats().under_replicated == 0;
    };
    EXPECT_TRUE(scheduler_.run_until(is_so, 15s));
  }
};
INSTANTIATE_TEST_SUITE_P(Reactors, ReplicationSim, ::testing::Values(1u, 3u));

TEST_P(ReplicationSim, DurableOnlyWithAllReplicas) {
  start(3, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  const auto holders = manager_->replica_servers(1);
  ASSERT_EQ(holders.size(), 2u);
  cut_off(*nodes_[holders[1] - 1]);
  must_put("b", "2");
  EXPECT_FALSE(all_durable(1s));
  EXPECT_GT(manager_->stats().unreplicated_bytes, 0u);
  network_.heal_all();
  EXPECT_TRUE(all_durable());
  EXPECT_EQ(manager_->stats().fully_replicated, manager_->stats().segments);
}

/// A reactor that polls does thousands of turns between two writes.
TEST_P(ReplicationSim, ATurnWithoutWorkLooksAtNoReplica) {
  start(3, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  scheduler_.run_for(1s);
  (void)manager_->on_turn();  // takes what is due at this moment
  const uint64_t before = manager_->turns_with_work();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(manager_->on_turn());
  EXPECT_EQ(manager_->turns_with_work(), before);
  must_put("b", "2");
  EXPECT_TRUE(all_durable());
  EXPECT_GT(manager_->turns_with_work(), before);
}

TEST_P(ReplicationSim, AnyOneFolderMissingGivesExactlyTheData) {
  start(4, 2);
  const std::string value(100'000, 'v');
  for (int i = 0; i < 200; ++i) must_put("k" + std::to_string(i), value + std::to_string(i));
  ASSERT_TRUE(all_durable());
  EXPECT_GT(manager_->stats().segments, 2u);
  std::vector<std::string> images;
  for (uint32_t i = 0; i < 4; ++i) images.push_back(image_of(i));
  for (uint32_t missing = 0; missing < 4; ++missing) {
    std::vector<VolumeImage> volumes;
    for (uint32_t i = 0; i < 4; ++i) {
      if (i != missing) volumes.push_back({"b" + std::to_string(i + 1), images[i]});
    }
    std::map<std::string, std::string> found;
    const Status status = rebuild_images(volumes, [&](const log::ReplayedObject& object) {
      found[std::string(object.key)] = std::string(object.value);
    });
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(found == model_) << found.size() << " of " << model_.size();
  }
}

TEST_P(ReplicationSim, LostBackupsReplicasAreRecreated) {
  start(4, 2);
  const std::string value(100'000, 'v');
  for (int i = 0; i < 150; ++i) must_put("k" + std::to_string(i), value);
  ASSERT_TRUE(all_durable());
  crash_backup(static_cast<uint32_t>(manager_->replica_servers(1)[0] - 1));
  must_put("after", "crash");
  EXPECT_TRUE(all_durable());
  EXPECT_TRUE(scheduler_.run_until([&] { return manager_->stats().under_replicated == 0; }, 60s));
  EXPECT_GT(manager_->stats().replicas_recreated, 0u);
}

TEST_P(ReplicationSim, TheHeadIsClosedAndOpenedElsewhereWhenItLosesAReplica) {
  start(4, 2);
  must_put("before", "loss");
  ASSERT_TRUE(all_durable());
  ASSERT_EQ(log_->head().segment_id(), 1u);
  crash_backup(static_cast<uint32_t>(manager_->replica_servers(1)[0] - 1));
  ASSERT_TRUE(scheduler_.run_until([&] { return log_->head().segment_id() == 2; }, 10s));
  EXPECT_TRUE(scheduler_.run_until([&] { return manager_->stats().under_replicated == 0; }, 10s));
  EXPECT_EQ(fence_.epoch, 1u);
  EXPECT_EQ(fence_.lowest_open_segment, 1u);
  // A lost replica of a closed segment is copied; the epoch does not rise.
  crash_backup(static_cast<uint32_t>(manager_->replica_servers(1)[0] - 1));
  EXPECT_TRUE(scheduler_.run_until([&] { return manager_->stats().under_replicated == 0; }, 10s));
}

/// One replica has the footer already, the other is lost before: the closed one needs no epoch.
TEST_P(ReplicationSim, ALossWhileTheHeadIsBeingClosedIsSurvived) {
  start(4, 2);
  must_put("a", std::string(100'000, 'v'));
  ASSERT_TRUE(all_durable());
  const auto holders = manager_->replica_servers(1);
  ASSERT_EQ(log_->roll_head(), StatusCode::kOk);
  const log::Segment* first = log_->find_segment(1);
  ASSERT_TRUE(scheduler_.run_until([&] { return first->closed(); }, 10s));
  kill_backup(static_cast<uint32_t>(holders[1] - 1));
  scheduler_.run_for(50ms);
  EXPECT_FALSE(first->closed_durable());
  tell_backups();
  tell_master();
  must_put("b", "2");
  EXPECT_TRUE(all_durable(10s));
  EXPECT_TRUE(scheduler_.run_until([&] { return manager_->stats().under_replicated == 0; }, 10s));
  EXPECT_EQ(manager_->stats().epoch, fence_.epoch);
}

/// Without memory for another segment the head stays open, and its lost replica is copied.
TEST_P(ReplicationSim, AHeadThatCannotBeReplacedGetsItsReplicaBack) {
  start(4, 2);
  const std::string value(400'000, 'v');
  int serial = 0;
  StatusCode code = StatusCode::kOk;
  while (code != StatusCode::kOutOfMemory) {
    ASSERT_TRUE(scheduler_.run_until(
        [&] {
          code = put("k" + std::to_string(serial), value);
          return code != StatusCode::kRetry;
        },
        10s));
    ++serial;
  }
  ASSERT_TRUE(all_durable());
  const uint64_t head = log_->head().segment_id();
  crash_backup(static_cast<uint32_t>(manager_->replica_servers(head)[0] - 1));
  EXPECT_TRUE(scheduler_.run_until([&] { return manager_->stats().under_replicated == 0; }, 60s));
  EXPECT_EQ(log_->head().segment_id(), head);
  EXPECT_EQ(manager_->replica_servers(head).size(), 2u);
  EXPECT_GT(fence_.epoch, 0u);
}

TEST_P(ReplicationSim, NothingIsAcknowledgedBeforeTheCoordinatorKnowsOfTheLoss) {
  coordinator_delay_ = 3s;
  start(4, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  crash_backup(static_cast<uint32_t>(manager_->replica_servers(1)[0] - 1));
  must_put("b", "2");
  EXPECT_FALSE(all_durable(1s));
  EXPECT_TRUE(manager_->stats().writes_wait);
  EXPECT_TRUE(all_durable(10s));
  EXPECT_EQ(fence_.epoch, 1u);
  EXPECT_TRUE(scheduler_.run_until([&] { return !manager_->stats().writes_wait; }, 10s));
}

/// In the other order a master that dies in between would leave no replica that counts.
TEST_P(ReplicationSim, TheCoordinatorIsToldWhenTheReplicasLeftHaveTheEpoch) {
  start(4, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  const auto holders = manager_->replica_servers(1);
  ASSERT_EQ(holders.size(), 2u);
  SimNode& left = *nodes_[holders[1] - 1];
  cut_off(left);
  crash_backup(static_cast<uint32_t>(holders[0] - 1));
  scheduler_.run_for(500ms);
  EXPECT_EQ(manager_->stats().epoch, 1u);
  EXPECT_EQ(fence_.epoch, 0u) << "the replica that is left cannot have heard of it";
  network_.heal_all();
  EXPECT_TRUE(scheduler_.run_until([&] { return fence_.epoch == 1; }, 60s));
  EXPECT_TRUE(all_durable());
}

TEST_P(ReplicationSim, NoReplicaIsInTheMastersDomain) {
  domains_ = {{1, "rack1"}, {2, "rack1"}, {3, "rack2"}, {4, "rack3"}, {kMaster, "rack1"}};
  start(4, 2);
  const std::string value(400'000, 'v');
  for (int i = 0; i < 60; ++i) must_put("k" + std::to_string(i), value);
  // The next head, too, which is opened ahead.
  const auto has_two = [&](const log::Segment* segment) {
    return manager_->replica_servers(segment->id()).size() == 2;
  };
  ASSERT_TRUE(
      scheduler_.run_until([&] { return std::ranges::all_of(log_->segments(), has_two); }, 60s));
  EXPECT_GT(manager_->stats().segments, 2u);
  for (const auto& segment : log_->segments()) {
    EXPECT_THAT(manager_->replica_servers(segment->id()), UnorderedElementsAre(3u, 4u));
  }
}

/// R = 2 with one other server left: writes go on, and are brought back to two when there is one.
TEST_P(ReplicationSim, WithFewerDomainsWritesGoOnDegradedUntilOneReturns) {
  start(2, 2);
  const std::string value(100'000, 'v');
  for (int i = 0; i < 120; ++i) must_put("k" + std::to_string(i), value);
  ASSERT_TRUE(all_durable());
  crash_backup(0);
  must_put("after", "loss");
  EXPECT_FALSE(all_durable(500ms)) << "it may return within the second";
  EXPECT_TRUE(all_durable(10s));
  for (int i = 0; i < 100; ++i) must_put("l" + std::to_string(i), value);
  EXPECT_TRUE(all_durable(10s));
  auto stats = manager_->stats();
  EXPECT_EQ(stats.under_replicated, stats.segments);
  EXPECT_EQ(stats.degraded, stats.segments);
  EXPECT_FALSE(stats.writes_wait);
  EXPECT_EQ(stats.waiting.code(), StatusCode::kUnavailable);
  EXPECT_NE(stats.waiting.message().find("2 replicas need 3 live failure domains"),
            std::string::npos)
      << stats.waiting.message();
  add_backup(96 << 20);
  EXPECT_TRUE(scheduler_.run_until([&] { return manager_->stats().under_replicated == 0; }, 60s));
  EXPECT_EQ(manager_->stats().degraded, 0u);
  // The last server with all replicas may die now.
  crash_backup(1);
  std::map<std::string, std::string> found;
  const std::string image = image_of(2);
  const Status status = rebuild_images({{"b3", image}}, [&](const log::ReplayedObject& object) {
    found[std::string(object.key)] = std::string(object.value);
  });
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(found == model_) << found.size() << " of " << model_.size();
}

/// Now and then the master asks it again; writers do not wait for that.
TEST_P(ReplicationSim, AFullBackupThatRefusesADegradedSegmentHoldsNothingUp) {
  start(2, 2);
  crash_backup(0);
  must_put("a", "1");
  ASSERT_TRUE(all_durable(10s));
  add_backup(64 << 20);
  nodes_[2]->disk().set_full(true);
  const uint64_t refused = backups_[2]->service->counters().refused;
  for (int i = 0; i < 600; ++i) {
    must_put("l" + std::to_string(i), "small");
    ASSERT_TRUE(all_durable(500ms)) << i;
    scheduler_.run_for(100ms);
  }
  EXPECT_GT(backups_[2]->service->counters().refused, refused + 2) << "it was not asked";
}

/// A server that was re-created is listed before its name leads to its new address.
TEST_P(ReplicationSim, ABackupThatCannotBeReachedHoldsNoDegradedSegmentUp) {
  start(2, 2);
  crash_backup(0);
  must_put("a", "1");
  ASSERT_TRUE(all_durable(10s));
  add_backup(64 << 20);
  cut_off(*nodes_[2]);
  for (int i = 0; i < 60; ++i) {
    must_put("l" + std::to_string(i), "small");
    ASSERT_TRUE(all_durable(500ms)) << i;
    scheduler_.run_for(100ms);
  }
  EXPECT_GT(manager_->stats().degraded, 0u);
  network_.heal_all();
  EXPECT_TRUE(scheduler_.run_until([&] { return manager_->stats().degraded == 0; }, 30s));
}

/// A backup that refuses more bytes of a replica may have the only copy on any disk.
TEST_P(ReplicationSim, WhatARefusingBackupHasStaysUntilItIsElsewhere) {
  start(2, 1);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  const auto holder = static_cast<uint32_t>(manager_->replica_servers(1)[0] - 1);
  const uint32_t other = 1 - holder;
  const auto acknowledged = model_;
  nodes_[other]->disk().set_full(true);
  nodes_[holder]->disk().fail_with({StatusCode::kNoSpace, "no space left on device"});
  ASSERT_EQ(put("b", "2"), StatusCode::kOk);
  ASSERT_TRUE(scheduler_.run_until([&] { return manager_->stats().replicas_lost > 0; }, 10s));
  nodes_[holder]->disk().fail_with({});
  EXPECT_FALSE(all_durable(10s));
  EXPECT_EQ(backups_[holder]->service->counters().frees, 0u);

  std::string image = nodes_[holder]->disk().contents("/data/frames");
  image.resize(kSuperblockBytes + kFrameStride);
  std::map<std::string, std::string> found;
  const Status status = rebuild_images({{"holder", image}},
                                       [&](const log::ReplayedObject& object) {
                                         found[std::string(object.key)] = std::string(object.value);
                                       },
                                       nullptr, {.fences = {{kMaster, fence_}}, .recovered = {}});
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(found == acknowledged);

  nodes_[other]->disk().set_full(false);
  EXPECT_TRUE(all_durable());
  EXPECT_TRUE(
      scheduler_.run_until([&] { return backups_[holder]->service->counters().frees > 0; }, 30s));
}

/// Replicas from before a device's failure are lost, like those that it refuses.
TEST_P(ReplicationSim, AllReplicasOnABrokenDeviceAreMadeAnew) {
  start(3, 2, 128 << 20);
  const std::string value(100'000, 'v');
  for (int i = 0; i < 350; ++i) must_put("k" + std::to_string(i), value);
  ASSERT_TRUE(all_durable());
  std::map<uint64_t, int> closed_on;
  for (uint64_t id = 1; id < log_->head().segment_id(); ++id) {
    for (const uint64_t server : manager_->replica_servers(id)) ++closed_on[server];
  }
  const auto [broken, closed] = *std::ranges::max_element(
      closed_on, {}, [](const auto& server_and_count) { return server_and_count.second; });
  ASSERT_GE(closed, 3);
  nodes_[broken - 1]->disk().fail_with({StatusCode::kIoError, "input/output error"});
  for (int i = 0; i < 20; ++i) must_put("l" + std::to_string(i), value);
  ASSERT_TRUE(all_durable());
  expect_none_on(broken);
}

TEST_P(ReplicationSim, AMasterThatWritesNothingHearsOfABrokenDevice) {
  start(4, 1);
  const std::string value(100'000, 'v');
  for (int i = 0; i < 150; ++i) must_put("k" + std::to_string(i), value);
  ASSERT_TRUE(all_durable());
  const auto& head = manager_->replica_servers(log_->head().segment_id());
  uint64_t broken = 0;
  for (uint64_t id = 1; id < log_->head().segment_id() && broken == 0; ++id) {
    const uint64_t holder = manager_->replica_servers(id).at(0);
    if (std::ranges::find(head, holder) == head.end()) broken = holder;
  }
  ASSERT_NE(broken, 0u) << "all closed segments are where the head is";
  // The failed write was another master's.
  nodes_[broken - 1]->disk().fail_with({StatusCode::kIoError, "input/output error"});
  wire::ReplicaOpenRequest open{};
  open.master_id = kMaster + 1;
  open.segment_id = 1;
  open.capacity = log::kSegmentBytes;
  Slice bytes(bytes_of(open));
  wire::MessageHeader header{};
  header.opcode = static_cast<uint16_t>(wire::Opcode::kReplicaOpen);
  backups_[broken - 1]->registry->on_request({}, header, bytes_of(open));
  expect_none_on(broken);
}

/// A segment that went on without a replica gets it while it is written to. Recovery regards the
/// new one as whole as soon as it is open, so it must never lack durable bytes.
TEST_P(ReplicationSim, AReplicaThatCountsHasWhatIsDurable) {
  start(2, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  crash_backup(0);
  must_put("b", "2");
  ASSERT_TRUE(all_durable(10s));
  ASSERT_GT(manager_->stats().degraded, 0u);
  add_backup(96 << 20);
  uint64_t looked = 0;
  for (int i = 0; manager_->stats().under_replicated > 0; ++i) {
    ASSERT_LT(i, 100'000);
    (void)put("c", std::to_string(i));
    scheduler_.step();
    const log::LogPosition durable = log_->durable();
    manager_->for_each_slot(durable.segment_id(), [&](const ReplicaSlot& slot) {
      if (slot.segment().id() != durable.segment_id() || !slot.counts()) return;
      ASSERT_GE(slot.acked(), durable.offset()) << "on server " << slot.server_id();
      looked += slot.server_id() == 3;
    });
    if (HasFatalFailure()) return;
  }
  for (int i = 0; i < 2'000; ++i) {
    (void)put("d", std::to_string(i));
    scheduler_.step();
    manager_->for_each_slot(log_->durable().segment_id(), [&](const ReplicaSlot& slot) {
      looked += slot.server_id() == 3 && slot.counts();
    });
  }
  EXPECT_GT(looked, 0u);
}

TEST_P(ReplicationSim, BelowTheMinimumWritesWait) {
  start(3, 3);  // at least two
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  crash_backup(0);
  must_put("b", "2");
  EXPECT_TRUE(all_durable(10s));
  crash_backup(1);
  must_put("c", "3");
  EXPECT_FALSE(all_durable(60s));
  EXPECT_TRUE(manager_->stats().writes_wait);
  add_backup(96 << 20);
  EXPECT_TRUE(all_durable(10s));
  EXPECT_TRUE(scheduler_.run_until([&] { return !manager_->stats().writes_wait; }, 10s));
  EXPECT_GT(manager_->stats().degraded, 0u);
}

/// Synced: whatever was acknowledged survives that all machines lose their power at once. The
/// parameters are the number of reactors, and whether backups write past the page cache.
class SyncedReplicationSim : public ::testing::TestWithParam<std::tuple<uint32_t, bool>>,
                             protected testing::ReplicationRig {
 protected:
  SyncedReplicationSim() : ReplicationRig(42) {
    reactors_ = std::get<0>(GetParam());
    direct_ = std::get<1>(GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, SyncedReplicationSim,
                         ::testing::Combine(::testing::Values(1u, 3u), ::testing::Bool()),
                         [](const auto& about) {
                           return fmt::format("reactors{}{}", std::get<0>(about.param),
                                              std::get<1>(about.param) ? "direct" : "cached");
                         });

TEST_P(SyncedReplicationSim, WritesSurviveThePowerOfAllMachines) {
  service_options_.synced = true;
  start(3, 2);
  for (int i = 0; i < 30; ++i) {
    must_put("k" + std::to_string(i), std::string(static_cast<size_t>(i) * 2'000, 'v'));
    ASSERT_TRUE(all_durable());
  }
  const auto acknowledged = model_;
  for (int i = 0; i < 5; ++i) must_put("late" + std::to_string(i), "not acknowledged");
  std::vector<std::string> images;
  std::vector<VolumeImage> volumes;
  for (uint32_t i = 0; i < 3; ++i) {
    nodes_[i]->disk().power_loss();
    images.push_back(nodes_[i]->disk().contents("/data/frames"));
    images.back().resize(frame_metadata_offset(2));
  }
  for (uint32_t i = 0; i < 3; ++i) volumes.push_back({"b" + std::to_string(i + 1), images[i]});
  std::map<std::string, std::string> found;
  const Status status = rebuild_images(volumes, [&](const log::ReplayedObject& object) {
    found[std::string(object.key)] = std::string(object.value);
  });
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (const auto& [key, value] : acknowledged) EXPECT_EQ(found[key], value) << key;
}

/// A backup that asks for a wait of an hour, by mistake, is asked again within a second or so.
TEST_P(ReplicationSim, AWaitThatABackupAsksForHasABound) {
  start(2, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  const auto put_off = [](void* transport, const Request& request) {
    if (request.header.opcode != static_cast<uint16_t>(wire::Opcode::kReplicaWrite)) return false;
    reply_error(*static_cast<Transport*>(transport), request.reply,
                {StatusCode::kRetry, "in an hour"}, 3'600'000'000);
    return true;
  };
  for (const auto& backup : backups_) backup->registry->set_gate(put_off, backup->transport.get());
  must_put("b", "2");
  scheduler_.run_for(100ms);
  for (const auto& backup : backups_) backup->registry->set_gate(nullptr, nullptr);
  EXPECT_TRUE(all_durable(3s));
}

TEST_P(ReplicationSim, LossyNetworkStillReplicates) {
  start(3, 2);
  network_.options().loss = 0.05;
  for (int i = 0; i < 100; ++i) {
    must_put("k" + std::to_string(i), "v");
    ASSERT_TRUE(all_durable(300s));
  }
}

TEST_P(ReplicationSim, FullBackupsAreLeftAlone) {
  start(3, 2, 8 << 20);  // one frame each
  const std::string value(500'000, 'v');
  bool stuck = false;
  for (int i = 0; i < 60 && !stuck; ++i) {
    stuck = !scheduler_.run_until(
        [&] { return put("k" + std::to_string(i), value) == StatusCode::kOk; }, 5s);
  }
  EXPECT_TRUE(stuck);
  // Unless it is trying one of them again.
  EXPECT_TRUE(scheduler_.run_until(
      [&] { return manager_->stats().waiting.code() == StatusCode::kNoSpace; }, 1s));
}

TEST_P(ReplicationSim, ARebuildSaysThatAVolumeIsShorterThanItWas) {
  start(2, 1);
  must_put("key", "value");
  ASSERT_TRUE(all_durable());
  const std::string image = image_of(static_cast<uint32_t>(manager_->replica_servers(1)[0] - 1));
  const auto warnings = [](ByteView bytes) {
    RebuildSummary summary;
    (void)rebuild_images({{"holder", bytes}}, [](const log::ReplayedObject&) {}, &summary);
    return summary.warnings;
  };
  EXPECT_THAT(warnings(image), IsEmpty());
  EXPECT_THAT(warnings(ByteView(image).substr(0, frame_metadata_offset(1))),
              ElementsAre(AllOf(HasSubstr("holder"), HasSubstr("the file ends after 1"))));
  std::string damaged = image;
  damaged[frame_metadata_offset(0)] ^= 0x20;
  EXPECT_THAT(warnings(damaged), ElementsAre(HasSubstr("1 frames whose metadata is damaged")));
}

TEST_P(ReplicationSim, FlippedByteIsNamed) {
  start(2, 1);
  for (int i = 0; i < 4; ++i) must_put("key" + std::to_string(i), "value");
  ASSERT_TRUE(all_durable());
  const auto holder = static_cast<uint32_t>(manager_->replica_servers(1)[0] - 1);
  std::string image = image_of(holder);
  uint32_t valid = 0;
  auto clean = dump_image(image, [&](const ReplicaDump& dump) {
    valid = dump.scan.valid_bytes;
    EXPECT_EQ(dump.identity.master_id, kMaster);
    EXPECT_EQ(dump.entries.at(log::EntryType::kObject), 4u);
  });
  ASSERT_TRUE(clean.has_value());
  EXPECT_EQ(clean->problems_total, 0u);
  image.resize(frame_metadata_offset(1));  // one frame is enough, and quick
  const auto check = [&](uint64_t at) {
    image[at] = static_cast<char>(image[at] ^ 0x20);
    bool named = false;
    const auto look = [&](const std::vector<ReplicaProblem>& problems) {
      for (const auto& problem : problems) named = named || problem.flipped_byte == at;
    };
    auto dumped = dump_image(image, [&](const ReplicaDump& dump) { look(dump.problems); });
    ASSERT_TRUE(dumped.has_value()) << at;
    look(dumped->problems);
    EXPECT_TRUE(named) << "byte " << at;
    image[at] = static_cast<char>(image[at] ^ 0x20);
  };
  // Each looks at eight megabytes.
  const uint64_t step = testing::kSanitized ? 7 : 1;
  for (uint64_t at = 0; at < kSuperblockBytes; at += 7 * step) check(at);
  for (uint64_t at = 0; at < kFrameMetadataBytes; at += 5 * step) {
    check(frame_metadata_offset(0) + at);
  }
  for (uint64_t at = 0; at < valid; at += step) check(frame_data_offset(0) + at);
}

/// The offline tools on real files and folders; damage to a byte of any part is reported with its
/// position. (Every byte: FlippedByteIsNamed.)
TEST_P(ReplicationSim, OfflineToolsReadFilesAndFoldersAndNameDamage) {
  start(2, 1);
  for (int i = 0; i < 4; ++i) must_put("key" + std::to_string(i), "value");
  ASSERT_TRUE(all_durable());
  const auto holder = static_cast<uint32_t>(manager_->replica_servers(1)[0] - 1);
  std::string image = image_of(holder);
  image.resize(frame_metadata_offset(1));
  const TemporaryFolder kept;
  const std::string& folder = kept.path();
  const std::string path = kept / "frames";
  const auto keep = [&] { std::ofstream(path, std::ios::binary) << image; };
  const auto objects_in = [](const std::string& where) {
    uint64_t objects = 0;
    const Status status = rebuild({where}, [&](const log::ReplayedObject&) { ++objects; });
    return status.ok() ? std::to_string(objects) : status.to_string();
  };
  keep();
  EXPECT_EQ(objects_in(folder), "4");
  EXPECT_EQ(objects_in(path), "4");
  std::vector<std::string> ends;
  auto dumped = dump_replicas(folder, [&](const ReplicaDump& replica) {
    ends.push_back(scan_end_name(replica.scan.end));
    for (const auto& [type, count] : replica.entries) ends.push_back(entry_type_name(type));
  });
  ASSERT_TRUE(dumped.has_value()) << dumped.error().to_string();
  EXPECT_EQ(ends, (std::vector<std::string>{"open", "SEGMENT_HEADER", "LOG_DIGEST", "SAFE_VERSION",
                                            "OBJECT"}));
  for (const uint64_t at :
       {uint64_t{0}, uint64_t{9}, uint64_t{30}, uint64_t{600}, frame_metadata_offset(0) + 3,
        frame_metadata_offset(0) + 60, frame_data_offset(0) + 40}) {
    image[at] = static_cast<char>(image[at] ^ 0x20);
    keep();
    bool named = false;
    const auto look = [&](const std::vector<ReplicaProblem>& problems) {
      for (const auto& problem : problems) named = named || problem.flipped_byte == at;
    };
    dumped = dump_replicas(path, [&](const ReplicaDump& replica) { look(replica.problems); });
    ASSERT_TRUE(dumped.has_value()) << dumped.error().to_string();
    look(dumped->problems);
    EXPECT_TRUE(named) << "byte " << at;
    image[at] = static_cast<char>(image[at] ^ 0x20);
  }
  image.resize(100);
  keep();
  EXPECT_NE(objects_in(path).find("CORRUPT"), std::string::npos);
  EXPECT_EQ(dump_replicas(path, [](const ReplicaDump&) {}).error().code(), StatusCode::kCorrupt);
  EXPECT_NE(objects_in(folder + "/none").find("NOT_FOUND"), std::string::npos);
  EXPECT_NE(objects_in("/dev/null").find("neither a regular file nor a block device"),
            std::string::npos);
}

TEST_P(ReplicationSim, ForeignVolumeIsRefused) {
  start(1, 0);
  const Status status = backups_[0]->frames->adopt(wire::Uuid{9}, 5, 1, 1);
  EXPECT_EQ(status.code(), StatusCode::kWrongCluster);
  EXPECT_NE(status.message().find(format_uuid(kCluster)), std::string::npos);
  EXPECT_NE(status.message().find(format_uuid(wire::Uuid{9})), std::string::npos);
}

}  // namespace
}  // namespace ramcloud
