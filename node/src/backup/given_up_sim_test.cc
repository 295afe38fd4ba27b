// Replicas that a master gave up because their backup was silent: when they are freed, and when the
// backup may have the segment again.
#include <gtest/gtest.h>

#include <string>

#include "backup/testing/replication_rig.h"
#include "wire/replica_messages.h"

namespace ramcloud {
namespace {

using namespace std::chrono_literals;
using testing::kMaster;

class GivenUpSim : public testing::ReplicationRig, public ::testing::TestWithParam<uint32_t> {
 protected:
  GivenUpSim() : ReplicationRig(3) {
    reactors_ = GetParam();
    backup_silence_ = 1s;
  }
  /// Three backups for R = 2. One that has a replica of segment 1 is cut off until it is given up.
  /// `bytes`: appended before.
  void give_one_up(int bytes) {
    start(3, 2);
    for (int at = 0; at < bytes; at += 100'000) {
      must_put("a" + std::to_string(at), std::string(100'000, 'v'));
    }
    ASSERT_TRUE(all_durable());
    const auto holders = manager_->replica_servers(1);
    ASSERT_EQ(holders.size(), 2u);
    stays_ = holders[0];
    given_up_id_ = holders[1];
    successor_ = 6 - stays_ - given_up_id_;
    cut_off(*nodes_[given_up_id_ - 1]);
    ASSERT_TRUE(scheduler_.run_until([&] { return fence_.epoch > 0; }, 5s));
  }
  bool is_whole(Duration limit = 60s) {
    return scheduler_.run_until([&] { return manager_->stats().under_replicated == 0; }, limit);
  }
  bool has(uint64_t server_id) {
    return backups_[server_id - 1]->service->find(kMaster, 1).has_value();
  }
  bool frees_it() {
    return scheduler_.run_until([&] { return !has(given_up_id_); }, 60s);
  }
  void crash(uint64_t server_id) {
    const uint64_t lost = manager_->stats().replicas_lost;
    crash_backup(static_cast<uint32_t>(server_id - 1));
    ASSERT_TRUE(scheduler_.run_until([&] { return manager_->stats().replicas_lost > lost; }, 1s));
  }

  uint64_t stays_ = 0, given_up_id_ = 0, successor_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Reactors, GivenUpSim, ::testing::Values(1u, 3u));

TEST_P(GivenUpSim, ABackupThatFreedItMayHaveTheSegmentAgain) {
  give_one_up(1);
  ASSERT_TRUE(is_whole());
  scheduler_.run_for(20s);
  network_.heal_all();
  ASSERT_TRUE(frees_it());
  scheduler_.run_for(1s);
  crash(successor_);
  EXPECT_TRUE(is_whole()) << manager_->stats().waiting.to_string();
  EXPECT_TRUE(has(given_up_id_));
}

/// The request to free it could arrive once more, and free the new replica.
TEST_P(GivenUpSim, NotIfARequestToFreeItHadNoAnswer) {
  give_one_up(1);
  ASSERT_TRUE(is_whole());
  const auto swallow_free = [](void*, const Request& request) {
    return request.header.opcode == static_cast<uint16_t>(wire::Opcode::kReplicaFree);
  };
  testing::BackupRole& backup = *backups_[given_up_id_ - 1];
  backup.registry->set_gate(swallow_free, nullptr);
  network_.heal_all();
  scheduler_.run_for(30s);
  ASSERT_TRUE(has(given_up_id_));
  backup.registry->set_gate(nullptr, nullptr);
  ASSERT_TRUE(frees_it());
  scheduler_.run_for(1s);
  crash(successor_);
  EXPECT_FALSE(is_whole(30s));
  EXPECT_FALSE(has(given_up_id_));
}

/// The successor died before R replicas counted, and nobody else can take its place.
TEST_P(GivenUpSim, ItMakesRoomForItsSuccessor) {
  give_one_up(2'000'000);
  crash(successor_);
  scheduler_.run_for(3s);
  network_.heal_all();
  EXPECT_TRUE(is_whole()) << manager_->stats().waiting.to_string();
  must_put("b", "2");
  EXPECT_TRUE(all_durable(10s));
  EXPECT_EQ(manager_->check_counts(), "");
}

}  // namespace
}  // namespace ramcloud
