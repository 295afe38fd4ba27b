// The requests that a backup refuses, and its replicas after a power cut.
#include "backup/replica_service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "backup/replica_reader.h"
#include "backup/testing/service_fixture.h"
#include "base/testing/sanitizer.h"

namespace ramcloud {
namespace {

constexpr uint64_t kMaster = testing::kServiceMaster;
constexpr uint64_t kCrashed = testing::kServiceCrashed;
using testing::ReplicaServiceTest;
using testing::Replies;

/// Past the cache (true), and through it.
class SyncedReplicaServiceTest : public ReplicaServiceTest,
                                 public ::testing::WithParamInterface<bool> {
 protected:
  SyncedReplicaServiceTest() {
    options_.synced = true;
    node_.disk().set_direct(GetParam());
  }
  std::string bytes_on_disk(uint32_t frame, size_t size) {
    std::string image = node_.disk().contents("/d/frames");
    image.resize(frame_metadata_offset(2));
    return image.substr(frame_data_offset(frame), size);
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, SyncedReplicaServiceTest, ::testing::Bool(), [](const auto& about) {
  return std::string(about.param ? "direct" : "cached");
});

TEST_F(ReplicaServiceTest, WritesAreTakenInOrderAndResendingIsHarmless) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  EXPECT_EQ(replies_.bytes_held(), 4u);
  EXPECT_EQ(write(1, 5, "x"), StatusCode::kInvalidArgument) << "a gap";
  EXPECT_EQ(write(1, 4, "more"), StatusCode::kOk);
  EXPECT_EQ(replies_.bytes_held(), 8u);
  EXPECT_EQ(write(1, 2, "admor"), StatusCode::kOk) << "known bytes";
  EXPECT_EQ(replies_.bytes_held(), 8u);
  EXPECT_EQ(write(1, 6, "re+"), StatusCode::kOk) << "known bytes and a new one";
  EXPECT_EQ(replies_.bytes_held(), 9u);
  EXPECT_EQ(write(2, 0, "x"), StatusCode::kNotFound) << "never opened";
  EXPECT_EQ(open(1, "head"), StatusCode::kOk) << "the same open again";
  EXPECT_EQ(replies_.bytes_held(), 9u);
  EXPECT_EQ(frames_->frames_used(), 1u);
}

TEST_F(ReplicaServiceTest, CapacityIsABound) {
  EXPECT_EQ(open(1, "", 1, kMaster, 1, 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(open(1, "", 1, kMaster, 1, log::kSegmentBytes + 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(open(1, "toolong", 1, kMaster, 1, 4), StatusCode::kInvalidArgument);
  EXPECT_EQ(frames_->frames_used(), 0u) << "a refused open holds no frame";
  ASSERT_EQ(open(1, "head", 1, kMaster, 1, 8), StatusCode::kOk);
  EXPECT_EQ(open(1, "head", 1, kMaster, 1, 16), StatusCode::kInvalidArgument) << "another capacity";
  EXPECT_EQ(write(1, 4, "12345"), StatusCode::kInvalidArgument);
  EXPECT_EQ(write(1, 4, "1234"), StatusCode::kOk);
  EXPECT_EQ(write(1, 0xffff'ffff, "1"), StatusCode::kInvalidArgument);
}

TEST_F(ReplicaServiceTest, OnlyLiveMastersAreServed) {
  EXPECT_EQ(open(1, "x", 1, kCrashed), StatusCode::kCrashed);
  EXPECT_EQ(open(1, "x", 1, 99), StatusCode::kCrashed) << "in no list up to this one";
  EXPECT_EQ(open(1, "x", 1, 99, 2), StatusCode::kRetry) << "perhaps in a list still to come";
  ASSERT_EQ(open(1, "x"), StatusCode::kOk);
  EXPECT_EQ(write(1, 1, "y", 1, kCrashed), StatusCode::kCrashed);
  wire::ServerList list{1, 2, std::vector<wire::ServerListEntry>(1)};
  list.servers[0].server_id = kMaster;
  list.servers[0].state = wire::ServerState::kCrashed;
  ASSERT_TRUE(servers_.apply(list).ok());
  EXPECT_EQ(write(1, 1, "y"), StatusCode::kCrashed) << "it is a zombie now";
  const wire::ReplicaFreeRequest free{kMaster, 1};
  EXPECT_EQ(send(wire::Opcode::kReplicaFree, std::string(bytes_of(free))), StatusCode::kCrashed);
  EXPECT_EQ(frames_->frames_used(), 1u);
}

TEST_F(ReplicaServiceTest, LowerEpochsAreOver) {
  ASSERT_EQ(open(1, "head", 3), StatusCode::kOk);
  EXPECT_EQ(write(1, 4, "x", 2), StatusCode::kStaleTerm);
  EXPECT_EQ(open(1, "head", 2), StatusCode::kStaleTerm);
  EXPECT_EQ(write(1, 4, "x", 4), StatusCode::kOk);
  EXPECT_EQ(write(1, 5, "x", 3), StatusCode::kStaleTerm);
}

TEST_F(ReplicaServiceTest, ARecreationIsNoReplicaBeforeItIsComplete) {
  using Write = wire::ReplicaWriteRequest;
  const auto dumped = [&] {
    std::string image = node_.disk().contents("/d/frames");
    image.resize(frame_metadata_offset(1));
    std::string text;
    EXPECT_TRUE(dump_image(image, [&](const ReplicaDump& replica) {
                  text += std::string(frame_state_name(replica.state)) +
                          (replica.complete() ? " complete " : " incomplete ");
                }).has_value());
    return text;
  };
  ASSERT_EQ(open(1, "0123", 1, kMaster, 1, 4096, wire::ReplicaOpenRequest::kRecreation),
            StatusCode::kOk);
  EXPECT_EQ(dumped(), "open incomplete ");
  ASSERT_EQ(write(1, 4, "4567"), StatusCode::kOk);
  EXPECT_EQ(dumped(), "open incomplete ");
  EXPECT_EQ(write(1, 8, "89", 1, kMaster, Write::kClose), StatusCode::kInvalidArgument);
  // Complete, but the segment is still written to.
  ASSERT_EQ(write(1, 8, "89", 1, kMaster, Write::kWriteComplete), StatusCode::kOk);
  EXPECT_EQ(dumped(), "open complete ");
  ASSERT_EQ(write(1, 8, "89", 1, kMaster, Write::kWriteComplete), StatusCode::kOk)
      << "the answer may have been lost";
  ASSERT_EQ(write(1, 10, "ab", 1, kMaster, Write::kClose), StatusCode::kOk);
  EXPECT_TRUE(scheduler_.run_until([&] { return dumped() == "closed complete "; }, 10s));
}

/// How acknowledged bytes get to the device before the power cut, if at all.
enum class Way : uint8_t { kBuffered, kCached, kDirect };

/// One power cut, of a disk that loses a random part of the unsynced bytes.
class PowerCut : public ReplicaServiceTest {
 public:
  explicit PowerCut(uint64_t seed, Way way = Way::kBuffered) : ReplicaServiceTest(seed) {
    options_.synced = way != Way::kBuffered;
    node_.disk().set_direct(way == Way::kDirect);
    SetUp();
  }
  void TestBody() override {}
  /// The offline tools' report of the first frame after a replica was filled and closed, and the
  /// power was cut `after` the close was acknowledged; `content`: the acknowledged bytes.
  ReplicaDump closed_left(Duration after, std::string& content) {
    content = "0123";
    EXPECT_EQ(open(1, content, 1, kMaster, 1, 100'000), StatusCode::kOk);
    for (int i = 0; i < 3; ++i) {
      const std::string more(20'000, static_cast<char>('a' + i));
      const uint32_t flags = i == 2 ? wire::ReplicaWriteRequest::kClose : 0;
      EXPECT_EQ(write(1, static_cast<uint32_t>(content.size()), more, 1, kMaster, flags),
                StatusCode::kOk);
      content += more;
    }
    scheduler_.run_for(after);
    return cut();
  }
  std::string bytes_left(size_t size) const { return image_.substr(frame_data_offset(0), size); }
  /// The first frame after a power cut that follows the acknowledgement of an open.
  ReplicaDump opened_left(const std::string& bytes) {
    EXPECT_EQ(open(1, bytes), StatusCode::kOk);
    return cut();
  }
  /// The epoch after a power cut, when 5 was acknowledged; `sent` times, as by a master that gets
  /// no answer in time.
  uint32_t epoch_left(int sent = 1) {
    EXPECT_EQ(open(1, "0123", 1), StatusCode::kOk);
    const int before = replies_.count;
    for (int i = 0; i < sent; ++i) post_write(1, 4, "", 5);
    EXPECT_TRUE(scheduler_.run_until([&] { return replies_.count > before; }, 10s));
    EXPECT_EQ(replies_.bytes_held(), 4u);
    node_.disk().power_loss();
    std::string image = node_.disk().contents("/d/frames");
    image.resize(frame_metadata_offset(1));
    uint32_t epoch = 0;
    EXPECT_TRUE(
        dump_image(image, [&](const ReplicaDump& replica) { epoch = replica.epoch; }).has_value());
    return epoch;
  }

 private:
  ReplicaDump cut() {
    node_.disk().power_loss();
    image_ = node_.disk().contents("/d/frames");
    image_.resize(frame_metadata_offset(2));
    ReplicaDump found;
    EXPECT_TRUE(dump_image(image_, [&](const ReplicaDump& replica) {
                  if (replica.frame == 0) found = replica;
                }).has_value());
    return found;
  }
  std::string image_;
};

TEST(ReplicaServicePowerCut, AnAcknowledgedOpenSurvives) {
  const std::string header(1500, 'h');
  for (const Way way : {Way::kBuffered, Way::kCached, Way::kDirect}) {
    for (uint64_t seed = 1; seed <= testing::seeds(20); ++seed) {
      PowerCut cut(seed, way);
      const ReplicaDump left = cut.opened_left(header);
      SCOPED_TRACE(std::to_string(seed) + ", " + std::to_string(static_cast<int>(way)));
      ASSERT_TRUE(left.metadata_valid);
      EXPECT_EQ(left.state, FrameState::kOpen);
      EXPECT_EQ(left.identity.master_id, kMaster);
      EXPECT_EQ(left.identity.segment_id, 1u);
      EXPECT_EQ(cut.bytes_left(header.size()), header);
    }
  }
}

TEST(ReplicaServicePowerCut, AnAcknowledgedEpochSurvives) {
  for (const Way way : {Way::kBuffered, Way::kCached, Way::kDirect}) {
    for (uint64_t seed = 1; seed <= testing::seeds(20); ++seed) {
      EXPECT_EQ(PowerCut(seed, way).epoch_left(), 5u) << seed << ", " << static_cast<int>(way);
    }
  }
}

TEST(ReplicaServicePowerCut, AnEpochIsNotAcknowledgedEarlierBecauseItCameTwice) {
  for (const Way way : {Way::kBuffered, Way::kCached, Way::kDirect}) {
    for (uint64_t seed = 1; seed <= testing::seeds(20); ++seed) {
      EXPECT_EQ(PowerCut(seed, way).epoch_left(2), 5u) << seed << ", " << static_cast<int>(way);
    }
  }
}

TEST(ReplicaServicePowerCut, AClosedReplicasLengthIsThereOnlyWithItsBytes) {
  int closed = 0, open = 0;
  for (const Way way : {Way::kBuffered, Way::kCached, Way::kDirect}) {
    for (uint64_t seed = 1; seed <= 30; seed += testing::kSanitized ? 4 : 1) {
      PowerCut cut(seed, way);
      std::string content;
      const ReplicaDump left = cut.closed_left(seed * 400us, content);
      SCOPED_TRACE(std::to_string(seed) + ", " + std::to_string(static_cast<int>(way)));
      ASSERT_TRUE(left.metadata_valid);
      const bool is_closed = left.state == FrameState::kClosed;
      ++(is_closed ? closed : open);
      if (is_closed || way != Way::kBuffered) EXPECT_EQ(cut.bytes_left(content.size()), content);
    }
  }
  EXPECT_GT(closed, 0);
  EXPECT_GT(open, 0);
}

TEST_P(SyncedReplicaServiceTest, SyncedWritesShareSyncsAndSurviveAPowerCut) {
  ASSERT_EQ(open(1, "0123"), StatusCode::kOk);
  const uint64_t syncs = service_->counters().syncs;
  const int before = replies_.count;
  std::string expected = "0123";
  for (int i = 0; i < 20; ++i) {
    post_write(1, static_cast<uint32_t>(expected.size()), "abcd");
    expected += "abcd";
    EXPECT_EQ(replies_.count, before) << "acknowledged before any sync";
  }
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == before + 20; }, 10s));
  EXPECT_EQ(service_->counters().syncs - syncs, 2u) << "the first one's, and one for all others";
  EXPECT_EQ(replies_.bytes_held(), expected.size());
  node_.disk().power_loss();
  EXPECT_EQ(node_.disk().contents("/d/frames").substr(frame_data_offset(0), expected.size()),
            expected);
}

TEST_P(SyncedReplicaServiceTest, ASyncThatFailsIsNoAcknowledgement) {
  ASSERT_EQ(open(1, "0123"), StatusCode::kOk);
  const int before = replies_.count;
  post_write(1, 4, "4567");
  post_write(1, 8, "89ab");
  node_.disk().fail_with({StatusCode::kIoError, "bad sector"});
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == before + 2; }, 10s));
  EXPECT_EQ(replies_.status, StatusCode::kIoError);
  EXPECT_EQ(service_->device(), wire::BackupDevice::kFailed);
}

TEST_P(SyncedReplicaServiceTest, AWriteThatIsAcknowledgedWaitsForAllBeforeIt) {
  ASSERT_EQ(open(1, "0123"), StatusCode::kOk);
  ASSERT_EQ(open(2, "4567"), StatusCode::kOk);
  std::string a = "0123", b = "4567";
  for (int i = 0; i < 50; ++i) {
    const std::string more(static_cast<size_t>(i) * 37 % 200, static_cast<char>('a' + i % 26));
    post_write(1, static_cast<uint32_t>(a.size()), more);
    a += more;
    ASSERT_EQ(write(2, static_cast<uint32_t>(b.size()), more + "+"), StatusCode::kOk);
    b += more + "+";
    if (a.size() > 3500 || b.size() > 3500) break;
  }
  node_.disk().power_loss();
  EXPECT_EQ(bytes_on_disk(0, a.size()), a);
  EXPECT_EQ(bytes_on_disk(1, b.size()), b);
}

TEST_P(SyncedReplicaServiceTest, AnAnswerCountsOnlyWhatItsSyncCovers) {
  ASSERT_EQ(open(1, "0123"), StatusCode::kOk);
  replies_.all_held.clear();
  post_open(1, "0123");  // resent
  post_write(1, 4, "4567");
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.all_held.size() == 2; }, 10s));
  EXPECT_EQ(std::ranges::count(replies_.all_held, 4u), 1);
  EXPECT_EQ(std::ranges::count(replies_.all_held, 8u), 1);
}

TEST_P(SyncedReplicaServiceTest, ACompletedCopyAndAClosedReplicaSurviveAPowerCut) {
  using Write = wire::ReplicaWriteRequest;
  ASSERT_EQ(open(1, "0123", 1, kMaster, 1, 4096, wire::ReplicaOpenRequest::kRecreation),
            StatusCode::kOk);
  ASSERT_EQ(write(1, 4, "4567"), StatusCode::kOk);
  ASSERT_EQ(write(1, 8, "89", 1, kMaster, Write::kWriteComplete | Write::kClose), StatusCode::kOk);
  node_.disk().power_loss();
  EXPECT_EQ(bytes_on_disk(0, 11), std::string("0123456789\0", 11));
  std::string image = node_.disk().contents("/d/frames");
  image.resize(frame_metadata_offset(1));
  std::string said;
  EXPECT_TRUE(dump_image(image, [&](const ReplicaDump& replica) {
                said = std::string(frame_state_name(replica.state)) +
                       (replica.complete() ? " complete" : " incomplete");
              }).has_value());
  EXPECT_EQ(said, "closed complete");
}

TEST_P(SyncedReplicaServiceTest, AFreedReplicasFrameIsCleanForTheNext) {
  for (uint64_t segment = 1; segment <= 12; ++segment) {
    ASSERT_EQ(open(segment, "head"), StatusCode::kOk) << segment;
    EXPECT_EQ(bytes_on_disk(0, 6), std::string("head\0\0", 6));
    post_write(segment, 4, std::string(3000, 'x'));  // on its way when its replica is freed
    const wire::ReplicaFreeRequest free{.master_id = kMaster, .segment_id = segment};
    ASSERT_EQ(send(wire::Opcode::kReplicaFree, std::string(bytes_of(free))), StatusCode::kOk);
    ASSERT_TRUE(scheduler_.run_until([&] { return frames_->frames_free() == 2; }, 10s));
    // The answer to the write that was in flight.
    scheduler_.run_for(100ms);
  }
  EXPECT_TRUE(service_->device_status().ok());
}

TEST_P(SyncedReplicaServiceTest, AClosedReplicasLengthIsSyncedThoughNobodyWaits) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  ASSERT_EQ(write(1, 4, "end", 1, kMaster, wire::ReplicaWriteRequest::kClose), StatusCode::kOk);
  scheduler_.run_for(1s);
  node_.disk().power_loss();
  std::string image = node_.disk().contents("/d/frames");
  FrameSlot slot{}, other{};
  (void)parse_slot(ByteView(image).substr(frame_metadata_offset(0), kSlotBytes), slot);
  (void)parse_slot(ByteView(image).substr(frame_metadata_offset(0) + kFrameSlotStride, kSlotBytes),
                   other);
  if (other.sequence > slot.sequence) slot = other;
  EXPECT_EQ(slot.state, FrameState::kClosed);
  EXPECT_EQ(slot.length, 7u);
}

TEST_P(SyncedReplicaServiceTest, AShutDownWritesWhatIsHeldAndHowMuchItIs) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  post_write(1, 4, "tail");
  std::optional<Status> done;
  service_->shut_down([&](Status status) { done = std::move(status); });
  ASSERT_TRUE(scheduler_.run_until([&] { return done.has_value(); }, 10s));
  ASSERT_TRUE(done->ok());
  node_.disk().power_loss();
  EXPECT_EQ(bytes_on_disk(0, 8), "headtail");
  std::string image = node_.disk().contents("/d/frames");
  FrameSlot slot{};
  ASSERT_EQ(
      parse_slot(ByteView(image).substr(frame_metadata_offset(0) + kFrameSlotStride, kSlotBytes),
                 slot),
      SlotVerdict::kValid);
  EXPECT_EQ(slot.length, 8u);
}

