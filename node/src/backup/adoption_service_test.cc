// Which former frames a backup adopts, what it verifies before, and what may come between.
#include "backup/adoption_service.h"

#include <gmock/gmock.h>

#include "backup/testing/recovery_fixture.h"
#include "log/group_reader.h"

namespace ramcloud {
namespace {

using ::testing::HasSubstr;
using Flag = wire::RecoveryReplica::Flag;
constexpr uint64_t kMaster = testing::kServiceMaster;
constexpr uint32_t kClose = wire::ReplicaWriteRequest::kClose;

class AdoptionServiceTest : public testing::RecoveryFixture {
 protected:
  AdoptionServiceTest() { frames_wanted_ = 6; }
  void SetUp() override {
    RecoveryFixture::SetUp();
    for (int i = 0; i < 10; ++i) master_.put("k" + std::to_string(i), 20'000);
    ASSERT_EQ(master_.log.roll_head(), StatusCode::kOk);
    bytes_ = master_.bytes(1);
    size_ = static_cast<uint32_t>(bytes_.size());
  }
  /// Segment 1, closed on this backup.
  void hold(uint32_t epoch = 1) {
    ASSERT_EQ(open_head(1, bytes_), StatusCode::kOk);
    close(epoch);
  }
  void close(uint32_t epoch = 1) {
    ASSERT_EQ(write(1, size_, "", epoch, kMaster, kClose), StatusCode::kOk);
  }
  /// The closed length is in the metadata, too.
  void hold_and_sync(uint32_t epoch = 1) {
    hold(epoch);
    scheduler_.run_for(1s);
  }
  /// Another incarnation, which has told the master of its frames.
  void come_back(bool power_loss = false) {
    restart(power_loss);
    offer();
  }
  void offer() {
    auto task = service_->former_segments_of_up_masters();
    task.resume();
    ASSERT_TRUE(scheduler_.run_until([&] { return task.done(); }, 10s));
  }
  bool offers() const { return service_->adoptions().offers({kMaster, 1}); }
  wire::AdoptRequest request() const {
    return {.master_id = kMaster,
            .segment_id = 1,
            .epoch = 1,
            .length = size_,
            .certificate = log::certificate_of(log::SegmentBytes(bytes_), size_),
            .primary = true,
            .holders = {9, 12},
            .list_version = 1};
  }
  void post_adopt(wire::AdoptRequest request) {
    post(wire::Opcode::kReplicaAdopt, wire::encode(request, wire::kExtensible));
  }
  StatusCode adopt(wire::AdoptRequest request) {
    return send(wire::Opcode::kReplicaAdopt, wire::encode(request, wire::kExtensible));
  }
  StatusCode adopt() { return adopt(request()); }
  wire::Adopted adopted() const {
    wire::Adopted reply;
    EXPECT_TRUE(wire::decode(replies_.bytes, wire::kExtensible, reply));
    return reply;
  }
  bool answered(int before) {
    return scheduler_.run_until([&] { return replies_.count > before; }, 10s);
  }
  /// Refused, the frame stays as it was, and is not offered again.
  void expect_unfit(const char* why, wire::AdoptRequest asked) {
    EXPECT_TRUE(offers());
    EXPECT_EQ(adopt(std::move(asked)), StatusCode::kCorrupt);
    EXPECT_THAT(replies_.bytes, HasSubstr(why));
    EXPECT_TRUE(replies_.nothing_written());
    expect_former();
    offer();
    EXPECT_FALSE(offers());
    EXPECT_EQ(adopt(), StatusCode::kNotFound) << "it is not read again";
    EXPECT_TRUE(replies_.nothing_written());
  }
  /// Segment 1, whose last bytes the next sync does not write.
  void hold_and_fail_a_sync() {
    node_.disk().set_direct(false);
    restart(/*power_loss=*/false);
    ASSERT_EQ(open_head(1, bytes_.substr(0, 1000)), StatusCode::kOk);
    scheduler_.run_for(1s);
    ASSERT_EQ(write(1, 1000, bytes_.substr(1000)), StatusCode::kOk);
    node_.disk().fail_syncs(1);
    close();
  }
  void expect_that_adopted_bytes_survive() {
    ASSERT_EQ(frames_->former()[0].content.state, FrameState::kOpen);
    ASSERT_EQ(adopt(), StatusCode::kOk) << replies_.bytes;
    restart(/*power_loss=*/true);
    ASSERT_EQ(frames_->former()[0].content.state, FrameState::kClosed);
    std::string there(size_, '\0');
    ASSERT_TRUE(frames_->read(0, 0, there.data(), there.size()).ok());
    EXPECT_TRUE(there == bytes_);
  }
  void expect_former() {
    EXPECT_EQ(frames_->frames_quarantined(), 1u);
    EXPECT_FALSE(service_->find(kMaster, 1).has_value());
  }

  testing::SmallLog master_;
  std::string bytes_;
  uint32_t size_ = 0;
};

TEST_F(AdoptionServiceTest, AWholeFrameBecomesAReplica) {
  hold_and_sync();
  come_back();
  ASSERT_TRUE(offers());
  ASSERT_EQ(adopt(), StatusCode::kOk) << replies_.bytes;
  EXPECT_EQ(adopted().length, size_);
  EXPECT_EQ(adopted().epoch, 1u);
  EXPECT_EQ(frames_->frames_quarantined(), 0u);
  EXPECT_EQ(frames_->frames_used(), 1u);
  const auto replica = service_->find(kMaster, 1);
  ASSERT_TRUE(replica.has_value());
  EXPECT_TRUE(replica->closed);
  EXPECT_EQ(replica->bytes, size_);
  EXPECT_EQ(write(1, size_, "", 1, kMaster, kClose), StatusCode::kOk) << "is it still there?";
  EXPECT_EQ(replies_.bytes_held(), size_);
  EXPECT_FALSE(offers());
}

/// Its metadata name the new incarnation, and survive.
TEST_F(AdoptionServiceTest, ItIsDurableWhenItIsAnswered) {
  hold_and_sync();
  come_back();
  ASSERT_EQ(adopt(), StatusCode::kOk);
  restart(/*power_loss=*/true);
  ASSERT_EQ(frames_->former().size(), 1u);
  const FrameContent& content = frames_->former()[0].content;
  EXPECT_EQ(content.backup_id, 9u);
  EXPECT_EQ(content.state, FrameState::kClosed);
  EXPECT_EQ(content.length, size_);
  EXPECT_TRUE(content.has(FrameSlot::kPrimary));
  EXPECT_EQ(content.holders.count, 2u);
  EXPECT_EQ(content.holders.ids[1], 12u);
  offer();
  EXPECT_EQ(adopt(), StatusCode::kOk) << "once more";
}

/// The bytes of the last flush interval may be in the page cache only.
TEST_F(AdoptionServiceTest, ItsBytesAreSyncedBeforeItCounts) {
  ASSERT_EQ(open_head(1, bytes_.substr(0, 1000)), StatusCode::kOk);
  ASSERT_EQ(write(1, 1000, bytes_.substr(1000)), StatusCode::kOk);
  close();
  come_back();
  expect_that_adopted_bytes_survive();
}

/// After a sync that failed, the cache still shows bytes that later syncs do not write.
TEST_F(AdoptionServiceTest, BytesOfAFailedSyncAreWrittenAgain) {
  hold_and_fail_a_sync();
  scheduler_.run_for(1s);
  come_back();
  expect_that_adopted_bytes_survive();
}

/// The sync of the planned stop finds nothing to write, and succeeds.
TEST_F(AdoptionServiceTest, APlannedStopAfterAFailedSyncCallsNothingClosed) {
  hold_and_fail_a_sync();
  scheduler_.run_for(1s);
  std::optional<Status> stopped;
  service_->shut_down([&](const Status& status) { stopped = status; });
  ASSERT_TRUE(scheduler_.run_until([&] { return stopped.has_value(); }, 10s));
  EXPECT_EQ(stopped->code(), StatusCode::kIoError);
  come_back();
  expect_that_adopted_bytes_survive();
}

/// The kernel reports the error to the first sync that ends, whoever asked for it.
TEST_F(AdoptionServiceTest, AnErrorThatAnotherSyncWasToldCallsNothingClosed) {
  hold_and_fail_a_sync();
  EXPECT_EQ(send(wire::Opcode::kSyncReplicas,
                 wire::encode(wire::SyncReplicasRequest{kMaster}, wire::kExtensible)),
            StatusCode::kIoError);
  scheduler_.run_for(1s);
  come_back();
  expect_that_adopted_bytes_survive();
}

TEST_F(AdoptionServiceTest, ADeviceThatCannotWriteThemBackHasFailed) {
  hold_and_fail_a_sync();
  scheduler_.run_for(1s);
  come_back();
  node_.disk().fail_writes(1);
  EXPECT_EQ(adopt(), StatusCode::kIoError);
  EXPECT_TRUE(replies_.nothing_written());
  EXPECT_FALSE(service_->device_status().ok());
}

TEST_F(AdoptionServiceTest, ItServesARecoveryAsTheOnlySource) {
  hold_and_sync();
  come_back();
  ASSERT_EQ(adopt(), StatusCode::kOk);
  const wire::RecoveryQueryReply reply = query();
  ASSERT_EQ(reply.replicas.size(), 1u);
  const wire::RecoveryReplica& told = reply.replicas[0];
  EXPECT_EQ(told.backup_id, 9u);
  EXPECT_EQ(told.length, size_);
  EXPECT_EQ(told.flags & (Flag::kClosed | Flag::kRebooted | Flag::kDamaged), Flag::kClosed);
  EXPECT_EQ(fetch_all(told).entries, 10u);
  EXPECT_EQ(adopt(), StatusCode::kCrashed) << "it is frozen";
}

// ---- what is not adopted

TEST_F(AdoptionServiceTest, AFlippedByteIsFound) {
  for (const uint32_t at : {uint32_t{20}, size_ / 2, size_ - 5}) {
    hold_and_sync();
    std::string byte(1, static_cast<char>(bytes_[at] ^ 0x10));
    const uint32_t frame = service_->find(kMaster, 1)->frame;
    ASSERT_TRUE(frames_->write(frame, at, byte).ok());
    come_back();
    expect_unfit("frame", request());
    auto freed = service_->free_former(kMaster, {1});
    freed.resume();
    ASSERT_TRUE(scheduler_.run_until([&] { return freed.done(); }, 10s));
  }
}

/// It has all bytes, but nobody completed it.
TEST_F(AdoptionServiceTest, AnIncompleteCopyIsNotOffered) {
  ASSERT_EQ(open_head(1, bytes_, wire::ReplicaOpenRequest::kRecreation), StatusCode::kOk);
  come_back();
  EXPECT_FALSE(offers());
  EXPECT_EQ(adopt(), StatusCode::kNotFound);
  EXPECT_TRUE(replies_.nothing_written());
  expect_former();
}

TEST_F(AdoptionServiceTest, AFrameThatWasFencedIsRefused) {
  hold_and_sync();
  come_back();
  wire::AdoptRequest later = request();
  later.epoch = 2;
  expect_unfit("epoch 1 is below", later);
}

TEST_F(AdoptionServiceTest, AFrameOfAHigherEpochIsAdopted) {
  hold_and_sync(3);
  come_back();
  ASSERT_EQ(adopt(), StatusCode::kOk) << replies_.bytes;
  EXPECT_EQ(adopted().epoch, 3u);
}

TEST_F(AdoptionServiceTest, AnOpenFrameIsRefused) {
  ASSERT_EQ(open_head(1, bytes_.substr(0, size_ - 32)), StatusCode::kOk);
  scheduler_.run_for(1s);
  come_back();
  expect_unfit("no footer", request());
}

/// What compaction left of a segment is shorter, so a shorter frame lacks what the master has.
TEST_F(AdoptionServiceTest, TheLengthAndTheCertificateDecide) {
  hold_and_sync();
  come_back();
  wire::AdoptRequest compacted = request();
  compacted.length -= 1000;
  compacted.certificate ^= 1;
  ASSERT_EQ(adopt(compacted), StatusCode::kOk) << replies_.bytes;
  EXPECT_EQ(adopted().length, size_);

  restart(/*power_loss=*/false);
  offer();
  wire::AdoptRequest longer = request();
  longer.length += 8;
  expect_unfit("the segment has", longer);
}

TEST_F(AdoptionServiceTest, AnotherSegmentOfThatLengthIsRefused) {
  hold_and_sync();
  come_back();
  wire::AdoptRequest other = request();
  other.certificate ^= 1;
  expect_unfit("its footer", other);
}

TEST_F(AdoptionServiceTest, AFrameThatWasNotOfferedIsRefused) {
  hold_and_sync();
  restart(/*power_loss=*/false);
  EXPECT_EQ(adopt(), StatusCode::kNotFound);
  EXPECT_TRUE(replies_.nothing_written());
  expect_former();
}

TEST_F(AdoptionServiceTest, AMasterThatCrashedIsRefused) {
  hold_and_sync();
  come_back();
  wire::AdoptRequest crashed = request();
  crashed.master_id = testing::kServiceCrashed;
  EXPECT_EQ(adopt(crashed), StatusCode::kCrashed);
}

// ---- what comes between

/// A recovery counts on what its first query found.
TEST_F(AdoptionServiceTest, AFreezeWhileItIsReadGoesFirst) {
  hold_and_sync();
  come_back();
  const int before = replies_.count;
  post_adopt(request());
  post_query();
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == before + 2; }, 10s));
  EXPECT_THAT(replies_.statuses, ::testing::Contains(StatusCode::kCrashed));
  expect_former();
  const wire::RecoveryQueryReply told = query();
  ASSERT_EQ(told.replicas.size(), 1u);
  EXPECT_EQ(told.replicas[0].backup_id, 5u);
}

