// Recoveries of crashed servers: orders to serve, leases, and leaders that die.
#include "coordinator/core/recoveries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/testing/recovery_fixture.h"

namespace ramcloud {
namespace {

using testing::FakeRecovery;
using testing::kLeaseIsOver;
using testing::OneTablet;
using testing::RecoveriesTest;
using wire::Opcode;
using Point = SimMetadata::Point;

// ---- orders to serve ------------------------------------------------------------------------------

TEST_F(OneTablet, TheNextLeaderRepeatsTheOrderToServe) {
  make(4);
  for (const uint64_t id : others_) recovery(id).lose_serves = 1'000'000;
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return recovered(); }));
  cluster.run_for(3s);
  EXPECT_TRUE(served_.empty());
  cluster.stop_coordinator();
  for (const uint64_t id : others_) recovery(id).lose_serves = 0;
  cluster.run_for(1s);
  ASSERT_TRUE(cluster.start_coordinator().ok());
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(served_.size(), 1u);
  EXPECT_EQ(attempts_at(dead_).size(), 1u);
}

TEST_F(OneTablet, AnOrderToServeIsRepeatedUntilItIsHeard) {
  make(4);
  for (const uint64_t id : others_) recovery(id).lose_serves = 3;
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_EQ(served_.size(), 1u);
}

/// If older metadata are imported before that, nobody states that it owns the tablets: they have to
/// come from the dead server's log again.
TEST_F(OneTablet, TheLogIsNeededUntilTheNewOwnerServes) {
  make(4);
  const auto not_needed = [this] { return told_recovered({dead_}); };
  for (const uint64_t id : others_) recovery(id).lose_serves = 1'000'000;
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return recovered(); }));
  cluster.run_for(3s);
  EXPECT_THAT(not_needed(), ::testing::IsEmpty());
  cluster.stop_coordinator();
  ASSERT_TRUE(cluster.start_coordinator().ok());
  cluster.run_for(3s);
  EXPECT_THAT(not_needed(), ::testing::IsEmpty()) << "nor does the next leader know that it serves";
  for (const uint64_t id : others_) recovery(id).lose_serves = 0;
  ASSERT_TRUE(wait_until_served());
  cluster.run_for(100ms);
  EXPECT_THAT(not_needed(), ::testing::ElementsAre(dead_));
}

TEST_F(OneTablet, AnOwnerThatHasNothingIsInTheStatus) {
  make(4);
  for (const uint64_t id : others_) recovery(id).has_lost_all = true;
  kill(dead_);
  const auto is_told = [this] {
    return std::ranges::any_of(cluster.coordinator->status().reasons, [](const std::string& why) {
      return why.find("says that it does not have the tablets of table 't'") != why.npos;
    });
  };
  ASSERT_TRUE(cluster.run_until(is_told));
  EXPECT_EQ(cluster.coordinator->status().health, "UNAVAILABLE");
  for (const uint64_t id : others_) recovery(id).lose_serves = 3;
  cluster.run_for(5s);
  EXPECT_TRUE(is_told()) << "nor does silence mend it";
  for (const uint64_t id : others_) recovery(id).has_lost_all = false;
  ASSERT_TRUE(wait_until_served());
  cluster.run_for(100ms);
  EXPECT_FALSE(is_told());
}

/// It would give up tablets of which it is the owner in the metadata.
TEST_F(RecoveriesTest, NothingIsAbortedBeforeWhatWasHandedOverIsServed) {
  start(3);
  ASSERT_TRUE(cluster.create("t", 1).has_value());
  const uint64_t dead = owner("t");
  // Two tablets on one server: the second table goes there when the others have more.
  for (const char* name : {"a", "b", "u"}) ASSERT_TRUE(cluster.create(name, 1).has_value());
  ASSERT_EQ(owner("u"), dead);
  std::vector<uint64_t> others;
  for (uint64_t id = 1; id <= 3; ++id) {
    if (id != dead) others.push_back(id);
  }
  give_log(dead, others);
  kill(others[1]);  // so that one server gets both
  give_log(others[1], {others[0]});
  ASSERT_TRUE(cluster.run_until([&] { return !owns(others[1]); }));
  FakeRecovery& only = recovery(others[0]);
  only.stuck_in = wire::RecoveryPhase::kReady;
  only.lose_serves = 5;
  bool aborted_early = false;
  only.on_call = [&](Opcode opcode) {
    const bool served = std::ranges::any_of(
        served_, [&](const auto& one) { return std::get<0>(one) == state().find_table("t")->id; });
    if (opcode == Opcode::kAbortRecovery && !served) aborted_early = true;
  };
  kill(dead);
  ASSERT_TRUE(cluster.run_until([&] { return attempts_at(dead).size() == 1; }));
  ASSERT_TRUE(cluster.drop("u").has_value());
  ASSERT_TRUE(wait_until_served());
  ASSERT_TRUE(cluster.run_until([&] { return only.aborted.contains(dead); }));
  EXPECT_FALSE(aborted_early);
}