class DirectReplicaServiceTest : public ReplicaServiceTest {
 protected:
  DirectReplicaServiceTest() { options_.synced = true; }
};

TEST_F(DirectReplicaServiceTest, WithoutBuffersMastersComeAgainAndNothingIsHalfDone) {
  constexpr uint32_t kAll = log::kSegmentBytes;
  ASSERT_EQ(open(1, "0123", 1, kMaster, 1, kAll), StatusCode::kOk);
  ASSERT_EQ(open(2, "4567", 1, kMaster, 1, kAll), StatusCode::kOk);
  const std::string little(100, 'l'), much(kAll - 104, 'm');
  const int before = replies_.count;
  post_write(1, 4, little);
  post_write(2, 4, little);
  post_write(1, 104, much);
  EXPECT_EQ(replies_.count, before);
  EXPECT_EQ(write(2, 104, much, 2), StatusCode::kRetry);
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == before + 4; }, 10s));
  ASSERT_EQ(write(2, 104, much, 2), StatusCode::kOk);
  node_.disk().power_loss();
  std::string image = node_.disk().contents("/d/frames");
  image.resize(frame_metadata_offset(2));
  EXPECT_TRUE(image.substr(frame_data_offset(1), kAll) == "4567" + little + much);
  EXPECT_TRUE(dump_image(image, [&](const ReplicaDump& replica) {
                if (replica.frame == 1) EXPECT_EQ(replica.epoch, 2u);
              }).has_value());
  EXPECT_TRUE(service_->device_status().ok());
}

