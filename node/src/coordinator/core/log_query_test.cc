// Queries for the log of a dead master: which backup gets which request, and when again.
#include "coordinator/core/log_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/testing/recovery_fixture.h"

namespace ramcloud {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeServer;
using ::testing::Ge;
using ::testing::HasSubstr;
using testing::OneTablet;
using wire::Opcode;

constexpr uint64_t kNoneClosed = ~uint64_t{0};

TEST_F(OneTablet, PagesOfAnAnswerArePutTogether) {
  make(4);
  holder(0).page = holder(1).page = 1;
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_GE(holder(0).scans.at(dead_).size(), 3u);
}

/// Else a slow backup would read its first pages again and again.
TEST_F(OneTablet, OnlyThePageThatDidNotComeIsAskedForAgain) {
  make(4);
  holder(1).replicas.clear();
  holder(0).page = 1;
  auto& pages = holder(0).pages[dead_];
  holder(0).on_call = [&](Opcode opcode) {
    if (opcode == Opcode::kRecoveryQuery) holder(0).keeps_silent = pages.size() == 1;
  };
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  ASSERT_GE(pages.size(), 4u);
  EXPECT_EQ(pages[0], 0u);
  EXPECT_GT(pages[1], 0u);
  EXPECT_EQ(pages[2], pages[1]);
  EXPECT_GT(pages[3], pages[2]);
}

TEST_F(OneTablet, RecoveryWaitsForABackupThatIsSilent) {
  make(4);
  // The other backup has lost its replica of the head, and all others.
  holder(1).replicas.clear();
  holder(0).keeps_silent = true;
  kill(dead_);
  cluster.run_for(15s);
  ASSERT_TRUE(in_phase(dead_, Phase::kQuerying));
  EXPECT_THAT(progress().waits_for, HasSubstr(fmt::format("server {}", others_[0])));
  EXPECT_TRUE(attempts_at(dead_).empty());
  EXPECT_TRUE(owns(dead_));
  holder(0).keeps_silent = false;
  ASSERT_TRUE(wait_until_served());
}

/// Restarting it would only begin its answer again.
TEST_F(OneTablet, ABackupWhosePagesComeSlowlyIsNotCalledSilent) {
  make(4);
  holder(1).replicas.clear();
  holder(0).page = 1;
  auto& pages = holder(0).pages[dead_];
  holder(0).on_call = [&](Opcode opcode) {
    if (opcode != Opcode::kRecoveryQuery) return;
    holder(0).keeps_silent = pages.size() == 1;
    holder(0).query_takes = pages.size() > 2 ? 2s : 0s;
  };
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return pages.size() == 2; }));
  ASSERT_TRUE(cluster.run_until([&] { return progress().waits_for.contains("silent"); }));
  ASSERT_TRUE(cluster.run_until([&] { return pages.size() == 4; }));
  cluster.run_for(1s);
  EXPECT_THAT(progress().waits_for, ::testing::Not(HasSubstr("silent")));
  ASSERT_TRUE(wait_until_served());
}

TEST_F(OneTablet, RecoveryWaitsForAVolumeToComeBack) {
  make(5);
  const uint64_t gone = others_[0];
  const auto replicas = recovery(gone).replicas;
  // Only the first one has the segments that are closed.
  auto& rest = holder(1).replicas.at(dead_);
  std::erase_if(rest, [](const auto& replica) { return replica.segment_id == 1; });
  kill(gone);
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return in_phase(dead_, Phase::kWaiting); }));
  ASSERT_EQ(progress().missing.size(), 1u);
  EXPECT_EQ(progress().missing[0].segment_id, 1u);
  EXPECT_THAT(progress().waits_for, HasSubstr("segment 1"));
  const ClusterStatus status = cluster.coordinator->status();
  EXPECT_EQ(status.health, "UNAVAILABLE");
  EXPECT_THAT(status.reasons, ::testing::Contains(HasSubstr("is WAITING: segment 1")));
  ASSERT_FALSE(status.recoveries.empty());
  cluster.run_for(10s);
  EXPECT_TRUE(attempts_at(dead_).empty());
  // Its volume is back, in a server with another id.
  volume_comes_back(gone, replicas);
  ASSERT_TRUE(cluster.run_until([&] { return !owns(dead_); }));
}

