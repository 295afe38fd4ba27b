#include "server/control_service.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_transport.h"
#include "transport/testing/recorded_replies.h"
#include "wire/volume_messages.h"

namespace ramcloud::server {
namespace {

using wire::Opcode;

constexpr wire::Uuid kCluster{1, 2, 3};
constexpr uint64_t kId = 7;
constexpr uint64_t kTerm = 5;

/// A server with two reactors of which only what answers the coordinator is there.
class ControlServiceTest : public ::testing::Test {
 protected:
  ControlServiceTest() {
    scheduler_.run_for(1ms);
    list_.term = kTerm;
    list_.version = 1;
    auto& self = list_.servers.emplace_back();
    self.server_id = kId;
    self.locator = "sim:host=first,port=1";
  }
  void TearDown() override { EXPECT_TRUE(replies_.each_answered_once()); }
  template <typename Message>
  uint64_t send(Opcode opcode, const Message& message) {
    return send_body(opcode, wire::encode(message, wire::kVersionMax));
  }
  uint64_t send_body(Opcode opcode, const std::string& body) {
    wire::MessageHeader header{};
    header.opcode = static_cast<uint16_t>(opcode);
    ReplyHandle handle;
    handle.call_id = ++last_call_;
    handle.version = wire::kVersionMax;
    registry_.on_request(handle, header, body);
    return last_call_;
  }
  std::optional<StatusCode> status_of(uint64_t call) const {
    const auto found = replies_.by_call.find(call);
    if (found == replies_.by_call.end()) return std::nullopt;
    return found->second.status;
  }
  template <typename Message>
  Message answer(uint64_t call) const {
    Message message;
    EXPECT_EQ(status_of(call), StatusCode::kOk);
    EXPECT_TRUE(wire::decode(replies_.by_call.at(call).body, wire::kVersionMax, message));
    return message;
  }
  void make_master() {
    frames_ = std::move(*FrameStore::open(first_.disk(), "/data", 64 << 20));
    ASSERT_TRUE(frames_->adopt(kCluster, kId, 1, 1).ok());
    Master::Options options;
    options.log.cluster_uuid = kCluster;
    options.log.master_id = kId;
    options.replication.replicas = 0;
    master_ =
        std::make_unique<Master>(rpc_, servers_, epochs_, arena_, store::HashTable::Memory(1 << 10),
                                 std::span<const Master::LaneOf>(), options);
    resize_.emplace(first_.reactor(), *master_, *frames_, 0);
    control_.attach(*master_, *frames_, *resize_);
  }

