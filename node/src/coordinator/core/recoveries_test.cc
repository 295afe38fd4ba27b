// Recoveries of crashed servers: the log, attempts, and the obstacles.
#include "coordinator/core/recoveries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/testing/recovery_fixture.h"

namespace ramcloud {
namespace {

using testing::FakeServer;
using ::testing::HasSubstr;
using testing::kLeaseIsOver;
using testing::OneTablet;
using testing::RecoveriesTest;
using wire::Opcode;

// ---- one server -----------------------------------------------------------------------------------

TEST_F(RecoveriesTest, TheTabletsOfACrashedServerAreServedByOthers) {
  start(4);
  ASSERT_TRUE(cluster.create("t", 4).has_value());
  give_log(1, {2, 3});
  const uint64_t before = state().tables.at(1).latest_revision();
  kill(1);
  ASSERT_TRUE(wait_until_served());
  EXPECT_FALSE(owns(1));
  EXPECT_GT(state().tables.at(1).latest_revision(), before);
  ASSERT_EQ(attempts_at(1).size(), 1u);
  const uint64_t attempt = *attempts_at(1).begin();
  for (const auto& one : cluster.servers) {
    if (!one) continue;
    for (const auto& order : one->recovery.orders) {
      EXPECT_EQ(order.attempt, attempt);
      EXPECT_EQ(order.safe_version, 5000u);
      ASSERT_EQ(order.segments.size(), 3u);
      EXPECT_EQ(order.segments[0].segment_id, 3u);
      EXPECT_EQ(order.segments[0].length, 1000u);
      EXPECT_EQ(order.segments[1].length, 8u << 20);
      ASSERT_EQ(order.segments[1].sources.size(), 2u);
      EXPECT_EQ(order.segments[1].sources[0].server_id, 2u) << "the primary replica first";
      EXPECT_EQ(order.segments[1].sources[0].frame, 20u);
      EXPECT_EQ(order.segments[1].sources[1].server_id, 3u);
      ASSERT_EQ(order.tablets.size(), 1u);
      EXPECT_EQ(order.tablets[0].table_name, "t");
      EXPECT_NE(order.tablets[0].creation_position, 0u);
    }
  }
  EXPECT_EQ(metric("ramcloud_recoveries_completed_total"), 1);
  EXPECT_EQ(metric("ramcloud_recoveries_attempts_total"), 1);
  cluster.run_for(100ms);
  EXPECT_EQ(metric("ramcloud_recoveries_running"), 0);
}

/// An order packs them, except for servers that do not know packed segments.
TEST_F(RecoveriesTest, ServersOfAnEarlierVersionAreOrderedAllSegmentsToo) {
  start(4);
  ASSERT_TRUE(cluster.create("t", 4).has_value());
  give_log(1, {2, 3});
  for (const auto& one : cluster.servers) {
    if (one) cluster.network.versions[one->port()] = wire::kPackedSegments - 1;
  }
  kill(1);
  ASSERT_TRUE(wait_until_served());
  size_t orders = 0;
  for (const auto& one : cluster.servers) {
    for (const auto& order : one ? one->recovery.orders : std::vector<wire::RecoverRequest>()) {
      ++orders;
      ASSERT_EQ(order.segments.size(), 3u);
      EXPECT_EQ(order.segments[0].segment_id, 3u);
      EXPECT_EQ(order.segments[1].sources[0].frame, 20u);
    }
  }
  EXPECT_EQ(orders, 1u);
}

TEST_F(RecoveriesTest, AnEndedRecoveryTellsItsTimes) {
  start(4);
  ASSERT_TRUE(cluster.create("t", 4).has_value());
  give_log(1, {2, 3});
  kill(1);
  ASSERT_TRUE(wait_until_served());
  const ClusterStatus status = cluster.coordinator->status();
  EXPECT_TRUE(status.recoveries.empty());
  ASSERT_EQ(status.recoveries_ended.size(), 1u);
  const RecoveryView& ended = status.recoveries_ended[0];
  EXPECT_EQ(ended.server_id, 1u);
  EXPECT_EQ(recovery_state_name(ended.progress), "DONE");
  EXPECT_EQ(ended.progress.outcome, "COMPLETE");
  EXPECT_EQ(ended.progress.reason, state().servers.at(1).record.state_reason);
  EXPECT_EQ(ended.progress.needed_bytes, 0u);
  const auto& times = ended.progress.timeline;
  ASSERT_TRUE(times.verdict && times.queried && times.planned && times.first_key && times.half &&
              times.served && times.replicated);
  EXPECT_LE(*times.verdict, *times.queried);
  EXPECT_LE(*times.queried, *times.planned);
  EXPECT_LE(*times.planned, *times.replicated);
  EXPECT_LE(*times.first_key, *times.half);
  EXPECT_LE(*times.half, *times.served);
  EXPECT_GE(*times.first_key, *times.verdict + 525) << "the lease of the dead is waited for";
  ASSERT_EQ(ended.progress.partitions.size(), 1u);
  EXPECT_EQ(ended.progress.partitions[0].state, "DONE");
  EXPECT_NE(ended.progress.partitions[0].recovery_master, 1u);
}

TEST_F(RecoveriesTest, OnlyTheLastEndedRecoveriesAreKept) {
  start(kEndedRecoveries + 4, 0);
  ASSERT_TRUE(cluster.create("t", kEndedRecoveries + 4).has_value());
  for (uint64_t id = 1; id <= kEndedRecoveries + 2; ++id) {
    kill(id);
    ASSERT_TRUE(wait_until_served());
  }
  const auto& ended = state().ended_recoveries;
  ASSERT_EQ(ended.size(), kEndedRecoveries);
  EXPECT_EQ(ended.front().server_id, 3u);
  EXPECT_EQ(ended.back().server_id, kEndedRecoveries + 2);
  EXPECT_EQ(ended.back().progress.outcome, kAllLost) << "it had no replicas";
}

TEST_F(RecoveriesTest, NothingIsServedBeforeTheLeaseOfTheDeadIsOver) {
  start(4);
  ASSERT_TRUE(cluster.create("t", 4).has_value());
  give_log(1, {2, 3});
  kill(1);
  ASSERT_TRUE(wait_until_served());
  expect_served_after(kLeaseIsOver);
}

// ---- a planned stop -------------------------------------------------------------------------------

TEST_F(RecoveriesTest, WhoSaysThatItStopsIsRecoveredAtOnce) {
  read_lease_ms_ = 60'000;
  start(4);
  ASSERT_TRUE(cluster.create("t", 4).has_value());
  give_log(1, {2, 3});
  const Time before = cluster.clock.now();
  const wire::StopServingRequest stop{1, state().servers.at(1).record.nonce};
  ASSERT_TRUE(cluster.call<wire::Empty>(Opcode::kStopServing, stop).has_value());
  EXPECT_FALSE(is_up(1)) << "the answer comes when it is written";
  EXPECT_THAT(state().servers.at(1).record.state_reason, HasSubstr("asked to stop"));
  ASSERT_TRUE(cluster.call<wire::Empty>(Opcode::kStopServing, stop).has_value()) << "again";
  ASSERT_TRUE(wait_until_served());
  ASSERT_FALSE(served_at_.empty());
  for (const Time at : served_at_) EXPECT_LT(at, before + 5s) << "it waits for no lease";
}

/// It has no lease, during which only a first part could be served.
TEST_F(OneTablet, WhoSaysThatItStopsHasNoFirstPart) {
  make(5, {.segments = 12});
  const wire::StopServingRequest stop{dead_, state().servers.at(dead_).record.nonce};
  ASSERT_TRUE(cluster.call<wire::Empty>(Opcode::kStopServing, stop).has_value());
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(state().tables.at(1).tablets.size(), 4u) << "one for each";
}

TEST_F(RecoveriesTest, TheServerListSaysWhoStoppedByAPlan) {
  start(4);
  const uint64_t base = state().list_version;
  const wire::StopServingRequest stop{1, state().servers.at(1).record.nonce};
  ASSERT_TRUE(cluster.call<wire::Empty>(Opcode::kStopServing, stop).has_value());
  kill(2);
  ASSERT_TRUE(cluster.run_until([this] { return !is_up(2); }));
  for (const wire::ServerList& list : {state().server_list(), state().server_list(base)}) {
    for (const wire::ServerListEntry& server : list.servers) {
      EXPECT_EQ(server.stopped_by_plan, server.server_id == 1) << server.server_id;
    }
  }
}

TEST_F(RecoveriesTest, NobodySpeaksForAnotherServer) {
  start(3);
  const uint64_t nonce = state().servers.at(1).record.nonce;
  const auto stop = [this](uint64_t id, uint64_t with) {
    return cluster.call<wire::Empty>(Opcode::kStopServing, wire::StopServingRequest{id, with});
  };
  EXPECT_EQ(stop(1, nonce + 1).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(stop(1, 0).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(stop(2, nonce).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(stop(99, nonce).error().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(is_up(1));
  EXPECT_TRUE(is_up(2));
  EXPECT_FALSE(state().servers.at(1).answers_nothing);
}

TEST_F(RecoveriesTest, TheLastServerIsNotGivenUpByItsOwnWord) {
  start(2);
  const auto stop = [this](uint64_t id) {
    return cluster.call<wire::Empty>(
        Opcode::kStopServing, wire::StopServingRequest{id, state().servers.at(id).record.nonce});
  };
  EXPECT_TRUE(stop(1).has_value());
  EXPECT_EQ(stop(2).error().code(), StatusCode::kUnsupported);
  EXPECT_TRUE(is_up(2));
}

TEST_F(RecoveriesTest, TheLeaseThatAServerSaidIsWaitedFor) {
  read_lease_ms_ = 2000;
  start(4);
  ASSERT_TRUE(cluster.create("t", 4).has_value());
  give_log(1, {2, 3});
  kill(1);
  ASSERT_TRUE(wait_until_served());
  expect_served_after(2100ms);
}

TEST_F(RecoveriesTest, ALongLogIsSharedOutAmongAllServers) {
  start(4);
  ASSERT_TRUE(cluster.create("t", 1).has_value());
  const uint64_t dead = owner("t");
  std::vector<uint64_t> others;
  for (uint64_t id = 1; id <= 4; ++id) {
    if (id != dead) others.push_back(id);
  }
  give_log(dead, {others[0], others[1]}, {.segments = 12});
  kill(dead);
  ASSERT_TRUE(wait_until_served());
  const TableRecord& table = state().tables.at(1);
  EXPECT_EQ(table.tablets.size(), 4u) << "one for each, and the first part";
  for (const uint64_t id : others) EXPECT_TRUE(table.has_tablet_on(id));
  EXPECT_EQ(table.span, 1u);
}

// ---- the first part -------------------------------------------------------------------------------

/// A log that is long enough for a first part. It is the part of the first server.
class FirstPart : public OneTablet {
 protected:
  static constexpr uint64_t kQuarter = uint64_t{1} << 62;
  void SetUp() override {
    make(5, {.segments = 12});
    first_ = others_[0];
  }
  size_t orders_of_others() {
    size_t orders = 0;
    for (const uint64_t id : others_) orders += id == first_ ? 0 : recovery(id).orders.size();
    return orders;
  }
  const std::vector<wire::RecoverRequest>& orders() { return recovery(first_).orders; }
  bool is_served(uint64_t start_hash) {
    return std::ranges::any_of(served_,
                               [&](const auto& one) { return std::get<1>(one) == start_hash; });
  }
  /// Kills the owner. The first part waits for the lease to end, and the rest of its server's share
  /// fails.
  void fail_the_rest() {
    kill(dead_);
    ASSERT_TRUE(cluster.run_until([&] { return orders().size() == 1; }));
    recovery(first_).stuck_in = wire::RecoveryPhase::kReady;
    ASSERT_TRUE(cluster.run_until([&] { return orders().size() == 2; }));
    recovery(first_).fail = {{StatusCode::kOutOfMemory, 0}};
    ASSERT_TRUE(cluster.run_until([&] { return recovery(first_).fail.empty(); }));
    EXPECT_FALSE(is_served(0));
  }
  uint64_t first_ = 0;
};

TEST_F(FirstPart, OthersWaitUntilItHasFetched) {
  recovery(first_).stuck_in = wire::RecoveryPhase::kReplaying;
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return orders().size() == 1; }));
  cluster.run_for(350ms);
  EXPECT_EQ(orders_of_others(), 0u);
  ASSERT_EQ(orders()[0].tablets.size(), 1u);
  EXPECT_LT(orders()[0].tablets[0].range.end_hash, kQuarter / 4);
  // Its server goes on with the rest of its share, and does not wait for the hand-over.
  stop_all_in(wire::RecoveryPhase::kCommitting);
  ASSERT_TRUE(cluster.run_until([&] { return orders_of_others() == 3 && orders().size() == 2; }));
  EXPECT_FALSE(is_served(0));
  EXPECT_EQ(orders()[1].tablets[0].range.end_hash, kQuarter - 1);
  stop_all_in(std::nullopt);
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(metric("ramcloud_recoveries_attempts_total"), 1) << "the rest is of the same attempt";
}

TEST_F(FirstPart, NobodyWaitsLongForOneThatIsSlow) {
  recovery(first_).stuck_in = wire::RecoveryPhase::kReplaying;
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return orders().size() == 1; }));
  cluster.run_for(450ms);
  EXPECT_EQ(orders_of_others(), 3u);
  // Others take the rest of its share when they have nothing else to do.
  const uint64_t rest = orders()[0].tablets[0].range.end_hash + 1;
  ASSERT_TRUE(cluster.run_until([&] { return is_served(rest); }));
  EXPECT_TRUE(is_served(kQuarter) && is_served(2 * kQuarter) && is_served(3 * kQuarter));
  EXPECT_EQ(orders().size(), 1u);
  recovery(first_).stuck_in.reset();
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(metric("ramcloud_recoveries_attempts_total"), 1);
}