TEST_F(AdoptionServiceTest, AFrameThatIsFreedWhileItIsReadIsNotAdopted) {
  hold_and_sync();
  come_back();
  const int before = replies_.count;
  post_adopt(request());
  auto freed = service_->free_former(kMaster, {1});
  freed.resume();
  ASSERT_TRUE(answered(before));
  EXPECT_EQ(replies_.status, StatusCode::kNotFound);
  EXPECT_TRUE(replies_.nothing_written());
  EXPECT_TRUE(freed.done());
  EXPECT_EQ(frames_->frames_free(), 6u);
  EXPECT_FALSE(service_->find(kMaster, 1).has_value());
}

TEST_F(AdoptionServiceTest, AReplicaThatIsNotNeededAnyMoreIsNotAdopted) {
  hold_and_sync();
  come_back();
  const int before = replies_.count;
  post_adopt(request());
  const wire::ReplicaFreeRequest free{kMaster, 1};
  post(wire::Opcode::kReplicaFree, std::string(bytes_of(free)));
  ASSERT_EQ(replies_.count, before + 1) << "the free is answered at once";
  ASSERT_TRUE(answered(before + 1));
  EXPECT_NE(replies_.status, StatusCode::kOk);
  EXPECT_TRUE(replies_.nothing_written());
  expect_former();
  offer();
  EXPECT_EQ(adopt(), StatusCode::kNotFound) << "a request that was sent before the free";
  expect_former();
}

