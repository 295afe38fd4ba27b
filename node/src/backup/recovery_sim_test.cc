// A master with data is given up, and with it the power of some backups. The other backups' answers
// decide where its log ends: no acknowledged write is missing, unless power cuts took it from all
// of them.
#include <gmock/gmock.h>

#include "backup/recovery_service.h"
#include "backup/testing/replication_rig.h"
#include "base/logging.h"
#include "base/testing/sanitizer.h"
#include "log/found_replica.h"

namespace ramcloud {
namespace {

using testing::kMaster;
using Outcome = log::LogEnd::Outcome;

class RecoveryRig : public testing::ReplicationRig {
 public:
  explicit RecoveryRig(uint64_t seed) : ReplicationRig(seed), random_(seed) {}
  ~RecoveryRig() { asking_.reset(); }

  void start_asking() {
    asker_ = &scheduler_.add_node("coordinator");
    asker_transport_ = network_.make_transport(*asker_);
    asker_rpc_ = std::make_unique<RpcClient>(asker_->reactor(), *asker_transport_);
    asker_rpc_->set_cluster_uuid(testing::kCluster);
    asking_ = std::make_unique<TaskScope>(asker_->reactor());
  }

  Task<Result<wire::RecoveryQueryReply>> query_once(uint32_t i, wire::RecoveryQueryRequest query) {
    return asker_rpc_->call<wire::RecoveryQueryReply>(Locator{"sim", {nodes_[i]->name(), 1}}, i + 1,
                                                      wire::Opcode::kRecoveryQuery, query,
                                                      asker_->reactor().now() + 10s);
  }

  /// Asks this backup, page after page.
  Task<void> ask(uint32_t i, log::LogAnswers& answers, int& heard) {
    wire::RecoveryQueryRequest query{.term = 1, .master_id = kMaster};
    const Time deadline = asker_->reactor().now() + 50s;
    do {
      auto reply = co_await query_once(i, query);
      while (!reply && asker_->reactor().now() < deadline) {
        co_await asker_->reactor().sleep(100ms);
        reply = co_await query_once(i, query);
      }
      EXPECT_TRUE(reply.has_value()) << reply.error().to_string();
      if (!reply) co_return;
      for (const wire::RecoveryReplica& replica : reply->replicas) {
        auto found = log::found_replica(replica);
        EXPECT_TRUE(found.has_value());
        answers.replicas.push_back(std::move(*found));
      }
      query.first_frame = reply->next_frame;
    } while (query.first_frame != 0);
    answers.heard.insert(i + 1);
    ++heard;
  }
  log::LogAnswers ask_all() {
    log::LogAnswers answers;
    answers.fence = fence_;
    int heard = 0, asked = 0;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (!backups_[i]) continue;
      ++asked;
      asking_->spawn(ask(i, answers, heard));
    }
    EXPECT_TRUE(scheduler_.run_until([&] { return heard == asked; }, 60s));
    return answers;
  }

