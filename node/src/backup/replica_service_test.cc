// What a backup refuses, and what of its replicas a power cut leaves.
#include "backup/replica_service.h"

#include <gtest/gtest.h>

#include "backup/replica_reader.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/testing/only_replies.h"

namespace ramcloud {
namespace {

constexpr wire::Uuid kCluster{1, 2, 3};
constexpr uint64_t kMaster = 7;
constexpr uint64_t kCrashed = 8;

class Replies final : public ramcloud::testing::OnlyReplies {
 public:
  void reply(const ReplyHandle&, StatusCode code, std::span<const Slice> body) override {
    ++count;
    status = code;
    bytes.clear();
    for (const Slice& slice : body) {
      bytes.append(static_cast<const char*>(slice.data), slice.size);
    }
  }
  uint32_t held() const {
    return bytes.size() == sizeof(wire::ReplicaReply) ? load<wire::ReplicaReply>(bytes.data()).held
                                                      : ~uint32_t{0};
  }
  int count = 0;
  StatusCode status = StatusCode::kOk;
  std::string bytes;
};

class ReplicaServiceTest : public ::testing::Test {
 protected:
  explicit ReplicaServiceTest(uint64_t seed = 3) : scheduler_(seed) {}
  void SetUp() override {
    auto frames = FrameStore::open(node_.disk(), "/d", 2 * log::kSegmentBytes);
    ASSERT_TRUE(frames.has_value());
    frames_ = std::move(*frames);
    ASSERT_TRUE(frames_->adopt(kCluster, 5, 1, 1).ok());
    wire::ServerList list{1, 1, std::vector<wire::ServerListEntry>(2)};
    list.servers[0].server_id = kMaster;
    list.servers[1].server_id = kCrashed;
    list.servers[1].state = wire::ServerState::kCrashed;
    ASSERT_TRUE(servers_.apply(list).ok());
    service_ =
        std::make_unique<ReplicaService>(node_.reactor(), registry_, *frames_, servers_, options_);
  }
  void post(wire::Opcode opcode, const std::string& body) {
    wire::MessageHeader header{};
    header.opcode = static_cast<uint16_t>(opcode);
    registry_.on_request({}, header, body);
  }
  void post_write(uint64_t segment, uint32_t offset, const std::string& bytes) {
    const wire::ReplicaWriteRequest request{.master_id = kMaster,
                                            .segment_id = segment,
                                            .epoch = 1,
                                            .offset = offset,
                                            .length = static_cast<uint32_t>(bytes.size()),
                                            .flags = 0};
    post(wire::Opcode::kReplicaWrite, std::string(bytes_of(request)) + bytes);
  }
  StatusCode send(wire::Opcode opcode, const std::string& body) {
    const int before = replies_.count;
    post(opcode, body);
    EXPECT_TRUE(scheduler_.run_until([&] { return replies_.count > before; }, 10s));
    return replies_.status;
  }
  StatusCode open(uint64_t segment, const std::string& bytes, uint32_t epoch = 1,
                  uint64_t master = kMaster, uint64_t list_version = 1, uint32_t capacity = 4096,
                  uint32_t flags = 0) {
    const wire::ReplicaOpenRequest request{.master_id = master,
                                           .segment_id = segment,
                                           .epoch = epoch,
                                           .flags = flags,
                                           .capacity = capacity,
                                           .length = static_cast<uint32_t>(bytes.size()),
                                           .list_version = list_version};
    return send(wire::Opcode::kReplicaOpen, std::string(bytes_of(request)) + bytes);
  }
  StatusCode write(uint64_t segment, uint32_t offset, const std::string& bytes, uint32_t epoch = 1,
                   uint64_t master = kMaster, uint32_t flags = 0) {
    const wire::ReplicaWriteRequest request{.master_id = master,
                                            .segment_id = segment,
                                            .epoch = epoch,
                                            .offset = offset,
                                            .length = static_cast<uint32_t>(bytes.size()),
                                            .flags = flags};
    return send(wire::Opcode::kReplicaWrite, std::string(bytes_of(request)) + bytes);
  }
  ReplicaService::Options options_;
  SimScheduler scheduler_;
  SimNode& node_ = scheduler_.add_node("b");
  Replies replies_;
  ServiceRegistry registry_{replies_};
  ServerList servers_;
  std::unique_ptr<FrameStore> frames_;
  std::unique_ptr<ReplicaService> service_;
};

class SyncedReplicaServiceTest : public ReplicaServiceTest {
 protected:
  SyncedReplicaServiceTest() { options_.synced = true; }
};

TEST_F(ReplicaServiceTest, WritesAreTakenInOrderAndResendingIsHarmless) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  EXPECT_EQ(replies_.held(), 4u);
  EXPECT_EQ(write(1, 5, "x"), StatusCode::kInvalidArgument) << "a gap";
  EXPECT_EQ(write(1, 4, "more"), StatusCode::kOk);
  EXPECT_EQ(replies_.held(), 8u);
  EXPECT_EQ(write(1, 2, "admor"), StatusCode::kOk) << "known bytes";
  EXPECT_EQ(replies_.held(), 8u);
  EXPECT_EQ(write(1, 6, "re+"), StatusCode::kOk) << "known bytes and a new one";
  EXPECT_EQ(replies_.held(), 9u);
  EXPECT_EQ(write(2, 0, "x"), StatusCode::kNotFound) << "never opened";
  EXPECT_EQ(open(1, "head"), StatusCode::kOk) << "the same open again";
  EXPECT_EQ(replies_.held(), 9u);
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

/// One power cut, of a disk that loses by chance what was not synced.
class PowerCut : public ReplicaServiceTest {
 public:
  explicit PowerCut(uint64_t seed) : ReplicaServiceTest(seed) { SetUp(); }
  void TestBody() override {}
  /// The epoch that is left of one that was acknowledged as 5.
  uint32_t epoch_left() {
    EXPECT_EQ(open(1, "0123", 1), StatusCode::kOk);
    EXPECT_EQ(write(1, 4, "", 5), StatusCode::kOk);
    EXPECT_EQ(replies_.held(), 4u);
    node_.disk().power_loss();
    std::string image = node_.disk().contents("/d/frames");
    image.resize(frame_metadata_offset(1));
    uint32_t epoch = 0;
    EXPECT_TRUE(
        dump_image(image, [&](const ReplicaDump& replica) { epoch = replica.epoch; }).has_value());
    return epoch;
  }
};

TEST(ReplicaServicePowerCut, AnAcknowledgedEpochSurvives) {
  for (uint64_t seed = 1; seed <= 20; ++seed) EXPECT_EQ(PowerCut(seed).epoch_left(), 5u) << seed;
}

TEST_F(SyncedReplicaServiceTest, SyncedWritesShareSyncsAndSurviveAPowerCut) {
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
  EXPECT_EQ(replies_.held(), expected.size());
  node_.disk().power_loss();
  EXPECT_EQ(node_.disk().contents("/d/frames").substr(frame_data_offset(0), expected.size()),
            expected);
}

TEST_F(SyncedReplicaServiceTest, ASyncThatFailsIsNoAcknowledgement) {
  ASSERT_EQ(open(1, "0123"), StatusCode::kOk);
  const int before = replies_.count;
  post_write(1, 4, "4567");
  post_write(1, 8, "89ab");
  node_.disk().fail_with({StatusCode::kIoError, "bad sector"});
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == before + 2; }, 10s));
  EXPECT_EQ(replies_.status, StatusCode::kIoError);
  EXPECT_EQ(service_->device(), ReplicaService::Device::kFailed);
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