/// The order to serve is older than the attempt, and of another leader.
TEST_F(OneTablet, NothingIsAbortedBeforeAFormerAttemptIsServed) {
  make(4, {.segments = 12});
  recovery(others_[2]).stuck_in = wire::RecoveryPhase::kReplaying;
  for (const uint64_t id : others_) recovery(id).lose_serves = 1'000'000;
  kill(dead_);
  const auto handed_over = [&] {
    return std::ranges::count_if(state().tables.at(1).tablets, [](const TabletRecord& tablet) {
      return tablet.attempt != 0 && tablet.status == TabletStatus::kNormal;
    });
  };
  ASSERT_TRUE(cluster.run_until([&] { return handed_over() == 3; }));
  cluster.stop_coordinator();
  recovery(others_[2]).stuck_in.reset();
  for (const size_t i : {0, 1}) recovery(others_[i]).fail = {{StatusCode::kOutOfMemory, 0}};
  ASSERT_TRUE(cluster.start_coordinator().ok());
  ASSERT_TRUE(cluster.run_until([&] { return attempts_at(dead_).size() >= 2; }));
  cluster.run_for(3s);
  for (const uint64_t id : others_) recovery(id).lose_serves = 0;
  ASSERT_TRUE(wait_until_served());
  const bool aborted = std::ranges::any_of(
      others_, [&](uint64_t id) { return recovery(id).aborted.contains(dead_); });
  EXPECT_TRUE(
      cluster.run_until([&] { return aborted || recovery(others_[0]).aborted.contains(dead_); }));
}

/// The next leader prefers another recovery master, which has more memory. Nobody else would tell
/// the first one that its part is over.
TEST_F(OneTablet, TheNextLeaderGivesUpWhatTheFormerOneOrdered) {
  make(4);
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return recovering(wire::RecoveryPhase::kReady); }));
  ASSERT_EQ(recovering(wire::RecoveryPhase::kReady)->id, others_[0]);
  cluster.stop_coordinator();
  wire::ServerStats& full = server(others_[0]).stats;
  full.log_bytes_total = full.log_bytes_used = 1000 * testing::kMiB;
  // The plan is made when all servers have told their memory.
  for (const uint64_t id : others_) recovery(id).query_takes = 2s;
  ASSERT_TRUE(cluster.start_coordinator().ok());
  ASSERT_TRUE(wait_until_served());
  ASSERT_NE(owner("t"), others_[0]);
  EXPECT_TRUE(cluster.run_until([&] { return recovery(others_[0]).jobs.empty(); }));
  EXPECT_EQ(recovery(others_[0]).orders.size(), 1u) << "by the former leader";
}

/// Its dead server owns nothing any more, so there is no recovery that would give the rest up.
TEST_F(OneTablet, TheNextLeaderGivesUpPartsOfARecoveryThatIsOver) {
  make(4);
  recovery(others_[0]).stuck_in = wire::RecoveryPhase::kReplaying;
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return recovering(wire::RecoveryPhase::kReplaying); }));
  const auto left = recovery(others_[0]).jobs;
  ASSERT_EQ(left.size(), 1u);
  ASSERT_TRUE(cluster.run_until([&] { return !owns(dead_); }, 300s)) << "it is given up";
  ASSERT_TRUE(wait_until_served());
  ASSERT_NE(owner("t"), others_[0]);
  ASSERT_TRUE(cluster.run_until([&] { return recovery(others_[0]).jobs.empty(); }));
  cluster.stop_coordinator();
  recovery(others_[0]).jobs = left;  // as if the order had been lost
  ASSERT_TRUE(cluster.start_coordinator().ok());
  EXPECT_TRUE(cluster.run_until([&] { return recovery(others_[0]).jobs.empty(); }));
}

// ---- masters without replicas ---------------------------------------------------------------------

TEST_F(RecoveriesTest, WithoutReplicasTabletsComeBackEmptyAndVersionsRise) {
  start(4, 0);
  ASSERT_TRUE(cluster.create("t", 1).has_value());
  uint64_t before = 0;
  for (int life = 0; life < 3; ++life) {
    const uint64_t dead = owner("t");
    kill(dead);
    const Time verdict = cluster.clock.now();
    ASSERT_TRUE(wait_until_served());
    EXPECT_GE(served_at_.back(), verdict + kLeaseIsOver - 10ms);
    const auto& order = server(owner("t")).recovery.orders.back();
    EXPECT_EQ(order.master_id, dead);
    EXPECT_TRUE(order.segments.empty());
    // More versions than a server can have assigned in its life, which was at least a second.
    EXPECT_GT(order.safe_version, before + 1'000'000);
    before = order.safe_version;
  }
}

TEST(VersionFloor, RisesFasterThanAnybodyAssignsVersions) {
  constexpr uint64_t kNow = 1'800'000'000'000;
  EXPECT_GE(version_floor(kNow + 1000) - version_floor(kNow), 50'000'000u) << "a second";
  EXPECT_GT(version_floor(kNow), version_floor(kNow - 1));
  EXPECT_LT(version_floor(kNow * 50), ~uint64_t{0} >> 1) << "in the year 4800";
}

