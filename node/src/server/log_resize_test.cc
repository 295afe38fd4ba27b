#include "server/log_resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_transport.h"

namespace ramcloud::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr wire::Uuid kCluster{1, 2, 3};
constexpr uint64_t kSegment = log::kSegmentBytes;
constexpr uint64_t kMiB = 1u << 20;

/// A server's log of 16 segments that may get 64, with a hash table as large as usual.
class LogResizeTest : public ::testing::Test {
 protected:
  LogResizeTest() {
    EXPECT_TRUE(frames_->adopt(kCluster, 7, 1, 1).ok());
    EXPECT_TRUE(master_->store().take_tablet(1, 0, ~uint64_t{0}).ok());
  }
  static Master::Options options() {
    Master::Options all;
    all.log.cluster_uuid = kCluster;
    all.log.master_id = 7;
    all.replication.replicas = 0;
    return all;
  }
  StatusCode write(const std::string& key) {
    uint64_t version = 0;
    log::LogPosition depends_on;
    return master_->store().write(1, key, std::string(kMiB, 'v'), {}, version, depends_on);
  }

  SimScheduler sim_{1};
  SimNetwork network_{sim_};
  SimNode& node_ = sim_.add_node("m");
  std::unique_ptr<SimTransport> transport_ = network_.make_transport(node_);
  RpcClient rpc_{node_.reactor(), *transport_};
  ServerList servers_;
  Epochs epochs_;
  std::unique_ptr<FrameStore> frames_ =
      std::move(*FrameStore::open(node_.disk(), "/data", 1024 * kMiB));
  log::Arena arena_{16 * kSegment,
                    {.try_huge_pages = false, .prefault = false, .most_bytes = 64 * kSegment}};
  std::unique_ptr<Master> master_ = std::make_unique<Master>(
      rpc_, servers_, epochs_, arena_, store::HashTable::Memory(16 * kMiB / 64),
      std::span<const Master::LaneOf>(), options());
  LogResize resize_{node_.reactor(), *master_, *frames_, 2};
};

TEST_F(LogResizeTest, GrowsInSlicesAndSaysWhatDoesNotFit) {
  EXPECT_THAT(resize_.state().notes, IsEmpty());
  ASSERT_TRUE(resize_.set(64 * kSegment).ok());
  const wire::ResizeLogReply begun = resize_.state();
  EXPECT_FALSE(begun.done());
  EXPECT_EQ(begun.target_bytes, 64 * kSegment);
  EXPECT_THAT(begun.notes,
              ElementsAre(HasSubstr("the hash table stays 16MiB, but a server that starts with "
                                    "log-memory 512MiB has 64MiB"),
                          HasSubstr("2048MiB are advised for log-memory 512MiB")));
  sim_.run_for(LogResize::kSlice * 3);
  EXPECT_GT(resize_.state().limit_bytes, 16 * kSegment);
  EXPECT_FALSE(resize_.state().done());
  sim_.run_for(1s);
  EXPECT_TRUE(resize_.state().done());
  EXPECT_EQ(arena_.total_segments(), 64u);
}

TEST_F(LogResizeTest, ASmallerTargetReplacesTheFirst) {
  ASSERT_TRUE(resize_.set(64 * kSegment).ok());
  sim_.run_for(LogResize::kSlice * 3);
  ASSERT_TRUE(resize_.set(8 * kSegment).ok());
  sim_.run_for(1s);
  EXPECT_TRUE(resize_.state().done());
  EXPECT_EQ(arena_.sizes().held, 8 * log::kSegletsPerSegment);
  EXPECT_EQ(write("k"), StatusCode::kOk);
}

TEST_F(LogResizeTest, WhatIsRefusedChangesNothing) {
  for (int i = 0; i < 90; ++i) ASSERT_EQ(write("k" + std::to_string(i)), StatusCode::kOk);
  const Status refused = resize_.set(8 * kSegment);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("log-memory 64MiB: accepted are "));
  const wire::ResizeLogReply state = resize_.state();
  EXPECT_TRUE(state.done());
  EXPECT_EQ(state.target_bytes, 16 * kSegment);
  EXPECT_GT(state.least_bytes, 90 * kMiB);
  EXPECT_EQ(state.most_bytes, 64 * kSegment);
}

}  // namespace
}  // namespace ramcloud::server