TEST_F(AdoptionServiceTest, ItIsFreedLikeAnyReplica) {
  hold_and_sync();
  come_back();
  ASSERT_EQ(adopt(), StatusCode::kOk);
  const wire::ReplicaFreeRequest free{kMaster, 1};
  ASSERT_EQ(send(wire::Opcode::kReplicaFree, std::string(bytes_of(free))), StatusCode::kOk);
  EXPECT_EQ(frames_->frames_free(), 6u);
}

TEST_F(AdoptionServiceTest, TheSameRequestAgainIsAnsweredAgain) {
  hold_and_sync();
  come_back();
  const int before = replies_.count;
  post_adopt(request());
  post_adopt(request());
  ASSERT_EQ(replies_.count, before + 1);
  EXPECT_EQ(replies_.status, StatusCode::kRetry) << "the first is in progress";
  EXPECT_FALSE(replies_.nothing_written());
  ASSERT_TRUE(answered(before + 1));
  EXPECT_EQ(replies_.status, StatusCode::kOk);
  EXPECT_EQ(adopt(), StatusCode::kOk);
  EXPECT_EQ(adopted().length, size_);
  EXPECT_EQ(service_->adoptions().adopted(), 1u);
  EXPECT_EQ(frames_->frames_used(), 1u);
}

