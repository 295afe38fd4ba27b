// Each rule of where a log ends, and that none of them loses what was acknowledged.
#include "log/log_end.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <map>

#include "base/testing/sanitizer.h"
#include "log/log_test_support.h"

namespace ramcloud::log {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Outcome = LogEnd::Outcome;

constexpr uint32_t kHeader = 100;

/// Holders are 1, 2 and 3, and all have answered, if a test does not say otherwise.
class LogEndTest : public ::testing::Test {
 protected:
  LogEndTest() {
    answers_.heard = {1, 2, 3};
    answers_.replicas.reserve(32);  // references to them are kept
  }

  FoundReplica& add(uint64_t server, uint64_t segment, uint32_t length) {
    FoundReplica& r = answers_.replicas.emplace_back();
    r.server_id = server;
    r.segment_id = segment;
    r.length = length;
    r.holders = {1, 2, 3};
    return r;
  }
  FoundReplica& closed(uint64_t server, uint64_t segment, uint32_t length) {
    FoundReplica& r = add(server, segment, length);
    r.closed = r.clean_end = r.power_safe = true;
    return r;
  }
  /// Open, of a host that never rebooted.
  FoundReplica& head(uint64_t server, uint64_t segment, uint32_t length,
                     std::vector<uint64_t> digest) {
    FoundReplica& r = add(server, segment, length);
    r.scanned = r.is_head = r.clean_end = r.power_safe = true;
    r.header_length = kHeader;
    r.has_data = length > kHeader;
    r.digest = std::move(digest);
    r.safe_version = segment * 1000;
    return r;
  }
  /// What a power cut may have shortened.
  FoundReplica& rebooted(uint64_t server, uint64_t segment, uint32_t length,
                         std::vector<uint64_t> digest) {
    FoundReplica& r = head(server, segment, length, std::move(digest));
    r.power_safe = false;
    return r;
  }
  LogEnd decide() { return decide_log_end(answers_); }
  Outcome outcome() { return decide().outcome; }
  /// Of a complete log.
  std::map<uint64_t, uint32_t> lengths() {
    std::map<uint64_t, uint32_t> lengths;
    for (const SegmentEnd& segment : decide().segments) {
      lengths[segment.segment_id] = segment.length;
    }
    return lengths;
  }
  using Lengths = std::map<uint64_t, uint32_t>;

  LogAnswers answers_;
};

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
  torn.footer_behind = true;
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

/// An open that failed left it: what was acknowledged since is in the head before it.
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

TEST_F(LogEndTest, ThePrefixMustReachWhatAnyReplicaSaysWasDurable) {
  head(1, 1, 700, {1});
  answers_.fence = {1, 1};
  answers_.replicas[0].epoch = 1;
  head(2, 1, 600, {1}).durable_up_to = 800;  // stale, groups behind a hole
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

/// What was acknowledged later cannot be kept without what came before.
TEST_F(LogEndTest, WhatFollowsALostTailIsLostAsWell) {
  for (const uint64_t server : {1, 2, 3}) {
    rebooted(server, 1, 5000, {1});
    rebooted(server, 2, 800, {1, 2});
  }
  EXPECT_EQ(outcome(), Outcome::kTailLost);
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, kHeader}}));
}

/// The coordinator was told of a loss in segment 2, so 1 was closed on its replicas by then. The close
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
  // One that no power cut shortened was lost before the close: it says nothing.
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

// ---- losses that an operator accepted

class AcceptedLossTest : public LogEndTest {
 protected:
  static constexpr size_t kMost = 100;
  /// What is shown of it is accepted.
  AcceptedLoss accept_all() {
    const LossToAccept shown = loss_to_accept(answers_, kMost);
    EXPECT_EQ(shown.end.outcome, Outcome::kLossAccepted);
    EXPECT_FALSE(shown.more);
    answers_.accepted.add(shown.loss);
    return shown.loss;
  }
  std::vector<uint64_t> missing() {
    std::vector<uint64_t> ids;
    for (const MissingSegment& segment : decide().missing) ids.push_back(segment.segment_id);
    return ids;
  }
};

