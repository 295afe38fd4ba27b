// Each rule for the end of a log.
#include "log/log_end.h"

#include <gmock/gmock.h>

#include "log/log_end_test_support.h"

namespace ramcloud::log {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Outcome = LogEnd::Outcome;

TEST_F(LogEndTest, OneReplicaOfEachIsEnough) {
  answers_.heard = {1};
  closed(1, 1, 5000);
  head(1, 2, 700, {1, 2});
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kComplete);
  EXPECT_EQ(end.digest_segment, 2u);
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, 700}}));
  EXPECT_THAT(end.segments[0].sources, ElementsAre(0));
  EXPECT_THAT(end.missing, IsEmpty());
}

TEST_F(LogEndTest, TheLongestPrefixOfAnOpenHeadCounts) {
  head(1, 1, 700, {1});
  head(2, 1, 900, {1});
  head(3, 1, 800, {1});
  const LogEnd end = decide();
  EXPECT_EQ(lengths(), (Lengths{{1, 900}}));
  EXPECT_THAT(end.segments[0].sources, ElementsAre(1)) << "only it has all of that";
}

TEST_F(LogEndTest, NothingIsThere) {
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  answers_.expected = {4};
  EXPECT_EQ(outcome(), Outcome::kWaiting);
}

TEST_F(LogEndTest, AMemberWithoutAReplicaIsNamed) {
  head(1, 2, 700, {1, 2});
  LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kBlocked);
  ASSERT_EQ(end.missing.size(), 1u);
  EXPECT_EQ(end.missing[0].segment_id, 1u);
  EXPECT_THAT(end.segments, IsEmpty());
  answers_.expected = {3};
  EXPECT_EQ(outcome(), Outcome::kWaiting);
}

// ---- the digest

TEST_F(LogEndTest, ASegmentThatIsNotInTheDigestDoesNotMatter) {
  closed(1, 1, 5000);  // cleaned
  closed(1, 2, 6000);
  head(1, 3, 700, {2, 3});
  EXPECT_EQ(lengths(), (Lengths{{2, 6000}, {3, 700}}));
}

TEST_F(LogEndTest, AClosedHeadDecidesNothing) {
  head(1, 1, 700, {1}).footer = true;
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kBlocked);
  EXPECT_EQ(end.digest_segment, 0u);
  EXPECT_EQ(end.missing.at(0).segment_id, 1u);
}

TEST_F(LogEndTest, AFooterBehindAHoleShowsThatItWasClosed) {
  head(1, 1, 700, {1});
  FoundReplica& torn = rebooted(2, 1, 500, {1});
  torn.clean_end = false;
  torn.footer_after_hole = true;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

TEST_F(LogEndTest, AnIncompleteCopyWithAFooterShowsThatItWasClosed) {
  head(1, 1, 700, {1});
  FoundReplica& copy = head(2, 1, 800, {1});
  copy.footer = copy.incomplete = true;
  EXPECT_EQ(outcome(), Outcome::kBlocked) << "and is no source";
}

TEST_F(LogEndTest, ADigestOfAnEpochThatIsOverIsNotEligible) {
  answers_.fence = {2, 5};
  closed(1, 1, 5000);
  head(2, 2, 700, {1, 2}).epoch = 4;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  head(1, 2, 900, {1, 2}).epoch = 5;
  EXPECT_EQ(outcome(), Outcome::kComplete);
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, 900}}));
}

/// A replica of a failed open: later acknowledged writes are in the head before it.
TEST_F(LogEndTest, AStaleHeadThatIsNewerDoesNotDecide) {
  answers_.fence = {1, 5};
  head(1, 1, 700, {1}).epoch = 5;
  head(2, 2, kHeader, {1, 2}).epoch = 4;
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kComplete);
  EXPECT_EQ(end.digest_segment, 1u);
}