TEST_F(AdoptionServiceTest, OfTwoFramesAWholeOneIsAdopted) {
  ASSERT_EQ(open_head(1, bytes_.substr(0, 1000)), StatusCode::kOk);
  scheduler_.run_for(1s);
  restart(/*power_loss=*/false);
  hold_and_sync();
  come_back();
  ASSERT_EQ(frames_->frames_quarantined(), 2u);
  ASSERT_EQ(adopt(), StatusCode::kOk) << replies_.bytes;
  EXPECT_EQ(frames_->frames_quarantined(), 1u);
  EXPECT_EQ(service_->find(kMaster, 1)->frame, 1u);
  offer();
  auto freed = service_->free_former(kMaster, {1});
  freed.resume();
  ASSERT_TRUE(scheduler_.run_until([&] { return freed.done(); }, 10s));
  EXPECT_EQ(freed.take(), 1u);
  EXPECT_TRUE(service_->find(kMaster, 1).has_value()) << "the adopted one is no former frame";
}

TEST_F(AdoptionServiceTest, OneFrameIsReadAtATimeAndFewRequestsWait) {
  hold_and_sync();
  come_back();
  for (size_t i = 0; i <= AdoptionService::kMaxRequests; ++i) {
    wire::AdoptRequest one = request();
    one.segment_id = 1 + i;
    post_adopt(one);
  }
  EXPECT_EQ(replies_.status, StatusCode::kRetry);
  EXPECT_TRUE(replies_.nothing_written());
  ASSERT_TRUE(scheduler_.run_until([&] { return service_->find(kMaster, 1).has_value(); }, 10s));
}

TEST_F(AdoptionServiceTest, AMalformedRequestIsRefused) {
  EXPECT_EQ(send(wire::Opcode::kReplicaAdopt, "x"), StatusCode::kInvalidArgument);
  wire::AdoptRequest many = request();
  many.holders.resize(wire::kMaxHolders + 1);
  EXPECT_EQ(adopt(many), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ramcloud