TEST_F(ReplicaServiceTest, MalformedRequestsAndFullVolumesAreRefused) {
  for (const auto opcode :
       {wire::Opcode::kReplicaOpen, wire::Opcode::kReplicaWrite, wire::Opcode::kReplicaFree}) {
    EXPECT_EQ(send(opcode, ""), StatusCode::kInvalidArgument);
    EXPECT_EQ(send(opcode, "short"), StatusCode::kInvalidArgument);
  }
  wire::ReplicaOpenRequest lying{};
  lying.master_id = kMaster;
  lying.capacity = 4096;
  lying.length = 100;
  EXPECT_EQ(send(wire::Opcode::kReplicaOpen, std::string(bytes_of(lying)) + "few"),
            StatusCode::kInvalidArgument);
  ASSERT_EQ(open(1, "a"), StatusCode::kOk);
  ASSERT_EQ(open(2, "b"), StatusCode::kOk);
  EXPECT_EQ(open(3, "c"), StatusCode::kNoSpace);
}

/// The disk has no space for another frame. One that is freed has its space.
TEST_F(ReplicaServiceTest, ADeviceIsFullUntilAFrameIsFree) {
  ASSERT_EQ(open(1, "a"), StatusCode::kOk);
  node_.disk().set_full(true);
  EXPECT_EQ(service_->device(), wire::BackupDevice::kGood);
  EXPECT_EQ(open(2, "b"), StatusCode::kNoSpace);
  EXPECT_EQ(service_->device(), wire::BackupDevice::kFull);
  const wire::ReplicaFreeRequest free{kMaster, 1};
  ASSERT_EQ(send(wire::Opcode::kReplicaFree, std::string(bytes_of(free))), StatusCode::kOk);
  EXPECT_EQ(service_->device(), wire::BackupDevice::kGood);
}