TEST_F(LogEndTest, AHeadBelowTheLowestOpenSegmentIsNotEligible) {
  answers_.fence = {2, 0};
  head(1, 1, 700, {1}).epoch = 9;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

TEST_F(LogEndTest, AClosedReplicaOfAFormerEpochCounts) {
  answers_.fence = {2, 5};
  closed(1, 1, 5000).epoch = 1;
  head(1, 2, 700, {1, 2}).epoch = 5;
  EXPECT_EQ(outcome(), Outcome::kComplete);
}

// ---- closed members

TEST_F(LogEndTest, AMemberThatIsClosedNowhereIsNeededWhole) {
  add(1, 1, 5000).scanned = true;  // no head
  head(1, 2, 700, {1, 2});
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  closed(2, 1, 6000);
  EXPECT_EQ(lengths(), (Lengths{{1, 6000}, {2, 700}}));
}

/// It has the entries that were needed when it was made, and the same id.
TEST_F(LogEndTest, ACompactedReplicaIsWholeWhateverOthersClaim) {
  closed(1, 1, 3000);
  add(2, 1, 4000).durable_up_to = 4000;  // of the original, never closed
  FoundReplica& bad = closed(3, 1, 6000);
  bad.corrupt = true;
  bad.durable_up_to = 5900;
  head(1, 2, 700, {1, 2});
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kComplete);
  EXPECT_EQ(lengths(), (Lengths{{1, 3000}, {2, 700}}));
  EXPECT_THAT(end.segments[0].sources, ElementsAre(0)) << "the open one has other bytes there";
}

TEST_F(LogEndTest, ReplicasOfDifferentLengthsAreNotMixed) {
  closed(1, 1, 3000);
  closed(2, 1, 5000);
  closed(3, 1, 3000);
  head(1, 2, 700, {1, 2});
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, 700}}));
  EXPECT_THAT(decide().segments[0].sources, ElementsAre(1));
}

TEST_F(LogEndTest, AClosedReplicaWithBadBytesIsNoSource) {
  closed(1, 1, 5000).corrupt = true;
  head(1, 2, 700, {1, 2});
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  closed(2, 1, 5000);
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kComplete);
}

TEST_F(LogEndTest, AMemberOfLostPowerIsNeverGivenUp) {
  FoundReplica& side = add(1, 1, 5000);
  side.scanned = true;
  side.holders = {1};
  rebooted(1, 2, 700, {1, 2});
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

TEST_F(LogEndTest, IncompleteAndDamagedReplicasAreNoSources) {
  closed(1, 1, 5000).incomplete = true;
  closed(2, 1, 5000).damaged = true;
  head(1, 2, 700, {1, 2});
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

// ---- open heads

TEST_F(LogEndTest, ThePredecessorMayBeOpenWhileTheNewHeadIsEmpty) {
  head(1, 1, 5000, {1});
  head(2, 2, kHeader, {1, 2});
  EXPECT_EQ(decide().digest_segment, 2u);
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, kHeader}}));
}

TEST_F(LogEndTest, DataInTheNewHeadShowsThatThePredecessorWasClosed) {
  head(1, 1, 5000, {1});
  head(2, 2, kHeader + 8, {1, 2});
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kBlocked) << "this one may lack the end";
  EXPECT_EQ(end.missing.at(0).segment_id, 1u);
}

TEST_F(LogEndTest, DataBehindAHoleShowsItAsWell) {
  head(1, 1, 5000, {1});
  FoundReplica& torn = head(2, 2, kHeader, {1, 2});
  torn.has_data = true;
  torn.clean_end = false;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

/// The coordinator's fence is older than the log: fenced replicas must be recognised in another
/// way.
class OldFenceTest : public LogEndTest {
 protected:
  OldFenceTest() {
    answers_.fence_of_export = true;
    for (const uint64_t server : {1, 2, 3}) closed(server, 1, 5000);
  }
};

TEST_F(OldFenceTest, WithAllOfItsHoldersAHeadDecides) {
  for (const uint64_t server : {1, 2, 3}) head(server, 2, 700, {1, 2});
  EXPECT_EQ(outcome(), Outcome::kComplete);
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, 700}}));
}

