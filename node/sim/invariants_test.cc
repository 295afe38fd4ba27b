// Each invariant of the simulated cluster: a correct view made by hand, with one error.
#include "sim/invariants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/cluster.h"
#include "store/object_store.h"

namespace ramcloud::sim {
namespace {

using testing::HasSubstr;
using wire::ServerState;

constexpr uint64_t kHalf = uint64_t{1} << 63;

/// Two servers, each with half of a table, and a replica of its head on the other.
class Sound {
 public:
  Sound() {
    state_.uuid[0] = 1;
    state_.term = 3;
    state_.list_version = 20;
    state_.ids = {2, 1};
    TableRecord table;
    table.id = 1;
    table.name = "t";
    table.state = TableState::kNormal;
    table.tablets = {{0, kHalf - 1, 1}, {kHalf, ~uint64_t{0}, 2}};
    state_.tables[1] = table;
    for (const uint64_t id : {1, 2}) add_server(id);
    view_.leader = &state_;
  }
  ClusterView& view() { return view_; }
  ClusterView::Server& server(size_t i) { return view_.servers.at(i); }
  ClusterView::Replica& replica(size_t i) { return view_.servers.at(i).replicas.at(1); }
  ClusterState& state() { return state_; }
  ServerNumbers& numbers(size_t i) { return view_.servers.at(i).numbers; }

