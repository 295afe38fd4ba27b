// Lost tails, when servers that have not answered may have more than the replicas that were found.
#include <gmock/gmock.h>

#include "log/log_end_test_support.h"

namespace ramcloud::log {
namespace {

using ::testing::HasSubstr;
using Outcome = LogEnd::Outcome;

/// The master closed head 1, and went on in heads on 4, 5 and 6. Then the power of 1, 2 and 3 took
/// the close.
class LaterHeadElsewhereTest : public LogEndTest {
 protected:
  LaterHeadElsewhereTest() {
    answers_.replica_count = 3;
    for (const uint64_t server : {1, 2, 3}) rebooted(server, 1, 600, {1});
    answers_.unheard = {4, 5, 6};
  }
};

TEST_F(LaterHeadElsewhereTest, AsManyServersAsAHeadHasHoldersMayHaveALaterOne) {
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kBlocked);
  ASSERT_EQ(end.missing.size(), 1u);
  EXPECT_TRUE(end.missing[0].end);
  EXPECT_EQ(end.missing[0].newest_head, 1u);
  EXPECT_THAT(end.missing[0].why, HasSubstr("have not answered"));
}

TEST_F(LaterHeadElsewhereTest, FewerWouldHaveShownItByTheOthers) {
  answers_.unheard = {4, 5};
  EXPECT_EQ(outcome(), Outcome::kTailLost);
}

/// A holder may be named that never was one, so there may be fewer than the list has.
TEST_F(LaterHeadElsewhereTest, AHeadHasNoMoreHoldersThanTheMasterKeepsReplicas) {
  answers_.unheard = {4, 5};
  answers_.replica_count = 2;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

/// There were too few backups when the head was opened.
TEST_F(LaterHeadElsewhereTest, AHeadWithFewerHoldersMayBeFollowedByOneWithAsFew) {
  answers_.replicas.clear();
  for (const uint64_t server : {1, 2}) rebooted(server, 1, 600, {1}).holders = {1, 2};
  answers_.unheard = {4, 5};
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  answers_.unheard = {4};
  EXPECT_EQ(outcome(), Outcome::kTailLost);
}

TEST_F(LaterHeadElsewhereTest, FramesThatNameNobodyDoNotSayHowMany) {
  for (FoundReplica& replica : answers_.replicas) replica.holders.clear();
  answers_.unheard = {4};
  EXPECT_EQ(outcome(), Outcome::kTailLost);
  answers_.replica_count = 1;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  answers_.replica_count = 0;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

TEST_F(LaterHeadElsewhereTest, TheLossOfWhatTheyHaveCanBeAccepted) {
  const LossToAccept shown = loss_to_accept(answers_, 100);
  EXPECT_EQ(shown.loss.end_after, 1u);
  answers_.accepted = shown.loss;
  EXPECT_EQ(outcome(), Outcome::kLossAccepted);
  EXPECT_EQ(lengths(), (Lengths{{1, 600}}));
  // Before anything is served a volume comes back.
  answers_.unheard = {5, 6};
  answers_.heard.insert(4);
  closed(4, 1, 5000);
  head(4, 2, 700, {1, 2});
  EXPECT_EQ(outcome(), Outcome::kComplete);
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, 700}}));
}

/// The predecessor of the deciding head was closed and copied, too, before the power took the close
/// of the first replicas.
TEST_F(LaterHeadElsewhereTest, ThePredecessorMayHaveBeenCopiedThere) {
  answers_.heard.insert({4, 5, 6});
  answers_.unheard = {7, 8, 9};
  for (const uint64_t server : {4, 5, 6}) head(server, 2, 700, {1, 2}).holders = {4, 5, 6};
  LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kBlocked);
  EXPECT_EQ(end.missing.at(0).segment_id, 1u);
  EXPECT_FALSE(end.missing.at(0).end);
  answers_.unheard = {7, 8};
  EXPECT_EQ(outcome(), Outcome::kTailLost);
}

/// Closed segments are described without being read. They may be side segments.
TEST_F(LaterHeadElsewhereTest, ClosedSegmentsAboveAreReadBeforeTheTailIsCalledLost) {
  answers_.unheard.clear();
  FoundReplica& later = closed(3, 2, 5000);
  EXPECT_EQ(decide().unscanned, 2u);
  later.scanned = true;
  EXPECT_EQ(outcome(), Outcome::kTailLost);
  EXPECT_FALSE(decide().unscanned.has_value());
  later.is_head = true;
  later.digest = {1, 2};
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kBlocked) << "the head that followed it is missing";
  EXPECT_EQ(end.missing.at(0).newest_head, 2u);
}

