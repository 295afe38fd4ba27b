#include "coordinator/core/volume_release.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "coordinator/core/testing/coordinator_fixture.h"

namespace ramcloud {
namespace {

using testing::CoordinatorFixture;
using ::testing::ElementsAre;
using testing::FakeServer;
using ::testing::HasSubstr;
using wire::Opcode;

class VolumeReleaseTest : public CoordinatorFixture {
 protected:
  void start(size_t servers) { start_and_wait(servers); }
  bool is_up(uint64_t id) { return state().servers.at(id).up(); }
  FakeServer& server(uint64_t id) { return *cluster.servers.at(id - 1); }
  static uint16_t port(uint64_t id) { return static_cast<uint16_t>(12'000 + id - 1); }
  /// It reads nothing and sends nothing, and is UP until detection has waited for it.
  void suspend(uint64_t id) { cluster.network.silent.insert(port(id)); }
  /// Another process starts with its volume, and has not enlisted yet.
  void start_again(FakeServer& again) {
    again.request.cluster_uuid = state().uuid;
    again.start_again();
  }
  /// Every server knows of the verdict in the end.
  void kill(uint64_t id) {
    cluster.kill_server(server(id));
    ASSERT_TRUE(cluster.run_until([&] { return !is_up(id); }));
    cluster.run_for(1s);
  }
  Task<Result<VolumeRelease>> begin(uint64_t id) {
    return cluster.coordinator->volume_release(id, cluster.reactor.now() + 30s);
  }
  Result<VolumeRelease> ask(uint64_t id) { return cluster.wait_for(begin(id)); }
  /// The reason of a no; for any other answer, a text that names it.
  std::string refused(uint64_t id) {
    const auto answer = ask(id);
    if (!answer) return "error: " + answer.error().to_string();
    if (answer->releasable || !answer->token.empty() || answer->expires_at_ms != 0) return "yes";
    return answer->reason;
  }
};

TEST_F(VolumeReleaseTest, WhatNoMasterNeedsIsReleased) {
  start(4);
  kill(2);
  const uint64_t now = cluster.clock.unix_ms();
  const auto answer = ask(2);
  ASSERT_TRUE(answer.has_value()) << answer.error().to_string();
  EXPECT_TRUE(answer->releasable) << answer->reason;
  EXPECT_THAT(answer->reason,
              HasSubstr("the volume of server 2 (server-12001) is not needed: none of 3 "));
  EXPECT_THAT(answer->token, HasSubstr(format_uuid(state().uuid)));
  EXPECT_THAT(answer->token, HasSubstr("/2/1/")) << "server 2, term 1";
  EXPECT_GT(answer->expires_at_ms, now + 25'000);
  EXPECT_LE(answer->expires_at_ms, cluster.clock.unix_ms() + 30'000);
  for (const uint64_t id : {1, 3, 4}) EXPECT_THAT(server(id).asked_about, ElementsAre(2));
}

TEST_F(VolumeReleaseTest, TheVolumeOfAServerThatIsUpIsNeverReleased) {
  start(3);
  EXPECT_THAT(refused(2), HasSubstr("server 2 (server-12001) is UP"));
  suspend(2);
  cluster.run_for(1s);
  EXPECT_THAT(refused(2), HasSubstr("is UP")) << "that it is silent is no verdict";
}

TEST_F(VolumeReleaseTest, ItIsTheIdThatCounts) {
  start(3);
  kill(2);
  EXPECT_THAT(refused(77), HasSubstr("server 77 is not known"));
  EXPECT_THAT(refused(0), HasSubstr("server 0 is not known"));
  // A server with the same name and another id proves nothing about this one, and the other way
  // round.
  FakeServer& namesake = cluster.add_server();
  start_again(namesake);
  namesake.request.name = "server-12001";
  ASSERT_TRUE(cluster.wait_for(namesake.enlist(5s)).has_value());
  cluster.run_for(1s);
  EXPECT_THAT(refused(namesake.id), HasSubstr("is UP"));
  EXPECT_TRUE(ask(2)->releasable);
}

TEST_F(VolumeReleaseTest, AMasterThatCountsReplicasThereIsNamed) {
  start(4);
  kill(2);
  server(3).need.counted = 12;
  EXPECT_THAT(refused(2), HasSubstr("server 3 (server-12002) still counts replicas of 12 segments "
                                    "on server 2 (server-12001)"));
  server(3).need = {.missed = 5};
  EXPECT_THAT(refused(2), HasSubstr("server 3 (server-12002) has 5 segments that had replicas on "
                                    "server 2 (server-12001)"));
  server(3).need = {};
  EXPECT_TRUE(ask(2)->releasable);
}

TEST_F(VolumeReleaseTest, AMasterThatDoesNotAnswerMeansNo) {
  start(5);
  kill(2);
  suspend(3);
  const Time asked = cluster.clock.now();
  EXPECT_THAT(refused(2), HasSubstr("server 3 (server-12002) does not say"));
  EXPECT_LE(cluster.clock.now() - asked, 3s) << "a short deadline";
  EXPECT_TRUE(is_up(3)) << "before any verdict";
}

/// No server has answered a new leader yet: detection is SUSPECT.
TEST_F(VolumeReleaseTest, WhileDetectionIsSuspectEachMasterMustAnswer) {
  start(4);
  kill(2);
  for (const uint64_t id : {1, 3, 4}) suspend(id);
  restart();
  cluster.run_for(20s);
  EXPECT_TRUE(state().detection.suspect);
  EXPECT_THAT(refused(2), HasSubstr("server 1 (server-12000) does not say"));
  cluster.network.silent.clear();
  cluster.run_for(10s);
  EXPECT_TRUE(ask(2)->releasable);
}

TEST_F(VolumeReleaseTest, AMasterOfAFormerBuildMeansNo) {
  start(3);
  kill(2);
  server(3).former_build = true;
  EXPECT_THAT(refused(2), HasSubstr("server 3 (server-12002) does not say whether it needs the "
                                    "volume of server 2: UNSUPPORTED"));
}

TEST_F(VolumeReleaseTest, AMasterThatDoesNotKnowOfTheVerdictYetMeansNo) {
  start(3);
  kill(2);
  server(3).list_it_judges_by = state().list_version - 1;
  EXPECT_THAT(refused(2), HasSubstr("server 3 (server-12002) has version "));
  // It is asked again as long as there is time.
  auto call = begin(2);
  call.resume();
  cluster.run_for(500ms);
  EXPECT_FALSE(call.done());
  server(3).list_it_judges_by.reset();
  ASSERT_TRUE(cluster.run_until([&] { return call.done(); }));
  const auto answer = call.take();
  EXPECT_TRUE(answer->releasable) << answer->reason;
}

TEST_F(VolumeReleaseTest, ACrashedMasterWithTabletsMeansNo) {
  start(4);
  ASSERT_TRUE(cluster.create("t", 4).has_value());
  kill(2);
  EXPECT_TRUE(ask(2)->releasable) << "its own log is elsewhere";
  kill(3);
  EXPECT_THAT(refused(2), HasSubstr("server 3 (server-12002) crashed and its tablets are not "
                                    "recovered"));
  EXPECT_THAT(refused(3), HasSubstr("server 2 (server-12001) crashed"));
  ASSERT_TRUE(cluster.drop("t").has_value());
  ASSERT_TRUE(cluster.run_until([&] { return state().tables.empty(); }));
  EXPECT_TRUE(ask(2)->releasable) << "nobody's data is on it any more";
}

TEST_F(VolumeReleaseTest, AVolumeWhoseServerStartedAgainIsNotReleased) {
  start(3);
  start_again(server(2));
  ASSERT_TRUE(cluster.wait_for(server(2).enlist(5s)).has_value());
  EXPECT_EQ(server(2).id, 4u);
  cluster.run_for(1s);
  EXPECT_THAT(refused(2), HasSubstr("server 4 (server-12001), which is UP, has the volume of "
                                    "server 2 now"));
  restart();
  cluster.run_for(1s);
  EXPECT_THAT(refused(2), HasSubstr("server 4 (server-12001), which is UP, has the volume"))
      << "it is in the metadata";
  cluster.kill_server(server(2));
  ASSERT_TRUE(cluster.run_until([&] { return !is_up(4); }));
  cluster.run_for(1s);
  EXPECT_TRUE(ask(2)->releasable);
  EXPECT_THAT(server(1).asked_about, ElementsAre(2, 4)) << "what either left there counts";
}

TEST_F(VolumeReleaseTest, AfterAnImportAServerSaysWhoseVolumeItHas) {
  start(3);
  const auto exported = cluster.metadata.records;
  start_again(server(2));
  ASSERT_TRUE(cluster.wait_for(server(2).enlist(5s)).has_value());
  cluster.run_for(1s);
  ASSERT_TRUE(cluster.import_records(exported).ok());
  EXPECT_THAT(refused(1), HasSubstr("is UP"));
  ASSERT_TRUE(cluster.run_until([&] { return !state().restate; }));
  ASSERT_FALSE(is_up(2));
  EXPECT_THAT(refused(2), HasSubstr("server 4 (server-12001), which is UP, has the volume of "
                                    "server 2 now"));
}

TEST_F(VolumeReleaseTest, NoServerStartsWithAReleasedVolumeBeforeTheTokenExpires) {
  start(3);
  suspend(2);
  ASSERT_TRUE(cluster.run_until([&] { return !is_up(2); }));
  cluster.run_for(1s);
  ASSERT_TRUE(ask(2)->releasable);
  cluster.network.silent.clear();
  start_again(server(2));
  const auto early = cluster.wait_for(server(2).enlist(5s));
  ASSERT_FALSE(early.has_value());
  EXPECT_EQ(early.error().code(), StatusCode::kRetry);
  EXPECT_THAT(early.error().message(), HasSubstr("the volume of server 2 was released"));
  restart();
  EXPECT_EQ(cluster.wait_for(server(2).enlist(5s)).error().code(), StatusCode::kRetry)
      << "whoever leads";
  cluster.run_for(30s);
  EXPECT_TRUE(cluster.wait_for(server(2).enlist(5s)).has_value());
  EXPECT_THAT(refused(2), HasSubstr("which is UP, has the volume of server 2"));
}

/// By its own clock it leads, but the metadata show another leader.
TEST_F(VolumeReleaseTest, OnlyALeaderReleases) {
  start(3);
  kill(2);
  cluster.metadata.leader_owner = 0;
  const auto answer = ask(2);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), StatusCode::kNotLeader) << answer.error().to_string();
}

TEST_F(VolumeReleaseTest, WithoutTheMetadataStoreNothingIsReleased) {
  start(3);
  kill(2);
  cluster.store->set_full(true);
  auto call = begin(2);
  call.resume();
  cluster.run_for(60s);
  EXPECT_FALSE(call.done()) << "nobody knows whether it was made";
  cluster.store->set_full(false);
  ASSERT_TRUE(cluster.run_until([&] { return call.done(); }));
  const auto answer = call.take();
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), StatusCode::kDeadlineExceeded);
  cluster.run_for(2s);
  EXPECT_TRUE(ask(2)->releasable);
}

TEST_F(VolumeReleaseTest, WhatHappensWhileMastersAreAskedCounts) {
  start(4);
  ASSERT_TRUE(cluster.create("t", 4).has_value());
  kill(2);
  server(1).think = 1s;
  auto call = begin(2);
  call.resume();
  cluster.run_for(100ms);
  cluster.add_server();
  ASSERT_TRUE(cluster.run_until([&] { return call.done(); }));
  EXPECT_THAT(call.take()->reason, HasSubstr("server 5 (server-12004) enlisted meanwhile"));

  auto again = begin(2);
  again.resume();
  cluster.run_for(100ms);
  cluster.kill_server(server(3));
  ASSERT_TRUE(cluster.run_until([&] { return again.done(); }));
  EXPECT_THAT(again.take()->reason, HasSubstr("server 3 (server-12002) crashed and its tablets"));
}

TEST_F(VolumeReleaseTest, ReasonsOfManyMastersAreCut) {
  start(12);
  kill(2);
  for (uint64_t id = 3; id <= 12; ++id) server(id).need.counted = id;
  EXPECT_THAT(refused(2), HasSubstr("and 6 more reasons"));
}

}  // namespace
}  // namespace ramcloud
