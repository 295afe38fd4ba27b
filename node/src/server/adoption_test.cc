// A backup that restarts on its volume: its closed replicas are adopted, not copied
// (docs/design/recovery.md#adopting-former-frames).
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>

#include "base/failpoint.h"
#include "server/testing/returning_backups.h"

namespace ramcloud::server {
namespace {

class AdoptionSim : public ::testing::Test, protected testing::ReturningBackups {
 protected:
  AdoptionSim() : ReturningBackups(5) { log_bytes_ = 160 << 20; }

  /// Ends and starts at once: the first list that shows that the old one is gone has the new one.
  void restart_backup(uint32_t i) {
    scheduler_.run_for(2s);  // copies waited for offers not long ago
    leave(i);
    come_back(i);
    tell_master();
  }
};

TEST_F(AdoptionSim, ARestartCopiesNothing) {
  ASSERT_NO_FATAL_FAILURE(begin(6, 2, 6));
  const auto one = with_closed_ones_only();
  ASSERT_TRUE(one.has_value());
  const size_t had = replicas_on(*one);
  leave(*one);
  const uint64_t bytes = bytes_taken(), opened = opens();
  come_back(*one);
  tell_master();
  ASSERT_TRUE(is_whole());
  EXPECT_EQ(adopted(), had);
  EXPECT_EQ(recreated(), 0u);
  EXPECT_EQ(bytes_taken(), bytes);
  EXPECT_EQ(opens(), opened);
  EXPECT_EQ(replicas_on(*one), had);
  EXPECT_TRUE(no_former_frame_is_left(*one));
  expect_no_leak();
  expect_all_is_found(/*each=*/true);
}

/// All other backups have a replica of everything, so only the returned one could take a copy.
TEST_F(AdoptionSim, ABackupThatIsTheOnlyPlaceForItsReplicasGetsNoCopies) {
  ASSERT_NO_FATAL_FAILURE(begin(3, 3, 8));
  leave(1);
  tell_all();
  scheduler_.run_for(30s);
  EXPECT_GT(manager_->stats().under_replicated, 7u);
  come_back(1);
  tell_master();
  ASSERT_TRUE(is_whole());
  EXPECT_GE(adopted(), 8u);
  EXPECT_LE(recreated(), 2u) << "the heads that were open";
  EXPECT_TRUE(no_former_frame_is_left(1));
  expect_no_leak();
  expect_all_is_found();
}

/// What waits for its turn to be adopted is not copied meanwhile.
TEST_F(AdoptionSim, ASlowDeviceAdoptsEverythingAllTheSame) {
  ASSERT_NO_FATAL_FAILURE(begin(3, 3, 8));
  leave(1);
  tell_all();
  scheduler_.run_for(5s);
  nodes_[1]->disk().set_slow(50ms);
  come_back(1);
  tell_master();
  ASSERT_TRUE(is_whole());
  EXPECT_GE(adopted(), 8u);
  EXPECT_LE(recreated(), 2u) << "the heads that were open";
  expect_no_leak();
}

/// Every server, one after the other.
TEST_F(AdoptionSim, ARollingRestartCopiesTheOpenHeadsOnly) {
  ASSERT_NO_FATAL_FAILURE(begin(5, 3, 8));
  for (uint32_t i = 0; i < 5; ++i) {
    const uint64_t before = recreated();
    restart_backup(i);
    ASSERT_TRUE(is_whole());
    EXPECT_LE(recreated(), before + 2) << i;
    ASSERT_TRUE(no_former_frame_is_left(i));
    must_put(fmt::format("after {}", i), "value");
    ASSERT_TRUE(all_durable());
  }
  EXPECT_GE(adopted(), 20u);
  expect_no_leak();
  expect_all_is_found();
}

TEST_F(AdoptionSim, ADamagedFrameIsCopiedAndFreed) {
  ASSERT_NO_FATAL_FAILURE(begin(6, 2, 6));
  const auto one = with_closed_ones_only();
  ASSERT_TRUE(one.has_value());
  const size_t had = replicas_on(*one);
  leave(*one);
  ASSERT_NO_FATAL_FAILURE(damage_a_frame(*one));
  come_back(*one);
  tell_master();
  ASSERT_TRUE(is_whole());
  expect_damaged_one_copied(*one, had);
}

/// In memory the segment is shorter now. The replica on the volume has all of it.
TEST_F(AdoptionSim, ACompactedSegmentKeepsItsOriginalReplica) {
  uint32_t holder = 0;
  ASSERT_NO_FATAL_FAILURE(begin_with_dead_segment(holder));
  const uint32_t original = log_->find_segment(1)->published();
  ASSERT_NO_FATAL_FAILURE(compact_to_nothing(1));
  scheduler_.run_for(1s);
  ASSERT_LT(log_->find_segment(1)->published(), original / 2);
  restart_backup(holder);
  ASSERT_TRUE(is_whole());
  EXPECT_LE(recreated(), 2u);
  uint32_t acked = 0;
  manager_->for_each_slot(1, [&](const ReplicaSlot& slot) {
    if (slot.segment().id() == 1 && slot.server_id() == ids_[holder]) acked = slot.acked();
  });
  EXPECT_EQ(acked, original);
  scheduler_.run_for(60s);  // it is asked whether it is still there
  EXPECT_EQ(manager_->replica_servers(1).size(), 2u);
  expect_no_leak();
  expect_all_is_found();
}

TEST_F(AdoptionSim, AnAdoptedReplicaIsAdoptedAgain) {
  ASSERT_NO_FATAL_FAILURE(begin(6, 2, 6));
  const auto one = with_closed_ones_only();
  ASSERT_TRUE(one.has_value());
  const size_t had = replicas_on(*one);
  for (int round = 1; round <= 3; ++round) {
    restart_backup(*one);
    ASSERT_TRUE(is_whole());
    EXPECT_EQ(adopted(), round * had);
    EXPECT_EQ(recreated(), 0u);
  }
  EXPECT_EQ(replicas_on(*one), had);
  expect_no_leak();
  expect_all_is_found();
}

/// It ends again while it adopts.
TEST_F(AdoptionSim, ABackupThatEndsInTheMiddleLosesNothing) {
  ASSERT_NO_FATAL_FAILURE(begin(6, 2, 6));
  const auto one = with_closed_ones_only();
  ASSERT_TRUE(one.has_value());
  const size_t had = replicas_on(*one);
  restart_backup(*one);
  ASSERT_TRUE(scheduler_.run_until([&] { return adopted() == had / 2; }, 60s));
  restart_backup(*one);
  ASSERT_TRUE(is_whole());
  EXPECT_GE(adopted(), had);
  EXPECT_TRUE(no_former_frame_is_left(*one));
  expect_no_leak();
  expect_all_is_found();
}

/// The backup adopts, and the master does not hear of it: it gives the replica up, and has it freed.
TEST_F(AdoptionSim, AnAnswerThatIsLostLeaksNothing) {
  ASSERT_NO_FATAL_FAILURE(begin(6, 2, 6));
  const auto one = with_closed_ones_only();
  ASSERT_TRUE(one.has_value());
  bool cut = false;
  set_failpoint_handler([&](size_t number) {
    if (cut || kFailpoints[number].name != std::string_view("backup.adopt.before_answer")) return;
    cut = true;
    cut_off(*nodes_[*one]);
  });
  restart_backup(*one);
  const auto complete = [&] { return cut && manager_->stats().under_replicated == 0; };
  EXPECT_TRUE(scheduler_.run_until(complete, 60s));
  set_failpoint_handler(nullptr);
  EXPECT_GT(backups_[*one]->service->adoptions().adopted(), adopted());
  network_.heal_all();
  EXPECT_TRUE(no_former_frame_is_left(*one));
  expect_no_leak();
  expect_all_is_found();
}

TEST_F(AdoptionSim, ABackupInATakenDomainIsNotAsked) {
  for (uint64_t id = 1; id <= 4; ++id) domains_[id] = fmt::format("zone {}", id);
  ASSERT_NO_FATAL_FAILURE(begin(4, 2, 8));
  leave(0);
  come_back(0, "zone 2");
  tell_master();
  ASSERT_TRUE(is_whole());
  EXPECT_GT(recreated(), 0u);
  std::map<uint64_t, std::set<std::string>> taken;
  manager_->for_each_slot(0, [&](const ReplicaSlot& slot) {
    if (!slot.placed()) return;
    EXPECT_TRUE(taken[slot.segment().id()].insert(slot.failure_domain()).second)
        << slot.segment().id() << " twice in " << slot.failure_domain();
  });
  expect_no_leak();
}

/// It offers, and does not answer when it is asked: the segments are copied elsewhere.
class AdoptionSilence : public AdoptionSim, public ::testing::WithParamInterface<Duration> {};
INSTANTIATE_TEST_SUITE_P(Limits, AdoptionSilence, ::testing::Values(Duration{}, Duration{1s}));

TEST_P(AdoptionSilence, ASilentBackupDoesNotHoldItsSegmentsUp) {
  backup_silence_ = GetParam();
  ASSERT_NO_FATAL_FAILURE(begin(6, 2, 6));
  const auto one = with_closed_ones_only();
  ASSERT_TRUE(one.has_value());
  const size_t had = replicas_on(*one);
  restart_backup(*one);
  ASSERT_TRUE(scheduler_.run_until([&] { return adopted() >= 1; }, 60s));
  cut_off(*nodes_[*one]);
  const auto complete = [&] { return manager_->stats().under_replicated == 0; };
  ASSERT_TRUE(scheduler_.run_until(complete, 60s));
  EXPECT_LT(adopted(), had);
  EXPECT_GT(recreated(), 0u);
  network_.heal_all();
  EXPECT_TRUE(no_former_frame_is_left(*one));
  expect_no_leak();
  expect_all_is_found();
}

/// The master is given up while its replicas are adopted.
TEST_F(AdoptionSim, ARecoveryOfTheMasterGoesFirst) {
  ASSERT_NO_FATAL_FAILURE(begin(6, 2, 6));
  const auto one = with_closed_ones_only();
  ASSERT_TRUE(one.has_value());
  restart_backup(*one);
  ASSERT_TRUE(scheduler_.run_until([&] { return adopted() >= 1; }, 60s));
  const uint32_t former = backups_[*one]->frames->frames_quarantined();
  ASSERT_GT(former, 0u);
  TaskScope tasks(nodes_[*one]->reactor());
  std::optional<Result<wire::RecoveryQueryReply>> told;
  auto query = [&]() -> Task<void> {
    told = co_await asking_[*one]->rpc.call<wire::RecoveryQueryReply>(
        {"sim", {nodes_[*one]->name(), 1}}, ids_[*one], wire::Opcode::kRecoveryQuery,
        wire::RecoveryQueryRequest{list_.term, testing::kMaster, 0, ~uint64_t{0}},
        scheduler_.now() + 10s);
  };
  tasks.spawn(query());
  ASSERT_TRUE(scheduler_.run_until([&] { return told.has_value(); }, 20s));
  ASSERT_TRUE(told->has_value()) << told->error().to_string();
  EXPECT_TRUE(scheduler_.run_until([&] { return manager_->condemned().has_value(); }, 20s))
      << "the refusal stops the master";
  scheduler_.run_for(30s);
  // What was told is still there, as it was told.
  EXPECT_EQ(backups_[*one]->frames->frames_quarantined(),
            std::ranges::count_if((*told)->replicas, [&](const wire::RecoveryReplica& replica) {
              return replica.backup_id != ids_[*one];
            }));
}

/// Restarts at random moments, beside writes.
TEST_F(AdoptionSim, RandomRestartsLoseAndLeakNothing) {
  Random random(17);
  backup_bytes_ = 160u << 20;
  ASSERT_NO_FATAL_FAILURE(begin(6, 3, 6));
  for (int round = 0; round < 8; ++round) {
    const auto i = static_cast<uint32_t>(random.below(6));
    leave(i);
    if (random.chance(0.5)) tell_all();
    scheduler_.run_for(Duration(std::chrono::milliseconds(random.below(100))));
    come_back(i);
    tell_master();
    for (uint64_t n = random.below(6); n > 0; --n) {
      must_put(fmt::format("r{}", random.below(8)), std::string(600'000, 'r'));
    }
    scheduler_.run_for(Duration(std::chrono::milliseconds(random.below(400))));
    if (random.chance(0.6)) ASSERT_TRUE(is_whole());
  }
  ASSERT_TRUE(all_durable());
  ASSERT_TRUE(is_whole());
  EXPECT_GT(adopted(), 0u);
  for (uint32_t i = 0; i < 6; ++i) EXPECT_TRUE(no_former_frame_is_left(i)) << i;
  expect_no_leak();
  expect_all_is_found();
}

}  // namespace
}  // namespace ramcloud::server