/// For the master, every other failure means that the replica may be here.
TEST_F(ReplicaServiceTest, ARefusedOpenSaysThatNothingWasWritten) {
  EXPECT_EQ(open(1, "a", 1, kCrashed), StatusCode::kCrashed);
  EXPECT_TRUE(replies_.nothing_written());
  EXPECT_EQ(open(1, "a", 1, kMaster + 5, 9), StatusCode::kRetry) << "it has no such list yet";
  EXPECT_TRUE(replies_.nothing_written());
  EXPECT_EQ(open(1, "a", 1, kMaster, 1, 0), StatusCode::kInvalidArgument);
  EXPECT_TRUE(replies_.nothing_written());
  node_.disk().set_full(true);
  EXPECT_EQ(open(1, "a"), StatusCode::kNoSpace) << "the file system is full";
  EXPECT_TRUE(replies_.nothing_written());
  node_.disk().set_full(false);
  ASSERT_EQ(open(1, "a"), StatusCode::kOk);
  ASSERT_EQ(open(2, "b"), StatusCode::kOk);
  EXPECT_EQ(open(3, "c"), StatusCode::kNoSpace) << "all frames are taken";
  EXPECT_TRUE(replies_.nothing_written());
  // If an open was answered or is in progress, the replica may be here.
  EXPECT_EQ(open(1, "a", 0), StatusCode::kStaleTerm);
  EXPECT_FALSE(replies_.nothing_written());
  EXPECT_EQ(open(1, "a", 1, kMaster, 1, 0), StatusCode::kInvalidArgument);
  EXPECT_FALSE(replies_.nothing_written());
}