TEST_F(ReplicaServiceTest, AnOpenWaitsForItsFrameAndIsNotDoneTwice) {
  node_.disk().set_sync_time(1s);
  const auto post_open = [&](uint64_t segment) {
    const wire::ReplicaOpenRequest request{.master_id = kMaster,
                                           .segment_id = segment,
                                           .epoch = 1,
                                           .flags = 0,
                                           .capacity = 4096,
                                           .length = 4,
                                           .list_version = 1};
    post(wire::Opcode::kReplicaOpen, std::string(bytes_of(request)) + "head");
  };
  post_open(1);
  EXPECT_EQ(replies_.count, 0) << "the reactor goes on meanwhile";
  post_open(1);
  EXPECT_EQ(replies_.count, 1);
  EXPECT_EQ(replies_.status, StatusCode::kRetry) << "its frame is on the way already";
  EXPECT_EQ(frames_->frames_free(), 1u);
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == 2; }, 10s));
  EXPECT_EQ(replies_.status, StatusCode::kOk);
  EXPECT_EQ(replies_.held(), 4u);
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

TEST_F(ReplicaServiceTest, AFailedDeviceRefusesEverything) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  node_.disk().fail_with({StatusCode::kIoError, "bad sector"});
  EXPECT_EQ(write(1, 4, "x"), StatusCode::kIoError);
  node_.disk().fail_with({});
  EXPECT_EQ(write(1, 4, "x"), StatusCode::kIoError) << "what was lost meanwhile is not known";
  EXPECT_FALSE(service_->device_status().ok());
}

TEST_F(ReplicaServiceTest, WhatAnOpenAnsweredSurvivesAPowerCut) {
  ASSERT_EQ(open(1, "the header's bytes"), StatusCode::kOk);
  ASSERT_EQ(write(1, 18, std::string(2000, 'u')), StatusCode::kOk);  // not synced yet
  scheduler_.power_off(node_);
  service_.reset();
  frames_.reset();
  scheduler_.restart(node_);
  auto file = node_.disk().open("/d/frames", 0);
  ASSERT_TRUE(file.has_value());
  std::string image((*file)->size(), '\0');
  ASSERT_TRUE((*file)->read(0, image.data(), image.size()).ok());
  EXPECT_EQ(image.substr(frame_data_offset(0), 18), "the header's bytes");
  FrameSlot slot;
  ASSERT_EQ(parse_slot(ByteView(image).substr(frame_metadata_offset(0), kSlotBytes), slot),
            SlotVerdict::kValid);
  EXPECT_EQ(slot.state, FrameState::kOpen);
  EXPECT_EQ(slot.master_id, kMaster);
  EXPECT_EQ(slot.segment_id, 1u);
}

}  // namespace
}  // namespace ramcloud