TEST_F(FirstPart, WhenItsServerDiesOthersGoOn) {
  recovery(first_).stuck_in = wire::RecoveryPhase::kReplaying;
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return orders().size() == 1; }));
  give_log(dead_, {others_[1], others_[2]}, {.segments = 12});
  kill(first_);
  ASSERT_TRUE(wait_until_served());
}

/// The order would make the server give up the first part as well, which the metadata may have
/// handed over to it at this moment.
TEST_F(FirstPart, IsNotGivenUpWithTheRest) {
  bool aborted_early = false;
  recovery(first_).on_call = [&](Opcode opcode) {
    if (opcode == Opcode::kAbortRecovery && !is_served(0)) aborted_early = true;
  };
  ASSERT_NO_FATAL_FAILURE(fail_the_rest());
  ASSERT_TRUE(wait_until_served());
  EXPECT_FALSE(aborted_early);
  EXPECT_TRUE(cluster.run_until([&] { return recovery(first_).aborted.contains(dead_); }));
  EXPECT_TRUE(is_served(0));
}

/// It does not know whether the first part was handed over: the store did not answer, and names
/// another leader.
TEST_F(FirstPart, IsNotGivenUpByAFormerLeader) {
  bool aborted = false;
  recovery(first_).on_call = [&](Opcode opcode) {
    aborted = aborted || opcode == Opcode::kAbortRecovery;
  };
  const Time alive = cluster.clock.now();
  ASSERT_NO_FATAL_FAILURE(fail_the_rest());
  // The others take longer than the hand-over of the first part.
  for (size_t i = 1; i < others_.size(); ++i) {
    recovery(others_[i]).stuck_in = wire::RecoveryPhase::kReplaying;
  }
  std::string& term = cluster.metadata.records[kTermKey];
  const std::string own = term;
  bool handing_over = false;
  cluster.store->set_probe([&](SimMetadata::Point, const MetadataTransaction& transaction) {
    const bool of_tables = std::ranges::any_of(
        transaction.puts, [](const auto& put) { return put.first.starts_with(kTablePrefix); });
    // Nothing is handed over before the lease is over.
    if (!of_tables || cluster.clock.now() < alive + kLeaseIsOver) return;
    handing_over = true;
    cluster.store->set_full(true);
    term = "another leader's";
  });
  ASSERT_TRUE(cluster.run_until([&] { return handing_over; }));
  cluster.run_for(1s);
  EXPECT_FALSE(aborted);
  cluster.store->set_probe(nullptr);
  cluster.store->set_full(false);
  term = own;
  cluster.stop_coordinator();
  stop_all_in(std::nullopt);
  ASSERT_TRUE(cluster.start_coordinator().ok());
  ASSERT_TRUE(wait_until_served());
}

