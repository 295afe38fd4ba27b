// A backup that comes back has replicas of live masters. It frees only those that the masters no
// longer need.
#include "server/former_frames.h"

#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backup/testing/replication_rig.h"
#include "replication/unneeded_service.h"
#include "wire/volume_messages.h"

namespace ramcloud::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kCluster;
using testing::kMaster;
using ::testing::UnorderedElementsAreArray;

constexpr uint64_t kBackupBytes = 128u << 20;
/// The lost backup, once it is back.
constexpr uint64_t kReturned = 20;

class FormerFramesTest : public ::testing::Test, protected testing::ReplicationRig {
 protected:
  FormerFramesTest() : ReplicationRig(1) {}
  void TearDown() override { asking_.reset(); }

  /// Three segments of objects. `knows`: the question of a backup.
  void begin(uint32_t backups, uint32_t replicas, bool knows = true) {
    start(backups, replicas, kBackupBytes);
    registry_ = std::make_unique<ServiceRegistry>(*transport_);
    if (knows) unneeded_.emplace(*registry_, servers_, *manager_);
    ASSERT_TRUE(transport_->listen({"m", 1}, Side::kInside, *registry_).has_value());
    for (int i = 0; i < 30; ++i) must_put("k" + std::to_string(i), std::string(600'000, 'v'));
    ASSERT_TRUE(all_durable());
  }
  /// That of the head.
  uint32_t a_holder() {
    return static_cast<uint32_t>(manager_->replica_servers(log_->head().segment_id()).front() - 1);
  }
  /// The backup's process ends and another one starts with its volume. The other backups know it.
  void comes_back(uint32_t i) {
    kill_backup(i);
    scheduler_.restart(*nodes_[i]);
    wire::ServerListEntry entry;
    entry.server_id = kReturned;
    entry.locator = "sim:host=" + nodes_[i]->name() + ",port=1";
    entry.failure_domain = "of the returned";
    list_.servers.push_back(entry);
    ++list_.version;
    start_backup(i, kBackupBytes);
    backups_[i]->transport->set_identity({kCluster, kReturned});
    ASSERT_TRUE(backups_[i]->frames->adopt(kCluster, kReturned, 1, list_.version).ok());
    tell_backups();
    returned_ = i;
    rpc_of_returned_ = std::make_unique<RpcClient>(nodes_[i]->reactor(), *backups_[i]->transport);
    rpc_of_returned_->set_cluster_uuid(kCluster);
  }
  void ask() {
    BackupRole& role = *backups_[returned_];
    asking_.emplace(*rpc_of_returned_, role.servers, kReturned, *role.service);
  }
  using BackupRole = testing::BackupRole;
  uint32_t kept() const { return backups_[returned_]->frames->frames_quarantined(); }
  /// After a loss, of which the coordinator knows.
  bool is_whole() {
    const auto whole = [this] {
      const ReplicationStats stats = manager_->stats();
      return stats.replicas_lost > 0 && stats.under_replicated == 0 && !stats.writes_wait;
    };
    return scheduler_.run_until(whole, 60s);
  }
  /// The master's answer to a request of the returned backup.
  Result<std::vector<uint64_t>> unneeded(wire::GetUnneededRequest question) {
    std::optional<Result<wire::Unneeded>> answer;
    TaskScope tasks(nodes_[returned_]->reactor());
    tasks.spawn(put_question(std::move(question), answer));
    EXPECT_TRUE(scheduler_.run_until([&] { return answer.has_value(); }, 10s));
    if (!*answer) return fail((*answer).error());
    return (*answer)->segment_ids;
  }
  Task<void> put_question(wire::GetUnneededRequest question,
                          std::optional<Result<wire::Unneeded>>& answer) {
    answer = co_await rpc_of_returned_->call<wire::Unneeded>(
        {"sim", {"m", 1}}, kMaster, wire::Opcode::kGetUnneeded, std::move(question),
        scheduler_.now() + 5s);
  }
  wire::GetUnneededRequest question(std::vector<uint64_t> segments) const {
    return {kReturned, list_.term, list_.version, std::move(segments), {}};
  }
  std::vector<uint64_t> segments() const {
    std::vector<uint64_t> ids;
    for (const log::Segment* segment : log_->segments()) ids.push_back(segment->id());
    return ids;
  }

  std::unique_ptr<ServiceRegistry> registry_;
  std::optional<UnneededService> unneeded_;
  uint32_t returned_ = 0;
  std::unique_ptr<RpcClient> rpc_of_returned_;
  std::optional<FormerFrames> asking_;
};

TEST_F(FormerFramesTest, AFrameIsFreedWhenItsMasterHasOtherReplicas) {
  ASSERT_NO_FATAL_FAILURE(begin(4, 3));
  ASSERT_NO_FATAL_FAILURE(comes_back(a_holder()));
  const uint32_t before = kept();
  ASSERT_GE(before, 1u);
  ask();
  scheduler_.run_for(60s);
  EXPECT_EQ(kept(), before) << "the master still counts on the one that is dead";
  tell_master();
  ASSERT_TRUE(is_whole());
  EXPECT_TRUE(scheduler_.run_until([&] { return kept() == 0; }, 60s));
  EXPECT_EQ(manager_->stats().under_replicated, 0u);
}

TEST_F(FormerFramesTest, FramesStayAsLongAsReplicasAreMissing) {
  ASSERT_NO_FATAL_FAILURE(begin(2, 2));
  ASSERT_NO_FATAL_FAILURE(comes_back(0));
  const uint32_t before = kept();
  kill_backup(1);
  tell_backups();
  ask();
  tell_master();
  scheduler_.run_for(60s);
  EXPECT_GT(manager_->stats().under_replicated, 0u);
  EXPECT_EQ(kept(), before);
  add_backup(kBackupBytes);
  ASSERT_TRUE(is_whole());
  EXPECT_TRUE(scheduler_.run_until([&] { return kept() == 0; }, 60s));
}

/// The master names unneeded segments at once, also those that it never had or that left the log.
TEST_F(FormerFramesTest, ASegmentThatLeftIsNotNeeded) {
  ASSERT_NO_FATAL_FAILURE(begin(4, 3));
  ASSERT_NO_FATAL_FAILURE(comes_back(a_holder()));
  tell_master();
  ASSERT_TRUE(is_whole());
  std::vector<uint64_t> asked = segments();
  asked.push_back(1'000'000);
  const auto answer = unneeded(question(asked));
  ASSERT_TRUE(answer.has_value()) << answer.error().to_string();
  EXPECT_THAT(*answer, UnorderedElementsAreArray(asked));
}

/// Until the coordinator knows of a loss, the replicas that are left may be refused by a recovery.
TEST_F(FormerFramesTest, NothingIsSaidBeforeALossIsDealtWith) {
  coordinator_delay_ = 20s;
  ASSERT_NO_FATAL_FAILURE(begin(4, 3));
  ASSERT_NO_FATAL_FAILURE(comes_back(a_holder()));
  tell_master();
  const auto early = unneeded(question(segments()));
  ASSERT_FALSE(early.has_value());
  EXPECT_EQ(early.error().code(), StatusCode::kRetry);
  ASSERT_TRUE(scheduler_.run_until([&] { return manager_->fence().holds(); }, 60s));
  ASSERT_TRUE(is_whole());
  EXPECT_TRUE(unneeded(question(segments())).has_value());
}

TEST_F(FormerFramesTest, QuestionsThatCannotBeAnsweredAreRefused) {
  ASSERT_NO_FATAL_FAILURE(begin(4, 3));
  ASSERT_NO_FATAL_FAILURE(comes_back(a_holder()));
  const auto refused = [&](const wire::GetUnneededRequest& asked) {
    const auto answer = unneeded(asked);
    return answer.has_value() ? Status() : answer.error();
  };
  Status why = refused(question({1}));
  EXPECT_EQ(why.code(), StatusCode::kRetry);
  EXPECT_THAT(why.message(), HasSubstr("the server list here is version"));
  tell_master();
  ASSERT_TRUE(is_whole());
  why = refused({999, list_.term, list_.version, {1}, {}});
  EXPECT_EQ(why.code(), StatusCode::kRetry);
  EXPECT_THAT(why.message(), HasSubstr("server 999 is not UP"));
  why = refused(question(std::vector<uint64_t>(wire::GetUnneededRequest::kMaxIdsAtOnce + 1, 1)));
  EXPECT_EQ(why.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(why.message(), HasSubstr("at most 256"));
}

TEST_F(FormerFramesTest, AMasterOfAFormerVersionIsNotBelievedToNeedNothing) {
  ASSERT_NO_FATAL_FAILURE(begin(4, 3, /*knows=*/false));
  ASSERT_NO_FATAL_FAILURE(comes_back(a_holder()));
  const uint32_t before = kept();
  ask();
  tell_master();
  ASSERT_TRUE(is_whole());
  scheduler_.run_for(60s);
  EXPECT_EQ(kept(), before);
}

}  // namespace
}  // namespace ramcloud::server
