// The backup's work that reactors other than the first do, and the work that they must forward.
#include "backup/backup_lane.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "backup/replica_service.h"
#include "base/logging.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/testing/only_replies.h"
#include "wire/codec.h"

namespace ramcloud {
namespace {

constexpr uint64_t kMaster = 7;
constexpr uint64_t kOther = 8;

class Replies final : public ramcloud::testing::OnlyReplies {
 public:
  void reply(const ReplyHandle&, StatusCode code, std::span<const Slice> body) override {
    ++count;
    status = code;
    std::string bytes;
    for (const Slice& slice : body) bytes.append(static_cast<const char*>(slice.data), slice.size);
    bytes_held = bytes.size() == sizeof(wire::ReplicaReply)
                     ? load<wire::ReplicaReply>(bytes.data()).bytes_held
                     : ~uint32_t{0};
  }
  int count = 0;
  StatusCode status = StatusCode::kOk;
  uint32_t bytes_held = 0;
};

/// Two reactors: requests come to the second, which forwards those that only the first may handle.
class BackupLaneTest : public ::testing::TestWithParam<bool> {
 protected:
  BackupLaneTest() {
    set_log_level(LogLevel::kError);
    options_.synced = GetParam();
    frames_ = std::move(*FrameStore::open(first_.disk(), "/d", 4 * log::kSegmentBytes));
    EXPECT_TRUE(frames_->adopt({1, 2, 3}, 5, 1, 1).ok());
    tell(wire::ServerState::kUp);
    service_ =
        std::make_unique<ReplicaService>(first_.reactor(), registry_, *frames_, servers_, options_);
    auto& lane = service_->add_lane(second_.reactor(), replies_there_, writes_);
    lane.serve(there_, &BackupLaneTest::pass_on, this);
  }
  ~BackupLaneTest() override { set_log_level(LogLevel::kInfo); }

  /// The list with the master in this state.
  void tell(wire::ServerState state) {
    wire::ServerList list{1, ++version_, std::vector<wire::ServerListEntry>(2)};
    list.servers[0].server_id = kMaster;
    list.servers[0].state = state;
    list.servers[1].server_id = kOther;
    for (auto& server : list.servers) server.locator = "sim:host=m,port=1";
    ASSERT_TRUE(servers_.apply(list).ok());
  }
  static void pass_on(void* object, const Request& request) {
    auto& self = *static_cast<BackupLaneTest*>(object);
    ++self.passed_on_;
    self.registry_.on_request(request.reply, request.header, request.body);
  }
  StatusCode open(uint64_t segment, uint32_t epoch = 1) {
    const wire::ReplicaOpenRequest request{.master_id = kMaster,
                                           .segment_id = segment,
                                           .epoch = epoch,
                                           .flags = 0,
                                           .capacity = 4096,
                                           .length = 4,
                                           .list_version = 1};
    wire::MessageHeader header{};
    header.opcode = static_cast<uint16_t>(wire::Opcode::kReplicaOpen);
    const int before = replies_.count;
    registry_.on_request({}, header, std::string(bytes_of(request)) + "head");
    EXPECT_TRUE(scheduler_.run_until([&] { return replies_.count > before; }, 10s));
    return replies_.status;
  }
  /// Sends to the second reactor; no reactor turns meanwhile.
  void post(uint64_t segment, uint32_t offset, const std::string& bytes, uint32_t epoch = 1,
            uint32_t flags = 0, uint64_t master = kMaster) {
    const wire::ReplicaWriteRequest request{.master_id = master,
                                            .segment_id = segment,
                                            .epoch = epoch,
                                            .offset = offset,
                                            .length = static_cast<uint32_t>(bytes.size()),
                                            .flags = flags};
    wire::MessageHeader header{};
    header.opcode = static_cast<uint16_t>(wire::Opcode::kReplicaWrite);
    there_.on_request({}, header, std::string(bytes_of(request)) + bytes);
  }
  /// Taken and answered by the second reactor alone.
  bool is_taken(uint64_t segment, uint32_t offset, const std::string& bytes, uint32_t epoch = 1) {
    const int before = replies_there_.count;
    const int passed_on = passed_on_;
    post(segment, offset, bytes, epoch);
    if (passed_on_ != passed_on) return false;
    EXPECT_TRUE(scheduler_.run_until([&] { return replies_there_.count > before; }, 10s));
    EXPECT_EQ(replies_there_.status, StatusCode::kOk);
    EXPECT_EQ(replies_there_.bytes_held, offset + bytes.size());
    return true;
  }
  /// Checks that it is forwarded, and answered with this status by the first.
  StatusCode passed_on(uint64_t segment, uint32_t offset, const std::string& bytes,
                       uint32_t epoch = 1, uint32_t flags = 0, uint64_t master = kMaster) {
    const int before = replies_.count;
    const int passed = passed_on_;
    post(segment, offset, bytes, epoch, flags, master);
    EXPECT_EQ(passed_on_, passed + 1);
    EXPECT_TRUE(scheduler_.run_until([&] { return replies_.count > before; }, 10s));
    return replies_.status;
  }
  uint32_t bytes_held(uint64_t segment) const { return service_->find(kMaster, segment)->bytes; }

