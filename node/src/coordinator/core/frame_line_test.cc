#include "coordinator/core/frame_line.h"

#include <gtest/gtest.h>

namespace ramcloud {
namespace {

constexpr bool kAlone = true, kBesideOthers = false;

TEST(FrameLine, WhoeverWantsTheLeastIsFirst) {
  FrameLine line;
  EXPECT_EQ(line.first(), 0u);
  line.want(1, 100);
  line.want(2, 50);
  EXPECT_EQ(line.first(), 2u);
  EXPECT_TRUE(line.may_begin(2, 0, kAlone)) << "whatever is free: it may be more than was reported";
  EXPECT_FALSE(line.may_begin(1, 149, kBesideOthers));
  EXPECT_TRUE(line.may_begin(1, 150, kBesideOthers));
  EXPECT_FALSE(line.may_begin(1, 150, kAlone));
  line.leave(2);
  EXPECT_TRUE(line.may_begin(1, 0, kAlone));
}

TEST(FrameLine, OneThatBeganIsNotOvertaken) {
  FrameLine line;
  line.want(1, 100);
  line.begin(1);
  line.want(2, 50);
  EXPECT_FALSE(line.may_begin(2, 149, kBesideOthers));
  EXPECT_TRUE(line.may_begin(2, 150, kBesideOthers));
  line.want(1, 60);  // a part of it is served
  EXPECT_TRUE(line.may_begin(2, 110, kBesideOthers));
  line.end(1, true);
  EXPECT_EQ(line.first(), 2u);
}

TEST(FrameLine, OneThatServedNothingGoesBehindTheOthers) {
  FrameLine line;
  for (uint64_t id = 1; id <= 3; ++id) line.want(id, 100 * id);
  for (uint64_t round = 0; round < 2; ++round) {
    for (uint64_t id = 1; id <= 3; ++id) {
      ASSERT_EQ(line.first(), id);
      line.begin(id);
      line.end(id, false);
    }
  }
  line.begin(1);
  line.end(1, false);
  line.begin(2);
  line.end(2, true);
  EXPECT_EQ(line.first(), 2u);
}

}  // namespace
}  // namespace ramcloud