TEST_F(OldFenceTest, AHolderThatIsNotHeardMayHaveGoneOn) {
  answers_.heard = {1, 2};
  head(1, 2, 700, {1, 2});
  head(2, 2, 700, {1, 2});
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kBlocked);
  ASSERT_EQ(end.missing.size(), 1u);
  EXPECT_EQ(end.missing[0].segment_id, 2u);
  EXPECT_THAT(end.missing[0].holders, ElementsAre(3));
  answers_.expected = {3};
  EXPECT_EQ(outcome(), Outcome::kWaiting);
  answers_.fence_of_export = false;
  EXPECT_EQ(outcome(), Outcome::kComplete);
}

/// It was closed there and freed; the heads that followed are elsewhere.
TEST_F(OldFenceTest, AHolderThatHasNothingOfItMayHaveGoneOnAsWell) {
  head(1, 2, 700, {1, 2});
  head(2, 2, 700, {1, 2});
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  EXPECT_THAT(decide().missing.at(0).why, HasSubstr("imported"));
}

TEST_F(OldFenceTest, OfASegmentTheHighestEpochCounts) {
  answers_.heard = {1, 2, 3, 4};
  head(1, 2, 600, {1, 2});  // left behind, before 4 took its place
  for (const uint64_t server : {2, 3, 4}) {
    FoundReplica& current = head(server, 2, 900, {1, 2});
    current.epoch = 1;
    current.holders = {2, 3, 4};
  }
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, 900}}));
  answers_.heard.erase(4);
  answers_.replicas.pop_back();
  EXPECT_EQ(outcome(), Outcome::kBlocked) << "the two that are left may have been left behind, too";
}

/// The master died while it was opened. The head before it is open on all of its holders, so the
/// master did not continue after it.
TEST_F(OldFenceTest, AHeadWithoutDataThatNotAllHaveIsLeftOut) {
  answers_.heard = {1, 2, 3, 4, 5};
  for (const uint64_t server : {1, 2, 3}) head(server, 2, 700, {1, 2});
  FoundReplica& opened = head(4, 3, kHeader, {1, 2, 3});
  opened.holders = {4, 5};
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, 700}}));
  opened.has_data = true;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  opened.has_data = false;
  answers_.replicas[4].closed = true;  // of the head before
  EXPECT_EQ(outcome(), Outcome::kBlocked) << "another head took data since";
}

/// The head before the digest's: only a fenced replica of it is there.
TEST_F(OldFenceTest, TheHeadBeforeCountsOnlyWithItsHoldersAsWell) {
  head(1, 2, 600, {1, 2});
  for (const uint64_t server : {1, 2, 3}) head(server, 3, kHeader, {1, 2, 3});
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kBlocked);
  EXPECT_EQ(end.missing.at(0).segment_id, 2u);
}

TEST_F(LogEndTest, ThePrefixMustReachWhatAnyReplicaSaysWasDurable) {
  head(1, 1, 700, {1});
  answers_.fence = {1, 1};
  answers_.replicas[0].epoch = 1;
  head(2, 1, 600, {1}).durable_up_to = 800;  // stale, groups after a hole
  LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kBlocked);
  EXPECT_THAT(end.missing.at(0).why, HasSubstr("damaged"));
  FoundReplica& better = head(3, 1, 800, {1});
  better.epoch = 1;
  EXPECT_EQ(lengths(), (Lengths{{1, 800}}));
}

TEST_F(LogEndTest, ClaimsOfDamagedAndIncompleteReplicasBind) {
  for (const bool incomplete : {true, false}) {
    answers_.replicas.clear();
    head(1, 1, 700, {1});
    FoundReplica& other = head(2, 1, 600, {1});
    other.durable_up_to = 800;
    other.incomplete = incomplete;
    other.damaged = !incomplete;
    EXPECT_EQ(outcome(), Outcome::kBlocked);
  }
}