TEST_F(OneTablet, WhenNobodyCanBringWhatIsMissingItIsBlocked) {
  cluster.options.recoveries.query.returning = 20s;
  make(5);
  const uint64_t gone = others_[0];
  auto& rest = holder(1).replicas.at(dead_);
  std::erase_if(rest, [](const auto& replica) { return replica.segment_id == 3; });
  kill(gone);
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return in_phase(dead_, Phase::kWaiting); }));
  ASSERT_TRUE(cluster.run_until([&] { return in_phase(dead_, Phase::kBlocked); }));
  EXPECT_THAT(progress().waits_for, HasSubstr("no replica of an open head"));
  cluster.run_for(100ms);
  EXPECT_EQ(metric("ramcloud_recoveries_blocked"), 1);
}

/// Only the second holder has segment 1. It is UP, and its device fails.
class FailedDevice : public OneTablet {
 protected:
  void make_with_a_failed_device() {
    cluster.options.recoveries.query.returning = 20s;
    make(4);
    std::erase_if(holder(0).replicas.at(dead_),
                  [](const auto& replica) { return replica.segment_id == 1; });
    holder(1).query_fails = kFailed;
  }
  bool reaches(Phase phase) {
    return cluster.run_until([&] { return in_phase(dead_, phase); });
  }
  bool blocks_within(Duration limit) {
    return cluster.run_until([&] { return in_phase(dead_, Phase::kBlocked); }, limit);
  }
  static inline const Status kFailed{StatusCode::kIoError, "sync of frames: EIO"};
};

TEST_F(FailedDevice, IsWaitedForAsLongAsACrashedServersVolume) {
  make_with_a_failed_device();
  kill(dead_);
  ASSERT_TRUE(reaches(Phase::kWaiting));
  const Time since = cluster.clock.now();
  EXPECT_THAT(progress().waits_for,
              AllOf(HasSubstr("segment 1"), HasSubstr(fmt::format("server {} ", others_[1])),
                    HasSubstr("device"), HasSubstr("sync of frames: EIO")));
  ASSERT_TRUE(reaches(Phase::kBlocked));
  EXPECT_GE(cluster.clock.now() - since, 19s);
  EXPECT_THAT(progress().waits_for, HasSubstr(fmt::format("server {} ", others_[1])));
  EXPECT_TRUE(is_up(others_[1]));
}

TEST_F(FailedDevice, WhoAnswersAfterAllIsUsed) {
  make_with_a_failed_device();
  kill(dead_);
  ASSERT_TRUE(reaches(Phase::kBlocked));
  holder(1).query_fails = Status();
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(cluster.coordinator->status().recoveries_ended.at(0).progress.outcome, "COMPLETE");
}

/// The server is asked again and again, because it cannot read a closed head.
TEST_F(FailedDevice, ErrorsThatEndInTimeBlockNothing) {
  cluster.options.recoveries.query.returning = 20s;
  make(4, {.scanned = false});
  holder(0).replicas.at(dead_).erase(holder(0).replicas.at(dead_).begin() + 1);
  holder(1).scans_nothing = true;
  kill(dead_);
  cluster.run_for(5s);
  for (int i = 0; i < 3; ++i) {
    holder(1).query_fails = kFailed;
    EXPECT_FALSE(blocks_within(15s)) << i;
    holder(1).query_fails = Status();
    EXPECT_FALSE(blocks_within(5s)) << i;
  }
  holder(1).scans_nothing = false;
  ASSERT_TRUE(wait_until_served());
}

/// It had answered, and fails when it must read a closed head.
TEST_F(FailedDevice, WhatItSaidBeforeDoesNotKeepARecoveryWaiting) {
  cluster.options.recoveries.query.returning = 20s;
  make(4, {.scanned = false});
  holder(0).replicas.at(dead_).erase(holder(0).replicas.at(dead_).begin() + 1);
  holder(1).on_call = [this](Opcode opcode) {
    const bool again = !holder(1).scans[dead_].empty();
    if (opcode == Opcode::kRecoveryQuery && again) holder(1).query_fails = kFailed;
  };
  kill(dead_);
  cluster.run_for(10s);
  EXPECT_TRUE(in_phase(dead_, Phase::kQuerying));
  ASSERT_TRUE(reaches(Phase::kBlocked));
  EXPECT_THAT(progress().waits_for, HasSubstr("segment 2: no replica of it was found"));
}

TEST_F(OneTablet, ALostTailMakesVersionsJump) {
  make_torn(4);
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  const auto& order = server(owner("t")).recovery.orders.at(0);
  EXPECT_EQ(order.segments[0].length, 500u);
  EXPECT_EQ(order.safe_version, 5000 + log::kVersionsOfALostTail);
}