/// Segment 1 was open on 1 and 2. 1 was lost, 4 took its place, and the segment was closed on 2 and
/// 4. The fence rose once more for a later head, so it does not tell that the first replica is stale.
class LeftBehindBeforeTheCloseTest : public LogEndTest {
 protected:
  LeftBehindBeforeTheCloseTest() {
    answers_.heard = {1, 3};
    answers_.replica_count = 2;
    answers_.fence = {2, 2};
    rebooted(1, 1, 600, {1}).holders = {1, 3};
    FoundReplica& newest = head(3, 2, 700, {1, 2});
    newest.epoch = 2;
    newest.holders = {3, 4};
    answers_.unheard = {4};
  }
};

TEST_F(LeftBehindBeforeTheCloseTest, IsNotTheEndWhileAnyServerMayHaveTheClosedOne) {
  const LogEnd end = decide();
  EXPECT_EQ(end.outcome, Outcome::kBlocked);
  ASSERT_EQ(end.missing.size(), 1u);
  EXPECT_EQ(end.missing[0].segment_id, 1u);
  answers_.expected = {4};
  EXPECT_EQ(outcome(), Outcome::kWaiting);
}

TEST_F(LeftBehindBeforeTheCloseTest, TheClosedOneComesBack) {
  answers_.unheard.clear();
  answers_.heard.insert(4);
  closed(4, 1, 5000).epoch = 1;
  EXPECT_EQ(outcome(), Outcome::kComplete);
  EXPECT_EQ(lengths(), (Lengths{{1, 5000}, {2, 700}}));
}

/// The master was closing head 1 when it died. Head 2 takes data only when all replicas of 1 that
/// count are closed, so the open one has all that was acknowledged.
class HalfClosedHeadTest : public LogEndTest {
 protected:
  HalfClosedHeadTest() {
    FoundReplica& bad = head(1, 1, 650, {1});
    bad.closed = bad.corrupt = true;
    bad.durable_up_to = 5000;
    head(2, 1, 700, {1});
    head(2, 2, kHeader, {1, 2});
  }
};

TEST_F(HalfClosedHeadTest, EndsWhereTheOpenReplicaEndsIfTheClosedOneIsDamaged) {
  EXPECT_EQ(outcome(), Outcome::kComplete);
  EXPECT_EQ(lengths(), (Lengths{{1, 700}, {2, kHeader}}));
}

TEST_F(HalfClosedHeadTest, OrIfTheClosedOneIsACopyThatWasNotFinished) {
  answers_.replicas[0].closed = answers_.replicas[0].corrupt = false;
  answers_.replicas[0].footer = answers_.replicas[0].incomplete = true;
  EXPECT_EQ(outcome(), Outcome::kComplete);
  EXPECT_EQ(lengths(), (Lengths{{1, 700}, {2, kHeader}}));
}

TEST_F(HalfClosedHeadTest, IsTakenClosedIfThatIsWhole) {
  answers_.replicas[0].corrupt = false;
  answers_.replicas[0].length = 900;
  EXPECT_EQ(lengths(), (Lengths{{1, 900}, {2, kHeader}}));
}

TEST_F(HalfClosedHeadTest, TheOpenOneMustBeIntact) {
  answers_.replicas[1].clean_end = false;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
  answers_.replicas[1].clean_end = true;
  answers_.replicas[1].power_safe = false;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

TEST_F(HalfClosedHeadTest, WithDataInTheNextHeadTheOpenOneWasLeftBehind) {
  answers_.replicas[2].has_data = true;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

TEST_F(HalfClosedHeadTest, BelowTheFenceTheOpenOneWasLeftBehind) {
  answers_.fence = {2, 0};
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

TEST_F(HalfClosedHeadTest, OfAFormerEpochTheOpenOneWasLeftBehind) {
  answers_.fence = {1, 1};
  answers_.replicas[2].epoch = 1;
  EXPECT_EQ(outcome(), Outcome::kBlocked);
}

}  // namespace
}  // namespace ramcloud::log
