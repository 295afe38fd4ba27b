#include "replication/read_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ramcloud {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Duration kLength = 400ms;
constexpr Duration kAskAfter = ReadLease::ask_after(kLength);

Time at(Duration since_begin) {
  return Time(10s) + since_begin;
}

class ReadLeaseTest : public ::testing::Test {
 protected:
  /// Holds just before that time, and not at it.
  void expect_until(Duration end) {
    EXPECT_EQ(lease_.until(), at(end));
    EXPECT_TRUE(term_.holds(at(end) - 1ns));
    EXPECT_FALSE(term_.holds(at(end)));
  }
  LeaseTerm term_{true};
  ReadLease lease_{term_, kLength};
};

TEST_F(ReadLeaseTest, AHolderLeasesFromTheSendingOfItsOpenOn) {
  EXPECT_TRUE(term_.needs_grant());
  EXPECT_FALSE(term_.holds(at(0ms)));
  lease_.hold(1, at(0ms));
  EXPECT_FALSE(term_.needs_grant());
  expect_until(kLength);
}

TEST_F(ReadLeaseTest, ItLastsAsLongAsTheEarliestThatAHolderConfirmed) {
  lease_.hold(1, at(0ms));
  lease_.hold(2, at(0ms));
  lease_.confirmed(1, at(300ms));
  expect_until(kLength);
  lease_.confirmed(2, at(100ms));
  expect_until(kLength + 100ms);
  lease_.confirmed(2, at(50ms));  // an answer that comes late takes nothing back
  expect_until(kLength + 100ms);
}

TEST_F(ReadLeaseTest, ASecondReplicaOnABackupConfirmsNothing) {
  lease_.hold(1, at(0ms));
  lease_.hold(1, at(300ms));
  expect_until(kLength);
  lease_.release(1);
  expect_until(kLength);
  lease_.release(1);
  EXPECT_EQ(lease_.holders(), 0u);
  EXPECT_TRUE(term_.needs_grant());
}

TEST_F(ReadLeaseTest, AHolderThatIsNotOneAnyMoreDoesNotShortenIt) {
  lease_.hold(1, at(0ms));
  lease_.hold(2, at(0ms));
  lease_.confirmed(2, at(200ms));
  lease_.release(1);
  expect_until(kLength + 200ms);
  lease_.confirmed(1, at(300ms));  // it was asked before
  expect_until(kLength + 200ms);
}

TEST_F(ReadLeaseTest, ALostReplicaCountsUntilItIsBehindTheFence) {
  lease_.hold(1, at(0ms));
  lease_.hold(2, at(0ms));
  lease_.lost(1, 3);
  lease_.confirmed(2, at(300ms));
  expect_until(kLength);
  lease_.fenced(2);
  expect_until(kLength);
  lease_.fenced(3);
  expect_until(kLength + 300ms);
}

/// The fence cannot be raised then, because no replica counts: the coordinator leases meanwhile.
TEST_F(ReadLeaseTest, WhenAllIsLostNobodyIsAHolder) {
  lease_.hold(1, at(0ms));
  lease_.hold(2, at(0ms));
  lease_.lost(1, 1);
  lease_.lost(2, 2);
  EXPECT_EQ(lease_.until(), kNever);
  lease_.hold(3, at(400ms));
  expect_until(kLength);  // lost holders still count beside a live one
  lease_.fenced(2);
  expect_until(kLength + 400ms);
}

/// The backup lost that replica, not its others.
TEST_F(ReadLeaseTest, TheFenceTakesOneReplicaOfAHolder) {
  lease_.hold(1, at(0ms));
  lease_.hold(1, at(0ms));
  lease_.lost(1, 1);
  lease_.fenced(1);
  EXPECT_EQ(lease_.holders(), 1u);
  lease_.lost(1, 2);
  lease_.fenced(2);
  EXPECT_EQ(lease_.holders(), 0u);
}

TEST_F(ReadLeaseTest, HoldersAreAskedAfterAThird) {
  lease_.hold(1, at(0ms));
  lease_.hold(2, at(0ms));
  EXPECT_THAT(lease_.take_due(at(kAskAfter - 1ms)), IsEmpty());
  lease_.confirmed(2, at(70ms));
  EXPECT_EQ(lease_.next_due(), at(kAskAfter));
  EXPECT_THAT(lease_.take_due(at(kAskAfter)), ElementsAre(1));
  EXPECT_EQ(lease_.next_due(), at(70ms + kAskAfter));
  EXPECT_THAT(lease_.take_due(at(70ms + kAskAfter)), ElementsAre(1, 2))
      << "it has not answered, and is asked again";
  EXPECT_LT(2 * kAskAfter, kLength) << "in time";
}

/// An idle master wakes once for all of them.
TEST_F(ReadLeaseTest, HoldersThatAreDueOneAfterTheOtherAreSoonAskedTogether) {
  lease_.hold(1, at(0ms));
  lease_.hold(2, at(30ms));
  lease_.hold(3, at(100ms));
  EXPECT_THAT(lease_.take_due(at(kAskAfter - 1ms)), IsEmpty());
  EXPECT_THAT(lease_.take_due(at(kAskAfter)), ElementsAre(1, 2)) << "the third is due 100 ms later";
  const Duration next = kAskAfter + 100ms;
  EXPECT_EQ(lease_.next_due(), at(next));
  EXPECT_THAT(lease_.take_due(at(next)), ElementsAre(1, 2, 3)) << "the others are due 33 ms later";
  EXPECT_EQ(lease_.next_due(), at(next + kAskAfter));
  EXPECT_THAT(lease_.take_due(at(next + kAskAfter)), ElementsAre(1, 2, 3));
}

TEST_F(ReadLeaseTest, OtherReactorsAreToldOfWhatIsWorthIt) {
  lease_.hold(1, at(0ms));
  lease_.confirmed(1, at(1ms));
  EXPECT_EQ(lease_.until(), at(kLength + 1ms));
  EXPECT_FALSE(term_.holds(at(kLength))) << "a 64th is 6 ms";
  lease_.confirmed(1, at(7ms));
  expect_until(kLength + 7ms);
}

// ---- the term

TEST_F(ReadLeaseTest, WithoutHoldersTheCoordinatorsGrantCounts) {
  term_.grant_until(at(kLength));
  EXPECT_TRUE(term_.holds(at(0ms)));
  lease_.hold(1, at(-kLength));
  EXPECT_FALSE(term_.holds(at(0ms))) << "its holder decides";
  lease_.release(1);
  EXPECT_TRUE(term_.holds(at(0ms)));
  EXPECT_FALSE(term_.holds(at(kLength)));
}

TEST_F(ReadLeaseTest, WhatHasEndedIsNotExtended) {
  lease_.hold(1, at(0ms));
  term_.end();
  lease_.confirmed(1, at(300ms));
  EXPECT_FALSE(term_.holds(at(0ms)));
  EXPECT_FALSE(term_.needs_grant());
}

TEST_F(ReadLeaseTest, WhoWaitsForTheLeaseIsToldOnceThatItIsLonger) {
  int told = 0;
  term_.set_listener([&] { ++told; });
  lease_.hold(1, at(0ms));
  EXPECT_EQ(told, 0);
  term_.wait();
  lease_.confirmed(1, at(100ms));
  lease_.confirmed(1, at(200ms));
  EXPECT_EQ(told, 1);
  term_.wait();
  term_.grant_until(at(0ms));
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace ramcloud