// ---- attempts -------------------------------------------------------------------------------------

TEST_F(OneTablet, ARecoveryMasterMayDieInEachPhase) {
  for (const auto phase : {wire::RecoveryPhase::kReplaying, wire::RecoveryPhase::kCommitting,
                           wire::RecoveryPhase::kReady}) {
    SCOPED_TRACE(static_cast<int>(phase));
    if (cluster.servers.empty()) {
      make(5);
    } else {
      ASSERT_TRUE(cluster.drop("t").has_value());
      while (state().servers_up() < 5) cluster.add_server();
      ASSERT_TRUE(cluster.create("t", 1).has_value());
      dead_ = owner("t");
      others_.clear();
      for (const auto& [id, server] : state().servers) {
        if (server.up() && id != dead_) others_.push_back(id);
      }
      give_log(dead_, {others_[0], others_[1]});
    }
    stop_all_in(phase);
    kill(dead_);
    FakeServer* other = nullptr;
    ASSERT_TRUE(cluster.run_until([&] { return (other = recovering(phase)) != nullptr; }));
    const uint64_t second = other->id;
    // Sources stay.
    const bool is_source = second == others_[0] || second == others_[1];
    give_log(dead_, {others_[is_source ? 2 : 0], others_[is_source ? 3 : 1]});
    kill(second);
    stop_all_in(std::nullopt);
    ASSERT_TRUE(wait_until_served());
    EXPECT_NE(owner("t"), second);
    EXPECT_NE(owner("t"), dead_);
  }
}

