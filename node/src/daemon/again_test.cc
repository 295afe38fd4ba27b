#include "daemon/again.h"

#include <gtest/gtest.h>

namespace ramcloud::daemon {
namespace {

TEST(NextLife, WhoLivedLongStartsAtOnce) {
  EXPECT_EQ(next_life(10s, 5).pause, Duration{});
  EXPECT_EQ(next_life(10s, 5).short_lives, 0u);
}

TEST(NextLife, WhoIsGivenUpAgainAndAgainWaitsLongerEachTime) {
  Duration before{};
  uint32_t lives = 0;
  for (int i = 0; i < 7; ++i) {
    const NextLife next = next_life(1s, lives);
    EXPECT_GT(next.pause, before);
    EXPECT_EQ(next.short_lives, lives + 1);
    before = next.pause;
    lives = next.short_lives;
  }
  EXPECT_EQ(next_life(0s, 0).pause, 100ms);
  EXPECT_EQ(next_life(9s, 100).pause, 10s);
  EXPECT_EQ(next_life(9s, ~0u).pause, 10s) << "whatever the environment says";
}

}  // namespace
}  // namespace ramcloud::daemon
