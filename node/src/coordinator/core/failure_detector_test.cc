#include "coordinator/core/failure_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/testing/coordinator_fixture.h"

namespace ramcloud {
namespace {

using testing::CoordinatorFixture;
using ::testing::ElementsAre;
using testing::FakeCluster;
using testing::FakeServer;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using wire::Opcode;

/// For a process whose port refuses: the time from the kill to the verdict.
constexpr Duration kDetectionGoal = 400ms;

class DetectionTest : public CoordinatorFixture {
 protected:
  void start(size_t servers) { start_and_wait(servers); }
  bool crashed(uint64_t id) {
    return state().servers.at(id).record.state == wire::ServerState::kCrashed;
  }
  std::string reason(uint64_t id) { return state().servers.at(id).record.state_reason; }
  FakeServer& server(uint64_t id) { return *cluster.servers.at(id - 1); }
  static uint16_t port(uint64_t id) { return static_cast<uint16_t>(12'000 + id - 1); }
  /// As after SIGSTOP: it reads nothing, and sends nothing.
  void suspend(uint64_t id) { cluster.network.silent.insert(port(id)); }
  void resume(uint64_t id) { cluster.network.silent.erase(port(id)); }
  void kill(uint64_t id) { cluster.kill_server(server(id)); }
  /// The coordinator's requests are lost; requests to it arrive.
  void cut_off(uint64_t id) {
    cluster.network.cut.insert({FakeCluster::kCoordinatorPort, port(id)});
  }
  uint64_t metric(const std::string& line) {
    const std::string text = cluster.metrics.text(), start = "\n" + line + " ";
    const size_t at = text.find(start);
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + start.size()));
  }
  Result<Coordinator::Condemnation> condemn(uint64_t id, bool force, bool confirmed,
                                            std::string why = "") {
    return cluster.wait_for(cluster.coordinator->condemn(id, force, confirmed, std::move(why),
                                                         cluster.reactor.now() + 30s));
  }
};

// ---- dead processes -----------------------------------------------------------------------------

TEST_F(DetectionTest, ADeadServerIsFoundAndItsTabletsAreUnavailable) {
  start(3);
  ASSERT_TRUE(cluster.create("t", 3).has_value());
  EXPECT_EQ(cluster.coordinator->status().health, "HEALTHY");
  kill(2);
  const Time killed = cluster.clock.now();
  ASSERT_TRUE(cluster.run_until([&] { return crashed(2); }));
  EXPECT_LE(cluster.clock.now() - killed, kDetectionGoal) << "a refused connection is enough";
  const auto table =
      cluster.call<wire::TableInfo>(Opcode::kGetTable, wire::GetTableRequest{"t", 0});
  EXPECT_EQ(table->tablets[1].state, wire::TabletState::kUnavailable);
  EXPECT_EQ(table->tablets[1].locator, "");
  const ClusterStatus status = cluster.coordinator->status();
  EXPECT_EQ(status.health, "UNAVAILABLE");
  EXPECT_THAT(
      status.reasons,
      ElementsAre(StartsWith(
          "server 2 (server-12001) is crashed and has 1 tablets: "
          "refused 3 connections of the coordinator in a row, and the connection of server ")));
  ASSERT_TRUE(cluster.run_until(
      [&] { return server(1).list.servers.at(1).state == wire::ServerState::kCrashed; }));
  EXPECT_EQ(metric("ramcloud_coordinator_verdicts_total{evidence=\"refused\"}"), 1u);
  EXPECT_GT(metric("ramcloud_coordinator_indirect_probes_total{says=\"refused\"}"), 0u);
  restart();
  EXPECT_TRUE(crashed(2));
}

TEST_F(DetectionTest, SimultaneousDeathsAreFoundTogether) {
  start(8);
  for (const uint64_t id : {2, 4, 5, 7}) kill(id);
  const Time killed = cluster.clock.now();
  ASSERT_TRUE(cluster.run_until([&] { return state().servers_up() == 4; }));
  EXPECT_LE(cluster.clock.now() - killed, kDetectionGoal);
  cluster.run_for(30s);
  EXPECT_EQ(state().servers_up(), 4u);
}

TEST_F(DetectionTest, SimultaneousSilenceIsCondemnedTogether) {
  start(8);
  for (const uint64_t id : {2, 4, 5, 7}) suspend(id);
  Time first{};
  ASSERT_TRUE(cluster.run_until([&] {
    if (first == Time{} && state().servers_up() < 8) first = cluster.clock.now();
    return state().servers_up() == 4;
  }));
  EXPECT_LE(cluster.clock.now() - first, 2s) << "one round of probes, and not one verdict a time";
}

// ---- silence ------------------------------------------------------------------------------------

TEST_F(DetectionTest, SecondsOfSilenceAreForgiven) {
  start(3);
  for (int i = 0; i < 5; ++i) {
    suspend(2);
    cluster.run_for(4s);
    EXPECT_TRUE(state().servers.at(2).suspected);
    resume(2);
    cluster.run_for(1500ms);
    EXPECT_FALSE(state().servers.at(2).suspected);
  }
  EXPECT_EQ(state().servers_up(), 3u);
}

TEST_F(DetectionTest, LongSilenceIsNot) {
  start(3);
  suspend(2);
  const Time begun = cluster.clock.now();
  ASSERT_TRUE(cluster.run_until([&] { return crashed(2); }));
  EXPECT_GE(cluster.clock.now() - begun, 4800ms);  // the last answer came an interval before
  EXPECT_LE(cluster.clock.now() - begun, 8s);
  EXPECT_THAT(reason(2), HasSubstr("did not answer"));
  EXPECT_THAT(reason(2), HasSubstr("; nor the probe of server "));
  EXPECT_EQ(state().servers_up(), 2u);
  EXPECT_GT(server(1).indirect_probes + server(3).indirect_probes, 0);
  // It comes back: it stays crashed.
  resume(2);
  cluster.run_for(5s);
  EXPECT_TRUE(crashed(2));
}

TEST_F(DetectionTest, ThePatienceIsAnOption) {
  cluster.options.detector.thresholds.silence = 1s;
  start(3);
  suspend(2);
  const Time begun = cluster.clock.now();
  ASSERT_TRUE(cluster.run_until([&] { return crashed(2); }));
  EXPECT_LE(cluster.clock.now() - begun, 2500ms);
}

/// How many servers of a cluster failed in which way, and how many must be condemned in the end.
struct Case {
  size_t servers, suspended, killed, condemned;
};

TEST_F(DetectionTest, TheArithmeticOfSmallClusters) {
  const Case cases[] = {
      {1, 1, 0, 0},  // 0 of 1
      {1, 0, 1, 0},  // it refuses the coordinator, and no peer can say so
      {2, 1, 0, 1},  // 1 of 2 is half
      {2, 2, 0, 0},  // 0 of 2
      {2, 0, 1, 1},  // it refuses both
      {2, 0, 2, 0},  // they refuse, and no peer answers
      {2, 1, 1, 0},  // 0 of 2: the peer that would probe does not answer
      {3, 1, 0, 1},  // 2 of 3
      {3, 2, 0, 0},  // 1 of 3
      {3, 3, 0, 0},  // 0 of 3
      {3, 0, 2, 2},  // one that answers sees both refuse
      {3, 0, 3, 0},  // nobody answers
      {3, 1, 1, 2},  // the dead one first; then it is 1 of 2
      {4, 2, 0, 2},  // 2 of 4
      {4, 3, 0, 0},  // 1 of 4
      {5, 2, 0, 2},  // 3 of 5
      {5, 3, 0, 0},  // 2 of 5
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(::testing::Message() << c.servers << " servers, " << c.suspended << " suspended, "
                                      << c.killed << " killed");
    FakeCluster of(c.servers);
    ASSERT_TRUE(of.start_coordinator().ok());
    for (size_t i = 0; i < c.servers; ++i) of.add_server();
    of.run_for(1s);
    for (size_t i = 0; i < c.suspended; ++i) of.network.silent.insert(of.servers[i]->port());
    for (size_t i = 0; i < c.killed; ++i) of.kill_server(*of.servers[c.suspended + i]);
    of.run_for(60s);
    EXPECT_EQ(c.servers - of.coordinator->state().servers_up(), c.condemned);
    EXPECT_EQ(of.violation, "");
    const bool all_seen = c.suspended + c.killed == c.condemned;
    EXPECT_EQ(of.coordinator->state().detection.suspect, !all_seen);
  }
}

// ---- a coordinator that hears no server condemns none -------------------------------------------

TEST_F(DetectionTest, SuspendingAllForAMinuteCostsNothingButThatMinute) {
  start(6);
  for (uint64_t id = 1; id <= 6; ++id) suspend(id);
  cluster.run_for(60s);
  EXPECT_EQ(state().servers_up(), 6u);
  const ClusterStatus status = cluster.coordinator->status();
  EXPECT_TRUE(status.detection.suspect);
  EXPECT_EQ(status.detection.accounted, 0u);
  EXPECT_EQ(status.detection.expected, 6u);
  ASSERT_EQ(status.detection.waits_for.size(), 6u);
  EXPECT_THAT(status.detection.waits_for[0],
              "server 1 (server-12000) at tcp:host=10.0.0.1,port=12000 to answer");
  EXPECT_THAT(cluster.metrics.text(), HasSubstr("ramcloud_coordinator_detection_suspect 1"));
  // One after the other: those that are last are not condemned by those that were first.
  for (uint64_t id = 1; id <= 6; ++id) {
    resume(id);
    cluster.run_for(900ms);
  }
  cluster.run_for(30s);
  EXPECT_EQ(state().servers_up(), 6u);
  EXPECT_FALSE(state().detection.suspect);
  EXPECT_EQ(state().detection.accounted, 6u);
  EXPECT_EQ(metric("ramcloud_coordinator_condemned_total"), 0u);
}

TEST_F(DetectionTest, ALeaderThatNeverHeardOfAnybodyCondemnsNobody) {
  start(4);
  for (uint64_t id = 1; id <= 4; ++id) suspend(id);
  restart();
  cluster.run_for(120s);  // longer than the limit for servers that never answered
  EXPECT_EQ(state().servers_up(), 4u);
  EXPECT_TRUE(state().detection.suspect);
}

TEST_F(DetectionTest, ACoordinatorThatIsCutOffCondemnsNobody) {
  start(4);
  for (uint64_t id = 1; id <= 4; ++id) cut_off(id);
  cluster.run_for(60s);
  EXPECT_EQ(state().servers_up(), 4u);
  cluster.network.cut.clear();
  cluster.run_for(30s);
  EXPECT_EQ(state().servers_up(), 4u);
  EXPECT_FALSE(state().detection.suspect);
}

TEST_F(DetectionTest, WhoOnlyTheCoordinatorCannotReachIsVouchedFor) {
  start(3);
  cut_off(2);
  cluster.run_for(60s);
  EXPECT_FALSE(crashed(2));
  EXPECT_TRUE(state().servers.at(2).suspected) << "but shown";
  EXPECT_FALSE(state().detection.suspect);
  EXPECT_GT(metric("ramcloud_coordinator_indirect_probes_total{says=\"answered\"}"), 0u);
}

TEST_F(DetectionTest, OneKilledAmongSuspendedIsFoundOnceTheOthersResume) {
  start(5);
  for (const uint64_t id : {1, 2, 3, 5}) suspend(id);
  cluster.run_for(1s);
  kill(4);
  cluster.run_for(60s);
  EXPECT_EQ(state().servers_up(), 5u);
  for (const uint64_t id : {1, 2, 3, 5}) resume(id);
  ASSERT_TRUE(cluster.run_until([&] { return crashed(4); }, 2s));
  EXPECT_THAT(reason(4), HasSubstr("refused"));
  cluster.run_for(30s);
  EXPECT_EQ(state().servers_up(), 4u);
}

// ---- observers ----------------------------------------------------------------------------------

TEST_F(DetectionTest, AnObserverThatSleptJudgesNobody) {
  cluster.store_options.lease = std::chrono::hours(1);  // or it would not lead any more
  start(3);
  suspend(2);
  cluster.run_for(4700ms);  // on the way to a verdict
  EXPECT_FALSE(crashed(2));
  cluster.clock.advance(20s);  // as after SIGSTOP of the coordinator
  cluster.run_for(3s);
  EXPECT_FALSE(crashed(2)) << "silence is counted from zero after our own";
  EXPECT_EQ(metric("ramcloud_coordinator_discarded_verdicts_total"), 1u);
  ASSERT_TRUE(cluster.run_until([&] { return crashed(2); }));
}

/// The pause is so short that the others still count as alive, and silence goes on to count.
TEST_F(DetectionTest, AnObserverThatPausedBrieflyJudgesNobody) {
  cluster.store_options.lease = std::chrono::hours(1);
  start(3);
  suspend(2);
  cluster.run_for(4s);
  cluster.clock.advance(1500ms);
  cluster.run_for(2s);
  EXPECT_FALSE(crashed(2)) << "silence is counted from zero after our own";
  EXPECT_EQ(metric("ramcloud_coordinator_discarded_verdicts_total"), 1u);
  ASSERT_TRUE(cluster.run_until([&] { return crashed(2); }));
}

TEST_F(DetectionTest, APeerThatWasLateIsNoWitness) {
  start(3);
  server(1).late = server(3).late = true;
  suspend(2);
  cluster.run_for(60s);
  EXPECT_FALSE(crashed(2));
  EXPECT_GT(metric("ramcloud_coordinator_indirect_probes_total{says=\"void\"}"), 0u);
  server(3).late = false;
  EXPECT_TRUE(cluster.run_until([&] { return crashed(2); }, 5s));
}

TEST_F(DetectionTest, FormerBuildsAreNoObservers) {
  start(3);
  server(1).former_build = server(3).former_build = true;
  suspend(2);
  ASSERT_TRUE(cluster.run_until([&] { return crashed(2); }, 10s));
  EXPECT_THAT(reason(2), HasSubstr("no other server could be asked"));
  // Their refusals cannot be confirmed, so a dead one is detected by its silence.
  kill(3);
  EXPECT_TRUE(cluster.run_until([&] { return crashed(3); }, 10s));
}

/// Each wake of an idle coordinator costs more than what it does then. Three servers are probed every
/// interval, and four every second one.
TEST_F(DetectionTest, ProbesOfAFewServersLeaveTogether) {
  constexpr uint64_t kServers = 4, kIntervals = 20, kRounds = kIntervals / 2;
  start(kServers);
  const std::string probes = "ramcloud_coordinator_probes_total";
  const uint64_t first = metric(probes);
  uint64_t before = first, moments = 0;
  for (uint64_t ms = 0; ms < kIntervals * 100; ++ms) {
    cluster.run_for(1ms);
    const uint64_t now = metric(probes);
    if (now != before) ++moments;
    before = now;
  }
  EXPECT_GE(before - first, (kRounds - 1) * kServers);
  EXPECT_LE(before - first, (kRounds + 1) * kServers);
  EXPECT_LE(moments, kIntervals + 1);
}

TEST_F(DetectionTest, AHintProbesAtOnceAndCondemnsNobody) {
  cluster.options.detector.interval = 1s;
  start(4);
  const auto probes = [&] { return metric("ramcloud_coordinator_probes_total"); };
  cluster.run_for(50ms);
  // A hint about a live server causes only a probe.
  const uint64_t before = probes();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(cluster.wait_for(server(1).report(3)).has_value());
    cluster.coordinator->hint(3);
    cluster.coordinator->hint(77);
  }
  EXPECT_GT(probes(), before);
  EXPECT_EQ(state().servers_up(), 4u);
  EXPECT_FALSE(state().servers.at(3).suspected);
  // A hint about a dead server: it is detected long before its next probe.
  cluster.run_for(5s);
  kill(3);
  const Time killed = cluster.clock.now();
  ASSERT_TRUE(cluster.wait_for(server(1).report(3)).has_value());
  ASSERT_TRUE(cluster.run_until([&] { return crashed(3); }));
  EXPECT_LE(cluster.clock.now() - killed, kDetectionGoal);
  EXPECT_GT(metric("ramcloud_coordinator_hints_total{from=\"server\"}"), 1000u);
}

// ---- a store that takes no changes --------------------------------------------------------------

/// While a change fails, silence condemns nobody; then it is counted from the beginning.
TEST_F(DetectionTest, WhileTheMetadataCannotBeWrittenSilenceCondemnsNobody) {
  start(4);
  cluster.store->set_full(true);
  suspend(2);
  suspend(3);
  ASSERT_TRUE(cluster.run_until([&] { return state().detection.suspect; }, 10s));
  EXPECT_THAT(state().detection.waits_for,
              ::testing::Contains("the metadata store to accept changes"));
  cluster.run_for(60s);
  resume(3);
  cluster.run_for(2s);
  EXPECT_EQ(state().servers_up(), 4u);
  cluster.store->set_full(false);
  cluster.run_for(4s);
  EXPECT_EQ(state().servers_up(), 4u) << "counted from when the store takes changes";
  ASSERT_TRUE(cluster.run_until([&] { return crashed(2); }, 10s));
  cluster.run_for(30s);
  EXPECT_EQ(state().servers_up(), 3u) << "the other one was let off";
}

TEST_F(DetectionTest, ADeadProcessIsCondemnedWhenTheStoreTakesChangesAgain) {
  start(4);
  cluster.store->set_full(true);
  kill(2);
  cluster.run_for(30s);
  EXPECT_EQ(state().servers_up(), 4u);
  cluster.store->set_full(false);
  EXPECT_TRUE(cluster.run_until([&] { return crashed(2); }, 1s))
      << "its port refuses, it is not silent";
}

// ---- operators ----------------------------------------------------------------------------------

TEST_F(DetectionTest, AnOperatorMayCondemnWhomDetectionWaitsFor) {
  start(3);
  suspend(2);
  suspend(3);
  cluster.run_for(30s);
  ASSERT_TRUE(state().detection.suspect);
  const auto looked = condemn(3, false, false);
  ASSERT_TRUE(looked.has_value()) << looked.error().to_string();
  EXPECT_FALSE(looked->condemned);
  EXPECT_THAT(looked->effect,
              HasSubstr("server 3 ('server-12002') at tcp:host=10.0.0.1,port=12002, "
                        "which does not answer, would be marked CRASHED"));
  EXPECT_FALSE(crashed(3));
  const auto done = condemn(3, false, true, "its machine burnt");
  ASSERT_TRUE(done.has_value()) << done.error().to_string();
  EXPECT_TRUE(done->condemned);
  EXPECT_TRUE(crashed(3));
  EXPECT_EQ(reason(3), "condemned by an operator: its machine burnt");
  EXPECT_EQ(metric("ramcloud_coordinator_verdicts_total{evidence=\"operator\"}"), 1u);
  // One of the two remaining servers answers, which is half: the other is condemned by silence.
  EXPECT_TRUE(cluster.run_until([&] { return crashed(2); }, 10s));
  EXPECT_TRUE(condemn(3, false, true)->condemned) << "again: as it is";
  EXPECT_EQ(reason(3), "condemned by an operator: its machine burnt");
}

TEST_F(DetectionTest, WhoAnswersIsCondemnedByForceOnly) {
  start(3);
  cut_off(2);  // it answers peers only, which is enough
  cluster.run_for(3s);
  for (const uint64_t id : {1, 2}) {
    const auto refused = condemn(id, false, true);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message(), HasSubstr("accepted with --force only"));
    EXPECT_FALSE(crashed(id));
  }
  ASSERT_TRUE(condemn(1, true, true).has_value());
  EXPECT_EQ(reason(1), "condemned by an operator, while it answered");
  EXPECT_EQ(condemn(9, true, true).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(condemn(2, true, true, "two\nlines").error().code(), StatusCode::kInvalidArgument);
}

// ---- copied volumes -----------------------------------------------------------------------------

class VolumeTest : public DetectionTest {
 protected:
  /// A process elsewhere, with the volume of `id`.
  std::unique_ptr<FakeServer> copy_of(uint64_t id) {
    auto copy = std::make_unique<FakeServer>(cluster.network, uint16_t{13'000});
    copy->request.cluster_uuid = state().uuid;
    copy->request.former_server_id = id;
    return copy;
  }
  Result<wire::EnlistReply> enlist(FakeServer& server) {
    return cluster.wait_for(server.enlist(2s));
  }
};

TEST_F(VolumeTest, ACopiedVolumeIsRefusedAndTheServerItIsOfGoesOn) {
  start(3);
  const auto copy = copy_of(2);
  const auto refused = enlist(*copy);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument) << "it need not try again";
  EXPECT_THAT(refused.error().message(),
              HasSubstr("the volume of 'server-13000' at tcp:host=10.0.0.1,port=13000 belongs to "
                        "server 2 ('server-12001'), which answers the coordinator at "
                        "tcp:host=10.0.0.1,port=12001: the volume is a copy"));
  cluster.run_for(10s);
  EXPECT_EQ(state().servers_up(), 3u);
  EXPECT_EQ(state().servers.size(), 3u);
}

TEST_F(VolumeTest, ACopyIsRefusedWhileAPeerReachesTheServer) {
  start(3);
  cut_off(2);
  const auto copy = copy_of(2);
  const auto refused = enlist(*copy);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("which answers server "));
  EXPECT_FALSE(crashed(2));
}

TEST_F(VolumeTest, ACopyOfASuspendedServerWaits) {
  start(3);
  suspend(2);
  const auto copy = copy_of(2);
  const Time begun = cluster.clock.now();
  for (int tries = 0; tries < 2; ++tries) {
    const auto refused = enlist(*copy);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), StatusCode::kRetry) << refused.error().to_string();
    EXPECT_FALSE(crashed(2));
  }
  resume(2);
  ASSERT_LT(cluster.clock.now() - begun, 5s);
  EXPECT_EQ(enlist(*copy).error().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(crashed(2));
}