/// What it recovered is in its own log from then on.
TEST_F(OneTablet, AServerThatTookTabletsIsRecoveredAsWell) {
  make(5);
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  const uint64_t second = owner("t");
  const uint64_t first_attempt = state().tables.at(1).tablets[0].attempt;
  const uint64_t position = state().tables.at(1).tablets[0].creation_position;
  std::vector<uint64_t> rest;
  for (const uint64_t id : others_) {
    if (id != second) rest.push_back(id);
  }
  give_log(second, {rest[0], rest[1]}, {.safe_version = 9000});
  kill(second);
  ASSERT_TRUE(wait_until_served());
  const TabletRecord& tablet = state().tables.at(1).tablets[0];
  EXPECT_GT(tablet.attempt, first_attempt);
  const auto& order = server(tablet.server_id).recovery.orders.back();
  EXPECT_EQ(order.master_id, second);
  EXPECT_EQ(order.tablets[0].creation_position, position);
}

TEST_F(OneTablet, WhatARecoveryMasterHasNoMemoryForIsSharedOutOtherwise) {
  make(3, {.segments = 12});
  for (const uint64_t id : others_) recovery(id).fail = {{StatusCode::kOutOfMemory, 0}};
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(attempts_at(dead_).size(), 4u)
      << "each has the half of what it failed with, the rest follows";
  for (const uint64_t id : others_) {
    EXPECT_EQ(recovery(id).aborted.at(dead_), *attempts_at(dead_).begin());
  }
}

