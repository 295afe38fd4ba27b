// A backup's answer about a dead master's replicas, the freeze, and reads of the replicas.
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
  StatusCode read(uint32_t offset, uint32_t end, uint32_t max_bytes = wire::kMaxRecoveryReadBytes,
                  uint64_t segment = 1, uint32_t frame = 0) {
    return send(wire::Opcode::kRecoveryRead, read_request(offset, end, max_bytes, segment, frame));
  }
  static std::string read_request(uint32_t offset, uint32_t end, uint32_t max_bytes,
                                  uint64_t segment = 1, uint32_t frame = 0) {
    const wire::RecoveryReadRequest request{.master_id = kMaster,
                                            .segment_id = segment,
                                            .frame = frame,
                                            .offset = offset,
                                            .end = end,
                                            .max_bytes = max_bytes,
                                            .flags = 0,
                                            .reserved = 0};
    return std::string(bytes_of(request));
  }
  std::string bytes_read() const {
    const auto head = load<wire::RecoveryReadReply>(replies_.bytes.data());
    EXPECT_EQ(replies_.bytes.size(), sizeof head + head.bytes);
    return replies_.bytes.substr(sizeof head);
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
  ASSERT_EQ(read(0, told.length), StatusCode::kOk);
  EXPECT_EQ(bytes_read(), master.bytes(1));
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

// ---- reads

class RecoveryReadTest : public RecoveryServiceTest {
 protected:
  void SetUp() override {
    RecoveryServiceTest::SetUp();
    for (int i = 0; i < 40; ++i) master_.put("k" + std::to_string(i), 30'000);
    all_ = master_.bytes(1);
    ASSERT_EQ(open_head(1, all_.substr(0, 4096)), StatusCode::kOk);
    ASSERT_EQ(write(1, 4096, all_.substr(4096)), StatusCode::kOk);
    end_ = static_cast<uint32_t>(all_.size());
  }
  SmallLog master_;
  std::string all_;
  uint32_t end_ = 0;
};

TEST_F(RecoveryReadTest, GivesWholeGroupsUntilAllIsRead) {
  (void)query();
  std::string bytes;
  int reads = 0;
  while (bytes.size() < all_.size()) {
    ASSERT_EQ(read(static_cast<uint32_t>(bytes.size()), end_, 100'000), StatusCode::kOk);
    ASSERT_FALSE(bytes_read().empty());
    bytes += bytes_read();
    ++reads;
  }
  EXPECT_TRUE(bytes == all_);
  EXPECT_GE(reads, 12);
  ASSERT_EQ(read(0, end_), StatusCode::kOk);
  EXPECT_TRUE(bytes_read() == all_) << "at once";
  EXPECT_EQ(service_->recovery().read_bytes_in_flight(), 0u);
}

TEST_F(RecoveryReadTest, OnlyAfterAQueryAndOnlyWhatIsThere) {
  EXPECT_EQ(read(0, end_), StatusCode::kNotFound) << "its master may still write";
  (void)query();
  EXPECT_EQ(read(0, end_, 100'000, /*segment=*/2), StatusCode::kNotFound);
  EXPECT_EQ(read(0, end_, 100'000, 1, /*frame=*/1), StatusCode::kNotFound);
  EXPECT_EQ(read(4, end_), StatusCode::kInvalidArgument) << "where no group can begin";
  EXPECT_EQ(read(end_, end_), StatusCode::kInvalidArgument);
  EXPECT_EQ(read(0, kCapacity + 8), StatusCode::kInvalidArgument);
  EXPECT_EQ(read(0, end_, 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(send(wire::Opcode::kRecoveryRead, read_request(0, end_, 100) + "x"),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(send(wire::Opcode::kRecoveryRead, "short"), StatusCode::kInvalidArgument);
  EXPECT_EQ(service_->recovery().read_bytes_in_flight(), 0u);
}

TEST_F(RecoveryReadTest, AGroupLargerThanTheReadIsNoDamage) {
  (void)query();
  ASSERT_EQ(read(0, end_, 100'000), StatusCode::kOk);
  EXPECT_EQ(read(static_cast<uint32_t>(bytes_read().size()), end_, 1'000),
            StatusCode::kInvalidArgument);
}

TEST_F(RecoveryReadTest, BytesThatDoNotHoldAreNeverGiven) {
  (void)query();
  poke(all_.size() / 2, "?");
  ASSERT_EQ(read(0, end_), StatusCode::kOk) << "up to the damage";
  const std::string before = bytes_read();
  EXPECT_LT(before.size(), all_.size() / 2);
  EXPECT_TRUE(all_.starts_with(before));
  const auto bad = static_cast<uint32_t>(before.size());
  EXPECT_EQ(read(bad, end_), StatusCode::kCorrupt);
  wire::MessageHeader header{};
  header.status = static_cast<uint16_t>(StatusCode::kCorrupt);
  EXPECT_THAT(decode_reply(header, replies_.bytes).status.message(),
              ::testing::HasSubstr("segment 1 of master 7 in frame 0 of /d/frames, offset " +
                                   std::to_string(bad)));
}

/// The recovery decided that the log ends there: a group that crosses that end is not read.
TEST_F(RecoveryReadTest, AGroupThatIsCutOffByTheEndIsDamage) {
  (void)query();
  ASSERT_EQ(read(0, end_, 100'000), StatusCode::kOk);
  const auto whole = static_cast<uint32_t>(bytes_read().size());
  EXPECT_EQ(read(whole, whole + 1'000), StatusCode::kCorrupt);
}

TEST_F(RecoveryReadTest, BytesInFlightAreBounded) {
  (void)query();
  const int before = replies_.count;
  for (int i = 0; i < 3; ++i) {
    post(wire::Opcode::kRecoveryRead, read_request(0, kCapacity, wire::kMaxRecoveryReadBytes));
  }
  EXPECT_EQ(replies_.count, before + 1) << "the others wait for the device";
  EXPECT_EQ(replies_.status, StatusCode::kRetry);
  EXPECT_LE(service_->recovery().read_bytes_in_flight(), RecoveryService::kMaxReadBytesInFlight);
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == before + 3; }, 10s));
  EXPECT_EQ(replies_.status, StatusCode::kOk);
  EXPECT_EQ(service_->recovery().read_bytes_in_flight(), 0u);
}

TEST_F(RecoveryReadTest, ADeviceErrorIsToldAsSuch) {
  (void)query();
  node_.disk().fail_with({StatusCode::kIoError, "bad sector"});
  EXPECT_EQ(read(0, end_), StatusCode::kIoError);
}

}  // namespace
}  // namespace ramcloud