 private:
  void add_server(uint64_t id) {
    ServerEntry& entry = state_.servers[id];
    entry.record.id = id;
    entry.record.nonce = 100 + id;
    entry.record.locator = fmt::format("sim:host=s{},port=1", id);
    ClusterView::Server server;
    ServerNumbers& n = server.numbers;
    n.server_id = id;
    n.life = id << 32;
    n.durable = {2, 500};
    n.appended = {2, 700};
    n.list_term = 3;
    n.list_version = 20;
    n.frames = 10;
    n.frames_free = 6;
    n.frames_quarantined = 1;
    n.frames_held = 2;
    n.frames_preparing = 1;
    server.segments = {{1, 8000, 7000, 6000, true}, {2, 700, 500, 400, false}};
    server.digest = {1, 2};
    for (const auto& segment : server.segments) {
      server.replicas.push_back({.segment_id = segment.id,
                                 .backup_id = 3 - id,
                                 .counts = true,
                                 .closed = segment.closed,
                                 .acked = segment.closed ? segment.published : 600,
                                 .backup_runs = true,
                                 .found = true,
                                 .held_closed = segment.closed,
                                 .bytes_held = segment.published});
    }
    server.tablets = {{.table_id = 1,
                       .start_hash = id == 1 ? 0 : kHalf,
                       .end_hash = id == 1 ? kHalf - 1 : ~uint64_t{0},
                       .served = true,
                       .objects = 9,
                       .object_bytes = 5000}};
    server.slots_used = 10;
    server.pending_deletes = 1;
    server.listed = {{1, ServerState::kUp}, {2, ServerState::kUp}};
    view_.servers.push_back(server);
  }
  ClusterState state_;
  ClusterView view_;
};

class ClusterInvariants : public testing::Test {
 protected:
  /// The violation found by the next check. The first check finds none.
  std::string look() { return invariants_.check(sound_.view()); }
  void SetUp() override { ASSERT_EQ(look(), ""); }
  Sound sound_;
  Invariants invariants_;
};

TEST_F(ClusterInvariants, ASoundClusterStaysSound) {
  EXPECT_EQ(look(), "");
  sound_.numbers(0).durable = {2, 600};
  sound_.replica(0).acked = 650;
  EXPECT_EQ(look(), "");
  sound_.view().leader = nullptr;
  EXPECT_EQ(look(), "") << "nobody has to lead";
}

// ---- after every turn ---------------------------------------------------------------------------

TEST_F(ClusterInvariants, WhatIsDurableGoesBack) {
  sound_.numbers(0).durable = {2, 499};
  EXPECT_THAT(look(), HasSubstr("server 1: what is durable went back from 2/500 to 2/499"));
}

TEST_F(ClusterInvariants, WhatIsAppendedGoesBack) {
  sound_.numbers(0).appended = {2, 600};
  EXPECT_THAT(look(), HasSubstr("what is appended went back from 2/700 to 2/600"));
}

TEST_F(ClusterInvariants, MoreIsDurableThanWasAppended) {
  sound_.numbers(0).durable = {2, 701};
  EXPECT_THAT(look(), HasSubstr("2/701 is durable, and only 2/700 was appended"));
}

TEST_F(ClusterInvariants, MoreIsDurableThanIsPublished) {
  sound_.numbers(1).appended = sound_.numbers(1).durable = {2, 701};
  sound_.replica(1).acked = sound_.replica(1).bytes_held = 701;
  EXPECT_THAT(look(), HasSubstr("2/701 is durable, and segment 2 has only 700 bytes published"));
}

TEST_F(ClusterInvariants, AReplicationEpochFalls) {
  sound_.numbers(0).epoch = 2;
  sound_.state().replication_epochs[1] = {1, 1, 2};
  EXPECT_EQ(look(), "");
  sound_.numbers(0).epoch = 1;
  EXPECT_THAT(look(), HasSubstr("server 1: its replication epoch fell from 2 to 1"));
}

TEST_F(ClusterInvariants, AServerListFalls) {
  sound_.numbers(1).list_version = 19;
  EXPECT_THAT(look(), HasSubstr("server 2: its server list fell from 3.20 to 3.19"));
}

TEST_F(ClusterInvariants, AServerListMayHaveALowerVersionInAHigherTerm) {
  sound_.numbers(1).list_term = 4;
  sound_.numbers(1).list_version = 2;
  EXPECT_EQ(look(), "");
}

TEST_F(ClusterInvariants, AServerListFallsBeforeItsServerIsEnlisted) {
  ServerNumbers fresh;
  fresh.life = 77;
  fresh.list_version = 5;
  EXPECT_EQ(invariants_.after_turn(fresh), "");
  fresh.list_version = 4;
  EXPECT_THAT(invariants_.after_turn(fresh), HasSubstr("fell from 0.5 to 0.4"));
}

TEST_F(ClusterInvariants, AnIdIsGivenToAnotherProcess) {
  sound_.numbers(0).life = 55;
  EXPECT_THAT(look(), HasSubstr("server id 1 was given to another process"));
}

TEST_F(ClusterInvariants, AFrameIsLost) {
  sound_.numbers(0).frames_free = 5;
  EXPECT_THAT(look(), HasSubstr("server 1: 10 frames are 5 free, 1 in quarantine"));
  sound_.numbers(0).device_failed = true;
  EXPECT_EQ(look(), "") << "a frame that cannot be marked as free is not used again";
}

TEST_F(ClusterInvariants, AFrameIsCountedTwice) {
  sound_.numbers(0).device_failed = true;
  sound_.numbers(0).frames_held = 3;
  EXPECT_THAT(look(), HasSubstr("10 frames are 6 free, 1 in quarantine, 3 of replicas"));
}

TEST_F(ClusterInvariants, WhatIsDurableIsNotOnTheReplicasThatItNeeds) {
  const ServerNumbers& numbers = sound_.numbers(0);
  EXPECT_EQ(invariants_.after_rise(numbers, {.wanted = 2, .lacking = 0, .holding = 2, .needed = 1}),
            "");
  EXPECT_THAT(
      invariants_.after_rise(numbers, {.wanted = 2, .lacking = 1, .holding = 1, .needed = 1}),
      HasSubstr("2/500 is durable, and 1 of 2 replicas that it needs do not have all of it"));
  EXPECT_THAT(
      invariants_.after_rise(numbers, {.wanted = 1, .lacking = 0, .holding = 1, .needed = 2}),
      HasSubstr("2/500 is durable on 1 replicas; at least 2 must have it"));
}

// ---- the coordinator ----------------------------------------------------------------------------

TEST_F(ClusterInvariants, ACrashedServerIsUpAgain) {
  sound_.state().servers[2].record.state = ServerState::kCrashed;
  sound_.state().list_version = 21;
  EXPECT_EQ(look(), "");
  sound_.state().servers[2].record.state = ServerState::kUp;
  sound_.state().list_version = 22;
  EXPECT_THAT(look(), HasSubstr("server 2 went from state 2 to 1"));
}

TEST_F(ClusterInvariants, AServerIdIsUsedAgain) {
  sound_.state().servers[2].record.nonce = 5;
  EXPECT_THAT(look(), HasSubstr("server id 2 was reused"));
}

TEST_F(ClusterInvariants, ATableIdIsUsedAgain) {
  sound_.state().tables[1].name = "other";
  EXPECT_THAT(look(), HasSubstr("table id 1 was reused"));
}

TEST_F(ClusterInvariants, IdsAreForgotten) {
  sound_.state().ids.last_table_id = 5;
  EXPECT_EQ(look(), "");
  sound_.state().ids.last_table_id = 4;
  EXPECT_THAT(look(), HasSubstr("ids would be given out again"));
}

TEST_F(ClusterInvariants, TheCoordinatorsListFalls) {
  sound_.state().list_version = 19;
  EXPECT_THAT(look(), HasSubstr("list version fell from 20 to 19"));
}

TEST_F(ClusterInvariants, TheTermFalls) {
  sound_.state().term = 2;
  EXPECT_THAT(look(), HasSubstr("term fell from 3 to 2"));
}

TEST_F(ClusterInvariants, TheCoordinatorsReplicationEpochFalls) {
  sound_.numbers(0).epoch = 4;
  sound_.state().replication_epochs[1] = {1, 2, 4};
  EXPECT_EQ(look(), "");
  sound_.state().replication_epochs[1] = {1, 1, 4};
  EXPECT_THAT(look(), HasSubstr("the replication epoch of server 1 fell"));
}

TEST_F(ClusterInvariants, ATableHasAGap) {
  sound_.state().tables[1].tablets[1].start_hash = kHalf + 1;
  EXPECT_THAT(look(), HasSubstr("does not follow on 0x8000000000000000"));
}

// ---- owners -------------------------------------------------------------------------------------

TEST_F(ClusterInvariants, TwoServeTheSame) {
  sound_.server(1).tablets[0].start_hash = kHalf - 1;
  EXPECT_THAT(look(), HasSubstr("table 1: servers 1 and 2 both serve from 0x7fffffffffffffff on"));
}

TEST_F(ClusterInvariants, NobodyServesAPart) {
  sound_.server(0).tablets[0].served = false;
  EXPECT_THAT(look(), HasSubstr("table 1: server 1 must serve 0x0..0x7fffffffffffffff"));
}

TEST_F(ClusterInvariants, ADroppedTableIsStillServed) {
  sound_.state().tables.clear();
  EXPECT_THAT(look(), HasSubstr("server 2 serves 0x8000000000000000..0xffffffffffffffff, which the "
                                "coordinator did not give it"));
}

TEST_F(ClusterInvariants, WhoWasGivenUpMayNotKnowItYet) {
  sound_.state().servers[2].record.state = ServerState::kCrashed;
  sound_.state().list_version = 21;
  sound_.server(1).tablets[0].start_hash = 0;
  EXPECT_EQ(look(), "");
}

TEST_F(ClusterInvariants, ATableThatIsBeingMadeOrDroppedNeedNotBeServed) {
  sound_.server(0).tablets.clear();
  sound_.server(0).slots_used = 0;
  for (const auto state : {TableState::kCreating, TableState::kDropping}) {
    sound_.state().tables[1].state = state;
    EXPECT_EQ(look(), "");
  }
}

// ---- replicas -----------------------------------------------------------------------------------

TEST_F(ClusterInvariants, AReplicaCountsThatLacksWhatIsDurable) {
  sound_.replica(0).acked = 499;
  EXPECT_THAT(look(), HasSubstr("server 1: its replica of segment 2 on server 2 counts with 499 "
                                "bytes, and 500 are durable"));
  sound_.replica(0).counts = false;
  EXPECT_EQ(look(), "");
}

TEST_F(ClusterInvariants, AReplicaOfAClosedSegmentLacksItsEnd) {
  sound_.server(0).replicas[0].acked = 7999;
  EXPECT_THAT(look(), HasSubstr("counts with 7999 bytes, and 8000 are durable"));
}

TEST_F(ClusterInvariants, ABackupHasLessThanItAcknowledged) {
  sound_.replica(0).bytes_held = 599;
  EXPECT_THAT(look(), HasSubstr("has 599 bytes, and has acknowledged 600"));
  sound_.replica(0).backup_runs = false;
  EXPECT_EQ(look(), "") << "its process died, and its master has not heard of it yet";
}

TEST_F(ClusterInvariants, ABackupHasNoSuchReplica) {
  sound_.replica(0).found = false;
  EXPECT_THAT(look(), HasSubstr("on server 2 counts, and is not there"));
}

TEST_F(ClusterInvariants, AReplicaHoldsOtherBytes) {
  sound_.replica(1).differs_at = 123;
  EXPECT_THAT(look(), HasSubstr("server 2: its replica of segment 2 on server 1 differs from the "
                                "log at 123"));
}

TEST_F(ClusterInvariants, AReplicaIsOfAnOlderEpochThanItAcknowledged) {
  sound_.replica(0).acked_epoch = 1;
  EXPECT_THAT(look(), HasSubstr("is of epoch 0, and has acknowledged 1"));
}

TEST_F(ClusterInvariants, AReplicaCountsThatRecoveryWouldNotSee) {
  sound_.replica(0).incomplete = true;
  EXPECT_THAT(look(), HasSubstr("counts, and recovery would not see it"));
}

TEST_F(ClusterInvariants, AReplicaIsNotClosedThoughItSaidSo) {
  sound_.server(0).replicas[0].held_closed = false;
  EXPECT_THAT(look(), HasSubstr("is not closed, and has acknowledged that"));
}

// ---- the rest -----------------------------------------------------------------------------------

TEST_F(ClusterInvariants, TheDigestLacksASegment) {
  sound_.server(0).digest = {2};
  EXPECT_THAT(look(), HasSubstr("server 1: the newest digest names segments 2, live are 1 2"));
}

TEST_F(ClusterInvariants, TheDigestNamesASegmentThatIsGone) {
  sound_.server(0).digest = {1, 2, 3};
  EXPECT_THAT(look(), HasSubstr("names segments 1 2 3, live are 1 2"));
}

TEST_F(ClusterInvariants, TheCoordinatorKnowsOfAHigherEpochThanTheMaster) {
  sound_.state().replication_epochs[1] = {1, 1, 1};
  sound_.server(0).fence_holds = false;
  EXPECT_THAT(look(), HasSubstr("server 1 is in replication epoch 0, and the coordinator knows of "
                                "1"));
}

TEST_F(ClusterInvariants, AFenceHoldsOfWhichTheCoordinatorDoesNotKnow) {
  sound_.numbers(0).epoch = 1;
  sound_.server(0).fence_holds = false;
  EXPECT_EQ(look(), "") << "it is being told";
  sound_.server(0).fence_holds = true;
  EXPECT_THAT(look(), HasSubstr("its fence holds in replication epoch 1, and the coordinator knows "
                                "of 0"));
}

TEST_F(ClusterInvariants, AnObserverTakesACrashBack) {
  sound_.server(0).listed[1].second = ServerState::kCrashed;
  EXPECT_EQ(look(), "");
  sound_.server(0).listed[1].second = ServerState::kUp;
  EXPECT_THAT(look(), HasSubstr("server 1: it lists server 2 as UP again"));
}

TEST_F(ClusterInvariants, MoreIsLiveThanWasAppended) {
  sound_.server(0).segments[1].live_bytes = 501;
  EXPECT_THAT(look(), HasSubstr("segment 2: 501 bytes are live of 500 appended in 700 published"));
}

TEST_F(ClusterInvariants, TabletsCountMoreBytesThanAreLive) {
  sound_.server(0).tablets[0].object_bytes = 6401;
  EXPECT_THAT(look(), HasSubstr("its tablets count 6401 bytes, and only 6400 are live"));
}

TEST_F(ClusterInvariants, TheHashTableHoldsOtherThanTheTabletsCount) {
  sound_.server(0).slots_used = 11;
  EXPECT_THAT(look(), HasSubstr("has 11 entries, for 9 objects and at most 1 fresh deletes"));
  sound_.server(0).slots_used = 8;
  EXPECT_THAT(look(), HasSubstr("has 8 entries, for 9 objects"));
}

TEST_F(ClusterInvariants, WhatTheStoreItselfFindsIsTold) {
  sound_.server(1).broken = "segment 1: ids rise";
  EXPECT_THAT(look(), HasSubstr("server 2: segment 1: ids rise"));
}

// ---- a real one ---------------------------------------------------------------------------------

/// A violation planted in a running cluster is found without an explicit check, and reported with
/// its step.
class ALookingCluster : public testing::Test {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::kError);
    ASSERT_TRUE(cluster_.wait_ready());
    ClientCore& client = cluster_.client(0);
    auto table = cluster_.run(0, client.create_table("t", 1));
    ASSERT_TRUE(table.has_value());
    ASSERT_TRUE(cluster_.run(0, client.write(table->table_id, "key", "value")).has_value());
    ASSERT_EQ(cluster_.check_invariants(), "");
    while (cluster_.server(owner_).server_id() != table->tablets.at(0).server_id) ++owner_;
  }
  store::ObjectStore& store() { return *cluster_.server(owner_).parts().store; }
  Cluster cluster_{{.seed = 4, .steps_between_looks = 100, .looks_between_deep_ones = 2}};
  size_t owner_ = 0;
};