  SimScheduler scheduler_{5};
  SimNode& first_ = scheduler_.add_node("b");
  SimNode& second_ = scheduler_.add_node("b-1");
  ReplicaService::Options options_;
  Replies replies_, replies_there_;
  ServiceRegistry registry_{replies_}, there_{replies_there_};
  Counter writes_;
  ServerList servers_;
  uint64_t version_ = 0;
  int passed_on_ = 0;
  std::unique_ptr<FrameStore> frames_;
  std::unique_ptr<ReplicaService> service_;
};
INSTANTIATE_TEST_SUITE_P(Durability, BackupLaneTest, ::testing::Bool(), [](const auto& about) {
  return std::string(about.param ? "synced" : "buffered");
});

TEST_P(BackupLaneTest, WritesAreServedWhereTheyCome) {
  ASSERT_EQ(open(1), StatusCode::kOk);
  EXPECT_TRUE(is_taken(1, 4, "more"));
  EXPECT_TRUE(is_taken(1, 8, "and more"));
  EXPECT_EQ(writes_.value(), 2u);
  EXPECT_EQ(service_->counters().writes, 0u) << "the first reactor had no part in it";
  EXPECT_EQ(bytes_held(1), 16u);
  // Whichever reactor it comes to, the next one goes on there.
  EXPECT_EQ(passed_on(1, 16, "last", 1, wire::ReplicaWriteRequest::kClose), StatusCode::kOk);
  EXPECT_TRUE(service_->find(kMaster, 1)->closed);
  char bytes[20];
  scheduler_.run_for(1s);
  ASSERT_TRUE(frames_->read(service_->find(kMaster, 1)->frame, 0, bytes, sizeof bytes).ok());
  EXPECT_EQ(std::string(bytes, sizeof bytes), "headmoreand morelast");
}

/// Appended without a turn of any reactor in between; answered only when it is as durable as
/// required.
TEST_P(BackupLaneTest, ASyncedWriteIsAnsweredAfterItsSync) {
  ASSERT_EQ(open(1), StatusCode::kOk);
  post(1, 4, "more");
  EXPECT_EQ(bytes_held(1), 8u);
  EXPECT_EQ(replies_there_.count, GetParam() ? 0 : 1);
  const uint64_t syncs = service_->counters().syncs;
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_there_.count == 1; }, 10s));
  EXPECT_EQ(replies_there_.bytes_held, 8u);
  if (GetParam()) EXPECT_GT(service_->counters().syncs, syncs);
  // Writes that wait together share one sync.
  const uint64_t before = service_->counters().syncs;
  for (uint32_t i = 0; i < 10; ++i) post(1, 8 + 4 * i, "more");
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_there_.count == 11; }, 10s));
  if (GetParam()) EXPECT_LE(service_->counters().syncs, before + 2);
}

TEST_P(BackupLaneTest, WhatIsTakenIsSyncedSoon) {
  ASSERT_EQ(open(1), StatusCode::kOk);
  scheduler_.run_for(1s);
  ASSERT_TRUE(is_taken(1, 4, "more"));
  const uint64_t syncs = service_->counters().syncs;
  if (!GetParam()) {
    ASSERT_TRUE(scheduler_.run_until([&] { return service_->counters().syncs > syncs; }, 20ms));
  }
  // And again, after a sync without other writes.
  scheduler_.run_for(1s);
  ASSERT_TRUE(is_taken(1, 8, "more"));
  scheduler_.run_for(1s);
  EXPECT_GT(service_->counters().syncs, syncs);
}

TEST_P(BackupLaneTest, ACondemnedMasterIsRefusedFromTheListOn) {
  ASSERT_EQ(open(1), StatusCode::kOk);
  ASSERT_TRUE(is_taken(1, 4, "more"));
  tell(wire::ServerState::kCrashed);
  // Nothing turned since.
  EXPECT_EQ(passed_on(1, 8, "of a zombie"), StatusCode::kCrashed);
  EXPECT_EQ(bytes_held(1), 8u);
}

/// From the moment when the first reactor has the query, before it is answered.
TEST_P(BackupLaneTest, AFrozenMasterIsFrozenForAll) {
  ASSERT_EQ(open(1), StatusCode::kOk);
  ASSERT_TRUE(is_taken(1, 4, "more"));
  const wire::RecoveryQueryRequest query{.term = 1, .master_id = kMaster};
  wire::MessageHeader header{};
  header.opcode = static_cast<uint16_t>(wire::Opcode::kRecoveryQuery);
  ReplyHandle handle;
  handle.version = wire::kExtensible;
  registry_.on_request(handle, header, wire::encode(query, wire::kExtensible));
  EXPECT_FALSE(is_taken(1, 8, "x"));
  tell(wire::ServerState::kUp);
  EXPECT_FALSE(is_taken(1, 8, "x")) << "whatever lists say";
  EXPECT_EQ(passed_on(1, 8, "x"), StatusCode::kCrashed);
  EXPECT_EQ(bytes_held(1), 8u);
}