TEST_F(OneTablet, PartsAreLargeAgainOnceThereIsMemory) {
  make(3, {.segments = 60});
  for (const uint64_t id : others_) {
    recovery(id).table_bytes[1] = 480 * testing::kMiB;
    recovery(id).fail.assign(6, {StatusCode::kOutOfMemory, 0});
  }
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_LE(attempts_at(dead_).size(), 25u) << "each reads the whole log";
}

/// Frames of all servers' volumes, so many of which are free.
class FewFrames : public OneTablet {
 protected:
  void set_free(uint64_t frames) {
    for (const auto& one : cluster.servers) {
      if (!one) continue;
      one->stats.frames_total = 80;
      one->stats.frames_used = 80 - frames;
    }
  }
  /// The number of parts that were ordered.
  std::map<uint64_t, size_t> parts_by_attempt() const {
    std::map<uint64_t, size_t> parts;
    for (const auto& one : cluster.servers) {
      if (!one) continue;
      for (const auto& order : one->recovery.orders) ++parts[order.attempt];
    }
    return parts;
  }
  /// Parts find no frames from now on.
  void fail_parts(size_t count) {
    for (const uint64_t id : others_) recovery(id).fail.assign(count, {StatusCode::kNoSpace, 0});
  }
};

TEST_F(FewFrames, WithoutAnyItWaitsSaysSoAndReadsNothing) {
  make(4, {.segments = 12});
  set_free(8);  // those are for heads
  cluster.run_for(3s);
  fail_parts(1);
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] {
    return in_phase(dead_, Phase::kWaiting) && progress().waits_for.starts_with("backups have no");
  }));
  EXPECT_THAT(progress().waits_for, HasSubstr("8 of 80 frames are free"));
  cluster.run_for(5s);
  const size_t before = attempts_at(dead_).size();
  cluster.run_for(60s);
  EXPECT_EQ(attempts_at(dead_).size(), before) << "each would read the whole log in vain";
  ASSERT_TRUE(in_phase(dead_, Phase::kWaiting));
  fail_parts(0);
  set_free(40);
  ASSERT_TRUE(wait_until_served());
}

TEST_F(FewFrames, PartsBecomeFewerAndSmallerUntilOneIsServed) {
  make(4, {.segments = 12});
  set_free(40);
  cluster.run_for(3s);
  fail_parts(1);
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  const std::map<uint64_t, size_t> parts = parts_by_attempt();
  ASSERT_GE(parts.size(), 3u);
  EXPECT_EQ(parts.begin()->second, 3u) << "at first all servers share the log";
  EXPECT_EQ(std::next(parts.begin())->second, 1u) << "then one tries with less";
  EXPECT_GT(parts.rbegin()->second, 1u) << "when that is served, more dare again";
}

/// Each part begins a segment of its own. A short log in many parts would take the last frames.
class FewTablets : public FewFrames {
 protected:
  /// The parts of the first attempt at a log of one segment.
  size_t parts_with(uint64_t free) {
    make(4, {.segments = 1});
    EXPECT_TRUE(cluster.create("u", 4).has_value());  // it has a tablet of both
    set_free(free);
    cluster.run_for(3s);
    kill(dead_);
    EXPECT_TRUE(wait_until_served());
    return parts_by_attempt().begin()->second;
  }
};

TEST_F(FewTablets, HaveManyPartsWhereFramesAreFree) {
  EXPECT_EQ(parts_with(40), 2u);
}

TEST_F(FewTablets, HaveOnePartWhereEachCostsFrames) {
  EXPECT_EQ(parts_with(9), 1u);
}

