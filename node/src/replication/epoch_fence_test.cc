#include "replication/epoch_fence.h"

#include <gtest/gtest.h>

namespace ramcloud {
namespace {

TEST(EpochFence, HoldsWhenTheCoordinatorHasTheEpoch) {
  EpochFence fence;
  EXPECT_TRUE(fence.holds());
  EXPECT_FALSE(fence.begin_telling()) << "there is nothing to tell";
  fence.raise();
  EXPECT_FALSE(fence.holds());
  EXPECT_EQ(fence.begin_telling(), 1u);
  EXPECT_FALSE(fence.holds()) << "told is not confirmed";
  fence.confirm(1);
  EXPECT_TRUE(fence.holds());
}

TEST(EpochFence, ALossWhileTheCoordinatorIsToldIsToldAfterwards) {
  EpochFence fence;
  fence.raise();
  ASSERT_EQ(fence.begin_telling(), 1u);
  fence.raise();
  EXPECT_FALSE(fence.begin_telling()) << "one answer is outstanding";
  fence.confirm(1);
  EXPECT_FALSE(fence.holds()) << "that was the epoch before";
  ASSERT_EQ(fence.begin_telling(), 2u);
  fence.confirm(2);
  EXPECT_TRUE(fence.holds());
}

}  // namespace
}  // namespace ramcloud
