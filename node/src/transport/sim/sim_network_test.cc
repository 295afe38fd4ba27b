#include "transport/sim/sim_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "transport/sim/sim_transport.h"

namespace ramcloud {
namespace {

struct SimCall : ClientCall {
  std::optional<StatusCode> outcome;
  std::string body;
  void on_reply(const wire::MessageHeader&, ByteView b) override {
    outcome = StatusCode::kOk;
    body = b;
  }
  void on_failure(const Status& s) override { outcome = s.code(); }
};

struct EchoServer : RequestHandler {
  EchoServer(SimNetwork& network, SimNode& node) : transport(network.make_transport(node)) {
    EXPECT_TRUE(transport->listen({"", 7000}, Side::kInside, *this).has_value());
    transport->set_identity({{1}, 7});
  }
  void on_request(const ReplyHandle& handle, const wire::MessageHeader&, ByteView body) override {
    seen.emplace_back(body);
    const Slice slice(body);
    if (!silent) transport->reply(handle, StatusCode::kOk, {&slice, 1});
  }
  std::unique_ptr<SimTransport> transport;
  std::vector<std::string> seen;
  bool silent = false;
};

struct World {
  explicit World(uint64_t seed, SimNetworkOptions options = {})
      : sim(seed), network(sim, options) {}
  std::shared_ptr<Session> connect(const PeerIdentity& expected = {}) {
    return *client->connect({"sim", {"server", 7000}}, expected);
  }
  void send(Session& session, SimCall& call, ByteView body) {
    const Slice slice(body);
    session.send(call, {}, {&slice, 1});
  }
  bool wait(const SimCall& call) {
    return sim.run_until([&] { return call.outcome.has_value(); }, 30s);
  }
  SimScheduler sim;
  SimNetwork network;
  SimNode& server_node = sim.add_node("server");
  SimNode& client_node = sim.add_node("client");
  std::unique_ptr<EchoServer> server = std::make_unique<EchoServer>(network, server_node);
  std::unique_ptr<SimTransport> client = network.make_transport(client_node);
};

TEST(SimNetwork, EchoesAndTellsThePeersServerId) {
  World world(1);
  const auto session = world.connect({{1}, 7});
  SimCall call;
  world.send(*session, call, "hello");
  ASSERT_TRUE(world.wait(call));
  EXPECT_EQ(call.body, "hello");
  EXPECT_EQ(session->peer_server_id(), 7u);
}

TEST(SimNetwork, OrderHoldsUnlessReorderingIsOn) {
  for (const bool reorder : {false, true}) {
    World world(1, {.reorder = reorder});
    const auto session = world.connect();
    std::deque<SimCall> calls(50);
    std::vector<std::string> sent;
    for (auto& call : calls) {
      sent.push_back(std::to_string(sent.size()));
      world.send(*session, call, sent.back());
    }
    ASSERT_TRUE(world.sim.run_until(
        [&] { return std::ranges::all_of(calls, [](auto& c) { return c.outcome.has_value(); }); },
        1s));
    EXPECT_EQ(world.server->seen == sent, !reorder);
  }
}

uint64_t run_once(uint64_t seed) {
  World world(seed, {.loss = 0.2, .reorder = true});
  const auto session = world.connect();
  std::deque<SimCall> calls(100);
  for (auto& call : calls) world.send(*session, call, "x");
  world.sim.run_for(10ms);
  return world.sim.event_hash();
}

TEST(SimNetwork, TheSameSeedGivesTheSameEventsAndAnotherSeedOthers) {
  EXPECT_EQ(run_once(5), run_once(5));
  EXPECT_NE(run_once(5), run_once(6));
}

TEST(SimNetwork, LossLosesAboutThatShareOfMessages) {
  World world(1);
  const auto session = world.connect();
  SimCall first;
  world.send(*session, first, "x");
  ASSERT_TRUE(world.wait(first));
  world.network.options().loss = 0.3;
  std::deque<SimCall> calls(1000);
  for (auto& call : calls) world.send(*session, call, "x");
  world.sim.run_for(1s);
  const auto answered =
      std::ranges::count_if(calls, [](auto& call) { return call.outcome.has_value(); });
  EXPECT_GT(answered, 400);
  EXPECT_LT(answered, 580);  // 0.7 * 0.7
  EXPECT_FALSE(session->broken());
}

TEST(SimNetwork, APartitionLosesMessagesUntilItHeals) {
  World world(1);
  const auto session = world.connect();
  SimCall before, during, after, connecting;
  world.send(*session, before, "x");
  ASSERT_TRUE(world.wait(before));
  world.network.partition(world.client_node, world.server_node);
  world.send(*session, during, "x");
  const auto other = world.connect();
  world.send(*other, connecting, "x");
  ASSERT_TRUE(world.wait(connecting));
  EXPECT_EQ(connecting.outcome, StatusCode::kUnavailable);
  EXPECT_FALSE(during.outcome.has_value());
  world.network.heal(world.client_node, world.server_node);
  world.send(*session, after, "x");
  ASSERT_TRUE(world.wait(after));
  EXPECT_EQ(after.outcome, StatusCode::kOk);
}

TEST(SimNetwork, AKilledNodeBreaksSessionsAndRefusesUntilRestarted) {
  World world(1);
  const auto session = world.connect();
  world.server->silent = true;
  SimCall sent, late, refused, again;
  world.send(*session, sent, "x");
  ASSERT_TRUE(world.sim.run_until([&] { return world.server->seen.size() == 1; }, 1s));
  world.sim.kill(world.server_node);
  world.server.reset();
  ASSERT_TRUE(world.wait(sent));
  EXPECT_EQ(sent.outcome, StatusCode::kConnectionLost);
  world.send(*session, late, "x");
  ASSERT_TRUE(world.wait(late));
  EXPECT_EQ(late.outcome, StatusCode::kUnavailable);
  const auto second = world.connect();
  world.send(*second, refused, "x");
  ASSERT_TRUE(world.wait(refused));
  EXPECT_EQ(refused.outcome, StatusCode::kUnavailable);
  world.sim.restart(world.server_node);
  world.server = std::make_unique<EchoServer>(world.network, world.server_node);
  const auto third = world.connect();
  world.send(*third, again, "x");
  ASSERT_TRUE(world.wait(again));
  EXPECT_EQ(again.outcome, StatusCode::kOk);
}

TEST(SimNetwork, AKilledClientsConnectionsCloseAndItsStateCanBeDestroyed) {
  World world(1);
  auto session = world.connect();
  auto call = std::make_unique<SimCall>();
  world.send(*session, *call, "x");
  ASSERT_TRUE(world.wait(*call));
  world.sim.kill(world.client_node);
  call.reset();
  session.reset();
  world.client.reset();
  world.sim.restart(world.client_node);
  world.client = world.network.make_transport(world.client_node);
  world.sim.run_for(1s);
  session = world.connect();
  SimCall next;
  world.send(*session, next, "y");
  ASSERT_TRUE(world.wait(next));
  EXPECT_EQ(next.body, "y");
}

TEST(SimNetwork, AnotherClusterOrServerIsRefused) {
  World world(1);
  for (const auto& [expected, code] : {std::pair{PeerIdentity{{9}, 0}, StatusCode::kWrongCluster},
                                       {PeerIdentity{{1}, 8}, StatusCode::kWrongServer}}) {
    const auto session = world.connect(expected);
    SimCall call;
    world.send(*session, call, "x");
    ASSERT_TRUE(world.wait(call));
    EXPECT_EQ(call.outcome, code);
  }
  const auto strict = world.connect({{1}, 7});
  SimCall call;
  world.send(*strict, call, "x");
  ASSERT_TRUE(world.wait(call));
  world.server->transport->set_identity({{1}, 8});
  EXPECT_TRUE(world.sim.run_until([&] { return strict->broken(); }, 1s));
}

TEST(SimNetwork, OneDirectionCanBeCut) {
  World world(1);
  const auto session = world.connect();
  SimCall first;
  world.send(*session, first, "a");
  ASSERT_TRUE(world.wait(first));
  world.network.partition_one_way(world.server_node, world.client_node);
  SimCall call;
  world.send(*session, call, "b");
  EXPECT_FALSE(world.wait(call)) << "the answer is lost";
  EXPECT_EQ(world.server->seen, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(world.sim.faults().of(Fault::kMessageCutOneWay), 1u);
  EXPECT_EQ(world.sim.faults().of(Fault::kMessageCut), 0u);
}

TEST(SimNetwork, ASlowLinkDelays) {
  World world(1);
  const auto session = world.connect();
  SimCall first;
  world.send(*session, first, "a");
  ASSERT_TRUE(world.wait(first));
  world.network.set_slow(world.client_node, world.server_node, 20ms);
  const Time begin = world.sim.now();
  SimCall call;
  world.send(*session, call, "b");
  ASSERT_TRUE(world.wait(call));
  EXPECT_GE(world.sim.now() - begin, 40ms);
}

TEST(SimNetwork, AnIdempotentCallMayComeAgainOverAnotherSession) {
  World world(1, {.repeat = 1});
  const auto session = world.connect();
  for (const auto& [opcode, times] :
       {std::pair{wire::Opcode::kReplicaWrite, size_t{2}}, {wire::Opcode::kWrite, size_t{1}}}) {
    world.server->seen.clear();
    SimCall call;
    wire::MessageHeader header{};
    header.opcode = static_cast<uint16_t>(opcode);
    const Slice slice(ByteView("x"));
    session->send(call, header, {&slice, 1});
    ASSERT_TRUE(world.wait(call));
    world.sim.run_for(10s);
    EXPECT_EQ(world.server->seen.size(), times);
  }
  EXPECT_EQ(world.sim.faults().of(Fault::kCallRepeated), 1u);
}

TEST(SimNetwork, SessionsBreakAlthoughBothEndsLive) {
  World world(1);
  const auto session = world.connect();
  SimCall call;
  world.send(*session, call, "a");
  ASSERT_TRUE(world.wait(call));
  EXPECT_EQ(world.network.break_sessions_to(world.server_node), 1u);
  EXPECT_TRUE(world.sim.run_until([&] { return session->broken(); }, 1s));
}

TEST(SimNetwork, ADoomedNodeSendsNothing) {
  World world(1);
  const auto session = world.connect();
  SimCall first;
  world.send(*session, first, "a");
  ASSERT_TRUE(world.wait(first));
  world.sim.doom(world.client_node);
  SimCall call;
  world.send(*session, call, "b");
  world.sim.run_for(1s);
  EXPECT_EQ(world.server->seen.size(), 1u);
}

}  // namespace
}  // namespace ramcloud
