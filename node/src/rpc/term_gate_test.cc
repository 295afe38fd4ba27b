#include "rpc/term_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/sim/sim_transport.h"
#include "wire/recovery_messages.h"

namespace ramcloud {
namespace {

using ::testing::ElementsAre;
using wire::Opcode;

Locator at(const char* host) {
  return {"sim", {host, 7000}};
}

/// A coordinator that only answers GET_CLUSTER_INFO.
struct FakeCoordinator {
  FakeCoordinator(SimNetwork& network, SimNode& node)
      : transport(network.make_transport(node)), registry(*transport) {
    registry.add(Opcode::kGetClusterInfo, &call_member<&FakeCoordinator::tell, FakeCoordinator>,
                 this);
    EXPECT_TRUE(transport->listen({"", 7000}, Side::kInside, registry).has_value());
  }
  void tell(const Request& request) {
    ++asked;
    if (!leads) {
      wire::ErrorDetails details;
      details.leader = named;
      return reply_error(*transport, request.reply, {StatusCode::kNotLeader, "standing by"}, 0,
                         details);
    }
    reply_message(*transport, request.reply, info);
  }
  std::unique_ptr<SimTransport> transport;
  ServiceRegistry registry;
  wire::ClusterInfo info;
  bool leads = true;
  std::string named;  // as the leader
  int asked = 0;
};

class TermGateTest : public ::testing::Test {
 protected:
  TermGateTest() {
    registry.add(Opcode::kGetServerStats, &call_member<&TermGateTest::probe, TermGateTest>, this);
    registry.add(Opcode::kTakeTablet, &call_member<&TermGateTest::take, TermGateTest>, this);
    registry.add(Opcode::kServeRecovered, &call_member<&TermGateTest::take, TermGateTest>, this);
    EXPECT_TRUE(transport->listen({"", 7000}, Side::kInside, registry).has_value());
    for (auto* c : {&first, &second}) {
      c->info.term = 5;
      c->info.metadata_revision = 100;
    }
    second.leads = false;
  }
  void probe(const Request& request) {
    wire::GetServerStatsRequest message;
    ASSERT_TRUE(request.decode(message));
    if (Status term = servers.check_term(message.term); !term.ok()) {
      return reply_error(*transport, request.reply, term);
    }
    handled.push_back(message.term);
    reply_message(*transport, request.reply, wire::ServerStats());
  }
  void take(const Request& request) {
    wire::TakeTabletRequest message;
    ASSERT_TRUE(request.decode(message));
    handled.push_back(message.revision);
    reply_message(*transport, request.reply, wire::Empty());
  }
  template <typename Reply, typename Message>
  Task<StatusCode> call(Opcode opcode, Message message) {
    auto reply =
        co_await peer.call<Reply>(at("server"), 0, opcode, message, peer.reactor().now() + 20s);
    co_return reply ? StatusCode::kOk : reply.error().code();
  }
  StatusCode wait(Task<StatusCode> task) {
    task.resume();
    EXPECT_TRUE(sim.run_until([&] { return task.done(); }, 30s));
    return task.take();
  }
  StatusCode probe_with(uint64_t term) {
    return wait(
        call<wire::ServerStats>(Opcode::kGetServerStats, wire::GetServerStatsRequest{term, 0}));
  }
  StatusCode take_with(uint64_t term, uint64_t revision) {
    return wait(
        call<wire::Empty>(Opcode::kTakeTablet, wire::TakeTabletRequest{term, revision, 1, 0, 9}));
  }
  StatusCode serve_with(uint64_t term, uint64_t revision) {
    return wait(call<wire::Empty>(Opcode::kServeRecovered,
                                  wire::ServeRecoveredRequest{term, revision, 7, {}}));
  }

