#include "coordinator/core/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "coordinator/core/testing/coordinator_fixture.h"

namespace ramcloud {
namespace {

using testing::CoordinatorTest;
using testing::FakeServer;
using ::testing::HasSubstr;
using wire::Opcode;

TEST_F(CoordinatorTest, RetriesOfOneStartGiveOneId) {
  start(1);
  const auto port = static_cast<uint16_t>(12'100);
  FakeServer retrying(cluster.network, port);
  cluster.network.lose_replies[Opcode::kEnlist] = 3;
  int tries = 1;
  while (!cluster.wait_for(retrying.enlist(100ms))) ++tries;
  EXPECT_EQ(tries, 4);
  EXPECT_EQ(retrying.id, 2u);
  EXPECT_EQ(state().servers.size(), 2u);
  restart();
  ASSERT_TRUE(cluster.wait_for(retrying.enlist(1s)).has_value());
  EXPECT_EQ(retrying.id, 2u) << "also after a restart of the coordinator";
  EXPECT_EQ(cluster.add_server().id, 3u);
}

TEST_F(CoordinatorTest, ARestartedServerGetsANewIdAndTheOldOneIsCrashed) {
  start(2);
  FakeServer& second = server(1);
  second.start_again();
  second.request.cluster_uuid = state().uuid;
  ASSERT_TRUE(cluster.wait_for(second.enlist(1s)).has_value());
  EXPECT_EQ(second.id, 3u);
  EXPECT_TRUE(crashed(2));
  EXPECT_EQ(state().servers.at(2).record.state_reason, "restarted as server 3");
  // A late copy of the same request changes nothing.
  ASSERT_TRUE(cluster.wait_for(second.enlist(1s)).has_value());
  EXPECT_EQ(second.id, 3u);
  EXPECT_EQ(state().servers.size(), 3u);
}

TEST_F(CoordinatorTest, BadEnlistRequestsAreNamed) {
  start(1);
  const auto enlist = [&](auto&& change) {
    wire::EnlistRequest request = server(0).request;
    request.nonce = 99;
    change(request);
    const auto reply = cluster.call<wire::EnlistReply>(Opcode::kEnlist, request);
    return reply ? std::string("OK") : reply.error().to_string();
  };
  EXPECT_EQ(enlist([](auto& r) { r.locator = "nonsense"; }),
            "INVALID_ARGUMENT: locator 'nonsense' is not accepted; accepted: a locator such as "
            "tcp:host=10.0.0.1,port=11200");
  EXPECT_EQ(enlist([](auto& r) { r.name = "a\nb"; }),
            "INVALID_ARGUMENT: name 'a\\x0ab' is not accepted; accepted: 0 to 255 printable ASCII "
            "bytes");
  EXPECT_EQ(enlist([](auto& r) { r.nonce = 0; }),
            "INVALID_ARGUMENT: nonce 0 is not accepted; accepted: a random number chosen at each "
            "start");
  const std::string foreign = enlist([](auto& r) { r.cluster_uuid.fill(0xab); });
  EXPECT_THAT(foreign, HasSubstr("WRONG_CLUSTER: the server's volume belongs to cluster "
                                 "abababab-abab-abab-abab-abababababab; this is cluster "));
  EXPECT_THAT(foreign, HasSubstr(format_uuid(state().uuid)));
  EXPECT_THAT(enlist([this](auto& r) {
                r.cluster_uuid = state().uuid;
                r.former_server_id = 50;
              }),
              HasSubstr("former_server_id 50 is not accepted; accepted: an id that was given out, "
                        "at most 1"));
  EXPECT_EQ(state().servers.size(), 1u);
  EXPECT_FALSE(crashed(1));
}

}  // namespace
}  // namespace ramcloud
