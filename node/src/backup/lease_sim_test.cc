// A master's lease over the simulated network (docs/design/recovery.md, "Leases"): it ends in time
// when any of its holders cannot be reached, or has frozen the master.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backup/testing/replication_rig.h"
#include "log/side_log.h"
#include "wire/recovery_messages.h"

namespace ramcloud {
namespace {

using testing::kMaster;

constexpr Duration kLength = 500ms;  // ReplicaManager's
constexpr Duration kSoon = 10ms;

/// By how many reactors append and drive replication.
class LeaseSim : public ::testing::TestWithParam<uint32_t>, protected testing::ReplicationRig {
 protected:
  LeaseSim() : ReplicationRig(42) { reactors_ = GetParam(); }
  ~LeaseSim() override { asking_.reset(); }

  bool leased() { return lease_.holds(master_->clock().lease_now()); }
  /// Looks every 5 ms.
  void expect_leased_for(Duration time) {
    for (Duration passed{}; passed < time; passed += 5ms) {
      scheduler_.run_for(5ms);
      ASSERT_TRUE(leased()) << "after " << passed / 1ms << " ms";
    }
  }
  void expect_unleased_for(Duration time) {
    for (Duration passed{}; passed < time; passed += 5ms) {
      scheduler_.run_for(5ms);
      ASSERT_FALSE(leased()) << "after " << passed / 1ms << " ms";
    }
  }
  bool leased_again() {
    return scheduler_.run_until([this] { return leased(); }, 10s);
  }
  SimNode& node_of(uint64_t server_id) { return *nodes_[server_id - 1]; }
  /// Half a segment, so that the next head is opened ahead.
  void open_ahead() {
    const std::string value(100'000, 'v');
    for (int i = 0; log_->segments().size() < 2; ++i) must_put("k" + std::to_string(i), value);
    ASSERT_TRUE(all_durable());
  }
  /// A backup that has a replica of this segment, and none of the first.
  uint64_t only_of(uint64_t segment) {
    const auto first = manager_->replica_servers(1);
    for (const uint64_t id : manager_->replica_servers(segment)) {
      if (std::ranges::find(first, id) == first.end()) return id;
    }
    ADD_FAILURE() << "five backups: the seed places the heads apart";
    return 0;
  }
  /// A recovery query for the master reaches this backup, and is answered.
  void freeze_on(uint64_t server_id) {
    asker_ = &scheduler_.add_node("coordinator");
    asker_transport_ = network_.make_transport(*asker_);
    asker_rpc_ = std::make_unique<RpcClient>(asker_->reactor(), *asker_transport_);
    asker_rpc_->set_cluster_uuid(testing::kCluster);
    asking_ = std::make_unique<TaskScope>(asker_->reactor());
    bool answered = false;
    const auto ask = [&]() -> Task<void> {
      wire::RecoveryQueryRequest query;
      query.term = 1;
      query.master_id = kMaster;
      auto reply = co_await asker_rpc_->call<wire::RecoveryQueryReply>(
          Locator{"sim", {node_of(server_id).name(), 1}}, server_id, wire::Opcode::kRecoveryQuery,
          query, asker_->reactor().now() + 10s);
      EXPECT_TRUE(reply.has_value()) << reply.error().to_string();
      answered = true;
    };
    asking_->spawn(ask());
    ASSERT_TRUE(scheduler_.run_until([&] { return answered; }, 10s));
  }
  /// Backups of an earlier version, without leases.
  void make_former(bool answer_pings) {
    const auto unknown = [](void* object, const Request& request) {
      reply_error(*static_cast<Transport*>(object), request.reply,
                  {StatusCode::kUnsupported, "unknown operation"});
      return true;
    };
    const auto pong = [](void* object, const Request& request) {
      static_cast<Transport*>(object)->reply(request.reply, StatusCode::kOk, {});
    };
    for (const auto& role : backups_) {
      role->registry->set_guard(wire::Opcode::kRenewLease, wire::Opcode::kRenewLease, unknown,
                                role->transport.get());
      if (answer_pings) role->registry->add(wire::Opcode::kPing, pong, role->transport.get());
    }
  }

  SimNode* asker_ = nullptr;
  std::unique_ptr<SimTransport> asker_transport_;
  std::unique_ptr<RpcClient> asker_rpc_;
  std::unique_ptr<TaskScope> asking_;
};
INSTANTIATE_TEST_SUITE_P(Reactors, LeaseSim, ::testing::Values(1u, 3u));

TEST_P(LeaseSim, AnIdleMasterKeepsItsLeaseWithAFewSmallMessages) {
  start(3, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  int renewals = 0, others = 0;
  network_.set_tap([&](const SimNode& from, const wire::MessageHeader& header) {
    if (&from != master_) return;
    (header.opcode == static_cast<uint16_t>(wire::Opcode::kRenewLease) ? renewals : others)++;
  });
  expect_leased_for(10s);
  EXPECT_GE(renewals, 2 * 6 * 10 - 4);
  EXPECT_LE(renewals, 2 * 6 * 10 + 4);
  EXPECT_LE(others, 4) << "questions after closed replicas";
}

/// Their acknowledgements confirm the lease.
TEST_P(LeaseSim, WhileItWritesNobodyIsAsked) {
  start(3, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  int renewals = 0;
  network_.set_tap([&](const SimNode& from, const wire::MessageHeader& header) {
    if (&from == master_ && header.opcode == static_cast<uint16_t>(wire::Opcode::kRenewLease)) {
      ++renewals;
    }
  });
  for (int i = 0; i < 100; ++i) {
    must_put("k", std::to_string(i));
    master_->reactor().nudge();
    expect_leased_for(20ms);
  }
  EXPECT_EQ(renewals, 0);
}

TEST_P(LeaseSim, CutOffFromOneHolderItEndsAndGoesOnWhenTheLinkIsBack) {
  start(3, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  cut_off(node_of(manager_->replica_servers(1)[1]));
  expect_leased_for(kLength / 2);
  scheduler_.run_for(kLength / 2);
  expect_unleased_for(2s);
  network_.heal_all();
  EXPECT_TRUE(leased_again());
}

TEST_P(LeaseSim, ItGoesOnWhenTheLossOfTheHolderIsFenced) {
  start(4, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  coordinator_delay_ = 2 * kLength;
  const uint64_t holder = manager_->replica_servers(1)[1];
  crash_backup(static_cast<uint32_t>(holder - 1));
  scheduler_.run_for(kLength + kSoon);
  EXPECT_FALSE(leased()) << "the coordinator does not have the epoch yet";
  EXPECT_TRUE(leased_again());
  EXPECT_GE(fence_.epoch, 1u);
  expect_leased_for(2s);
}

/// A lease runs from the time when the master sent the message, not from the time of the answer.
TEST_P(LeaseSim, ASlowHolderLeasesFromTheSendingOn) {
  start(3, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  SimNode& holder = node_of(manager_->replica_servers(1)[1]);
  constexpr Duration kWay = 150ms;
  network_.set_slow(*master_, holder, kWay);
  expect_leased_for(1s);
  cut_off(holder);
  scheduler_.run_for(kLength);
  expect_unleased_for(500ms);
}

TEST_P(LeaseSim, AFrozenMasterIsCondemnedByTheNextMessage) {
  start(3, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  freeze_on(manager_->replica_servers(1)[1]);
  scheduler_.run_for(ReadLease::ask_after(kLength) + kSoon);
  ASSERT_TRUE(manager_->condemned().has_value());
  EXPECT_EQ(manager_->condemned()->code(), StatusCode::kCrashed);
  EXPECT_FALSE(leased()) << "it ends at once";
  expect_unleased_for(2s);
}

TEST_P(LeaseSim, AFrozenMasterThatDoesNotHearOfItAnswersForItsLeaseAtMost) {
  start(3, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  const uint64_t holder = manager_->replica_servers(1)[1];
  freeze_on(holder);
  const Time frozen = scheduler_.now();
  network_.partition_one_way(node_of(holder), *master_);
  for (const auto& lane : lanes_) network_.partition_one_way(node_of(holder), lane->node);
  while (scheduler_.now() < frozen + kLength) scheduler_.run_for(1ms);
  expect_unleased_for(2s);
  EXPECT_FALSE(manager_->condemned().has_value());
}

TEST_P(LeaseSim, TheHoldersOfAHeadThatWasOpenedAheadCount) {
  start(5, 2);
  open_ahead();
  ASSERT_TRUE(scheduler_.run_until([&] { return log_->find_segment(2)->opened_durable(); }, 10s));
  cut_off(node_of(only_of(2)));
  scheduler_.run_for(kLength + kSoon);
  expect_unleased_for(1s);
  network_.heal_all();
  EXPECT_TRUE(leased_again());
}

/// It may have the replica, and may have frozen this master since.
TEST_P(LeaseSim, AHolderCountsFromTheSendingOfItsOpenOn) {
  start(5, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  const auto first = manager_->replica_servers(1);
  // The backups of the next head have opened it, and their answers are lost.
  for (uint64_t id = 1; id <= 5; ++id) {
    if (std::ranges::find(first, id) == first.end()) {
      network_.partition_one_way(node_of(id), *master_);
    }
  }
  const std::string value(100'000, 'v');
  for (int i = 0; log_->segments().size() < 2; ++i) must_put("k" + std::to_string(i), value);
  scheduler_.run_for(kLength + kSoon);
  expect_unleased_for(1s);
}

TEST_P(LeaseSim, TheHoldersOfAnAbandonedHeadCountUntilItIsClosedThere) {
  start(5, 2);
  open_ahead();
  ASSERT_TRUE(scheduler_.run_until([&] { return log_->find_segment(2)->opened_durable(); }, 10s));
  const uint64_t silent = only_of(2);
  cut_off(node_of(silent));
  log::SegmentChange change;
  ASSERT_EQ(log_->commit(change, log::Roll::kNow), StatusCode::kOk);
  scheduler_.run_for(kLength + kSoon);
  EXPECT_FALSE(change.done());
  expect_unleased_for(1s);
  network_.heal_all();
  ASSERT_TRUE(scheduler_.run_until([&] { return change.done(); }, 10s));
  EXPECT_TRUE(leased_again());
}

/// The head has one replica for a while, and only its backup confirms the lease.
TEST_P(LeaseSim, ADegradedMasterIsLeasedByThoseItHas) {
  start(1, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  EXPECT_EQ(manager_->stats().degraded, 1u);
  expect_leased_for(2s);
  cut_off(*nodes_[0]);
  scheduler_.run_for(kLength + kSoon);
  expect_unleased_for(1s);
}

/// A side segment does not decide the log's end, so its backups are no holders.
TEST_P(LeaseSim, BackupsOfSideSegmentsAreNoHolders) {
  start(6, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  const auto heads = manager_->replica_servers(1);
  log::SideLog side(*log_);
  const std::string value(500'000, 'x');
  const log::TestObject object(1, ++version_, "x", value);
  const char* refs[1];
  ASSERT_EQ(side.append({&object.source, 1}, refs), StatusCode::kOk);
  const uint64_t id = side.segments()[0]->id();
  std::optional<uint64_t> holder;
  ASSERT_TRUE(scheduler_.run_until(
      [&] {
        for (uint32_t i = 0; i < backups_.size(); ++i) {
          const bool is_head = std::ranges::find(heads, i + 1) != heads.end();
          if (!is_head && backups_[i]->service->find(kMaster, id)) holder = i + 1;
        }
        return holder.has_value();
      },
      10s));
  cut_off(node_of(*holder));
  expect_leased_for(2 * kLength);
  side.abort();
}

// ---- silent holders

TEST_P(LeaseSim, AHolderThatIsSilentIsReplacedBehindTheFence) {
  backup_silence_ = 1s;
  start(4, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  const uint64_t silent = manager_->replica_servers(1)[1];
  cut_off(node_of(silent));
  scheduler_.run_for(950ms);
  EXPECT_EQ(fence_.epoch, 0u);
  ASSERT_TRUE(scheduler_.run_until([&] { return fence_.epoch > 0 && leased(); }, 2s));
  must_put("b", "2");
  EXPECT_TRUE(all_durable(1s));
  ASSERT_TRUE(scheduler_.run_until([&] { return manager_->stats().under_replicated == 0; }, 10s));
  for (const uint64_t id : manager_->replica_servers(log_->head().segment_id())) {
    EXPECT_NE(id, silent);
  }
  EXPECT_EQ(manager_->check_counts(), "");
}

/// A head that lost a replica is copied to a backup that is silent and holds no lease. Writes wait
/// for that copy, because the next head takes data when this one is closed.
TEST_P(LeaseSim, ACopyOfAHeadOnASilentBackupIsMadeElsewhere) {
  int copied_there = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    testing::ReplicationRig rig(seed);
    rig.reactors_ = GetParam();
    rig.backup_silence_ = 1s;
    rig.start(5, 2);
    // Too much for one message, so that the new replica is a copy.
    for (int i = 0; i < 20; ++i) rig.must_put("a" + std::to_string(i), std::string(100'000, 'v'));
    ASSERT_TRUE(rig.all_durable());
    const auto holders = rig.manager_->replica_servers(1);
    uint32_t silent = 0;
    while (std::ranges::find(holders, silent + 1) != holders.end()) ++silent;
    rig.cut_off(*rig.nodes_[silent]);
    rig.crash_backup(static_cast<uint32_t>(holders[0] - 1));
    bool copy = false, lease = false, appended = false;
    const auto look = [&](const ReplicaSlot& slot) {
      if (!slot.placed() || slot.server_id() != silent + 1) return;
      (slot.may_end_log() ? lease : copy) = true;
    };
    const bool goes_on = rig.scheduler_.run_until(
        [&] {
          rig.manager_->for_each_slot(1, look);
          appended = appended || rig.put("b", "2") == StatusCode::kOk;
          return appended && rig.log_->durable() >= rig.log_->head();
        },
        30s);
    EXPECT_TRUE(goes_on) << "seed " << seed;
    copied_there += copy && !lease ? 1 : 0;
  }
  EXPECT_GT(copied_there, 0);
}

TEST_P(LeaseSim, AMasterThatWasSuspendedDoesNotBlameItsBackups) {
  backup_silence_ = 1s;
  start(4, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  for (int i = 0; i < 5; ++i) {
    scheduler_.pause(*master_, scheduler_.now() + 3s);
    for (const auto& lane : lanes_) scheduler_.pause(lane->node, scheduler_.now() + 3s);
    scheduler_.run_for(3s + 700ms);
  }
  EXPECT_EQ(fence_.epoch, 0u);
  EXPECT_TRUE(leased());
}

/// No other backup could take its replica, so the master waits for it.
TEST_P(LeaseSim, AHolderWithoutASuccessorIsWaitedFor) {
  backup_silence_ = 1s;
  start(2, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  cut_off(*nodes_[0]);
  scheduler_.run_for(5s);
  EXPECT_EQ(fence_.epoch, 0u);
  network_.heal_all();
  must_put("b", "2");
  EXPECT_TRUE(all_durable(5s));
  EXPECT_TRUE(leased_again());
}

/// On a busy machine the first reactor learns of several timeouts in one turn.
void run_busy(testing::ReplicationRig& rig, Duration time) {
  for (const Time end = rig.scheduler_.now() + time; rig.scheduler_.now() < end;) {
    rig.scheduler_.pause(*rig.master_, rig.scheduler_.now() + 5ms);
    rig.scheduler_.run_for(6ms);
  }
}

/// Nothing was proved about any of them, and a fence needs a replica that counts.
TEST_P(LeaseSim, AMasterThatIsCutOffFromAllKeepsItsHolders) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    testing::ReplicationRig rig(seed);
    rig.reactors_ = GetParam();
    rig.backup_silence_ = 1s;
    rig.start(5, 3);
    rig.must_put("a", "1");
    ASSERT_TRUE(rig.all_durable());
    rig.scheduler_.run_for(seed * 11ms);
    for (const SimNode* node : rig.nodes_) rig.cut_off(*node);
    run_busy(rig, 10s);
    EXPECT_EQ(rig.manager_->stats().replicas_lost, 0u);
    EXPECT_EQ(rig.fence_.epoch, 0u);
    rig.network_.heal_all();
    rig.must_put("b", "2");
    EXPECT_TRUE(rig.all_durable(10s)) << "seed " << seed;
    const auto whole = [&] { return rig.manager_->stats().under_replicated == 0; };
    EXPECT_TRUE(rig.scheduler_.run_until(whole, 30s)) << "seed " << seed;
  }
}

/// The second one falls silent while the loss of the first waits for it to confirm the epoch.
TEST_P(LeaseSim, TwoOfThreeHoldersMayFallSilentOneAfterTheOther) {
  for (const Duration apart : {0ms, 300ms, 1040ms, 1500ms, 4000ms}) {
    testing::ReplicationRig rig(7);
    rig.reactors_ = GetParam();
    rig.backup_silence_ = 1s;
    rig.start(6, 3);
    rig.must_put("a", "1");
    ASSERT_TRUE(rig.all_durable());
    const auto holders = rig.manager_->replica_servers(1);
    rig.cut_off(*rig.nodes_[holders[0] - 1]);
    rig.scheduler_.run_for(apart);
    rig.cut_off(*rig.nodes_[holders[1] - 1]);
    rig.scheduler_.run_for(1s);
    rig.must_put("b", "2");
    EXPECT_TRUE(rig.all_durable(15s)) << format_duration(apart);
    EXPECT_EQ(rig.manager_->check_counts(), "");
  }
}

/// The only other backup takes the place of one of them. The other one is waited for.
TEST_P(LeaseSim, TwoSilentHoldersDoNotShareASuccessor) {
  backup_silence_ = 1s;
  start(4, 3);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  const auto holders = manager_->replica_servers(1);
  cut_off(node_of(holders[0]));
  cut_off(node_of(holders[1]));
  run_busy(*this, 10s);
  EXPECT_EQ(manager_->stats().replicas_lost, 1u);
  network_.heal_all();
  must_put("b", "2");
  EXPECT_TRUE(all_durable(10s));
}

// ---- former builds

TEST_P(LeaseSim, BackupsFromBeforeLeasesLeaseByTheirPings) {
  start(3, 2);
  make_former(true);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  expect_leased_for(3s);
  cut_off(node_of(manager_->replica_servers(1)[1]));
  scheduler_.run_for(kLength + kSoon);
  expect_unleased_for(1s);
}

TEST_P(LeaseSim, ABackupThatKnowsNeitherLeasesNothing) {
  start(3, 2);
  make_former(false);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  scheduler_.run_for(kLength + kSoon);
  expect_unleased_for(1s);
}

}  // namespace
}  // namespace ramcloud