TEST_F(FewTablets, HaveOnePartWhereNoneAreFree) {
  EXPECT_EQ(parts_with(8), 1u) << "more may be free than is reported";
}

/// The size of a part is estimated by its share of hashes. An empty table has the same as a full one.
TEST_F(FewFrames, APartGetsSmallerByWhatItReallyHas) {
  make(4, {.segments = 12});
  const auto table = cluster.create("u", 4);
  ASSERT_TRUE(table.has_value());
  const uint64_t full = table->table_id;
  for (const uint64_t id : others_) {
    recovery(id).table_bytes[full] = 4 * 88 * testing::kMiB;  // a quarter is the dead server's
    recovery(id).framed_bytes = log::kSegmentBytes;
  }
  set_free(9);
  cluster.run_for(3s);
  kill(dead_);
  const auto handed_over = [&] {
    return std::ranges::any_of(state().tables.at(full).tablets, [this](const TabletRecord& tablet) {
      return tablet.attempt != 0 && tablet.server_id != dead_ &&
             tablet.status == TabletStatus::kNormal;
    });
  };
  EXPECT_TRUE(cluster.run_until(handed_over, 120s)) << progress().waits_for;
  for (const uint64_t id : others_) recovery(id).framed_bytes = ~uint64_t{0};
  set_free(80);
  ASSERT_TRUE(wait_until_served());
}

class NothingFits : public FewFrames {
 protected:
  /// The smallest part finds no frames, although some are free by what servers report.
  void try_in_vain(uint64_t free) {
    make(4, {.segments = 12});
    set_free(free);
    cluster.run_for(3s);
    fail_parts(1000);
    kill(dead_);
    ASSERT_TRUE(cluster.run_until([&] { return waits_for_more(); }, 120s));
    EXPECT_LE(attempts_at(dead_).size(), 6u) << "each has half of what the one before had";
  }
  bool waits_for_more() {
    return in_phase(dead_, Phase::kWaiting) &&
           progress().waits_for.ends_with("tried again when more are free, or in some minutes");
  }
};

TEST_F(NothingFits, TheSmallestPartIsTriedAgainWhenMoreFramesAreFree) {
  try_in_vain(20);
  const size_t before = attempts_at(dead_).size();
  cluster.run_for(20s);
  EXPECT_EQ(attempts_at(dead_).size(), before) << "each would read the whole log in vain";
  set_free(21);
  cluster.run_for(10s);
  EXPECT_EQ(attempts_at(dead_).size(), before + 1);
  EXPECT_TRUE(waits_for_more());
  fail_parts(0);
  cluster.run_for(10s);
  EXPECT_TRUE(owns(dead_));
  set_free(30);
  ASSERT_TRUE(cluster.run_until([&] { return !owns(dead_); }, 30s));
}

/// What servers report may be wrong.
TEST_F(NothingFits, ItIsTriedAgainAfterAWhileAllTheSame) {
  try_in_vain(20);
  const size_t before = attempts_at(dead_).size();
  cluster.run_for(25min);
  const size_t more = attempts_at(dead_).size() - before;
  EXPECT_GE(more, 4u) << "after 1, 2, 4, 8 minutes at most";
  EXPECT_LE(more, 7u) << "after half of that at least, and then after 5 minutes";
  fail_parts(0);
  ASSERT_TRUE(cluster.run_until([&] { return !owns(dead_); }, 11min));
}

TEST_F(OneTablet, AttemptsThatFailComeMoreAndMoreSeldomAndTheStatusSaysWhy) {
  make(4);
  for (const uint64_t id : others_) recovery(id).fail.assign(1000, {StatusCode::kRetry, 0});
  kill(dead_);
  cluster.run_for(30s);
  const size_t before = attempts_at(dead_).size();
  EXPECT_GE(before, 5u) << "the first ones come soon";
  cluster.run_for(60s);
  const size_t in_a_minute = attempts_at(dead_).size() - before;
  EXPECT_GE(in_a_minute, 8u) << "5 s at most";
  EXPECT_LE(in_a_minute, 26u) << "2.5 s at least";
  ASSERT_TRUE(cluster.run_until([&] { return phase(dead_) == Phase::kWaiting; }));
  EXPECT_THAT(progress().waits_for, HasSubstr("RETRY"));
  for (const uint64_t id : others_) recovery(id).fail.clear();
  ASSERT_TRUE(wait_until_served());
}

TEST_F(OneTablet, ASegmentThatNoSourceGivesIsLookedAtAgain) {
  make(4);
  for (const uint64_t id : others_) recovery(id).fail = {{StatusCode::kCorrupt, 2}};
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(holder(0).scans.at(dead_).back(), 2u);
  EXPECT_EQ(attempts_at(dead_).size(), 2u);
}