TEST_F(AcceptedLossTest, WithoutALossNothingChanges) {
  closed(1, 1, 5000);
  head(1, 2, 700, {1, 2}).safe_version = 1000;
  closed(1, 3, 100);
  answers_.replicas[0].scanned = answers_.replicas[0].is_head = true;
  answers_.accepted = {.segments = {{1, 0}}, .end_after = 0, .version_floor = 1u << 30};
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kComplete);
  EXPECT_EQ(end.safe_version, 1000u);
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, 700}}));
}

TEST_F(AcceptedLossTest, AMemberThatIsNowhereIsLeftOutAndVersionsJump) {
  closed(1, 1, 5000);
  FoundReplica& before = closed(1, 3, 4000);
  before.scanned = before.is_head = true;
  head(1, 4, 700, {1, 2, 3, 4});
  ASSERT_EQ(outcome(), Outcome::kBlocked);
  EXPECT_EQ(accept_all(), (AcceptedLoss{.segments = {{2, 0}}}));
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kLossAccepted);
  EXPECT_TRUE(end.known());
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {3, 4000}, {4, 700}}));
  EXPECT_EQ(end.safe_version, 4000 + kVersionsOfALostTail);
  EXPECT_EQ(end.digest_segment, 4u);
  EXPECT_STREQ(outcome_name(end.outcome), "LOSS_ACCEPTED");
}

TEST_F(AcceptedLossTest, AHeadThatWasGivenUpIsNotReadForItsVersions) {
  closed(1, 1, 5000);
  head(1, 3, 700, {1, 2, 3});
  accept_all();
  EXPECT_EQ(decide().unscanned, 1u) << "2 may have been no head";
  answers_.replicas[0].scanned = true;
  EXPECT_FALSE(decide().unscanned.has_value());
}

TEST_F(AcceptedLossTest, ItCoversOnlyTheSegmentsThatWereShown) {
  closed(1, 1, 5000);
  closed(2, 3, 5000);
  head(1, 4, 700, {1, 2, 3, 4});
  accept_all();
  answers_.replicas[1].damaged = true;  // 3 is lost as well
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  EXPECT_THAT(missing(), ElementsAre(3));
  EXPECT_EQ(accept_all(), (AcceptedLoss{.segments = {{3, 0}}})) << "no more than what is new";
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {4, 700}}));
}

TEST_F(AcceptedLossTest, AllThatIsThereOfASegmentIsTaken) {
  head(1, 2, 700, {1, 2});
  add(2, 1, 3000).incomplete = true;
  closed(3, 1, 4000).corrupt = true;
  add(1, 1, 6000).damaged = true;
  EXPECT_EQ(accept_all(), (AcceptedLoss{.segments = {{1, 4000}}}));
  const LogEnd end = decide();
  EXPECT_EQ(lengths(), (Lengths{{1, 4000}, {2, 700}}));
  EXPECT_THAT(end.segments.at(0).sources, ElementsAre(2));
}

TEST_F(AcceptedLossTest, WhenMoreOfItIsLostItIsAskedForAgain) {
  head(1, 2, 700, {1, 2});
  FoundReplica& rest = closed(3, 1, 4000);
  rest.corrupt = true;
  accept_all();
  rest.length = 3999;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  EXPECT_THAT(missing(), ElementsAre(1));
  rest.length = 4001;
  EXPECT_EQ(outcome(), Outcome::kLossAccepted);
}

TEST_F(AcceptedLossTest, WhatComesBackInTimeIsTaken) {
  head(1, 2, 700, {1, 2});
  accept_all();
  closed(3, 1, 4000).scanned = true;
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kComplete);
  EXPECT_EQ(lengths(), (Lengths{{1, 4000}, {2, 700}}));
}

TEST_F(AcceptedLossTest, ServersThatAreUpAreHeardFirst) {
  head(1, 2, 700, {1, 2});
  accept_all();
  answers_.expected = {4, 5};
  EXPECT_EQ(outcome(), Outcome::kLossAccepted) << "those that crashed were waited for before";
  answers_.asked = {5};
  EXPECT_EQ(outcome(), Outcome::kWaiting) << "it may have been started with the folder";
}

