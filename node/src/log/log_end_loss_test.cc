// The end of a log when an operator has accepted a loss.
#include "log/log_end.h"

#include <gmock/gmock.h>

#include "log/log_end_test_support.h"

namespace ramcloud::log {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Outcome = LogEnd::Outcome;

class AcceptedLossTest : public LogEndTest {
 protected:
  static constexpr size_t kMost = 100;
  /// Accepts the loss that the preview shows.
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

/// The tail of the head is lost: it ends with its last readable group, and later segments stay.
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

/// Its members are needed as well, and segments that were closed later belong to the log.
TEST_F(AcceptedLossTest, WithoutAnEligibleDigestTheNewestOneDoes) {
  closed(1, 1, 5000);
  head(1, 3, 4000, {1, 2, 3}).footer = true;
  closed(2, 4, 3000);                    // survivors of cleaning that a lost head named
  closed(2, 5, 3000).incomplete = true;  // it is unknown whether it is whole
  add(3, 6, 200).scanned = true;         // open: no head named it
  answers_.accepted.version_floor = 77'000'000'000;
  const LossToAccept shown = loss_to_accept(answers_, kMost);
  EXPECT_EQ(shown.loss, (AcceptedLoss{.segments = {{2, 0}}, .end_after = 3, .later = {4}}))
      << "all at once, although the second shows only when the first is accepted";
  accept_all();
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {3, 4000}, {4, 3000}}));
  EXPECT_EQ(decide().safe_version, 77'000'000'000u);
  EXPECT_FALSE(decide().unscanned.has_value());
}

/// They were shown as segments that would be kept.
TEST_F(AcceptedLossTest, WhatWasClosedLaterMustBeThereAllTheSame) {
  closed(1, 1, 5000);
  head(1, 2, 4000, {1, 2}).footer = true;
  closed(2, 3, 3000);
  FoundReplica& last = head(2, 4, 2000, {1, 2, 3, 4});
  last.closed = true;
  last.damaged = true;  // its digest cannot be read
  closed(3, 4, 2000);
  ASSERT_EQ(outcome(), Outcome::kBlocked);
  EXPECT_EQ(accept_all(), (AcceptedLoss{.end_after = 2, .later = {3, 4}}));
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, 4000}, {3, 3000}, {4, 2000}}));
  // Only an open replica of the last segment remains, which may lack its end.
  FoundReplica& left = answers_.replicas.back();
  left.closed = false;
  left.scanned = left.is_head = true;
  left.length = 1500;
  EXPECT_THAT(missing(), ElementsAre(4));
  EXPECT_EQ(accept_all(), (AcceptedLoss{.segments = {{4, 1500}}, .later = {3, 4}}));
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, 4000}, {3, 3000}, {4, 1500}}));
  // And no replica of the other segment is found.
  answers_.replicas[2].damaged = true;
  EXPECT_THAT(missing(), ElementsAre(3));
  accept_all();
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, 4000}, {4, 1500}}));
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

}  // namespace
}  // namespace ramcloud::log