  SimScheduler sim{1};
  SimNetwork network{sim};
  SimNode& server_node = sim.add_node("server");
  SimNode& first_node = sim.add_node("first");
  SimNode& second_node = sim.add_node("second");
  SimNode& peer_node = sim.add_node("peer");
  std::unique_ptr<SimTransport> transport = network.make_transport(server_node);
  std::unique_ptr<SimTransport> peer_transport = network.make_transport(peer_node);
  ServiceRegistry registry{*transport};
  RpcClient rpc{server_node.reactor(), *transport};
  RpcClient peer{peer_node.reactor(), *peer_transport};
  FakeCoordinator first{network, first_node};
  FakeCoordinator second{network, second_node};
  std::vector<Locator> coordinators{at("first"), at("second")};
  uint64_t refused(const char* reason) {
    return metrics.counter("ramcloud_refused_terms_total", "", {{"reason", reason}}).value();
  }
  ServerList servers;
  MetricsRegistry metrics;
  TermGate gate{registry, rpc, servers, coordinators, metrics};
  std::vector<uint64_t> handled;
};

TEST_F(TermGateTest, ATermThatACoordinatorConfirmsIsBelievedAndAskedForOnce) {
  EXPECT_EQ(probe_with(5), StatusCode::kOk);
  EXPECT_EQ(probe_with(5), StatusCode::kOk);
  EXPECT_THAT(handled, ElementsAre(5, 5));
  EXPECT_EQ(first.asked, 1);
  EXPECT_EQ(probe_with(4), StatusCode::kStaleTerm);
}

TEST_F(TermGateTest, ATermThatNobodyConfirmsIsNotAdopted) {
  for (const uint64_t term : {uint64_t{6}, (uint64_t{1} << 62) - 1}) {
    EXPECT_EQ(probe_with(term), StatusCode::kRetry) << term;
  }
  EXPECT_EQ(probe_with(~uint64_t{0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused("unconfirmed"), 2u);
  EXPECT_EQ(refused("impossible"), 1u);
  EXPECT_EQ(servers.highest_term(), 5u) << "what the leader says of itself";
  EXPECT_EQ(probe_with(5), StatusCode::kOk);
  EXPECT_EQ(gate.parked(), 0u);
}

TEST_F(TermGateTest, ARevisionAboveThatOfTheMetadataIsNotAdopted) {
  EXPECT_EQ(take_with(5, 101), StatusCode::kRetry);
  EXPECT_EQ(serve_with(5, 101), StatusCode::kRetry);
  EXPECT_EQ(serve_with(5, ~uint64_t{0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(take_with(5, ~uint64_t{0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(take_with(5, 100), StatusCode::kOk);
  first.info.metadata_revision = 140;
  EXPECT_EQ(take_with(5, 120), StatusCode::kOk);
  EXPECT_THAT(handled, ElementsAre(100, 120));
}

TEST_F(TermGateTest, ACoordinatorOfAFormerBuildTellsNoRevision) {
  first.transport->set_highest_version(1);
  EXPECT_EQ(take_with(5, 200), StatusCode::kOk);
  EXPECT_EQ(take_with(5, 201), StatusCode::kOk);
}

/// A coordinator that does not answer delays no term that another one can confirm.
TEST_F(TermGateTest, TheFirstThatConfirmsIsEnough) {
  network.partition(server_node, first_node);
  second.leads = true;
  const Time before = sim.now();
  EXPECT_EQ(probe_with(5), StatusCode::kOk);
  second.info.term = 6;
  EXPECT_EQ(probe_with(6), StatusCode::kOk);
  EXPECT_LT(sim.now() - before, 500ms);
}

TEST_F(TermGateTest, AStandbyMayNameALeaderThatIsNotConfigured) {
  SimNode& third_node = sim.add_node("third");
  FakeCoordinator third(network, third_node);
  third.info = first.info;
  third.info.term = 9;
  first.leads = false;
  second.named = "sim:host=third,port=7000";
  EXPECT_EQ(probe_with(9), StatusCode::kOk);
}

TEST_F(TermGateTest, WhatWaitsIsBoundedAndAllOfItIsAnswered) {
  network.partition(server_node, first_node);
  network.partition(server_node, second_node);
  std::vector<Task<StatusCode>> calls;
  for (size_t i = 0; i < 3 * TermGate::kMaxParked; ++i) {
    calls.push_back(
        call<wire::ServerStats>(Opcode::kGetServerStats, wire::GetServerStatsRequest{6 + i, 0}));
    calls.back().resume();
  }
  ASSERT_TRUE(sim.run_until([&] { return gate.parked() == TermGate::kMaxParked; }, 5s));
  ASSERT_TRUE(sim.run_until(
      [&] { return std::ranges::all_of(calls, [](const auto& c) { return c.done(); }); }, 20s));
  for (auto& c : calls) EXPECT_EQ(c.take(), StatusCode::kRetry);
}

/// However fast a peer sends messages with different terms, the coordinators are asked for all of
/// them together, and not again before the pause is over.
TEST_F(TermGateTest, AFloodOfTermsAsksTheCoordinatorsNowAndThen) {
  const Time end = sim.clock().now() + 1s;
  uint64_t term = 6;
  const auto flood = [&]() -> Task<StatusCode> {
    while (sim.clock().now() < end) {
      co_await call<wire::ServerStats>(Opcode::kGetServerStats,
                                       wire::GetServerStatsRequest{term++, 0});
    }
    co_return StatusCode::kOk;
  };
  std::vector<Task<StatusCode>> floods;
  for (int i = 0; i < 16; ++i) {
    floods.push_back(flood());
    floods.back().resume();
  }
  ASSERT_TRUE(sim.run_until(
      [&] { return std::ranges::all_of(floods, [](const auto& f) { return f.done(); }); }, 30s));
  EXPECT_GE(refused("unconfirmed"), 300u);
  EXPECT_LE(first.asked, 2 * 55) << "directly, and as the leader that the other one names";
  EXPECT_LE(gate.parked(), TermGate::kMaxParked);
}

}  // namespace
}  // namespace ramcloud
