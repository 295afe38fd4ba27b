// Only frames of a recovered master are freed.
#include <gmock/gmock.h>

#include "backup/testing/recovery_fixture.h"

namespace ramcloud {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
constexpr uint64_t kMaster = testing::kServiceMaster;
constexpr uint64_t kOther = 10;

class ReplicaReleaseTest : public testing::RecoveryFixture {
 protected:
  ReplicaReleaseTest() { frames_wanted_ = 40; }
  void SetUp() override {
    RecoveryFixture::SetUp();
    tell(wire::ServerState::kUp);
  }
  /// The list says so of kMaster; kOther is UP.
  void tell(wire::ServerState state) {
    wire::ServerList list{1, ++version_, std::vector<wire::ServerListEntry>(2)};
    list.servers[0].server_id = kMaster;
    list.servers[0].state = state;
    list.servers[1].server_id = kOther;
    ASSERT_TRUE(servers_.apply(list).ok());
  }
  template <typename T>
  T run(Task<T> task) {
    task.resume();
    EXPECT_TRUE(scheduler_.run_until([&] { return task.done(); }, 10s));
    return task.take();
  }
  std::vector<uint64_t> dead() { return run(service_->dead_masters()); }
  uint32_t free_frames(uint64_t master) { return run(service_->free_frames_of(master)); }

  uint64_t version_ = 1;
};

TEST_F(ReplicaReleaseTest, FramesOfARecoveredMasterAreFree) {
  for (uint64_t id = 1; id <= 18; ++id) ASSERT_EQ(open(id, "head"), StatusCode::kOk);
  ASSERT_EQ(open(1, "head", 1, kOther), StatusCode::kOk);
  EXPECT_THAT(dead(), IsEmpty());
  tell(wire::ServerState::kCrashed);
  EXPECT_THAT(dead(), ElementsAre(kMaster));
  EXPECT_EQ(frames_->frames_free(), 21u) << "that it crashed frees nothing";
  EXPECT_EQ(free_frames(kMaster), 18u);
  EXPECT_EQ(frames_->frames_free(), 39u);
  EXPECT_FALSE(service_->find(kMaster, 1).has_value());
  EXPECT_TRUE(service_->find(kOther, 1).has_value());
  EXPECT_THAT(dead(), IsEmpty());
  scheduler_.run_for(1s);  // it is synced
  restart(/*power_loss=*/true);
  EXPECT_EQ(frames_->frames_free(), 39u);
}

TEST_F(ReplicaReleaseTest, NothingOfALiveMasterIsFreed) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  EXPECT_EQ(free_frames(kMaster), 0u);
  EXPECT_TRUE(service_->find(kMaster, 1).has_value());
  EXPECT_EQ(write(1, 4, "more"), StatusCode::kOk);
}

TEST_F(ReplicaReleaseTest, FormerFramesAreFreedAsWell) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  ASSERT_EQ(open(2, "head"), StatusCode::kOk);
  ASSERT_EQ(open(1, "head", 1, kOther), StatusCode::kOk);
  restart(/*power_loss=*/false);
  EXPECT_EQ(frames_->frames_quarantined(), 3u);
  EXPECT_THAT(dead(), IsEmpty()) << "their masters are UP";
  EXPECT_EQ(free_frames(kMaster), 0u);
  tell(wire::ServerState::kCrashed);
  EXPECT_THAT(dead(), ElementsAre(kMaster));
  EXPECT_EQ(free_frames(kMaster), 2u);
  EXPECT_EQ(frames_->frames_quarantined(), 1u);
  EXPECT_EQ(frames_->frames_free(), 39u);
  EXPECT_TRUE(query().replicas.empty());
  restart(/*power_loss=*/false);
  EXPECT_EQ(frames_->frames_quarantined(), 1u) << "the other master's";
}

/// Frames that their master no longer needs are freed.
TEST_F(ReplicaReleaseTest, FormerFramesOfALivingMasterAreFreedByName) {
  for (uint64_t id = 1; id <= 20; ++id) ASSERT_EQ(open(id, "head"), StatusCode::kOk);
  ASSERT_EQ(open(1, "head", 1, kOther), StatusCode::kOk);
  restart(/*power_loss=*/false);
  ASSERT_EQ(open(3, "another"), StatusCode::kOk);
  const auto former = run(service_->former_segments_of_up_masters());
  ASSERT_THAT(former, ::testing::SizeIs(2));
  EXPECT_THAT(former.at(kMaster), ::testing::SizeIs(20));
  EXPECT_THAT(former.at(kOther), ElementsAre(1));
  std::vector<uint64_t> most = {1'000'000};
  for (uint64_t id = 20; id > 2; --id) most.push_back(id);
  EXPECT_EQ(run(service_->free_former(kMaster, most)), 18u);
  EXPECT_EQ(frames_->frames_quarantined(), 3u);
  EXPECT_TRUE(service_->find(kMaster, 3).has_value()) << "that is of this incarnation";
  EXPECT_EQ(run(service_->free_former(kMaster, most)), 0u);
  EXPECT_EQ(query().replicas.size(), 3u);
}

/// A recovery counts on what its first query found.
TEST_F(ReplicaReleaseTest, FormerFramesStayOnceTheirMasterIsRecovered) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  ASSERT_EQ(open(1, "head", 1, kOther), StatusCode::kOk);
  restart(/*power_loss=*/false);
  EXPECT_EQ(query().replicas.size(), 1u);
  EXPECT_EQ(run(service_->free_former(kMaster, {1})), 0u) << "it is frozen";
  EXPECT_EQ(query().replicas.size(), 1u);
  EXPECT_EQ(run(service_->free_former(kOther, {1})), 1u);
}

TEST_F(ReplicaReleaseTest, FormerFramesOfADeadMasterAreNotFreedByName) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  restart(/*power_loss=*/false);
  tell(wire::ServerState::kCrashed);
  EXPECT_TRUE(run(service_->former_segments_of_up_masters()).empty());
  EXPECT_EQ(run(service_->free_former(kMaster, {1})), 0u);
  EXPECT_EQ(frames_->frames_quarantined(), 1u);
}

/// The damaged slot may have named another master's replica.
TEST_F(ReplicaReleaseTest, AFrameWithDamagedMetadataIsKept) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  ASSERT_EQ(write(1, 4, "", 2), StatusCode::kOk);
  service_.reset();
  frames_.reset();
  {
    auto file = std::move(*node_.disk().open("/d/frames", 0));
    ASSERT_TRUE(file->write(frame_metadata_offset(0) + kFrameSlotStride + 100, "damage").ok());
  }
  restart(/*power_loss=*/false);
  tell(wire::ServerState::kCrashed);
  EXPECT_EQ(free_frames(kMaster), 0u);
  EXPECT_EQ(frames_->frames_quarantined(), 1u);
  EXPECT_EQ(query().replicas.size(), 1u);
}

TEST_F(ReplicaReleaseTest, ABackupThatShutsDownFreesNothingMore) {
  ASSERT_EQ(open(1, "head"), StatusCode::kOk);
  tell(wire::ServerState::kCrashed);
  service_->shut_down([](const Status&) {});
  EXPECT_EQ(free_frames(kMaster), 0u);
  EXPECT_TRUE(service_->find(kMaster, 1).has_value());
}

}  // namespace
}  // namespace ramcloud
