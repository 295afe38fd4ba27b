#include "coordinator/core/changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/manual_source.h"

namespace ramcloud {
namespace {

class ChangesTest : public testing::Test {
 protected:
  VirtualClock clock_;
  ManualSource events_;
  Reactor reactor_{clock_, events_, 1, {}};
  Changes changes_{reactor_};
};

TEST_F(ChangesTest, MoreRevisionsAreAskedForBeforeTheReservedOnesAreUsed) {
  int asked = 0;
  const uint64_t first = (uint64_t{1} << 32) * 5;
  uint64_t reserved = first + Changes::kReserve / 2 + 10;
  changes_.begin(first, reserved, [&] { ++asked; });
  for (uint64_t i = 0; i < 9; ++i) changes_.table_changed(i);
  EXPECT_EQ(asked, 0);
  changes_.table_changed(9);
  EXPECT_EQ(asked, 1);
  for (uint64_t i = 0; i < 100; ++i) changes_.table_changed(i);
  EXPECT_EQ(asked, 1) << "once is enough";
  reserved += 1000;
  changes_.reserve(reserved);
  for (uint64_t i = 0; i < 1000; ++i) changes_.table_changed(i);
  EXPECT_EQ(asked, 2);
}

TEST_F(ChangesTest, RevisionsOfTheNextLeaderAreNotUsed) {
  changes_.begin(7, 10, [] {});
  uint64_t last = changes_.revision();
  for (uint64_t i = 0; i < 1000; ++i) {
    changes_.table_changed(i);
    ASSERT_GE(changes_.revision(), last);
    last = changes_.revision();
  }
  EXPECT_EQ(last, 9u);
  changes_.reserve(20);
  changes_.table_changed(1);
  EXPECT_EQ(changes_.revision(), 10u);
}

}  // namespace
}  // namespace ramcloud