/// The tail of the head is lost: it ends where what is left of it ends, and later ones stay.
TEST_F(AcceptedLossTest, AHeadEndsWhereItsLongestPrefixDoes) {
  answers_.heard = {1, 2};
  rebooted(1, 1, 600, {1}).durable_up_to = 800;
  rebooted(2, 1, 700, {1});
  head(1, 2, 900, {1, 2});
  ASSERT_EQ(outcome(), Outcome::kBlocked);
  const LossToAccept shown = loss_to_accept(answers_, kMost);
  ASSERT_EQ(shown.missing.size(), 1u);
  EXPECT_THAT(shown.missing[0].holders, ElementsAre(3));
  EXPECT_EQ(shown.missing[0].found, 700u);
  accept_all();
  EXPECT_EQ(lengths(), (Lengths{{1, 700}, {2, 900}}));
}

TEST_F(AcceptedLossTest, WithoutAnyHeadNothingIsRecovered) {
  closed(1, 1, 5000);
  answers_.accepted.version_floor = 77'000'000'000;
  ASSERT_EQ(outcome(), Outcome::kBlocked);
  EXPECT_TRUE(decide().missing.at(0).end);
  EXPECT_EQ(accept_all(), (AcceptedLoss{.end_after = 0}));
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kLossAccepted);
  EXPECT_THAT(end.segments, IsEmpty());
  EXPECT_EQ(end.digest_segment, 0u);
  EXPECT_EQ(end.safe_version, 77'000'000'000u) << "nobody knows what was assigned";
}

/// Its members are needed as well, and what was closed later is the log's.
TEST_F(AcceptedLossTest, WithoutAnEligibleDigestTheNewestOneDoes) {
  closed(1, 1, 5000);
  head(1, 3, 4000, {1, 2, 3}).footer = true;
  closed(2, 4, 3000);                    // of cleaning that a lost head took in
  closed(2, 5, 3000).incomplete = true;  // nobody knows whether it is whole
  add(3, 6, 200).scanned = true;         // open: nobody took it in
  answers_.accepted.version_floor = 77'000'000'000;
  const LossToAccept shown = loss_to_accept(answers_, kMost);
  EXPECT_EQ(shown.loss, (AcceptedLoss{.segments = {{2, 0}}, .end_after = 3}))
      << "all at once, although the second shows only when the first is accepted";
  accept_all();
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {3, 4000}, {4, 3000}}));
  EXPECT_EQ(decide().safe_version, 77'000'000'000u);
  EXPECT_FALSE(decide().unscanned.has_value());
}

TEST_F(AcceptedLossTest, ADigestOfAFormerEpochDoesWhenTheEndWasGivenUp) {
  answers_.fence = {2, 5};
  closed(1, 1, 5000);
  head(2, 2, 700, {1, 2}).epoch = 4;
  ASSERT_EQ(outcome(), Outcome::kBlocked);
  EXPECT_EQ(accept_all(), (AcceptedLoss{.segments = {{2, 700}}, .end_after = 2}));
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, 700}}));
}

TEST_F(AcceptedLossTest, AnOlderDigestThanWasShownIsNotAccepted) {
  closed(1, 1, 5000).scanned = true;
  answers_.replicas[0].is_head = true;
  answers_.replicas[0].digest = {1};
  FoundReplica& newest = head(2, 2, 700, {1, 2});
  newest.footer = true;
  EXPECT_EQ(accept_all(), (AcceptedLoss{.end_after = 2}));
  newest.damaged = true;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  EXPECT_EQ(decide().missing.at(0).newest_head, 1u);
}

TEST_F(AcceptedLossTest, NoMoreIsGivenUpAtOnceThanIsWanted) {
  head(1, 9, 700, {1, 2, 3, 9});
  const LossToAccept first = loss_to_accept(answers_, 2);
  EXPECT_TRUE(first.more);
  EXPECT_EQ(first.loss, (AcceptedLoss{.segments = {{1, 0}, {2, 0}}}));
  EXPECT_EQ(first.end.outcome, Outcome::kBlocked);
  answers_.accepted.add(first.loss);
  EXPECT_EQ(accept_all(), (AcceptedLoss{.segments = {{3, 0}}}));
}

TEST_F(AcceptedLossTest, OfTwoAcceptancesTheLargerLossCounts) {
  AcceptedLoss loss{.segments = {{1, 10}, {2, 20}}, .version_floor = 5};
  loss.add({.segments = {{1, 20}, {2, 5}, {3, 7}}, .end_after = 4, .version_floor = 3});
  EXPECT_EQ(loss, (AcceptedLoss{
                      .segments = {{1, 10}, {2, 5}, {3, 7}}, .end_after = 4, .version_floor = 5}));
  loss.add({.end_after = 6, .version_floor = 9});
  EXPECT_EQ(loss.end_after, 4u);
  EXPECT_EQ(loss.version_floor, 9u);
}