  SimScheduler scheduler_{1};
  SimNetwork network_{scheduler_};
  SimNode& first_ = scheduler_.add_node("first");
  SimNode& second_ = scheduler_.add_node("second");
  std::unique_ptr<SimTransport> transport_ = network_.make_transport(first_);
  RpcClient rpc_{first_.reactor(), *transport_};
  ramcloud::testing::RecordedReplies replies_;
  ServiceRegistry registry_{replies_};
  MetricsRegistry metrics_;
  ServerList servers_;
  Epochs epochs_;
  master::HeldReplies held_{first_.reactor(), replies_, metrics_};
  master::TabletService tablets_{registry_, first_.reactor(), held_, servers_, epochs_};
  ServerStatistics statistics_{first_.reactor(), metrics_, servers_, epochs_, {}, 0};
  Enlistment enlistment_{rpc_, servers_, {Locator{"sim", {"coordinator", 1}}}, [](Status) {}};
  ControlService control_{registry_, first_.reactor(), {&second_.reactor()},
                          servers_,  enlistment_,      statistics_,
                          tablets_};
  std::unique_ptr<FrameStore> frames_;
  log::Arena arena_{uint64_t{8} * log::kSegmentBytes,
                    {.try_huge_pages = false,
                     .prefault = false,
                     .most_bytes = uint64_t{32} * log::kSegmentBytes}};
  std::unique_ptr<Master> master_;
  std::optional<LogResize> resize_;
  wire::ServerList list_;
  uint64_t last_call_ = 0;
};

TEST_F(ControlServiceTest, APingAndAProbeAreAnsweredWhenEveryReactorHasTurned) {
  scheduler_.pause(second_, scheduler_.now() + 60s);
  const uint64_t ping = send_body(Opcode::kPing, "");
  const uint64_t probe = send(Opcode::kGetServerStats, wire::GetServerStatsRequest{kTerm, 0});
  scheduler_.run_for(1s);
  EXPECT_EQ(status_of(ping), std::nullopt) << "one reactor hangs";
  EXPECT_EQ(status_of(probe), std::nullopt) << "one reactor hangs";
  scheduler_.resume(second_);
  scheduler_.run_for(1s);
  EXPECT_EQ(status_of(ping), StatusCode::kOk);
  EXPECT_EQ(answer<wire::ServerStats>(probe).list_version, 0u);
}

TEST_F(ControlServiceTest, TheListIsTakenOverAndNotedOnTheVolumeOnceThereIsAnId) {
  EXPECT_EQ(status_of(send(Opcode::kUpdateServerList, list_)), StatusCode::kOk);
  EXPECT_TRUE(servers_.is_live(kId));
  make_master();
  list_.version = 2;
  EXPECT_EQ(status_of(send(Opcode::kUpdateServerList, list_)), StatusCode::kOk);
  EXPECT_EQ(frames_->list_version(), 2u);
  list_.term = kTerm - 1;
  list_.version = 3;
  EXPECT_EQ(status_of(send(Opcode::kUpdateServerList, list_)), StatusCode::kStaleTerm);
  EXPECT_EQ(frames_->list_version(), 2u);
}

TEST_F(ControlServiceTest, WhoAsksWithAFormerTermIsRefused) {
  ASSERT_EQ(status_of(send(Opcode::kUpdateServerList, list_)), StatusCode::kOk);
  constexpr uint64_t kFormer = kTerm - 1;
  for (const uint64_t call :
       {send(Opcode::kGetServerStats, wire::GetServerStatsRequest{kFormer, 0}),
        send(Opcode::kRestate, wire::RestateRequest{kFormer}),
        send(Opcode::kGetReplicasOn, wire::GetReplicasOnRequest{kFormer, {}}),
        send(Opcode::kResizeLog, wire::ResizeLogRequest{kFormer, 1u << 30})}) {
    scheduler_.run_for(1s);
    EXPECT_EQ(status_of(call), StatusCode::kStaleTerm) << call;
  }
}

TEST_F(ControlServiceTest, WhatDoesNotDecodeIsRefused) {
  for (const auto opcode : {Opcode::kUpdateServerList, Opcode::kGetServerStats, Opcode::kRestate,
                            Opcode::kGetReplicasOn, Opcode::kResizeLog}) {
    EXPECT_EQ(status_of(send_body(opcode, "?")), StatusCode::kInvalidArgument)
        << static_cast<int>(opcode);
  }
}

TEST_F(ControlServiceTest, WithoutAnIdThereIsNothingToSayOfTheLog) {
  const wire::GetReplicasOnRequest question{kTerm, {1}};
  EXPECT_EQ(status_of(send(Opcode::kRestate, wire::RestateRequest{kTerm})), StatusCode::kRetry);
  EXPECT_EQ(status_of(send(Opcode::kGetReplicasOn, question)), StatusCode::kRetry);
  make_master();
  const auto reply = answer<wire::ReplicasOn>(send(Opcode::kGetReplicasOn, question));
  EXPECT_EQ(reply.counted, 0u) << "R = 0";
}

TEST_F(ControlServiceTest, TheLogIsResizedAndItIsToldHowFarItIs) {
  const wire::ResizeLogRequest grow{kTerm, 256u << 20};
  EXPECT_EQ(status_of(send(Opcode::kResizeLog, grow)), StatusCode::kRetry) << "not enlisted";
  make_master();
  auto told = answer<wire::ResizeLogReply>(send(Opcode::kResizeLog, grow));
  EXPECT_EQ(told.target_bytes, 256u << 20);
  EXPECT_LT(told.limit_bytes, 256u << 20) << "answered before it is done";
  EXPECT_EQ(told.most_bytes, 256u << 20);
  for (const wire::ResizeLogRequest& again : {grow, wire::ResizeLogRequest{kTerm, 0}}) {
    scheduler_.run_for(1s);
    told = answer<wire::ResizeLogReply>(send(Opcode::kResizeLog, again));
    EXPECT_EQ(told.target_bytes, 256u << 20);
    EXPECT_EQ(told.limit_bytes, 256u << 20);
    EXPECT_EQ(told.held_bytes, 256u << 20);
  }
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{63} << 20, uint64_t{1} << 30}) {
    EXPECT_EQ(status_of(send(Opcode::kResizeLog, wire::ResizeLogRequest{kTerm, bytes})),
              StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace ramcloud::server