TEST_F(ReplicaServiceTest, AnOpenThatComesTwiceIsNotRefusedAsUnwritten) {
  post_open(1, "head");
  post_open(1, "head");
  ASSERT_EQ(replies_.count, 1);
  EXPECT_EQ(replies_.status, StatusCode::kRetry);
  EXPECT_FALSE(replies_.nothing_written());
}

TEST_F(ReplicaServiceTest, AnOpenThatFailsAtItsSyncMayHaveBeenWritten) {
  post_open(1, "head");
  ASSERT_TRUE(scheduler_.run_until([&] { return service_->replicas() == 1; }, 10s));
  ASSERT_EQ(replies_.count, 0);
  node_.disk().fail_with({StatusCode::kIoError, "bad sector"});
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == 1; }, 10s));
  EXPECT_EQ(replies_.status, StatusCode::kIoError);
  EXPECT_FALSE(replies_.nothing_written());
  EXPECT_EQ(open(2, "head"), StatusCode::kIoError) << "the device failed before this one came";
  EXPECT_TRUE(replies_.nothing_written());
}

TEST_F(ReplicaServiceTest, AnOpenWaitsForItsFrameAndIsNotDoneTwice) {
  node_.disk().set_sync_time(1s);
  post_open(1, "head");
  EXPECT_EQ(replies_.count, 0) << "the reactor goes on meanwhile";
  post_open(1, "head");
  EXPECT_EQ(replies_.count, 1);
  EXPECT_EQ(replies_.status, StatusCode::kRetry) << "its frame is on the way already";
  EXPECT_EQ(frames_->frames_free(), 1u);
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == 2; }, 10s));
  EXPECT_EQ(replies_.status, StatusCode::kOk);
  EXPECT_EQ(replies_.bytes_held(), 4u);
}