// ---- a true log, cut and torn

/// A log with three replicas of each segment on five servers, which die in many ways.
class TrueLog {
 public:
  explicit TrueLog(uint64_t seed) : random_(seed), log_(8, false) { write(); }

  /// Whose process died, whose power went; who is not heard, who has a flipped bit in a replica.
  void kill() {
    power_cuts_ = random_.chance(0.6);
    for (uint64_t server = 1; server <= kServers; ++server) {
      const bool rebooted = power_cuts_ && random_.chance(random_.chance(0.5) ? 1.0 : 0.5);
      if (rebooted) rebooted_.insert(server);
      if (random_.chance(0.2)) synced_.insert(server);
      if (random_.chance(missing_chance_)) continue;
      answers.heard.insert(server);
    }
    if (first_open() != ~uint64_t{0} && random_.chance(0.3)) answers.fence = {first_open(), 1};
    if (!power_cuts_ && random_.chance(0.5)) flip_on_ = 1 + random_.below(kServers);
    for (const auto& replica : log_.replicator.replicas())
      describe(*replica.segment, replica.durable);
    if (answers.heard.size() < kServers && random_.chance(0.5)) {
      for (uint64_t server = 1; server <= kServers; ++server) {
        if (!answers.heard.contains(server)) answers.expected.insert(server);
      }
    }
  }
  bool all_heard() const { return answers.heard.size() == kServers; }
  bool flipped() const { return flip_on_ != 0; }

  /// Empty, or what is wrong.
  std::string check(const LogEnd& end) {
    if (end.outcome == Outcome::kWaiting || end.outcome == Outcome::kBlocked) {
      if (!all_heard() || flipped()) return {};
      return "everybody was heard: " + std::string(outcome_name(end.outcome)) + ", segment " +
             std::to_string(end.missing.at(0).segment_id) + ": " + end.missing.at(0).why;
    }
    std::map<uint64_t, uint32_t> lengths;
    for (const SegmentEnd& segment : end.segments) lengths[segment.segment_id] = segment.length;
    if (std::string wrong = check_sources(end); !wrong.empty()) return wrong;
    bool lost = false;
    for (const auto& replica : log_.replicator.replicas()) {
      const Segment& segment = *replica.segment;
      if (segment.id() > log_.log.durable().segment_id()) break;
      const bool left = log_.log.find_segment(segment.id()) == nullptr;
      if (left && segment.entry_bytes() == 0) continue;
      const uint32_t acknowledged = segment.id() < log_.log.durable().segment_id()
                                        ? segment.published()
                                        : log_.log.durable().offset();
      if (lengths[segment.id()] >= acknowledged || lost) continue;
      if (end.outcome == Outcome::kComplete) {
        return "segment " + std::to_string(segment.id()) + " ends at " +
               std::to_string(lengths[segment.id()]) + ", acknowledged were " +
               std::to_string(acknowledged);
      }
      lost = true;  // and all that follows
      for (const uint64_t server : holders_[segment.id()]) {
        if (!rebooted_.contains(server) || synced_.contains(server)) {
          return "server " + std::to_string(server) + " has all of segment " +
                 std::to_string(segment.id()) + ", and its tail is called lost";
        }
      }
      if (lengths[segment.id()] < on_devices_[segment.id()]) return "what was synced is given up";
    }
    return {};
  }

