// Losses that an operator accepts: the preview, the refusals, and that a decision is durable before
// a recovery uses it.
#include "coordinator/core/accepted_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/testing/recovery_fixture.h"

namespace ramcloud {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::OneTablet;
using wire::Opcode;
using Point = SimMetadata::Point;

/// No server has segment 1 of a dead server's log.
class AcceptedLosses : public OneTablet {
 protected:
  void make_blocked(size_t servers = 4) {
    cluster.options.recoveries.query.returning = 1s;
    make(servers);
    lose(0, 1);
    lose(1, 1);
    kill(dead_);
    wait_until_blocked();
  }
  void wait_until_blocked() {
    ASSERT_TRUE(cluster.run_until([&] { return in_phase(dead_, Phase::kBlocked); }));
  }
  void lose(size_t holder_number, uint64_t segment_id) {
    std::erase_if(holder(holder_number).replicas.at(dead_),
                  [&](const auto& replica) { return replica.segment_id == segment_id; });
  }
  Result<LossAnswer> ask(uint64_t id, bool confirmed = false, std::string token = "") {
    return cluster.wait_for(cluster.coordinator->accept_loss(
        {id, confirmed, std::move(token), "ada@desk", "the disks are broken"},
        cluster.reactor.now() + 10s));
  }
  std::string token() {
    const auto shown = ask(dead_);
    EXPECT_TRUE(shown.has_value()) << shown.error().to_string();
    return shown ? shown->preview.token : "";
  }
  std::string refusal(const Result<LossAnswer>& answer, StatusCode code) {
    if (answer) return "it was taken";
    EXPECT_EQ(answer.error().code(), code);
    return answer.error().message();
  }
  static bool is_of_a_loss(const std::string& key) { return key.starts_with(kAcceptedLossPrefix); }
  size_t recorded() {
    return static_cast<size_t>(std::ranges::count_if(
        cluster.metadata.records, [](const auto& record) { return is_of_a_loss(record.first); }));
  }
  const wire::RecoverRequest& order() { return server(owner("t")).recovery.orders.at(0); }
};

TEST_F(AcceptedLosses, APreviewTellsWhatIsLostAndChangesNothing) {
  make_blocked();
  const auto shown = ask(dead_);
  ASSERT_TRUE(shown.has_value()) << shown.error().to_string();
  EXPECT_FALSE(shown->accepted);
  const LossPreview& preview = shown->preview;
  EXPECT_EQ(preview.loss, (log::AcceptedLoss{.segments = {{1, 0}}}));
  ASSERT_EQ(preview.missing.size(), 1u);
  EXPECT_EQ(preview.missing[0].segment_id, 1u);
  EXPECT_FALSE(preview.end_given_up);
  EXPECT_EQ(preview.segments_found, 2u);
  EXPECT_EQ(preview.bytes_found, (8u << 20) + 1000);
  EXPECT_EQ(preview.bytes_lost, 8u << 20);
  EXPECT_FALSE(preview.token.empty());
  EXPECT_EQ(preview.token, token()) << "the same loss";
  cluster.run_for(10s);
  EXPECT_TRUE(in_phase(dead_, Phase::kBlocked));
  EXPECT_EQ(recorded(), 0u);
  EXPECT_TRUE(attempts_at(dead_).empty());
}

/// A tablet begins with a head of its own, so nothing of it is below.
TEST_F(AcceptedLosses, OnlyTablesThatMayHaveHadEntriesThereAreNamed) {
  make_blocked();
  LossPreview preview;
  ClusterState with_position = state();
  TableRecord& table = with_position.tables.at(state().find_table("t")->id);
  constexpr uint64_t kFirst = 7;  // the first of its segments
  table.tablets.at(0).creation_position = log::LogPosition(kFirst, 0).value;
  for (const uint64_t missing : {kFirst - 1, kFirst}) {
    log::LossToAccept loss;
    loss.loss.segments = {{missing, 100}};
    preview = preview_of(with_position, dead_, loss, {{table.id, 0, ~uint64_t{0}}});
    EXPECT_EQ(preview.tables.size(), missing < kFirst ? 0u : 1u) << missing;
  }
  EXPECT_EQ(preview.tables.at(0), (LossPreview::Table{"t", 1, 1.0}));
  EXPECT_EQ(preview.bytes_lost, (8u << 20) - 100);
  EXPECT_THAT(summary_of(preview), HasSubstr("'t' (100.0% of its hashes)"));
}

TEST_F(AcceptedLosses, TheRestIsServedAndVersionsJump) {
  make_blocked();
  const auto done = ask(dead_, true, token());
  ASSERT_TRUE(done.has_value()) << done.error().to_string();
  EXPECT_TRUE(done->accepted);
  ASSERT_TRUE(wait_until_served());
  ASSERT_EQ(order().segments.size(), 2u);
  EXPECT_EQ(order().segments[0].segment_id, 3u);
  EXPECT_EQ(order().segments[1].segment_id, 2u);
  EXPECT_EQ(order().safe_version, 5000 + log::kVersionsOfALostTail);
  EXPECT_EQ(cluster.coordinator->status().recoveries_ended.at(0).progress.outcome, "LOSS_ACCEPTED");
}

/// The third holder of segment 1 is away when its loss is accepted.
class VolumeComesBack : public AcceptedLosses {
 protected:
  void accept_without(RecoveryProgress::Phase until) {
    cluster.options.recoveries.query.returning = 1s;
    make(5);
    volume_ = holder(0).replicas;
    lose(0, 1);
    lose(1, 1);
    kill(others_[2]);
    kill(dead_);
    wait_until_blocked();
    EXPECT_THAT(progress().waits_for, HasSubstr(fmt::format("not back: server {}", others_[2])));
    if (until == Phase::kReplaying) stop_all_in(wire::RecoveryPhase::kReplaying);
    ASSERT_TRUE(ask(dead_, true, token()).has_value());
    ASSERT_TRUE(cluster.run_until([&] { return in_phase(dead_, until); }));
  }
  Task<void> heal_later() {
    co_await cluster.reactor.sleep(100ms);
    cluster.store->set_cut_off(false);
  }
  size_t segments_used() { return server(owner("t")).recovery.orders.back().segments.size(); }