TEST_F(ReplicaServiceTest, AFrameThatIsNotWantedAnyMoreGoesBack) {
  const wire::ReplicaOpenRequest request{.master_id = kMaster,
                                         .segment_id = 1,
                                         .epoch = 1,
                                         .flags = 0,
                                         .capacity = 4096,
                                         .length = 0,
                                         .list_version = 1};
  post(wire::Opcode::kReplicaOpen, std::string(bytes_of(request)));
  const wire::ReplicaFreeRequest free{.master_id = kMaster, .segment_id = 1};
  post(wire::Opcode::kReplicaFree, std::string(bytes_of(free)));
  EXPECT_EQ(replies_.status, StatusCode::kOk);
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == 2; }, 10s));
  EXPECT_EQ(replies_.status, StatusCode::kNotFound);
  EXPECT_EQ(frames_->frames_free(), 2u);
  // The same when its master has crashed meanwhile.
  post(wire::Opcode::kReplicaOpen, std::string(bytes_of(request)));
  wire::ServerList list{1, 2, std::vector<wire::ServerListEntry>(1)};
  list.servers[0].server_id = kMaster;
  list.servers[0].state = wire::ServerState::kCrashed;
  ASSERT_TRUE(servers_.apply(list).ok());
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == 3; }, 10s));
  EXPECT_EQ(replies_.status, StatusCode::kCrashed);
  EXPECT_EQ(frames_->frames_free(), 2u);
}