/// The network between it and the backups is cut, or it has an older server list.
TEST_F(OneTablet, ARecoveryMasterThatReachesNoSourceIsNotChosenAgain) {
  make(4);
  const StatusCode silences[] = {StatusCode::kDeadlineExceeded, StatusCode::kUnavailable,
                                 StatusCode::kConnectionLost};
  for (int i = 0; i < 999; ++i) recovery(others_[0]).fail.emplace_back(silences[i % 3], 2);
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(attempts_at(dead_).size(), 2u);
  EXPECT_EQ(recovery(others_[0]).orders.size(), 1u) << "it is chosen first";
  EXPECT_NE(owner("t"), others_[0]);
  EXPECT_EQ(holder(1).scans.at(dead_).back(), ~uint64_t{0}) << "no replica is read in vain";
}

TEST_F(OneTablet, AServerThatCannotRecoverIsNotAskedTwice) {
  make(4);
  recovery(others_[2]).enabled = false;
  server(others_[2]).request.log_bytes = 0;
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_NE(owner("t"), others_[2]);
}

TEST_F(OneTablet, WhatFailsIsPlannedAgainWhileAnotherPartIsStuck) {
  make(5, {.segments = 12});
  recovery(others_[0]).stuck_in = wire::RecoveryPhase::kReplaying;
  recovery(others_[1]).fail = {{StatusCode::kOutOfMemory, 0}};
  kill(dead_);
  const auto left = [this] {
    return std::ranges::count(state().tables.at(1).tablets, dead_, &TabletRecord::server_id);
  };
  const auto others_go_on = [&] { return state().tables.at(1).tablets.size() > 1 && left() == 1; };
  // Sooner than a part without progress is given up.
  ASSERT_TRUE(cluster.run_until(others_go_on, 30s)) << left();
  EXPECT_TRUE(owns(dead_)) << "the stuck one";
  EXPECT_EQ(recovery(others_[0]).orders.size(), 1u) << "one part at a time";
  recovery(others_[0]).stuck_in.reset();
  ASSERT_TRUE(cluster.run_until([&] { return !owns(dead_); }, 300s));
  ASSERT_TRUE(wait_until_served());
  EXPECT_TRUE(state().tables.at(1).has_tablet_on(others_[0]));
}

TEST_F(OneTablet, ATableThatIsDroppedWhileItIsReplayedIsNotHandedOver) {
  make(5);
  drop_while(wire::RecoveryPhase::kReplaying);
}

TEST_F(OneTablet, ATableThatIsDroppedBeforeTheHandOverIsNotHandedOver) {
  make(5);
  drop_while(wire::RecoveryPhase::kReady);
}

TEST_F(OneTablet, ATableThatIsDroppedWhileBackupsAreAskedNeedsNoRecovery) {
  make(4);
  for (const uint64_t id : others_) recovery(id).keeps_silent = true;
  kill(dead_);
  cluster.run_for(1s);
  ASSERT_TRUE(in_phase(dead_, Phase::kQuerying));
  ASSERT_TRUE(cluster.drop("t").has_value());
  ASSERT_TRUE(cluster.run_until([&] { return state().recoveries.empty(); }, 1s));
  EXPECT_TRUE(attempts_at(dead_).empty());
}

TEST_F(OneTablet, ATableThatIsDroppedBeforeTheLateAnswersNeedsNoRecovery) {
  make(4);
  recovery(others_[2]).keeps_silent = true;
  kill(dead_);
  // The end of the log is known, and the answer of one more backup is waited for.
  ASSERT_TRUE(cluster.run_until([&] {
    return recovery(others_[0]).frozen.contains(dead_) &&
           recovery(others_[1]).frozen.contains(dead_);
  }));
  cluster.run_for(10ms);
  ASSERT_TRUE(in_phase(dead_, Phase::kQuerying));
  ASSERT_TRUE(cluster.drop("t").has_value());
  ASSERT_TRUE(cluster.run_until([&] { return state().recoveries.empty(); }, 1s));
  EXPECT_TRUE(attempts_at(dead_).empty());
}

