#include "replication/adoptions.h"

#include <gmock/gmock.h>

#include <deque>
#include <vector>

#include "log/log_test_support.h"

namespace ramcloud {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AdoptionsTest : public ::testing::Test {
 protected:
  AdoptionsTest() : log_(8) {
    for (uint64_t version = 1; log_.log.head().segment_id() < 4; ++version) {
      EXPECT_EQ(log::append_object(log_.log, 1, version, "key", "value"), StatusCode::kOk);
      EXPECT_EQ(log_.log.roll_head(), StatusCode::kOk);
    }
    for (const log::Segment* segment : log_.log.segments()) {
      SegmentReplicas& replicas = replicas_.emplace_back();
      replicas.segment = log_.log.find_segment(segment->id());
    }
  }
  SegmentReplicas& of(size_t i) { return replicas_.at(i); }
  uint64_t id(size_t i) { return of(i).segment->id(); }

  log::TestLog log_;
  std::deque<SegmentReplicas> replicas_;
  Adoptions adoptions_;
};

TEST_F(AdoptionsTest, TheNewestComesFirstAndFewAreAskedForAtOnce) {
  for (const size_t i : {1, 0, 2}) adoptions_.add(of(i), 5);
  adoptions_.add(of(1), 5);
  EXPECT_THAT(of(1).offered_by, ElementsAre(5)) << "once";
  EXPECT_EQ(adoptions_.take(5), id(2));
  const uint64_t first = adoptions_.asked(5);
  EXPECT_EQ(adoptions_.take(5), id(1));
  EXPECT_GT(adoptions_.asked(5), first);
  EXPECT_EQ(adoptions_.take(5), std::nullopt) << "two are outstanding";
  adoptions_.answered(5);
  EXPECT_EQ(adoptions_.take(5), id(0));
  adoptions_.answered(5);
  EXPECT_TRUE(adoptions_.empty());
}

TEST_F(AdoptionsTest, ASegmentIsReservedForEachBackupThatOffersIt) {
  adoptions_.add(of(0), 5);
  adoptions_.add(of(0), 6);
  EXPECT_THAT(of(0).offered_by, ElementsAre(5, 6));
  EXPECT_THAT(adoptions_.backups(), ElementsAre(5, 6));
  Adoptions::release(of(0), 5);
  EXPECT_THAT(of(0).offered_by, ElementsAre(6));
}

TEST_F(AdoptionsTest, ABackupThatWasGivenUpMayOfferAgainOnceItsOffersAreGone) {
  adoptions_.add(of(0), 5);
  adoptions_.add(of(1), 5);
  EXPECT_EQ(adoptions_.take(5), id(1));
  (void)adoptions_.asked(5);
  adoptions_.give_up(5);
  EXPECT_TRUE(adoptions_.is_given_up(5));
  adoptions_.add(of(2), 5);
  EXPECT_THAT(of(2).offered_by, IsEmpty());
  EXPECT_EQ(adoptions_.take_any(5), id(0));
  EXPECT_EQ(adoptions_.take_any(5), std::nullopt);
  EXPECT_TRUE(adoptions_.is_given_up(5)) << "a request is outstanding";
  adoptions_.answered(5);
  EXPECT_FALSE(adoptions_.is_given_up(5));
  adoptions_.add(of(2), 5);
  EXPECT_EQ(adoptions_.take(5), id(2));
}

}  // namespace
}  // namespace ramcloud