// ---- leases from the coordinator ------------------------------------------------------------------

TEST_F(RecoveriesTest, OnlyAServerThatIsUpGetsALease) {
  start(3);
  const auto ask = [this](uint64_t id) {
    const auto granted =
        cluster.call<wire::Empty>(Opcode::kGrantLease, wire::GrantLeaseRequest{id});
    return granted ? StatusCode::kOk : granted.error().code();
  };
  EXPECT_EQ(ask(1), StatusCode::kOk);
  EXPECT_EQ(ask(99), StatusCode::kCrashed);
  kill(1);
  EXPECT_EQ(ask(1), StatusCode::kCrashed);
  EXPECT_EQ(ask(2), StatusCode::kOk);
  // The lease of the leader runs out.
  cluster.store->set_cut_off(true);
  cluster.run_for(3s);
  EXPECT_EQ(ask(2), StatusCode::kNotLeader);
}

// ---- leaders --------------------------------------------------------------------------------------

class LeaderDies : public OneTablet {
 protected:
  static bool of_tables(const MetadataTransaction& transaction) {
    return std::ranges::any_of(transaction.puts,
                               [](const auto& put) { return put.first.starts_with(kTablePrefix); });
  }
  /// A table whose only server is killed, with a log that is split in three.
  void prepare_death() {
    ++number_;
    while (state().servers_up() < 4) cluster.add_server();
    cluster.run_for(500ms);
    ASSERT_TRUE(cluster.create(name(), 1).has_value());
    dead_ = owner(name());
    others_.clear();
    for (const auto& [id, server] : state().servers) {
      if (server.up() && id != dead_) others_.push_back(id);
    }
    give_log(dead_, {others_[0], others_[1]}, {.segments = 12});
    attempts_before_ = metric(kAttempts);
  }
  std::string name() const { return "t" + std::to_string(number_); }
  void next_leader() {
    cluster.stop_coordinator();
    ASSERT_TRUE(cluster.start_coordinator().ok());
    ASSERT_TRUE(wait_until_served());
    EXPECT_LE(metric(kAttempts) - attempts_before_, 2) << "one more attempt at most";
    const size_t tablets = state().find_table(name())->tablets.size();
    EXPECT_TRUE(tablets >= 3 && tablets <= 5) << tablets << ": they are split for each leader";
    ASSERT_TRUE(cluster.drop(name()).has_value());
  }
  static constexpr const char* kAttempts = "ramcloud_recoveries_attempts_total";
  int number_ = 0;
  double attempts_before_ = 0;
  bool struck_ = false;
};

TEST_F(LeaderDies, AtEachTransaction) {
  start(4);
  cluster.turns_between_checks = 10;
  for (const Point point : {Point::kBefore, Point::kAfter}) {
    size_t steps = 0;
    for (;; ++steps) {
      SCOPED_TRACE(fmt::format("transaction {}, point {}", steps, static_cast<int>(point)));
      ASSERT_NO_FATAL_FAILURE(prepare_death());
      kill(dead_);
      size_t seen = 0;
      struck_ = false;
      cluster.store->set_probe([&](Point at, const MetadataTransaction& t) {
        if (at != point || !of_tables(t) || struck_ || seen++ != steps) return;
        struck_ = true;
        cluster.store->set_cut_off(true);
      });
      ASSERT_TRUE(cluster.run_until([&] { return struck_ || all_served(); }));
      const bool struck = struck_;
      cluster.store->set_probe(nullptr);
      ASSERT_NO_FATAL_FAILURE(next_leader());
      ASSERT_FALSE(HasFailure());
      if (!struck) break;
    }
    EXPECT_GE(steps, 4u) << "two splits, the mark, and hand-overs";
  }
}

TEST_F(LeaderDies, AtEachCall) {
  start(4);
  cluster.turns_between_checks = 10;
  size_t steps = 0;
  for (;; ++steps) {
    SCOPED_TRACE(fmt::format("call {}", steps));
    ASSERT_NO_FATAL_FAILURE(prepare_death());
    kill(dead_);
    size_t seen = 0;
    struck_ = false;
    for (const auto& one : cluster.servers) {
      if (!one) continue;
      one->recovery.on_call = [&](Opcode) { struck_ = struck_ || seen++ == steps; };
    }
    ASSERT_TRUE(cluster.run_until([&] { return struck_ || all_served(); }));
    const bool struck = struck_;
    for (const auto& one : cluster.servers) {
      if (one) one->recovery.on_call = nullptr;
    }
    ASSERT_NO_FATAL_FAILURE(next_leader());
    ASSERT_FALSE(HasFailure());
    if (!struck) break;
  }
  EXPECT_GE(steps, 12u) << "queries, orders, questions, and orders to serve";
}

}  // namespace
}  // namespace ramcloud