/// A flipped bit in the last group looks like a torn tail: others may have it whole.
TEST_F(LogEndTest, AHoleAboveAllClaimsIsATornTailWhenAllHoldersHaveAnswered) {
  head(1, 1, 700, {1}).clean_end = false;
  EXPECT_EQ(outcome(), Outcome::kComplete) << "all have, and only one has a replica";
  answers_.heard = {1, 2};
  answers_.expected = {3};
  LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kWaiting);
  EXPECT_THAT(end.missing.at(0).holders, ElementsAre(3));
  answers_.expected = {};
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  head(2, 1, 900, {1});
  EXPECT_EQ(lengths(), (Lengths{{1, 900}})) << "whole, so nobody is waited for";
}

TEST_F(LogEndTest, AReplicaThatIsShorterThanItWasProvesNothing) {
  head(1, 1, 700, {1}).corrupt = true;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  head(2, 1, 700, {1});
  EXPECT_EQ(outcome(), Outcome::kComplete);
}

/// Nothing was acknowledged in a head whose open was not answered everywhere.
TEST_F(LogEndTest, AReplicaThatHoldsNothingYetShowsThatNothingWasAcknowledged) {
  closed(1, 1, 5000);
  rebooted(1, 2, kHeader, {1, 2});
  FoundReplica& opening = add(2, 2, 0);
  opening.scanned = opening.power_safe = opening.clean_end = true;
  EXPECT_EQ(outcome(), Outcome::kComplete);
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, kHeader}}));
}

// ---- lost power

TEST_F(LogEndTest, ATailIsLostOnlyIfAllHoldersHaveAnsweredAndNoneIsIntact) {
  for (const uint64_t server : {1, 2, 3}) rebooted(server, 1, 600 + 10 * server, {1});
  LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kTailLost);
  ASSERT_EQ(end.segments.size(), 1u);
  EXPECT_EQ(end.segments[0].length, 630u) << "at the first gap of the longest";
  EXPECT_EQ(end.safe_version, 1000 + kVersionsOfALostTail);
}

TEST_F(LogEndTest, WithAHolderMissingTheTailIsNotLost) {
  answers_.heard = {1, 2};
  rebooted(1, 1, 600, {1});
  rebooted(2, 1, 700, {1});
  LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kBlocked);
  EXPECT_EQ(end.missing.at(0).segment_id, 1u);
  EXPECT_THAT(end.missing.at(0).holders, ElementsAre(3));
  answers_.expected = {3};
  EXPECT_EQ(outcome(), Outcome::kWaiting);
  // It comes, and kept its power.
  answers_.heard = {1, 2, 3};
  answers_.expected = {};
  head(3, 1, 900, {1});
  EXPECT_EQ(outcome(), Outcome::kComplete);
  EXPECT_EQ(lengths(), (Lengths{{1, 900}}));
}

