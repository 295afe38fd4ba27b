#include "coordinator/changes.h"

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

TEST_F(ChangesTest, RevisionsRiseOverRestarts) {
  ASSERT_TRUE(changes_.begin_term(7).ok());
  uint64_t last = changes_.revision();
  for (uint64_t i = 0; i < 1000; ++i) {
    changes_.table_changed(i);
    ASSERT_GT(changes_.revision(), last);
    last = changes_.revision();
  }
  // The next leader's term was one transaction more, and there were perhaps others.
  Changes next(reactor_);
  ASSERT_TRUE(next.begin_term(8).ok());
  EXPECT_GT(next.revision(), last);
}

TEST_F(ChangesTest, RevisionsThatWouldBeginAgainAreRefused) {
  const uint64_t most = ~uint32_t{0};
  ASSERT_TRUE(changes_.begin_term(most).ok());
  const uint64_t last = changes_.revision();
  const Status refused = changes_.begin_term(most + 1);
  EXPECT_EQ(refused.code(), StatusCode::kUnsupported);
  EXPECT_THAT(refused.message(), testing::HasSubstr("4294967296 transactions; accepted are at most "
                                                    "4294967295"));
  EXPECT_EQ(changes_.revision(), last);
}

}  // namespace
}  // namespace ramcloud