/// Another server died at the same time, and may hold a head that came after.
TEST_F(OneTablet, ATailIsNotGivenUpWhileAVolumeMayComeBack) {
  cluster.options.recoveries.query.returning = 20s;
  die_with_a_torn_tail();
  cluster.run_for(10s);
  EXPECT_TRUE(owns(dead_));
  ASSERT_TRUE(cluster.run_until([&] { return !owns(dead_); }));
}

/// Two servers died at the same time, and are not expected any more. Both holders of a later head may
/// be among them, so their volumes stay in the server list.
TEST_F(OneTablet, ATailIsNotGivenUpWithoutAsManyServersAsItHasReplicas) {
  cluster.options.recoveries.query.returning = cluster.options.retirement.after = 5s;
  make_torn(6);
  for (const size_t i : {2, 3}) kill(others_[i]);
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return in_phase(dead_, Phase::kBlocked); }));
  EXPECT_THAT(progress().waits_for, HasSubstr("have not answered"));
  cluster.run_for(60s);
  EXPECT_TRUE(in_phase(dead_, Phase::kBlocked));
  volume_comes_back(others_[2], {});
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(server(owner("t")).recovery.orders.at(0).safe_version,
            5000 + log::kVersionsOfALostTail);
  for (const size_t i : {2, 3}) {
    ASSERT_TRUE(cluster.run_until([&] {
      return state().servers.at(others_[i]).record.state == wire::ServerState::kRemoved;
    }));
  }
}

/// A closed segment above the head may be a head that followed it: it is read first.
TEST_F(OneTablet, ClosedSegmentsAboveALostTailAreReadFirst) {
  make_torn(4);
  auto& replicas = holder(1).replicas.at(dead_);
  wire::RecoveryReplica later = replicas.front();
  later.segment_id = 4;
  later.frame = 99;
  later.flags &= ~uint32_t{Flag::kScanned | Flag::kIsHead};
  replicas.push_back(later);
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(holder(1).scans.at(dead_).back(), 4u);
  EXPECT_EQ(server(owner("t")).recovery.orders.at(0).segments[0].length, 500u);
}

TEST_F(OneTablet, AClosedHeadAboveALostTailShowsThatMoreIsMissing) {
  cluster.options.recoveries.query.returning = 1s;
  make_torn(4);
  auto& replicas = holder(1).replicas.at(dead_);
  wire::RecoveryReplica later = replicas.back();
  later.segment_id = 4;
  later.frame = 99;
  later.flags = Flag::kClosed | Flag::kIsHead | Flag::kCleanEnd | Flag::kPowerSafe;
  replicas.push_back(later);
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return in_phase(dead_, Phase::kBlocked); }));
  EXPECT_THAT(progress().waits_for, HasSubstr("the head that followed it was not found"));
}

/// Its own tablets were recovered long ago: nobody else needs it in the server list.
TEST_F(OneTablet, AVolumeIsExpectedForAsLongAsTheOptionSays) {
  cluster.options.recoveries.query.returning = 60s;
  cluster.options.retirement.after = 5s;
  die_with_a_torn_tail();
  cluster.run_for(50s);
  EXPECT_TRUE(owns(dead_));
  ASSERT_TRUE(cluster.run_until([&] { return !owns(dead_); }));
  ASSERT_TRUE(cluster.run_until(
      [&] { return state().servers.at(others_[3]).record.state == wire::ServerState::kRemoved; }));
}

/// The master lost replicas, and the coordinator confirmed that they do not count.
TEST_F(OneTablet, AHeadOfAFormerEpochDoesNotCount) {
  cluster.options.recoveries.query.returning = 1s;
  make(4);
  const auto raised = cluster.call<wire::Empty>(Opcode::kRaiseReplicationEpoch,
                                                wire::RaiseReplicationEpochRequest{dead_, 3, 1});
  ASSERT_TRUE(raised.has_value());
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return in_phase(dead_, Phase::kBlocked); }));
  EXPECT_THAT(progress().waits_for, HasSubstr("no replica of an open head that counts"));
  EXPECT_TRUE(attempts_at(dead_).empty());
}

TEST_F(OneTablet, AClosedHeadIsReadForItsVersions) {
  make(4, {.scanned = false});
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  const auto& first = holder(0).scans.at(dead_);
  const auto& second = holder(1).scans.at(dead_);
  EXPECT_EQ(first.front(), ~uint64_t{0});
  EXPECT_EQ(std::min(first.back(), second.back()), 2u) << "one holder that reads it is enough";
}

