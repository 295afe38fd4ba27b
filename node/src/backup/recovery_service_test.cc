// A backup's answer about a dead master's replicas, and the freeze.
#include "backup/recovery_service.h"

#include <gmock/gmock.h>

#include <set>

#include "backup/testing/recovery_fixture.h"
#include "log/found_replica.h"

namespace ramcloud {
namespace {

using Flag = wire::RecoveryReplica::Flag;
using testing::SmallLog;
constexpr uint64_t kMaster = testing::kServiceMaster;

class RecoveryServiceTest : public testing::RecoveryFixture {
 protected:
  /// The next answers, so many times.
  std::vector<StatusCode> next_answers(int n) {
    std::vector<StatusCode> answers;
    for (int seen = replies_.count; n > 0; --n) {
      EXPECT_TRUE(scheduler_.run_until([&] { return replies_.count > seen; }, 10s));
      EXPECT_EQ(replies_.count, ++seen) << "two at once";
      answers.push_back(replies_.status);
    }
    return answers;
  }
  wire::RecoveryReplica only(const wire::RecoveryQueryReply& reply) {
    EXPECT_EQ(reply.replicas.size(), 1u);
    return reply.replicas.empty() ? wire::RecoveryReplica{} : reply.replicas[0];
  }
};

TEST_F(RecoveryServiceTest, SaysWhatIsHere) {
  SmallLog master;
  const std::string header = master.bytes(1);
  master.put("a", 100);
  master.put("b", 5'000);
  const std::string all = master.bytes(1);
  ASSERT_EQ(open_head(1, header), StatusCode::kOk);
  ASSERT_EQ(write(1, static_cast<uint32_t>(header.size()), all.substr(header.size())),
            StatusCode::kOk);
  const wire::RecoveryQueryReply reply = query();
  EXPECT_EQ(reply.next_frame, 0u);
  const wire::RecoveryReplica told = only(reply);
  EXPECT_EQ(told.segment_id, 1u);
  EXPECT_EQ(told.frame, 0u);
  EXPECT_EQ(told.backup_id, 5u);
  EXPECT_EQ(told.epoch, 1u);
  EXPECT_EQ(told.length, all.size());
  EXPECT_EQ(told.header_length, header.size());
  EXPECT_EQ(told.flags,
            Flag::kCleanEnd | Flag::kPowerSafe | Flag::kScanned | Flag::kIsHead | Flag::kHasData);
  EXPECT_EQ(told.safe_version, 3u) << "above the two that were assigned";
  EXPECT_EQ(told.holders, (std::vector<uint64_t>{5, 8}));
  const auto found = log::found_replica(told);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->digest, std::vector<uint64_t>{1});
  const log::LogEnd end = log::decide_log_end({.fence = {},
                                               .replicas = {*found},
                                               .heard = {5},
                                               .expected = {},
                                               .asked = {},
                                               .accepted = {}});
  EXPECT_EQ(end.outcome, log::LogEnd::Outcome::kComplete);
  EXPECT_EQ(end.segments.at(0).length, all.size());
}

TEST_F(RecoveryServiceTest, FromTheFirstQueryOnNothingIsTaken) {
  ASSERT_EQ(open_head(1, "head"), StatusCode::kOk);
  (void)query();
  constexpr uint32_t kClose = wire::ReplicaWriteRequest::kClose;
  EXPECT_EQ(write(1, 4, "x"), StatusCode::kCrashed) << "though the list says that it is UP";
  EXPECT_EQ(write(1, 4, "", 7), StatusCode::kCrashed) << "a higher epoch";
  EXPECT_EQ(write(1, 4, "", 1, kMaster, kClose), StatusCode::kCrashed);
  EXPECT_EQ(open(1, "head", 2, kMaster, 1, kCapacity), StatusCode::kCrashed);
  EXPECT_EQ(open(2, "next"), StatusCode::kCrashed);
  const wire::ReplicaFreeRequest free{.master_id = kMaster, .segment_id = 1};
  EXPECT_EQ(send(wire::Opcode::kReplicaFree, std::string(bytes_of(free))), StatusCode::kCrashed);
  // A list that comes later does not change that.
  wire::ServerList list{1, 2, std::vector<wire::ServerListEntry>(1)};
  list.servers[0].server_id = kMaster;
  ASSERT_TRUE(servers_.apply(list).ok());
  EXPECT_EQ(write(1, 4, "x"), StatusCode::kCrashed);
  const auto replica = service_->find(kMaster, 1);
  ASSERT_TRUE(replica.has_value());
  EXPECT_EQ(replica->bytes, 4u);
  EXPECT_EQ(replica->epoch, 1u);
  EXPECT_FALSE(replica->closed);
  EXPECT_EQ(frames_->frames_free(), 1u);
}

TEST_F(RecoveryServiceTest, ADeposedLeaderFreezesNothing) {
  ASSERT_TRUE(servers_.check_term(5).ok());
  ASSERT_EQ(open_head(1, "head"), StatusCode::kOk);
  post_query(4);
  EXPECT_EQ(replies_.status, StatusCode::kStaleTerm);
  EXPECT_EQ(write(1, 4, "x"), StatusCode::kOk);
}

/// An open whose frame is being prepared is not there when the answer leaves, and never will be.
TEST_F(RecoveryServiceTest, AnOpenThatWasBegunIsRefusedAfterTheFreeze) {
  post_open(1, "head");
  post_query();
  EXPECT_THAT(next_answers(2),
              ::testing::UnorderedElementsAre(StatusCode::kCrashed, StatusCode::kOk));
  EXPECT_TRUE(query().replicas.empty());
  EXPECT_EQ(service_->replicas(), 0u);
  EXPECT_EQ(frames_->frames_free(), 2u);
}

TEST_F(RecoveryServiceTest, ACopyIsNotMadeVisibleAfterTheFreeze) {
  ASSERT_EQ(open_head(1, "head", wire::ReplicaOpenRequest::kRecreation), StatusCode::kOk);
  const wire::ReplicaWriteRequest last{.master_id = kMaster,
                                       .segment_id = 1,
                                       .epoch = 1,
                                       .offset = 4,
                                       .length = 1,
                                       .flags = wire::ReplicaWriteRequest::kWriteComplete};
  post(wire::Opcode::kReplicaWrite, std::string(bytes_of(last)) + "x");
  post_query();
  EXPECT_THAT(next_answers(2),
              ::testing::UnorderedElementsAre(StatusCode::kCrashed, StatusCode::kOk));
  EXPECT_NE(only(query()).flags & Flag::kIncomplete, 0u);
}

TEST_F(RecoveryServiceTest, FormerFramesAreFound) {
  SmallLog master;
  master.put("a", 100);
  ASSERT_EQ(open_head(1, master.bytes(1)), StatusCode::kOk);
  restart(/*power_loss=*/false);
  wire::RecoveryQueryReply reply = query();
  EXPECT_EQ(reply.former_server_id, 5u);
  wire::RecoveryReplica told = only(reply);
  EXPECT_EQ(told.backup_id, 5u);
  EXPECT_EQ(told.length, master.bytes(1).size());
  EXPECT_EQ(told.holders, (std::vector<uint64_t>{5, 8}));
  EXPECT_NE(told.flags & Flag::kPowerSafe, 0u);
  EXPECT_EQ(told.flags & Flag::kRebooted, 0u);
  EXPECT_EQ(fetch_all(told).entries, 1u);
  EXPECT_EQ(open(1, "head"), StatusCode::kCrashed) << "nor is one made beside it";

  restart(/*power_loss=*/true);
  told = only(query());
  EXPECT_EQ(told.flags & Flag::kPowerSafe, 0u);
  EXPECT_NE(told.flags & Flag::kRebooted, 0u);
  EXPECT_EQ(told.length, master.bytes(1).size()) << "an open is on the device";
}

TEST_F(RecoveryServiceTest, AfterACleanShutdownNoPowerCutTookAnything) {
  SmallLog master;
  ASSERT_EQ(open_head(1, master.bytes(1)), StatusCode::kOk);
  std::optional<Status> down;
  service_->shut_down([&](Status status) { down = std::move(status); });
  ASSERT_TRUE(scheduler_.run_until([&] { return down.has_value(); }, 10s));
  post_query();
  EXPECT_EQ(replies_.status, StatusCode::kRetry);
  restart(/*power_loss=*/true);
  const wire::RecoveryReplica told = only(query());
  EXPECT_NE(told.flags & Flag::kPowerSafe, 0u);
  EXPECT_NE(told.flags & Flag::kRebooted, 0u);
  // But the bytes that it held then must be there.
  poke(master.bytes(1).size() - 8, "?");
  EXPECT_NE(only(query()).flags & Flag::kCorrupt, 0u);
}

TEST_F(RecoveryServiceTest, AFrameWithADamagedSlotIsReportedAsSuch) {
  SmallLog master;
  ASSERT_EQ(open_head(1, master.bytes(1)), StatusCode::kOk);
  ASSERT_EQ(write(1, static_cast<uint32_t>(master.bytes(1).size()), "", 2), StatusCode::kOk);
  for (const bool both : {false, true}) {
    service_.reset();
    frames_.reset();
    {
      auto file = std::move(*node_.disk().open("/d/frames", 0));
      const uint64_t second = frame_metadata_offset(0) + kFrameSlotStride;
      ASSERT_TRUE(file->write(second + 100, "damage").ok());
      if (both) ASSERT_TRUE(file->write(frame_metadata_offset(0) + 100, "damage").ok());
    }
    restart(/*power_loss=*/false);
    const wire::RecoveryReplica told = only(query());
    EXPECT_NE(told.flags & Flag::kDamaged, 0u);
    EXPECT_EQ(told.segment_id, 1u) << "by the other slot, or by the segment itself";
    EXPECT_EQ(told.length, master.bytes(1).size());
  }
}

TEST_F(RecoveryServiceTest, PagesGoOnWhereTheLastOneEnded) {
  SmallLog master;
  ASSERT_EQ(open_head(1, master.bytes(1)), StatusCode::kOk);
  ASSERT_EQ(open_head(2, "next"), StatusCode::kOk);
  EXPECT_EQ(query().replicas.size(), 2u);
  const wire::RecoveryReplica told = only(query(1));
  EXPECT_EQ(told.segment_id, 2u);
  EXPECT_EQ(told.length, 0u) << "no segment";
  EXPECT_TRUE(query(2).replicas.empty());
}

TEST_F(RecoveryServiceTest, ClosedReplicasAreReadOnlyIfThatIsAsked) {
  SmallLog master;
  master.put("a", 100);
  ASSERT_EQ(master.log.roll_head(), StatusCode::kOk);
  const std::string bytes = master.bytes(1);
  ASSERT_EQ(open_head(1, bytes.substr(0, 8)), StatusCode::kOk);
  ASSERT_EQ(write(1, 8, bytes.substr(8), 1, kMaster, wire::ReplicaWriteRequest::kClose),
            StatusCode::kOk);
  wire::RecoveryReplica told = only(query());
  EXPECT_EQ(told.flags, Flag::kClosed | Flag::kCleanEnd | Flag::kPowerSafe);
  EXPECT_EQ(told.length, bytes.size());
  EXPECT_EQ(told.durable_up_to, bytes.size());
  told = only(query(0, /*scan_from=*/1));
  EXPECT_NE(told.flags & Flag::kScanned, 0u);
  EXPECT_NE(told.flags & Flag::kFooter, 0u);
  EXPECT_EQ(told.safe_version, 2u);
  poke(bytes.size() / 2, "?");
  told = only(query(0, /*scan_from=*/1));
  EXPECT_NE(told.flags & Flag::kCorrupt, 0u);
  EXPECT_NE(told.flags & Flag::kClosed, 0u);
}

class ManyReplicasTest : public RecoveryServiceTest {
 protected:
  static constexpr uint64_t kReplicas = 20;
  ManyReplicasTest() { frames_wanted_ = kReplicas + 8; }
};

/// The coordinator does not wait for ever, and asks for the whole page again.
TEST_F(ManyReplicasTest, APageIsOverWhenMuchWasRead) {
  constexpr uint64_t kAtOnce = RecoveryService::kMaxScannedBytes / kCapacity;
  static_assert(kAtOnce >= 2 && 2 * kAtOnce < kReplicas);
  SmallLog master;
  for (uint64_t segment = 1; segment <= kReplicas; ++segment) {
    ASSERT_EQ(open_head(segment, master.bytes(1)), StatusCode::kOk);
    const auto bytes_held = static_cast<uint32_t>(master.bytes(1).size());
    ASSERT_EQ(write(segment, bytes_held, "", 1, kMaster, wire::ReplicaWriteRequest::kClose),
              StatusCode::kOk);
  }
  const wire::RecoveryQueryReply unread = query();
  EXPECT_EQ(unread.replicas.size(), kReplicas) << "their metadata are enough";
  EXPECT_EQ(unread.next_frame, 0u);
  std::vector<size_t> pages;
  std::set<uint64_t> seen;
  for (uint32_t from = 0; pages.empty() || from != 0;) {
    const wire::RecoveryQueryReply page = query(from, /*scan_from=*/0);
    pages.push_back(page.replicas.size());
    for (const wire::RecoveryReplica& replica : page.replicas) {
      EXPECT_NE(replica.flags & Flag::kScanned, 0u);
      EXPECT_TRUE(seen.insert(replica.segment_id).second) << replica.segment_id;
    }
    ASSERT_TRUE(page.next_frame == 0 || page.next_frame > from);
    from = page.next_frame;
  }
  EXPECT_EQ(pages, (std::vector<size_t>{kAtOnce, kAtOnce, kReplicas - 2 * kAtOnce}));
}

TEST_F(RecoveryServiceTest, AReplicaThatCannotBeReadIsReportedAsDamaged) {
  ASSERT_EQ(open_head(1, "head"), StatusCode::kOk);
  node_.disk().fail_reads(1);
  EXPECT_NE(only(query()).flags & Flag::kDamaged, 0u);
  EXPECT_EQ(only(query()).flags & Flag::kDamaged, 0u) << "the next time it could be";
}

class SyncedRecoveryServiceTest : public RecoveryServiceTest {
 protected:
  SyncedRecoveryServiceTest() { options_.synced = true; }
};

/// A write that was taken will be acknowledged: it is in the answer, and on the device.
TEST_F(SyncedRecoveryServiceTest, WhatWasTakenBeforeIsInTheAnswer) {
  SmallLog master;
  const std::string header = master.bytes(1);
  master.put("a", 10'000);
  const std::string all = master.bytes(1);
  ASSERT_EQ(open_head(1, header), StatusCode::kOk);
  post_write(1, static_cast<uint32_t>(header.size()), all.substr(header.size()));
  const int before = replies_.count;
  post_query();
  EXPECT_EQ(replies_.count, before) << "neither is answered yet";
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == before + 2; }, 10s));
  EXPECT_THAT(replies_.all_held, ::testing::Contains(all.size()));
  EXPECT_EQ(only(answer()).length, all.size());
  restart(/*power_loss=*/true);
  const wire::RecoveryReplica told = only(query());
  EXPECT_EQ(told.length, all.size());
  EXPECT_NE(told.flags & Flag::kPowerSafe, 0u);
  EXPECT_NE(told.flags & Flag::kSynced, 0u);
}

}  // namespace
}  // namespace ramcloud