TEST_F(VolumeTest, AVolumeIsAcceptedElsewhereAfterALongSilence) {
  start(2);
  suspend(1);
  suspend(2);
  cluster.run_for(10s);
  ASSERT_TRUE(state().detection.suspect) << "nobody is condemned by silence here";
  const auto moved = copy_of(2);
  const auto accepted = enlist(*moved);
  ASSERT_TRUE(accepted.has_value()) << accepted.error().to_string();
  EXPECT_EQ(moved->id, 3u);
  EXPECT_EQ(reason(2), "restarted as server 3");
  EXPECT_FALSE(crashed(1));
}

TEST_F(VolumeTest, ARealRestartEnlistsAtOnce) {
  start(3);
  // At the same address, and at another one with the old process dead.
  server(2).start_again();
  server(2).request.cluster_uuid = state().uuid;
  Time begun = cluster.clock.now();
  ASSERT_TRUE(enlist(server(2)).has_value());
  EXPECT_LE(cluster.clock.now() - begun, 100ms);
  EXPECT_EQ(reason(2), "restarted as server 4");
  kill(3);
  const auto moved = copy_of(3);
  begun = cluster.clock.now();
  const auto accepted = enlist(*moved);
  ASSERT_TRUE(accepted.has_value()) << accepted.error().to_string();
  EXPECT_LE(cluster.clock.now() - begun, 100ms);
  EXPECT_EQ(reason(3), "restarted as server 5");
}