/// Several pairs: not all of them begin their attempts in one turn.
TEST_F(RecoveriesTest, TwoServersCrashAtOnce) {
  constexpr uint32_t kPairs = 5, kOthers = 4;
  start(2 * kPairs + kOthers);
  ASSERT_TRUE(cluster.create("t", 2 * kPairs + kOthers).has_value());
  ASSERT_TRUE(cluster.create("u", 3).has_value());
  constexpr uint64_t kHolder = 2 * kPairs + 1;
  for (uint64_t one = 1; one < kHolder; one += 2) {
    const uint64_t other = one + 1;
    give_log(one, {kHolder, kHolder + 1});
    give_log(other, {kHolder + 1, kHolder + 2});  // as long as the other one
    cluster.kill_server(server(one));
    cluster.kill_server(server(other));
    cluster.coordinator->hint(one);
    cluster.coordinator->hint(other);
    ASSERT_TRUE(cluster.run_until([&] { return !is_up(one) && !is_up(other); }));
    ASSERT_TRUE(wait_until_served());
    EXPECT_FALSE(owns(one) || owns(other));
    EXPECT_EQ(attempts_at(one).size(), 1u);
    EXPECT_EQ(attempts_at(other).size(), 1u);
    EXPECT_NE(attempts_at(one), attempts_at(other)) << "a recovery master tells them apart by that";
  }
  EXPECT_EQ(metric("ramcloud_recoveries_completed_total"), 2 * kPairs);
}

/// Not before: its record decides which frames of its log backups keep.
TEST_F(OneTablet, ARecoveredServerLeavesTheListAndItsVolumeIsReleased) {
  cluster.options.retirement.after = cluster.options.recoveries.query.returning = 10s;
  make(5);
  for (const uint64_t id : others_) recovery(id).keeps_silent = true;
  kill(dead_);
  cluster.run_for(30s);
  ASSERT_TRUE(owns(dead_));
  EXPECT_EQ(state().servers.at(dead_).record.state, wire::ServerState::kCrashed);
  const auto release = [this](uint64_t id) {
    const auto answer =
        cluster.wait_for(cluster.coordinator->volume_release(id, cluster.reactor.now() + 30s));
    return answer && answer->releasable;
  };
  const uint64_t holder = others_[0];
  kill(others_[3]);
  EXPECT_FALSE(release(others_[3])) << "it may have replicas of the dead one's log";
  for (const uint64_t id : others_) {
    if (is_up(id)) recovery(id).keeps_silent = false;
  }
  ASSERT_TRUE(cluster.run_until([&] { return !owns(dead_); }));
  EXPECT_TRUE(is_up(holder));
  EXPECT_TRUE(release(others_[3]));
  ASSERT_TRUE(cluster.run_until(
      [&] { return state().servers.at(dead_).record.state == wire::ServerState::kRemoved; }));
}

// ---- what has no place, or no log -----------------------------------------------------------------

TEST_F(OneTablet, FormerMetadataMustBeUpgradedFirst) {
  cluster.options.cluster_name = "test";
  make(4);
  const_cast<ClusterState&>(state()).format = 2;
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return in_phase(dead_, Phase::kBlocked); }));
  EXPECT_THAT(progress().waits_for, HasSubstr("must be upgraded"));
  ASSERT_TRUE(cluster.coordinator != nullptr);
  const_cast<ClusterState&>(state()).format = kMetadataFormatMax;
  ASSERT_TRUE(wait_until_served());
}

/// It is not taken for empty.
TEST_F(OneTablet, WhatNobodyOwnedAfterAnImportIsNotRecovered) {
  make(4);
  cluster.stop_coordinator();
  auto stored = read_cluster_state(cluster.metadata.records);
  ASSERT_TRUE(stored.has_value());
  const TableRecord& table = stored->tables.at(1);
  TabletChunkRecord chunk{1, table.layout, table.tablets, {}};
  chunk.tablets[0].creation_position = kNobodysPosition;
  cluster.invariants = {};
  cluster.metadata.records[tablet_chunk_key(1, table.layout, 0)] =
      encode_record(chunk, kMetadataFormatMax);
  ASSERT_TRUE(cluster.start_coordinator().ok());
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return in_phase(dead_, Phase::kBlocked); }));
  EXPECT_THAT(progress().waits_for, HasSubstr("not known who owned a part of 't'"));
  cluster.run_for(30s);
  EXPECT_TRUE(attempts_at(dead_).empty());
  ASSERT_TRUE(cluster.drop("t").has_value());
  ASSERT_TRUE(cluster.run_until([&] { return state().recoveries.empty(); }));
}

/// It is known only from other servers after an import, without its number of replicas.
TEST_F(RecoveriesTest, AServerWhoseReplicasAreNotKnownIsNotTakenForOneWithout) {
  start(4, 0);
  ASSERT_TRUE(cluster.create("t", 1).has_value());
  const uint64_t dead = owner("t");
  const_cast<ClusterState&>(state()).servers.at(dead).record.nonce = 0;
  cluster.invariants = {};
  kill(dead);
  ASSERT_TRUE(cluster.run_until([&] { return in_phase(dead, Phase::kBlocked); }));
  cluster.run_for(10s);
  EXPECT_TRUE(attempts_at(dead).empty());
}

}  // namespace
}  // namespace ramcloud