  /// Of one whose loss was accepted: what it takes is true, it gives up only what was shown, and no
  /// version is assigned twice.
  std::string check_accepted(const LogEnd& end, const AcceptedLoss& loss) {
    if (end.outcome != Outcome::kLossAccepted) return outcome_name(end.outcome);
    if (std::string wrong = check_sources(end); !wrong.empty()) return wrong;
    if (end.safe_version <= version_) return "versions are assigned twice";
    std::map<uint64_t, uint32_t> lengths;
    for (const SegmentEnd& segment : end.segments) lengths[segment.segment_id] = segment.length;
    for (const auto& [id, found] : loss.segments) {
      if (lengths[id] < found) return "less is taken than is there";
    }
    return {};
  }
  /// Another backup dies with what it has.
  void lose_one() {
    if (answers.replicas.empty()) return;
    const uint64_t gone = answers.replicas[random_.below(answers.replicas.size())].server_id;
    for (size_t i = answers.replicas.size(); i-- > 0;) {
      if (answers.replicas[i].server_id != gone) continue;
      answers.replicas.erase(answers.replicas.begin() + static_cast<std::ptrdiff_t>(i));
      described_.erase(described_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    answers.heard.erase(gone);
  }

  LogAnswers answers;
  double missing_chance_ = 0;

 private:
  static constexpr uint64_t kServers = 5;
  static constexpr size_t kReplicas = 3;

  void write() {
    const int appends = static_cast<int>(20 + random_.below(100));
    for (int i = 0; i < appends; ++i) {
      const std::string value(random_.below(60'000), 'v');
      const StatusCode code = append_object(log_.log, 1, ++version_, "key", value);
      if (code != StatusCode::kOk || random_.chance(0.3)) (void)log_.replicator.step(random_);
      if (random_.chance(0.05)) (void)log_.log.roll_head();
      if (random_.chance(0.02)) roll_empty_heads();
      // Mostly heads are opened and closed soon.
      for (int n = 0; n < 3 && random_.chance(0.5); ++n) (void)log_.replicator.step(random_);
    }
  }

  /// They leave the log again, at the step at which the master dies, too.
  void roll_empty_heads() {
    for (uint64_t n = 2 + random_.below(3); n > 0; --n) {
      (void)log_.log.roll_head();
      if (n > 1) log_.replicator.finish_all();
    }
    log_.log.reclaim(log_.log.take_retired());
  }

  /// Each holder has what is durable, and perhaps more.
  void describe(const Segment& segment, uint32_t durable) {
    std::vector<uint64_t> servers;
    for (uint64_t server = 1; server <= kServers; ++server) servers.push_back(server);
    while (servers.size() > kReplicas) {
      servers.erase(servers.begin() + static_cast<std::ptrdiff_t>(random_.below(servers.size())));
    }
    holders_[segment.id()] = servers;
    for (const uint64_t server : servers) {
      uint32_t held = durable;
      while (held < segment.published() && random_.chance(0.5)) held = segment.chunk_end(held, 1);
      add(segment, server, held, answers.fence.epoch);
    }
    if (segment.closed_durable() || answers.fence.epoch == 0) return;
    const uint64_t other = 1 + random_.below(kServers);
    if (std::ranges::find(servers, other) != servers.end()) return;
    uint32_t held = segment.header_length();
    while (held < durable && random_.chance(0.7)) held = segment.chunk_end(held, 1);
    add(segment, other, held, 0);
  }
  uint64_t first_open() const {
    for (const auto& replica : log_.replicator.replicas()) {
      if (!replica.segment->closed_durable()) return replica.segment->id();
    }
    return ~uint64_t{0};
  }

  void add(const Segment& segment, uint64_t server, uint32_t held, uint32_t epoch) {
    std::string bytes = image_of(segment, held);
    const bool synced = synced_.contains(server);
    const bool cut = rebooted_.contains(server) && !synced;
    // The metadata follows the sync of all bytes.
    const bool closed =
        held == segment.published() && segment.closed_durable() && random_.chance(0.5);
    uint32_t on_device = held;
    if (cut && !closed) {
      on_device = segment.header_length();
      while (on_device < held && random_.chance(0.9)) on_device = segment.chunk_end(on_device, 1);
      tear(bytes, on_device);
    }
    auto& most = on_devices_[segment.id()];
    if (epoch >= answers.fence.epoch || closed) most = std::max(most, on_device);
    if (server == flip_on_ && !closed && !bytes.empty() && random_.chance(0.7)) {
      bytes[random_.below(bytes.size())] ^= 0x40;
    }
    images_.push_back(bytes);
    if (!answers.heard.contains(server)) return;
    FoundReplica replica;
    replica.server_id = server;
    replica.segment_id = segment.id();
    replica.epoch = epoch;
    replica.power_safe = !cut;
    replica.holders = holders_[segment.id()];
    KnownOfSegment known;
    if (closed) known.closed_length = held;
    bytes.resize(bytes.size() + 64, '\0');
    describe_scan(
        scan_segment({kTestCluster, kTestMaster, segment.id()}, SegmentBytes(bytes), known), known,
        replica);
    if (closed) {
      replica.closed = true;
      replica.power_safe = true;
    }
    answers.replicas.push_back(std::move(replica));
    described_.push_back(bytes);
  }

  /// Some of the sectors behind what was synced are not there.
  void tear(std::string& bytes, uint32_t from) {
    for (size_t at = (from + 511) / 512 * 512; at < bytes.size(); at += 512) {
      if (random_.chance(0.5))
        bytes.replace(at, std::min<size_t>(512, bytes.size() - at),
                      std::min<size_t>(512, bytes.size() - at), '\0');
    }
  }

  /// Also one that left, and is in the digest of a head that may decide.
  const Segment& segment_of(uint64_t id) const {
    const auto& all = log_.replicator.replicas();
    return *std::ranges::find(all, id, [](const auto& one) { return one.segment->id(); })->segment;
  }

  /// A source has the true bytes up to the length.
  std::string check_sources(const LogEnd& end) {
    for (const SegmentEnd& segment : end.segments) {
      if (segment.sources.empty())
        return "segment " + std::to_string(segment.segment_id) + " without a source";
      const std::string truth = image_of(segment_of(segment.segment_id), segment.length);
      for (const size_t i : segment.sources) {
        if (described_[i].substr(0, segment.length) != truth) {
          return "a source of segment " + std::to_string(segment.segment_id) +
                 " is not what was written";
        }
      }
    }
    return {};
  }

  Random random_;
  TestLog log_;
  uint64_t version_ = 0;
  bool power_cuts_ = false;
  uint64_t flip_on_ = 0;
  std::set<uint64_t> rebooted_, synced_;
  std::map<uint64_t, std::vector<uint64_t>> holders_;
  std::map<uint64_t, uint32_t> on_devices_;
  std::vector<std::string> images_, described_;  // the second as answers.replicas
};

TEST(LogEndProperty, NoAcknowledgedGroupIsLost) {
  std::map<Outcome, int> outcomes;
  const uint64_t seeds = ramcloud::testing::seeds(1200);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    TrueLog log(seed);
    log.missing_chance_ = seed % 3 == 0 ? 0.4 : 0;
    log.kill();
    const LogEnd end = decide_log_end(log.answers);
    ++outcomes[end.outcome];
    ASSERT_EQ(log.check(end), "") << "seed " << seed;
  }
  // All of them occur.
  for (const Outcome outcome :
       {Outcome::kComplete, Outcome::kTailLost, Outcome::kWaiting, Outcome::kBlocked}) {
    EXPECT_GT(outcomes[outcome], 5) << outcome_name(outcome);
  }
}

bool covers(const AcceptedLoss& accepted, const AcceptedLoss& loss) {
  AcceptedLoss both = accepted;
  both.add(loss);
  return both == accepted;
}

/// Whatever was lost: what is accepted is all that is given up, and when more is lost later, that is
/// asked for.
TEST(LogEndProperty, AnAcceptedLossIsNoLargerThanWhatWasShown) {
  int accepted = 0, ends = 0, grew = 0;
  const uint64_t seeds = ramcloud::testing::seeds(600);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    TrueLog log(seed);
    log.missing_chance_ = 0.3 + 0.1 * static_cast<double>(seed % 5);
    log.kill();
    log.answers.expected.clear();
    log.answers.accepted.version_floor = uint64_t{1} << 40;
    if (decide_log_end(log.answers).outcome != Outcome::kBlocked) continue;
    const LossToAccept shown = loss_to_accept(log.answers, 1000);
    log.answers.accepted.add(shown.loss);
    ASSERT_EQ(log.check_accepted(decide_log_end(log.answers), shown.loss), "") << "seed " << seed;
    ++accepted;
    ends += shown.loss.end_after ? 1 : 0;

    log.lose_one();
    LogAnswers without = log.answers;
    without.accepted = {.version_floor = uint64_t{1} << 40};
    const LossToAccept larger = loss_to_accept(without, 1000);
    const LogEnd later = decide_log_end(log.answers);
    if (covers(log.answers.accepted, larger.loss)) continue;
    ASSERT_EQ(later.outcome, Outcome::kBlocked) << "seed " << seed;
    ++grew;
  }
  if (seeds < 600) return;
  EXPECT_GT(accepted, 50);
  EXPECT_GT(ends, 10);
  EXPECT_GT(grew, 10);
}

}  // namespace
}  // namespace ramcloud::log