TEST_F(LogEndTest, ClaimsFromBeforeAPowerCutDoNotBindWhenNobodyIsIntact) {
  for (const uint64_t server : {1, 2, 3}) rebooted(server, 1, 600, {1}).durable_up_to = 800;
  EXPECT_EQ(outcome(), Outcome::kTailLost);
  answers_.heard = {1, 2};
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

TEST_F(LogEndTest, ClaimsBindAsLongAsOneReplicaIsPowerSafe) {
  rebooted(1, 1, 600, {1}).durable_up_to = 800;
  rebooted(2, 1, 600, {1});
  head(3, 1, 700, {1});  // damaged: it acknowledged 800, and no power cut explains that
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

TEST_F(LogEndTest, ADamagedFrameIsNoAnswerOfItsHolder) {
  rebooted(1, 1, 600, {1});
  rebooted(2, 1, 600, {1});
  add(3, 1, 600).damaged = true;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

TEST_F(LogEndTest, ATailIsNotLostWhileOthersAreAwaitedThatMayHaveALaterHead) {
  for (const uint64_t server : {1, 2, 3}) rebooted(server, 1, 600, {1});
  answers_.expected = {9};
  EXPECT_EQ(outcome(), Outcome::kWaiting);
}

TEST_F(LogEndTest, FramesOfFormerBuildsNameNobody) {
  rebooted(1, 1, 600, {1}).holders.clear();
  answers_.heard = {1};
  answers_.expected = {2};
  EXPECT_EQ(outcome(), Outcome::kWaiting) << "for everybody who may come";
  answers_.expected = {};
  EXPECT_EQ(outcome(), Outcome::kTailLost);
}

/// Later acknowledged writes cannot be kept without the earlier ones.
TEST_F(LogEndTest, WhatFollowsALostTailIsLostAsWell) {
  for (const uint64_t server : {1, 2, 3}) {
    rebooted(server, 1, 5000, {1});
    rebooted(server, 2, 800, {1, 2});
  }
  EXPECT_EQ(outcome(), Outcome::kTailLost);
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, kHeader}}));
}

/// The coordinator recorded a loss in segment 2, so 1 was closed on its replicas by then. The close
/// was on no device when the power of all went.
TEST_F(LogEndTest, ACloseThatWentWithThePowerIsALostTail) {
  answers_.fence = {2, 1};
  for (const uint64_t server : {1, 2, 3}) {
    rebooted(server, 1, 5000, {1});
    rebooted(server, 2, 800, {1, 2}).epoch = 1;
  }
  EXPECT_EQ(outcome(), Outcome::kTailLost);
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, kHeader}}));
  answers_.heard = {1, 2};
  EXPECT_EQ(outcome(), Outcome::kBlocked) << "the third may be whole";
  // A replica that no power cut shortened was lost before the close: it proves nothing.
  answers_.heard = {1, 2, 3};
  answers_.replicas[0].power_safe = true;
  answers_.replicas[0].length = 6000;
  EXPECT_EQ(outcome(), Outcome::kTailLost);
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, kHeader}}));
}

TEST_F(LogEndTest, TheDigestOfAHeadThatIsKnownToBeClosedDoesNotDecide) {
  answers_.fence = {2, 1};
  for (const uint64_t server : {1, 2, 3}) rebooted(server, 1, 5000, {1}).epoch = 1;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

TEST_F(LogEndTest, StaleHoldersAreNotWaitedFor) {
  answers_.fence = {1, 1};
  FoundReplica& stale = rebooted(1, 1, 900, {1});
  stale.holders = {1, 2, 7};  // 7 was lost
  for (const uint64_t server : {2, 3}) rebooted(server, 1, 600, {1}).epoch = 1;
  answers_.replicas[1].holders = answers_.replicas[2].holders = {2, 3};
  LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kTailLost);
  EXPECT_EQ(end.segments.at(0).length, 600u) << "not what the stale one has";
}

// ---- versions

TEST_F(LogEndTest, TheSafeVersionIsAboveAllThatIsKnown) {
  closed(1, 1, 5000);
  FoundReplica& before = closed(1, 2, 6000);
  head(1, 3, 700, {1, 2, 3});
  EXPECT_EQ(decide().unscanned, 2u) << "it took data while 3 was opened";
  before.scanned = before.is_head = true;
  before.safe_version = 3500;
  const LogEnd end = decide();
  EXPECT_FALSE(end.unscanned.has_value());
  EXPECT_EQ(end.safe_version, 3500u);
}

TEST_F(LogEndTest, SideSegmentsBetweenHeadsAreLookedThrough) {
  closed(1, 1, 5000);
  closed(1, 2, 6000).scanned = true;  // a survivor
  head(1, 3, 700, {1, 2, 3});
  EXPECT_EQ(decide().unscanned, 1u);
}

}  // namespace
}  // namespace ramcloud::log