/// Above the closed head 2 there is a side segment, 3: only reading it shows what it is.
class VersionsOfAClosedHead : public OneTablet {
 protected:
  /// Both holders have 3; only the second one has 2, and it takes its time.
  void make_with_a_side_segment() {
    make(4, {.segments = 4, .scanned = false});
    for (const size_t i : {0, 1}) {
      for (auto& replica : replicas_of(i)) {
        if (replica.segment_id == 3) replica.flags &= ~uint32_t{Flag::kIsHead};
        if (replica.segment_id == 2) replica.flags |= Flag::kIsHead;
      }
    }
    std::erase_if(replicas_of(0), [](const auto& replica) { return replica.segment_id == 2; });
    holder(1).query_takes = 20ms;
  }
  std::vector<wire::RecoveryReplica>& replicas_of(size_t i) { return holder(i).replicas.at(dead_); }
  const std::vector<uint64_t>& asked(size_t i) { return holder(i).scans[dead_]; }
  /// From the verdict until the log was found.
  Duration query_took() {
    const auto& ended = cluster.coordinator->status().recoveries_ended;
    const auto& times = ended.at(0).progress.timeline;
    return std::chrono::milliseconds(times.queried.value() - times.verdict.value());
  }
};

/// It must read more than its last request asked for: it is asked again after its answer to that
/// request.
TEST_F(VersionsOfAClosedHead, AnAnswerThatWasOnItsWayIsAskedForAgainAtOnce) {
  make_with_a_side_segment();
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_THAT(asked(1), ElementsAre(kNoneClosed, 3, 2));
  EXPECT_LT(query_took(), cluster.options.recoveries.query.retry_interval / 4);
}

/// A server that recovered much has many side segments below its newest head, and no head between.
TEST_F(VersionsOfAClosedHead, ManySideSegmentsAreReadInFewRounds) {
  make(4, {.segments = 34, .scanned = false});
  for (const size_t i : {0, 1}) {
    for (auto& replica : replicas_of(i)) {
      if (replica.segment_id > 1 && replica.segment_id < 34)
        replica.flags &= ~uint32_t{Flag::kIsHead};
    }
  }
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_LE(asked(1).size(), 8u);
  EXPECT_EQ(asked(1).back(), 1u);
}

/// Each of many backups has some of them: all read at the same time, and not one after the other.
TEST_F(VersionsOfAClosedHead, ManyBackupsReadSideSegmentsAtTheSameTime) {
  constexpr uint64_t kSegments = 34, kBackups = 8;
  make(2 + kBackups, {.segments = kSegments, .scanned = false});
  give_log(dead_, others_, {.segments = kSegments, .scanned = false});
  for (size_t i = 0; i < others_.size(); ++i) {
    std::erase_if(replicas_of(i), [i](const auto& replica) {
      return replica.segment_id < kSegments && replica.segment_id % kBackups != i;
    });
    for (auto& replica : replicas_of(i)) {
      const bool side = replica.segment_id > 1 && replica.segment_id < kSegments;
      if (side) replica.flags &= ~uint32_t{Flag::kIsHead};
    }
    holder(i).query_takes = 20ms;
  }
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_LE(query_took(), 10 * 20ms) << "1, 2, 4, 8, 16, 32 and 33 segments are read";
}

/// The first answer said that it must be read, and the backup that gave it is silent since.
TEST_F(VersionsOfAClosedHead, WhoAnswersLaterReadsItForOneThatIsSilent) {
  make(4, {.scanned = false});
  holder(1).query_takes = 20ms;
  holder(0).on_call = [this](wire::Opcode opcode) {
    if (opcode == wire::Opcode::kRecoveryQuery) holder(0).keeps_silent = !asked(0).empty();
  };
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_THAT(asked(0), ElementsAre(kNoneClosed, 2));
  EXPECT_THAT(asked(1), ElementsAre(kNoneClosed, 2));
  EXPECT_LT(query_took(), cluster.options.recoveries.query.retry_interval / 4);
}

/// Nothing can be read: the backup is not asked in a loop.
TEST_F(VersionsOfAClosedHead, WhoDoesNotReadItIsAskedNowAndThen) {
  make(4, {.scanned = false});
  for (const size_t i : {0, 1}) holder(i).scans_nothing = true;
  kill(dead_);
  cluster.run_for(20s);
  EXPECT_TRUE(owns(dead_));
  for (const size_t i : {0, 1}) {
    EXPECT_THAT(asked(i).size(), ::testing::AllOf(Ge(4u), ::testing::Le(12u)));
    holder(i).scans_nothing = false;
  }
  ASSERT_TRUE(in_phase(dead_, Phase::kQuerying)) << "it waits for nobody";
  ASSERT_TRUE(wait_until_served());
}

}  // namespace
}  // namespace ramcloud