/// Its volume is empty, so nothing says which server it was. This leader never heard the former one,
/// but its address has another server now.
TEST_F(VolumeTest, WhoTakesTheAddressOfAServerShowsANewLeaderThatItIsDead) {
  start(3);
  cluster.stop_coordinator();
  server(2).start_again();
  server(2).request.former_server_id = 0;
  ASSERT_TRUE(cluster.start_coordinator().ok());
  ASSERT_TRUE(enlist(server(2)).has_value());
  EXPECT_EQ(server(2).id, 4u);
  const Time begun = cluster.clock.now();
  ASSERT_TRUE(cluster.run_until([&] { return crashed(2); }));
  EXPECT_LE(cluster.clock.now() - begun, kDetectionGoal);
  cluster.run_for(60s);
  EXPECT_FALSE(crashed(4));
}

/// The reply of the first try is lost: the second is of the same start, and no restart.
TEST_F(VolumeTest, ARetryOfOneStartIsNoCopy) {
  start(3);
  server(2).start_again();
  server(2).request.cluster_uuid = state().uuid;
  cluster.network.lose_replies[Opcode::kEnlist] = 2;
  int tries = 1;
  while (!enlist(server(2))) ++tries;
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(server(2).id, 4u);
  EXPECT_EQ(state().servers.size(), 4u);
}

}  // namespace
}  // namespace ramcloud
