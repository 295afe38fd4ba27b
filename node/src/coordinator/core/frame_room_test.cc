#include "coordinator/core/frame_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "log/format.h"

namespace ramcloud {
namespace {

using ::testing::HasSubstr;

uint64_t room(std::vector<uint64_t> free, uint32_t replicas) {
  return segments_with_room(free, replicas);
}

TEST(FrameRoom, EachReplicaOfASegmentNeedsAnotherBackup) {
  EXPECT_EQ(room({}, 1), 0u);
  EXPECT_EQ(room({5}, 1), 5u);
  EXPECT_EQ(room({5, 7}, 1), 12u);
  EXPECT_EQ(room({5, 7}, 2), 5u) << "one backup has no two replicas of a segment";
  EXPECT_EQ(room({100, 0}, 2), 0u);
  EXPECT_EQ(room({2, 2, 2}, 2), 3u);
  EXPECT_EQ(room({1, 1, 10}, 2), 2u);
  EXPECT_EQ(room({3, 3, 3}, 3), 3u);
}

struct Volumes {
  ClusterState state;
  void add(uint64_t id, uint32_t replicas, uint64_t total, uint64_t used) {
    ServerEntry& server = state.servers[id];
    server.record.state = wire::ServerState::kUp;
    server.record.replicas = replicas;
    server.stats.frames_total = total;
    server.stats.frames_used = used;
  }
};

TEST(FrameRoom, HeadsKeepTheirReserveAndAServerIsNotItsOwnBackup) {
  Volumes volumes;
  volumes.add(1, 2, 16, 0);
  volumes.add(2, 2, 16, 13);
  volumes.add(3, 2, 16, 14);
  EXPECT_EQ(room_for_copies(volumes.state, 1), log::kSegmentBytes)
      << "2 of 16 frames are for heads";
  EXPECT_EQ(room_for_copies(volumes.state, 2), 14 * uint64_t{log::kSegmentBytes});
  volumes.state.servers.at(1).stats.frames_quarantined = 15;
  EXPECT_EQ(room_for_copies(volumes.state, 2), 0u);
}

TEST(FrameRoom, WhatIsNotKnownIsNoLimit) {
  Volumes volumes;
  volumes.add(1, 2, 16, 16);
  volumes.add(2, 2, 0, 0);
  EXPECT_EQ(room_for_copies(volumes.state, 1), ~uint64_t{0});
  EXPECT_EQ(room_for_copies(volumes.state, 2), 0u);
  EXPECT_EQ(room_for_copies(volumes.state), std::nullopt);
  volumes.state.servers.at(2).stats.frames_total = 16;
  EXPECT_EQ(room_for_copies(volumes.state), 0u) << "of the last server";
  volumes.state.servers.at(1).stats.frames_used = 10;
  EXPECT_EQ(room_for_copies(volumes.state), 4 * uint64_t{log::kSegmentBytes});
}

TEST(FrameRoom, TheTextNamesWhatIsNeededAndWhatIsFree) {
  Volumes volumes;
  volumes.add(1, 3, 16, 16);
  volumes.add(2, 3, 16, 13);
  const std::string text = frames_text(volumes.state, 20u << 20);
  EXPECT_THAT(text, HasSubstr("about 9 are needed (3 replicas of 20.0 MiB)"));
  EXPECT_THAT(text, HasSubstr("1 can be taken"));
  EXPECT_THAT(text, HasSubstr("0 of 16 frames are free"));
  EXPECT_THAT(text, HasSubstr("3 of 16 frames are free"));
}

TEST(FrameRoom, ReplicasOfASegmentAreInDifferentFailureDomains) {
  Volumes volumes;
  for (uint64_t id = 1; id <= 4; ++id) volumes.add(id, 3, 16, id == 4 ? 16 : 6);
  for (const uint64_t id : {2, 3}) volumes.state.servers.at(id).record.failure_domain = "rack";
  EXPECT_EQ(room_for_copies(volumes.state, 1), 0u) << "both free volumes are in one domain";
  EXPECT_EQ(room_for_copies(volumes.state, 2), 0u) << "one of them is in its own";
  volumes.state.servers.at(4).stats.frames_used = 6;
  EXPECT_EQ(room_for_copies(volumes.state, 2), 8 * uint64_t{log::kSegmentBytes});
  volumes.state.servers.at(4).stats.backup_device =
      static_cast<uint64_t>(wire::BackupDevice::kFailed);
  EXPECT_EQ(room_for_copies(volumes.state, 2), 0u) << "a device that failed takes no replicas";
}

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kUnlimited = 500 * kMiB;

TEST(FrameBudget, IsHalvedByEachShortageAndDoubledByWhatIsServed) {
  FrameBudget budget(kUnlimited);
  EXPECT_FALSE(budget.limited());
  budget.lacked(budget.limit(), 100 * kMiB);
  EXPECT_TRUE(budget.limited());
  EXPECT_EQ(budget.limit().bytes, 50 * kMiB);
  EXPECT_EQ(budget.limit().parts, 1u);
  EXPECT_FALSE(budget.limit().is_least());
  for (int i = 0; i < 9; ++i) budget.lacked(budget.limit(), 50 * kMiB);
  EXPECT_EQ(budget.limit().bytes, FrameBudget::kLeast) << "less needs no fewer frames";
  EXPECT_TRUE(budget.limit().is_least());
  budget.served();
  EXPECT_EQ(budget.limit().bytes, 2 * FrameBudget::kLeast);
  EXPECT_EQ(budget.limit().parts, 2u);
  for (int i = 0; i < 9; ++i) budget.served();
  EXPECT_FALSE(budget.limited());
  budget.lacked(budget.limit(), 10 * kMiB);
  EXPECT_EQ(budget.limit().parts, 1u);
}

TEST(FrameBudget, PartsThatWereOrderedTogetherHalveItOnce) {
  FrameBudget budget(kUnlimited);
  const FrameBudget::Limit ordered = budget.limit();
  budget.lacked(ordered, 40 * kMiB);
  budget.lacked(ordered, 48 * kMiB);
  EXPECT_EQ(budget.limit().bytes, 20 * kMiB);
}

TEST(FrameBudget, APartThatHadMoreThanItsLimitMakesTheNextSmallerAllTheSame) {
  FrameBudget budget(kUnlimited);
  for (int i = 0; i < 9; ++i) budget.lacked(budget.limit(), 100 * kMiB);
  EXPECT_TRUE(budget.limit().is_least());
}

}  // namespace
}  // namespace ramcloud