TEST_P(BackupLaneTest, AnEpochThatIsOverIsOverForAll) {
  ASSERT_EQ(open(1), StatusCode::kOk);
  ASSERT_TRUE(is_taken(1, 4, "more"));
  ASSERT_EQ(passed_on(1, 8, "", 2), StatusCode::kOk) << "raising it is the first one's";
  EXPECT_EQ(passed_on(1, 8, "late", 1), StatusCode::kStaleTerm);
  EXPECT_EQ(bytes_held(1), 8u);
  EXPECT_TRUE(is_taken(1, 8, "more", 2));
}

TEST_P(BackupLaneTest, NothingIsAnsweredBeforeARaisedEpochIsOnTheDevice) {
  ASSERT_EQ(open(1), StatusCode::kOk);
  scheduler_.run_for(1s);
  const int before = replies_.count;
  post(1, 4, "", 2);
  ASSERT_EQ(replies_.count, before) << "it is being synced";
  const int passed = passed_on_;
  post(1, 4, "more", 2);
  EXPECT_EQ(passed_on_, passed + 1);
  EXPECT_EQ(replies_.count + replies_there_.count, before);
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == before + 2; }, 10s));
  EXPECT_TRUE(is_taken(1, 8, "more", 2));
}

TEST_P(BackupLaneTest, WhatIsNotPlainIsPassedOn) {
  EXPECT_EQ(passed_on(1, 0, "early"), StatusCode::kNotFound);
  ASSERT_EQ(open(1), StatusCode::kOk);
  EXPECT_EQ(passed_on(1, 5, "gap"), StatusCode::kInvalidArgument);
  EXPECT_EQ(passed_on(1, 4, std::string(4093, 'x')), StatusCode::kInvalidArgument);
  EXPECT_EQ(passed_on(1, 0, "x", 1, 0, kOther), StatusCode::kNotFound);
  EXPECT_EQ(passed_on(1, 0, "x", 1, 0, 99), StatusCode::kCrashed);
  EXPECT_TRUE(is_taken(1, 4, "good"));
  EXPECT_EQ(passed_on(1, 8, "end", 1, wire::ReplicaWriteRequest::kClose), StatusCode::kOk);
  EXPECT_EQ(passed_on(1, 11, "behind it"), StatusCode::kInvalidArgument);
  wire::MessageHeader header{};
  header.opcode = static_cast<uint16_t>(wire::Opcode::kReplicaWrite);
  there_.on_request({}, header, "short");
  EXPECT_EQ(replies_.status, StatusCode::kInvalidArgument);
}

TEST_P(BackupLaneTest, AFreedReplicaTakesNothing) {
  ASSERT_EQ(open(1), StatusCode::kOk);
  ASSERT_TRUE(is_taken(1, 4, "more"));
  const wire::ReplicaFreeRequest free{kMaster, 1};
  wire::MessageHeader header{};
  header.opcode = static_cast<uint16_t>(wire::Opcode::kReplicaFree);
  registry_.on_request({}, header, bytes_of(free));
  ASSERT_EQ(replies_.status, StatusCode::kOk);
  EXPECT_EQ(passed_on(1, 8, "late"), StatusCode::kNotFound);
  ASSERT_EQ(open(2), StatusCode::kOk);
  EXPECT_TRUE(is_taken(2, 4, "more"));
}

TEST_P(BackupLaneTest, AfterShuttingDownNothingIsTaken) {
  ASSERT_EQ(open(1), StatusCode::kOk);
  ASSERT_TRUE(is_taken(1, 4, "more"));
  std::optional<Status> done;
  service_->shut_down([&](const Status& status) { done = status; });
  EXPECT_EQ(passed_on(1, 8, "late"), StatusCode::kRetry);
  ASSERT_TRUE(scheduler_.run_until([&] { return done.has_value(); }, 10s));
  EXPECT_EQ(done->to_string(), "OK");
  EXPECT_EQ(bytes_held(1), 8u);
}

TEST_P(BackupLaneTest, ADeviceThatFailsFailsForAll) {
  ASSERT_EQ(open(1), StatusCode::kOk);
  first_.disk().fail_with({StatusCode::kIoError, "bad sector"});
  const int before = replies_.count + replies_there_.count;
  post(1, 4, "more");
  ASSERT_TRUE(
      scheduler_.run_until([&] { return replies_.count + replies_there_.count > before; }, 10s));
  EXPECT_NE(GetParam() ? replies_there_.status : replies_.status, StatusCode::kOk);
  scheduler_.run_for(1s);
  EXPECT_EQ(service_->device_status(), StatusCode::kIoError);
  first_.disk().fail_with({});
  EXPECT_EQ(passed_on(1, 8, "more"), StatusCode::kIoError);
}

}  // namespace
}  // namespace ramcloud