  Random random_;
  SimNode* asker_ = nullptr;
  std::unique_ptr<SimTransport> asker_transport_;
  std::unique_ptr<RpcClient> asker_rpc_;
  std::unique_ptr<TaskScope> asking_;
};

class RecoverySim : public ::testing::TestWithParam<bool> {
 protected:
  RecoverySim() { set_log_level(LogLevel::kError); }
  ~RecoverySim() override { set_log_level(LogLevel::kInfo); }
};
INSTANTIATE_TEST_SUITE_P(Durability, RecoverySim, ::testing::Bool(), [](const auto& about) {
  return std::string(about.param ? "synced" : "buffered");
});

/// A live master that was frozen is told CRASHED in answer to its next message, and stops serving.
TEST_P(RecoverySim, AFrozenMasterStops) {
  RecoveryRig rig(5);
  rig.service_options_.synced = GetParam();
  rig.start(3, 3);
  rig.start_asking();
  rig.must_put("a", "1");
  ASSERT_TRUE(rig.all_durable());
  const log::LogAnswers answers = rig.ask_all();
  const log::LogPosition durable = rig.log_->durable();
  EXPECT_FALSE(rig.manager_->condemned().has_value());
  rig.must_put("b", "2");
  ASSERT_TRUE(rig.scheduler_.run_until([&] { return rig.manager_->condemned().has_value(); }, 10s));
  EXPECT_EQ(rig.manager_->condemned()->code(), StatusCode::kCrashed);
  EXPECT_THAT(rig.manager_->condemned()->message(), ::testing::HasSubstr("is being recovered"));
  EXPECT_EQ(rig.log_->durable(), durable) << "nothing was acknowledged since";
  const log::LogEnd end = log::decide_log_end(answers);
  ASSERT_EQ(end.outcome, Outcome::kComplete);
  EXPECT_EQ(end.segments.at(0).length, durable.offset());
}

/// One backup is enough to freeze it: nothing is acknowledged without that one.
TEST_P(RecoverySim, OneBackupIsEnoughToFreezeAMaster) {
  RecoveryRig rig(6);
  rig.service_options_.synced = GetParam();
  rig.start(3, 2);
  rig.start_asking();
  rig.must_put("a", "1");
  ASSERT_TRUE(rig.all_durable());
  log::LogAnswers answers;
  int heard = 0;
  const auto one = static_cast<uint32_t>(rig.manager_->replica_servers(1)[1] - 1);
  rig.asking_->spawn(rig.ask(one, answers, heard));
  ASSERT_TRUE(rig.scheduler_.run_until([&] { return heard == 1; }, 10s));
  const log::LogPosition durable = rig.log_->durable();
  rig.must_put("b", "2");
  ASSERT_TRUE(rig.scheduler_.run_until([&] { return rig.manager_->condemned().has_value(); }, 10s));
  EXPECT_EQ(rig.log_->durable(), durable);
}

TEST_P(RecoverySim, WhatWasAcknowledgedIsInTheLogThatIsDecided) {
  std::map<Outcome, int> outcomes;
  const uint64_t seeds = testing::seeds(40);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    RecoveryRig rig(seed);
    Random random(seed + 1000);
    rig.service_options_.synced = GetParam();
    rig.reactors_ = seed % 2 == 0 ? 3 : 1;
    rig.start(4, 3);
    rig.start_asking();
    const uint64_t before = random.below(120);
    for (uint64_t i = 0; i < before; ++i)
      rig.must_put("k" + std::to_string(i), std::string(100'000, 'v'));
    if (random.chance(0.3)) {
      rig.crash_backup(static_cast<uint32_t>(random.below(4)));
      rig.add_backup(64 << 20);
    }
    for (int i = 0; i < 30; ++i) {
      rig.must_put("late" + std::to_string(i), std::string(200 + random.below(60'000), 'v'));
      rig.scheduler_.run_for(std::chrono::microseconds(random.below(2'000)));
    }
    // The master lives on, and does not know.
    rig.given_up_ = true;
    std::set<uint64_t> rebooted;
    for (uint32_t i = 0; i < rig.nodes_.size(); ++i) {
      if (!rig.backups_[i] || !random.chance(seed % 3 == 0 ? 1.0 : 0.4)) continue;
      rig.scheduler_.power_off(*rig.nodes_[i]);
      rig.backups_[i].reset();
      rig.scheduler_.restart(*rig.nodes_[i]);
      rig.start_backup(i, 64 << 20);
      rebooted.insert(i + 1);
    }
    log::LogAnswers answers = rig.ask_all();
    answers.fence = rig.fence_;
    rig.scheduler_.run_for(1s);
    const log::LogPosition durable = rig.log_->durable();
    const log::LogEnd end = log::decide_log_end(answers);
    ++outcomes[end.outcome];
    ASSERT_TRUE(end.outcome == Outcome::kComplete || end.outcome == Outcome::kTailLost)
        << "seed " << seed << ": segment " << end.missing.at(0).segment_id << ": "
        << end.missing.at(0).why;
    if (end.outcome == Outcome::kTailLost) {
      EXPECT_FALSE(GetParam()) << "seed " << seed << ": synced loses nothing";
      EXPECT_GE(rebooted.size(), 3u) << "seed " << seed;
      continue;
    }
    log::LogPosition reached;
    for (const log::SegmentEnd& segment : end.segments) {
      reached = std::max(reached, log::LogPosition(segment.segment_id, segment.length));
    }
    EXPECT_GE(reached, durable) << "seed " << seed;
  }
  EXPECT_GT(outcomes[Outcome::kComplete], 0);
  if (!GetParam()) EXPECT_GT(outcomes[Outcome::kTailLost], 0);
}

}  // namespace
}  // namespace ramcloud
