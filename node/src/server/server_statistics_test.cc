#include "server/server_statistics.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_transport.h"
#include "transport/testing/only_replies.h"

namespace ramcloud::server {
namespace {

constexpr wire::Uuid kCluster{1, 2, 3};
constexpr uint64_t kId = 7;

class Nobody final : public ramcloud::testing::OnlyReplies {
 public:
  void reply(const ReplyHandle&, StatusCode, std::span<const Slice>) override {}
};

/// A server with two reactors, and R = 0.
class ServerStatisticsTest : public ::testing::Test {
 protected:
  void attach() {
    frames_ = std::move(*FrameStore::open(node_.disk(), "/data", 64 << 20));
    ASSERT_TRUE(frames_->adopt(kCluster, kId, 1, 1).ok());
    backup_ = std::make_unique<ReplicaService>(node_.reactor(), registry_, *frames_, servers_,
                                               ReplicaService::Options{});
    Master::Options options;
    options.log.cluster_uuid = kCluster;
    options.log.master_id = kId;
    options.replication.replicas = 0;
    master_ =
        std::make_unique<Master>(rpc_, servers_, epochs_, arena_, store::HashTable::Memory(1 << 10),
                                 std::span<const Master::LaneOf>(), options);
    first_.attach(master_->store());
    second_.attach(master_->store());
    statistics_.attach(*master_, *frames_, *backup_, nullptr);
    ASSERT_TRUE(master_->store().take_tablet(1, 0, ~uint64_t{0}).ok());
  }
  static void write(master::DataPlane& plane, const std::string& key) {
    const wire::WriteRequest fixed{1, {}, 5, static_cast<uint16_t>(key.size()), 0};
    wire::MessageHeader header{};
    header.opcode = static_cast<uint16_t>(wire::Opcode::kWrite);
    plane.registry().on_request({}, header, std::string(bytes_of(fixed)) + key + "value");
  }

  SimScheduler scheduler_{1};
  SimNetwork network_{scheduler_};
  SimNode& node_ = scheduler_.add_node("server");
  std::unique_ptr<SimTransport> transport_ = network_.make_transport(node_);
  RpcClient rpc_{node_.reactor(), *transport_};
  Nobody nobody_;
  ServiceRegistry registry_{nobody_};
  MetricsRegistry metrics_, more_metrics_;
  ServerList servers_;
  Epochs epochs_;
  master::DataPlane first_{node_.reactor(), nobody_, metrics_};
  master::DataPlane second_{node_.reactor(), nobody_, more_metrics_};
  log::Arena arena_{uint64_t{3} * log::kSegmentBytes, {.try_huge_pages = false, .prefault = false}};
  std::unique_ptr<FrameStore> frames_;
  std::unique_ptr<ReplicaService> backup_;
  std::unique_ptr<Master> master_;
  ServerStatistics statistics_{
      node_.reactor(),
      metrics_,
      servers_,
      epochs_,
      {{&node_.reactor(), &first_.data()}, {&node_.reactor(), &second_.data()}},
      0};
};

TEST_F(ServerStatisticsTest, WithoutAnIdOnlyTheListsVersionIsSaid) {
  wire::ServerList list;
  list.term = 1;
  list.version = 3;
  ASSERT_TRUE(servers_.apply(list).ok());
  EXPECT_EQ(statistics_.collect().list_version, 3u);
  EXPECT_EQ(statistics_.collect().log_bytes_total, 0u);
  EXPECT_EQ(statistics_.published().list_version, 0u);
}

TEST_F(ServerStatisticsTest, OperationsOfAllReactorsAreOneSum) {
  attach();
  write(first_, "a");
  write(second_, "b");
  write(second_, "c");
  const wire::ServerStats stats = statistics_.collect();
  EXPECT_EQ(stats.writes, 3u);
  EXPECT_EQ(stats.objects, 3u);
  EXPECT_EQ(stats.tablets, 1u);
  EXPECT_GT(stats.log_bytes_used, 0u);
  EXPECT_EQ(stats.segments, stats.segments_fully_replicated) << "none is wanted";
  EXPECT_GT(stats.frames_total, 0u);
}

TEST_F(ServerStatisticsTest, WhatIsPublishedIsAtMostHalfASecondOld) {
  attach();
  EXPECT_GT(statistics_.published().log_bytes_total, 0u);
  write(first_, "a");
  EXPECT_EQ(statistics_.published().objects, 0u);
  scheduler_.run_for(501ms);
  EXPECT_EQ(statistics_.published().objects, 1u);
  EXPECT_NE(metrics_.text().find("ramcloud_objects 1"), std::string::npos);
}

}  // namespace
}  // namespace ramcloud::server