TEST_F(ReplicaServiceTest, ClosedReplicasTakeNoMore) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  constexpr uint32_t kClose = wire::ReplicaWriteRequest::kClose;
  ASSERT_EQ(write(1, 4, "end", 1, kMaster, kClose), StatusCode::kOk);
  EXPECT_EQ(write(1, 7, "x"), StatusCode::kInvalidArgument);
  EXPECT_EQ(write(1, 4, "end", 1, kMaster, kClose), StatusCode::kOk) << "resent";
}

/// A file system that copies on write may have no space for metadata that has its place.
TEST_F(ReplicaServiceTest, NoSpaceForMetadataIsNoFailedDevice) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  node_.disk().fail_with({StatusCode::kNoSpace, "no space left on device"});
  EXPECT_EQ(write(1, 4, "", 5), StatusCode::kNoSpace);
  EXPECT_TRUE(service_->device_status().ok()) << service_->device_status().to_string();
  EXPECT_EQ(write(1, 4, "", 5), StatusCode::kNoSpace) << "the epoch is not on the device yet";
  node_.disk().fail_with({});
  EXPECT_EQ(write(1, 4, "", 5), StatusCode::kOk);
  node_.disk().power_loss();
  std::string image = node_.disk().contents("/d/frames");
  image.resize(frame_metadata_offset(2));
  uint32_t epoch = 0;
  ASSERT_TRUE(
      dump_image(image, [&](const ReplicaDump& replica) { epoch = replica.epoch; }).has_value());
  EXPECT_EQ(epoch, 5u);
}

TEST_F(ReplicaServiceTest, AFailedDeviceRefusesEverything) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  node_.disk().fail_with({StatusCode::kIoError, "bad sector"});
  EXPECT_EQ(write(1, 4, "x"), StatusCode::kIoError);
  node_.disk().fail_with({});
  EXPECT_EQ(write(1, 4, "x"), StatusCode::kIoError) << "what was lost meanwhile is not known";
  EXPECT_FALSE(service_->device_status().ok());
}

}  // namespace
}  // namespace ramcloud