TEST_F(ALookingCluster, SaysWhereItFoundSomething) {
  const log::LogPosition end = store().log().head();
  store().log().set_durable({end.segment_id(), end.offset() + 8});
  cluster_.scheduler().run_for(2s);
  EXPECT_THAT(cluster_.broken(), HasSubstr("seed 4, step "));
  EXPECT_THAT(cluster_.broken(), HasSubstr(" s: server "));
  EXPECT_THAT(cluster_.broken(), HasSubstr("is durable, and only "));
}

TEST_F(ALookingCluster, ReadsEverythingNowAndThen) {
  cluster_.scheduler().run_for(2s);
  EXPECT_EQ(cluster_.broken(), "");
  // A bit that was compared before flips: in the object's value, after which only fill follows.
  const log::LogPosition end = store().log().durable();
  Slice pieces[2];
  ASSERT_GE(store().log().find_segment(end.segment_id())->slices(end.offset() - 10, 1, pieces), 1);
  *static_cast<char*>(const_cast<void*>(pieces[0].data)) ^= 1;  // NOLINT: nobody else would
  cluster_.scheduler().run_for(20s);
  EXPECT_THAT(cluster_.broken(),
              HasSubstr(fmt::format("differs from the log at {}", end.offset() - 10)));
}

TEST(ABrokenCluster, IsNotOverlooked) {
  const auto run = [] {
    Cluster cluster({.seed = 4});
    if (!cluster.wait_ready()) return;
    store::ObjectStore& store = *cluster.server(0).parts().store;
    store.log().set_durable({store.log().head().segment_id() + 1, 8});
    cluster.scheduler().run_for(1s);
  };
  EXPECT_DEATH(run(), "an invariant of the cluster is broken");
}

}  // namespace
}  // namespace ramcloud::sim
