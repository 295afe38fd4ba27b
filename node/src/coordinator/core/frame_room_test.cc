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

TEST(FrameBudget, IsHalvedByEachShortageAndDoubledByWhatIsServed) {
  constexpr uint64_t kMiB = 1u << 20;
  FrameBudget budget(500 * kMiB);
  EXPECT_FALSE(budget.limited());
  budget.lacked(100 * kMiB);
  EXPECT_TRUE(budget.limited());
  EXPECT_EQ(budget.part_bytes(), 50 * kMiB);
  EXPECT_EQ(budget.parts(), 1u);
  for (int i = 0; i < 9; ++i) budget.lacked(50 * kMiB);
  EXPECT_EQ(budget.part_bytes(), log::kSegmentBytes) << "less needs no fewer frames";
  budget.served();
  EXPECT_EQ(budget.part_bytes(), 2 * uint64_t{log::kSegmentBytes});
  EXPECT_EQ(budget.parts(), 2u);
  for (int i = 0; i < 9; ++i) budget.served();
  EXPECT_FALSE(budget.limited());
  budget.lacked(10 * kMiB);
  EXPECT_EQ(budget.parts(), 1u);
}

}  // namespace
}  // namespace ramcloud