  std::map<uint64_t, std::vector<wire::RecoveryReplica>> volume_;
};

TEST_F(VolumeComesBack, BeforeEverythingIsReplayedItIsUsed) {
  accept_without(Phase::kReplaying);
  volume_comes_back(others_[2], volume_);
  ASSERT_TRUE(goes_on());
  EXPECT_EQ(segments_used(), 3u);
}

TEST_F(VolumeComesBack, BeforeAnythingIsHandedOverItIsUsed) {
  read_lease_ms_ = 30'000;
  accept_without(Phase::kHandingOver);
  volume_comes_back(others_[2], volume_);
  ASSERT_TRUE(cluster.run_until([&] { return all_served(); }, 60s));
  EXPECT_EQ(segments_used(), 3u);
}

/// It enlists while the attempt is being recorded, before there are parts to give up.
TEST_F(VolumeComesBack, WhileTheAttemptIsRecordedItIsUsed) {
  cluster.options.recoveries.query.returning = 1s;
  make(5);
  volume_ = holder(0).replicas;
  lose(0, 1);
  lose(1, 1);
  kill(others_[2]);
  kill(dead_);
  wait_until_blocked();
  const std::string shown = token();
  bool arrived = false;
  cluster.store->set_probe([&](Point point, const MetadataTransaction& transaction) {
    const bool of_a_loss = std::ranges::any_of(
        transaction.puts, [](const auto& put) { return is_of_a_loss(put.first); });
    if (!of_a_loss || point != Point::kBefore) return;
    cluster.store->set_cut_off(true);
    arrived = true;
  });
  auto accepting =
      cluster.coordinator->accept_loss({dead_, true, shown, "", ""}, cluster.reactor.now() + 30s);
  accepting.resume();
  ASSERT_TRUE(cluster.run_until([&] { return arrived; }));
  // The enlistment waits for the ledger now, and the attempt will wait behind it.
  auto healing = heal_later();
  healing.resume();
  volume_comes_back(others_[2], volume_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_TRUE(accepting.done());
  EXPECT_EQ(segments_used(), 3u);
}

/// Nothing on them can help.
TEST_F(VolumeComesBack, AnEmptyOneAndTheDeadServersOwnChangeNothing) {
  accept_without(Phase::kReplaying);
  cluster.add_server();
  volume_comes_back(dead_, {});
  ASSERT_TRUE(goes_on());
  EXPECT_EQ(segments_used(), 2u);
  size_t orders = 0;
  for (const auto& one : cluster.servers) orders += one ? one->recovery.orders.size() : 0;
  EXPECT_EQ(orders, 1u);
}

TEST_F(AcceptedLosses, TheAuditStays) {
  make_blocked();
  const std::string of_this = token();
  ASSERT_TRUE(ask(dead_, true, of_this).has_value());
  ASSERT_TRUE(wait_until_served());
  cluster.run_for(1s);
  restart();
  cluster.run_for(1s);
  ASSERT_EQ(recorded(), 1u);
  ASSERT_TRUE(state().accepted_losses.contains(dead_));
  const AcceptedLossRecord& record = state().accepted_losses.at(dead_).at(0);
  EXPECT_EQ(record.server_id, dead_);
  EXPECT_THAT(record.segments, ElementsAre(GivenUpSegment{1, 0, ""}));
  EXPECT_FALSE(record.end_given_up);
  EXPECT_EQ(record.by, "ada@desk");
  EXPECT_EQ(record.reason, "the disks are broken");
  EXPECT_EQ(record.token, of_this);
  EXPECT_GT(record.accepted_at_ms, 0u);
  EXPECT_THAT(record.summary, HasSubstr("1 segments of the log are missing"));
}

/// Orders that are sent while the decision is on its way would be forgotten with it.
TEST_F(AcceptedLosses, NothingIsOrderedBeforeTheDecisionIsDurable) {
  make_blocked();
  bool arrived = false, early = false;
  cluster.store->set_probe([&](Point point, const MetadataTransaction& transaction) {
    const bool of_a_loss = std::ranges::any_of(
        transaction.puts, [](const auto& put) { return is_of_a_loss(put.first); });
    const bool of_tables = std::ranges::any_of(
        transaction.puts, [](const auto& put) { return put.first.starts_with(kTablePrefix); });
    if (of_a_loss && point == Point::kBefore) {
      cluster.store->set_cut_off(true);
      arrived = true;
    }
    early = early || (of_tables && recorded() == 0);
  });
  auto accepting =
      cluster.coordinator->accept_loss({dead_, true, token(), "", ""}, cluster.reactor.now() + 30s);
  accepting.resume();
  ASSERT_TRUE(cluster.run_until([&] { return arrived; }));
  cluster.run_for(300ms);
  EXPECT_FALSE(accepting.done());
  EXPECT_TRUE(in_phase(dead_, Phase::kBlocked)) << "it is not decided yet";
  EXPECT_TRUE(state().accepted_losses.empty());
  cluster.store->set_cut_off(false);
  ASSERT_TRUE(cluster.run_until([&] { return accepting.done(); }));
  ASSERT_TRUE(accepting.take().has_value());
  ASSERT_TRUE(wait_until_served());
  EXPECT_FALSE(early);
}

/// The leader dies when the decision is on its way, or was just made.
TEST_F(AcceptedLosses, TheNextLeaderGoesByWhatIsDurable) {
  for (const Point at : {Point::kBefore, Point::kAfter}) {
    SCOPED_TRACE(static_cast<int>(at));
    if (dead_ == 0) make_blocked(6);
    const std::string of_this = token();
    bool struck = false;
    cluster.store->set_probe([&](Point point, const MetadataTransaction& transaction) {
      const bool of_a_loss = std::ranges::any_of(
          transaction.puts, [](const auto& put) { return is_of_a_loss(put.first); });
      if (point != at || !of_a_loss) return;
      cluster.store->set_cut_off(true);
      struck = true;
    });
    {
      auto accepting = cluster.coordinator->accept_loss({dead_, true, of_this, "", ""},
                                                        cluster.reactor.now() + 60s);
      accepting.resume();
      ASSERT_TRUE(cluster.run_until([&] { return struck; }));
    }
    EXPECT_TRUE(attempts_at(dead_).empty());
    cluster.store->set_probe(nullptr);
    ASSERT_EQ(recorded(), at == Point::kAfter ? 1u : 0u);
    cluster.stop_coordinator();
    ASSERT_TRUE(cluster.start_coordinator().ok());
    if (at == Point::kBefore && recorded() == 0) {
      wait_until_blocked();
      EXPECT_EQ(token(), of_this) << "whoever leads";
      continue;
    }
    ASSERT_TRUE(wait_until_served()) << "nobody has to accept it again";
    const auto again = ask(dead_, true, of_this);
    ASSERT_TRUE(again.has_value()) << again.error().to_string();
    EXPECT_TRUE(again->accepted) << "its caller did not hear of it";
    EXPECT_EQ(recorded(), 1u);
  }
}

TEST_F(AcceptedLosses, OnlyWhatWasShownIsAccepted) {
  make_blocked(5);
  const std::string shown = token();
  EXPECT_THAT(refusal(ask(dead_, true), StatusCode::kInvalidArgument),
              AllOf(HasSubstr("token: it is missing"), HasSubstr("recovery accept-loss")));
  EXPECT_THAT(refusal(ask(dead_, true, "loss/1/1/0"), StatusCode::kInvalidArgument),
              HasSubstr("it is not the token of what is missing now"));
  lose(1, 2);
  kill(others_[0]);  // the last one with segment 2
  cluster.add_server();
  ASSERT_TRUE(cluster.run_until([&] { return in_phase(dead_, Phase::kWaiting); }));
  EXPECT_THAT(refusal(ask(dead_), StatusCode::kInvalidArgument),
              AllOf(HasSubstr("is WAITING"), HasSubstr("when nobody is expected any more")));
}

TEST_F(AcceptedLosses, ALargerLossHasAnotherToken) {
  cluster.options.recoveries.query.returning = 1s;
  make(5);
  lose(0, 1);
  lose(1, 1);
  lose(1, 2);
  kill(dead_);
  wait_until_blocked();
  const std::string former = token();
  kill(others_[0]);
  ASSERT_TRUE(cluster.run_until([&] {
    const auto now = ask(dead_);
    return now && now->preview.loss.segments.size() == 2;
  }));
  EXPECT_THAT(refusal(ask(dead_, true, former), StatusCode::kInvalidArgument),
              HasSubstr("is not the token of what is missing now"));
  EXPECT_EQ(recorded(), 0u);
  ASSERT_TRUE(ask(dead_, true, token()).has_value());
  ASSERT_TRUE(wait_until_served());
}

TEST_F(AcceptedLosses, AServerThatIsNotRecoveredIsNamed) {
  make(4);
  EXPECT_THAT(refusal(ask(99), StatusCode::kNotFound), HasSubstr("server 99 does not exist"));
  EXPECT_THAT(refusal(ask(others_[0]), StatusCode::kInvalidArgument),
              AllOf(HasSubstr(fmt::format("server {} ", others_[0])), HasSubstr("is UP"),
                    HasSubstr("whose recovery is BLOCKED")));
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  for (const bool confirmed : {false, true}) {
    EXPECT_THAT(refusal(ask(dead_, confirmed, "x"), StatusCode::kInvalidArgument),
                HasSubstr("owns no tablet any more"));
  }
  EXPECT_THAT(refusal(cluster.wait_for(cluster.coordinator->accept_loss(
                          {dead_, false, "", "\n", ""}, cluster.reactor.now() + 1s)),
                      StatusCode::kInvalidArgument),
              HasSubstr("by"));
}

/// No log is known to have a range without an owner, so there is no loss to accept.
TEST_F(AcceptedLosses, WhatNoLogHasIsNotAccepted) {
  make(4);
  cluster.stop_coordinator();
  cluster.invariants = {};
  for (auto& [key, bytes] : cluster.metadata.records) {
    if (!key.starts_with(kTablePrefix) || !is_tablet_chunk_key(key)) continue;
    TabletChunkRecord chunk;
    ASSERT_TRUE(decode_record(bytes, chunk));
    for (TabletRecord& tablet : chunk.tablets) tablet.creation_position = kNobodysPosition;
    bytes = encode_record(chunk, kMetadataFormatMax);
  }
  ASSERT_TRUE(cluster.start_coordinator().ok());
  kill(dead_);
  wait_until_blocked();
  EXPECT_THAT(
      refusal(ask(dead_), StatusCode::kInvalidArgument),
      AllOf(HasSubstr("not by a part of its log that is missing"),
            HasSubstr("not known who owned a part of 't'"), HasSubstr("no loss can be accepted")));
}

// ---- a server that is UP, and whose device failed -----------------------------------------------------

/// Only the second holder has segment 1, and cannot say so.
class LostWithADevice : public AcceptedLosses {
 protected:
  void make_blocked_by_a_device() {
    make(5);
    lose(0, 1);
    holder(1).query_fails = {StatusCode::kIoError, "sync of frames: EIO"};
    kill(dead_);
    wait_until_blocked();
  }
  void stop_in_replay(bool stop) {
    stop_all_in(stop ? std::optional(wire::RecoveryPhase::kReplaying) : std::nullopt);
  }
  void accept_and_change_the_leader(const std::function<void()>& meanwhile) {
    stop_in_replay(true);
    ASSERT_TRUE(ask(dead_, true, token()).has_value());
    ASSERT_TRUE(cluster.run_until([&] { return attempts_at(dead_).size() == 1; }));
    cluster.stop_coordinator();
    stop_in_replay(false);
    meanwhile();
    ASSERT_TRUE(cluster.start_coordinator().ok());
  }
};

TEST_F(LostWithADevice, IsShownWithItsServerAndCanBeAccepted) {
  cluster.options.recoveries.query.returning = 1s;
  make_blocked_by_a_device();
  const auto shown = ask(dead_);
  ASSERT_TRUE(shown.has_value()) << shown.error().to_string();
  EXPECT_EQ(shown->preview.loss, (log::AcceptedLoss{.segments = {{1, 0}}}));
  EXPECT_THAT(shown->effect, AllOf(HasSubstr(fmt::format("server {} ", others_[1])),
                                   HasSubstr("sync of frames: EIO")));
  ASSERT_TRUE(ask(dead_, true, shown->preview.token).has_value());
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(order().segments.size(), 2u);
}

/// It does not wait for the device again: the server was asked.
TEST_F(LostWithADevice, TheNextLeaderGoesOnAtOnce) {
  cluster.options.recoveries.query.returning = 20s;
  make_blocked_by_a_device();
  accept_and_change_the_leader([] {});
  const Time since = cluster.clock.now();
  ASSERT_TRUE(wait_until_served());
  EXPECT_LT(cluster.clock.now() - since, 10s);
}

/// The server must have been asked, whatever it said before.
TEST_F(LostWithADevice, WhatIsThereAfterAllIsUsed) {
  cluster.options.recoveries.query.returning = 1s;
  make_blocked_by_a_device();
  accept_and_change_the_leader([this] {
    holder(1).query_fails = Status();
    holder(1).query_takes = 100ms;
  });
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(server(owner("t")).recovery.orders.back().segments.size(), 3u);
}

TEST_F(LostWithADevice, ALargerOneIsBlockedAgain) {
  cluster.options.recoveries.query.returning = 1s;
  make_blocked_by_a_device();
  accept_and_change_the_leader([this] { lose(0, 2); });
  wait_until_blocked();
  ASSERT_EQ(progress().missing.size(), 1u);
  EXPECT_EQ(progress().missing[0].segment_id, 2u);
  cluster.run_for(10s);
  EXPECT_TRUE(in_phase(dead_, Phase::kBlocked));
  holder(1).query_fails = Status();
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(server(owner("t")).recovery.orders.back().segments.size(), 3u);
}

// ---- the end of the log ---------------------------------------------------------------------------

TEST_F(AcceptedLosses, WithoutAnyHeadTabletsComeBackEmptyAboveAllVersions) {
  cluster.options.recoveries.query.returning = 1s;
  make(4);
  for (const size_t i : {0, 1}) holder(i).replicas.clear();
  kill(dead_);
  wait_until_blocked();
  const auto shown = ask(dead_);
  ASSERT_TRUE(shown.has_value()) << shown.error().to_string();
  EXPECT_TRUE(shown->preview.end_given_up);
  EXPECT_EQ(shown->preview.newest_head, 0u);
  EXPECT_EQ(shown->preview.tables.size(), 1u);
  EXPECT_THAT(shown->effect, HasSubstr("nothing of it can be recovered"));
  ASSERT_TRUE(ask(dead_, true, shown->preview.token).has_value());
  ASSERT_TRUE(wait_until_served());
  EXPECT_THAT(order().segments, IsEmpty());
  const AcceptedLossRecord& record = state().accepted_losses.at(dead_).at(0);
  EXPECT_EQ(record.version_floor, version_floor(record.accepted_at_ms));
  EXPECT_EQ(order().safe_version, record.version_floor);
}

/// The head is lost. The newest digest that is left is in a segment that was closed.
class LostHead : public AcceptedLosses {
 protected:
  void make_without_head(uint64_t digest_in) {
    cluster.options.recoveries.query.returning = 1s;
    make(5, {.segments = 9, .scanned = false});
    std::string digest;
    log::DigestEncoder encoder(digest);
    for (uint64_t id = 1; id <= digest_in; ++id) encoder.add(id);
    encoder.finish();
    for (const size_t i : {0, 1}) {
      lose(i, 9);
      for (auto& replica : holder(i).replicas.at(dead_)) {
        replica.flags &= ~uint32_t{Flag::kIsHead};
        if (replica.segment_id != digest_in) continue;
        replica.flags |= Flag::kIsHead;
        replica.digest = digest;
      }
    }
    kill(dead_);
  }
};

TEST_F(LostHead, ClosedSegmentsAreReadForTheNewestDigest) {
  make_without_head(3);
  ASSERT_TRUE(cluster.run_until([&] { return ask(dead_).has_value(); }));
  const auto shown = ask(dead_);
  EXPECT_EQ(shown->preview.newest_head, 3u);
  EXPECT_EQ(shown->preview.segments_found, 8u) << "those that were closed later are taken";
  EXPECT_THAT(holder(0).scans.at(dead_), ElementsAre(~uint64_t{0}, 8, 7, 5, 1));
  ASSERT_TRUE(ask(dead_, true, shown->preview.token).has_value());
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(order().segments.size(), 8u);
}

/// They are in no digest: only the record shows that one of them is lost as well.
TEST_F(LostHead, WhatWasClosedLaterIsPartOfTheToken) {
  make_without_head(3);
  const auto token_with = [this](std::vector<log::SegmentEnd> found) {
    log::LossToAccept loss;
    loss.loss.end_after = 3;
    loss.end.segments = std::move(found);
    return preview_of(state(), dead_, std::move(loss), {}).token;
  };
  const std::string shown = token_with({{2, 100, {}}, {5, 100, {}}, {8, 100, {}}});
  EXPECT_EQ(token_with({{2, 100, {0}}, {5, 100, {1}}, {8, 100, {2, 3}}}), shown);
  EXPECT_NE(token_with({{2, 100, {}}, {5, 100, {}}}), shown);
}

/// The new leader has read nothing yet, and must not ask an operator again.
TEST_F(LostHead, TheNextLeaderReadsThemAgain) {
  make_without_head(7);
  ASSERT_TRUE(cluster.run_until([&] { return ask(dead_).has_value(); }));
  for (const auto& one : cluster.servers) {
    if (one) one->recovery.stuck_in = wire::RecoveryPhase::kReplaying;
  }
  ASSERT_TRUE(ask(dead_, true, token()).has_value());
  ASSERT_TRUE(cluster.run_until([&] { return attempts_at(dead_).size() == 1; }));
  cluster.stop_coordinator();
  for (const auto& one : cluster.servers) {
    if (one) one->recovery.stuck_in.reset();
  }
  ASSERT_TRUE(cluster.start_coordinator().ok());
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(order().segments.size(), 8u);
  EXPECT_EQ(recorded(), 1u);
}

/// It was shown as data that would be served, and is lost before anybody has recovered it.
TEST_F(LostHead, WhatWasClosedLaterAndIsLostAfterwardsIsAskedForAgain) {
  make_without_head(3);
  ASSERT_TRUE(cluster.run_until([&] { return ask(dead_).has_value(); }));
  for (const auto& one : cluster.servers) {
    if (one) one->recovery.stuck_in = wire::RecoveryPhase::kReplaying;
  }
  ASSERT_TRUE(ask(dead_, true, token()).has_value());
  EXPECT_THAT(state().accepted_losses.at(dead_).at(0).later, ElementsAre(4, 5, 6, 7, 8));
  cluster.stop_coordinator();
  for (const size_t i : {0, 1}) lose(i, 7);
  for (const auto& one : cluster.servers) {
    if (one) one->recovery.stuck_in.reset();
  }
  ASSERT_TRUE(cluster.start_coordinator().ok());
  // Closed heads are read again before that is known.
  ASSERT_TRUE(cluster.run_until([&] {
    return in_phase(dead_, Phase::kBlocked) && progress().missing.size() == 1 &&
           progress().missing[0].segment_id == 7;
  }));
  ASSERT_TRUE(ask(dead_, true, token()).has_value());
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(order().segments.size(), 7u);
}

TEST_F(LostHead, WhatCannotBeReadIsAskedForOnce) {
  make_without_head(3);
  for (const size_t i : {0, 1}) holder(i).scans_nothing = true;
  ASSERT_TRUE(cluster.run_until([&] { return ask(dead_).has_value(); }));
  EXPECT_EQ(ask(dead_)->preview.newest_head, 0u);
  const size_t asked = holder(0).scans.at(dead_).size();
  cluster.run_for(30s);
  EXPECT_EQ(holder(0).scans.at(dead_).size(), asked);
}

}  // namespace
}  // namespace ramcloud
