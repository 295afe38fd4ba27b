#include "server/peer_pings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "transport/sim/sim_transport.h"

namespace ramcloud::server {
namespace {

using ::testing::HasSubstr;
using wire::Opcode;
using wire::PeerState;

constexpr std::array<uint8_t, 16> kCluster{1, 2, 3};

/// An observer (server 1), the peer it looks at (server 2), and a coordinator.
class PeerPingsTest : public ::testing::Test {
 protected:
  struct Process {
    Process(SimScheduler& scheduler, SimNetwork& network, const std::string& name, uint64_t id)
        : node(scheduler.add_node(name)), transport(network.make_transport(node)) {
      registry = std::make_unique<ServiceRegistry>(*transport);
      rpc = std::make_unique<RpcClient>(node.reactor(), *transport);
      EXPECT_TRUE(transport->listen({name, 1}, Side::kInside, *registry).has_value());
      transport->set_identity({kCluster, id});
    }
    Locator locator() const { return {"sim", {node.name(), 1}}; }
    SimNode& node;
    std::unique_ptr<SimTransport> transport;
    std::unique_ptr<ServiceRegistry> registry;
    std::unique_ptr<RpcClient> rpc;
  };

  PeerPingsTest() {
    coordinator.registry->add(Opcode::kReportServer, &on_report, this);
    peer.registry->add(Opcode::kPing, &on_ping, this);
    peer.registry->add(Opcode::kRenewLease, &on_renew_lease, this);
    list(wire::ServerState::kUp);
    pings = std::make_unique<PeerPings>(*observer.rpc, *observer.registry, servers,
                                        std::vector{coordinator.locator()}, metrics,
                                        PeerPings::Options{});
  }
  ~PeerPingsTest() override { asked.reset(); }

  static void on_report(void* object, const Request& request) {
    auto& self = *static_cast<PeerPingsTest*>(object);
    wire::ReportServerRequest report;
    EXPECT_TRUE(request.decode(report));
    self.reports.push_back(report);
    reply_message(*self.coordinator.transport, request.reply, wire::Empty());
  }
  static void on_ping(void* object, const Request& request) {
    auto& self = *static_cast<PeerPingsTest*>(object);
    ++self.pinged;
    reply_message(*self.peer.transport, request.reply, wire::Empty());
  }
  static void on_renew_lease(void* object, const Request& request) {
    reply_message(*static_cast<PeerPingsTest*>(object)->peer.transport, request.reply,
                  wire::Empty());
  }
  Task<void> renew_lease() {
    (void)co_await observer.rpc->call(peer.locator(), 2, Opcode::kRenewLease, {},
                                      observer.node.reactor().now() + 1s);
  }
  void list(wire::ServerState state) {
    wire::ServerList next;
    next.term = 1;
    next.version = ++version;
    for (const auto& [id, process] : {std::pair{uint64_t{1}, &observer}, {uint64_t{2}, &peer}}) {
      auto& entry = next.servers.emplace_back();
      entry.server_id = id;
      entry.state = id == 2 ? state : wire::ServerState::kUp;
      entry.locator = process->locator().to_string();
    }
    ASSERT_TRUE(servers.apply(next).ok());
  }
  void suspend(Process& process) {
    scheduler.pause(process.node, scheduler.now() + std::chrono::hours(1));
  }
  void kill_peer() {
    scheduler.kill(peer.node);
    peer.rpc.reset();
    peer.registry.reset();
    peer.transport.reset();
  }
  /// Begins to ask the observer; the answer is in `said` when it has come.
  void ask(uint64_t server_id, uint32_t timeout_ms = 1000) {
    said.reset();
    const auto flow = [](PeerPingsTest& self, wire::ProbePeerRequest request) -> Task<void> {
      self.said = co_await self.coordinator.rpc->call<wire::ProbePeerReply>(
          self.observer.locator(), 1, Opcode::kProbePeer, request,
          self.coordinator.node.reactor().now() + 60s);
    };
    asked = std::make_unique<TaskScope>(coordinator.node.reactor());
    coordinator.node.reactor().post(
        [this, flow, request = wire::ProbePeerRequest{1, server_id, timeout_ms}] {
          asked->spawn(flow(*this, request));
        });
  }
  PeerState answer() {
    EXPECT_TRUE(scheduler.run_until([this] { return said.has_value(); }, 60s));
    EXPECT_TRUE(said->has_value()) << said->error().to_string();
    return said->has_value() ? (*said)->state : PeerState::kVoid;
  }

  SimScheduler scheduler{1};
  SimNetwork network{scheduler};
  MetricsRegistry metrics;
  Process coordinator{scheduler, network, "coordinator", 0};
  Process observer{scheduler, network, "observer", 1};
  Process peer{scheduler, network, "peer", 2};
  ServerList servers;
  uint64_t version = 0;
  std::vector<wire::ReportServerRequest> reports;
  int pinged = 0;
  std::optional<Result<wire::ProbePeerReply>> said;
  std::unique_ptr<PeerPings> pings;
  std::unique_ptr<TaskScope> asked;
};

TEST_F(PeerPingsTest, SaysWhatItSeesOfAPeer) {
  ask(2);
  EXPECT_EQ(answer(), PeerState::kAnswered);
  suspend(peer);
  ask(2);
  EXPECT_EQ(answer(), PeerState::kSilent) << "a suspended process refuses nothing";
  scheduler.resume(peer.node);
  ask(77);
  EXPECT_EQ(answer(), PeerState::kVoid) << "nobody that it knows";
  peer.transport->set_identity({kCluster, 3});
  ask(2);
  EXPECT_EQ(answer(), PeerState::kStranger);
  kill_peer();
  scheduler.run_for(5s);
  ask(2);
  EXPECT_EQ(answer(), PeerState::kRefused);
}

TEST_F(PeerPingsTest, LimitsOfARequestAreNamed) {
  for (const uint32_t timeout_ms : {0u, 10'001u}) {
    ask(2, timeout_ms);
    ASSERT_TRUE(scheduler.run_until([this] { return said.has_value(); }, 60s));
    ASSERT_FALSE(said->has_value());
    EXPECT_THAT(said->error().to_string(), HasSubstr("INVALID_ARGUMENT: timeout_ms"));
    EXPECT_THAT(said->error().to_string(), HasSubstr("accepted: 1 to 10000"));
  }
}

TEST_F(PeerPingsTest, WhatALateServerSawIsVoid) {
  suspend(peer);
  ask(2);
  scheduler.run_for(300ms);
  suspend(observer);
  scheduler.run_for(5s);
  scheduler.resume(observer.node);
  EXPECT_EQ(answer(), PeerState::kVoid);
}

TEST_F(PeerPingsTest, ADeadPeerIsReportedAtOnceAndUntilItIsListedAsCrashed) {
  pings->start(1);
  scheduler.run_for(3s);
  EXPECT_GE(pinged, 9);
  EXPECT_TRUE(reports.empty());
  kill_peer();
  ASSERT_TRUE(scheduler.run_until([this] { return !reports.empty(); }, 200ms));
  EXPECT_EQ(reports[0].reporter_id, 1u);
  EXPECT_EQ(reports[0].server_id, 2u);
  EXPECT_EQ(reports[0].state, PeerState::kRefused);
  list(wire::ServerState::kCrashed);
  scheduler.run_for(2s);
  const size_t before = reports.size();
  scheduler.run_for(5s);
  EXPECT_EQ(reports.size(), before);
}

/// An idle master asks its backups for leases anyway.
TEST_F(PeerPingsTest, APeerThatAnswersOtherCallsIsNotPinged) {
  pings->start(1);
  scheduler.run_for(1s);
  TaskScope asking(observer.node.reactor());
  const auto renew_leases = [&](int calls) {
    for (int i = 0; i < calls; ++i) {
      observer.node.reactor().post([&] { asking.spawn(renew_lease()); });
      scheduler.run_for(200ms);
    }
  };
  renew_leases(2);
  const int before = pinged;
  renew_leases(20);
  EXPECT_EQ(pinged, before);
  scheduler.run_for(1s);
  EXPECT_GT(pinged, before) << "nothing else is asked any more";
  EXPECT_TRUE(reports.empty());
}

/// Each wake of an idle server costs more than what it does then.
TEST_F(PeerPingsTest, OneTimerServesPingsAndPunctuality) {
  scheduler.run_for(30ms);
  observer.node.reactor().post([this] { pings->start(1); });
  scheduler.run_for(1s);
  const Time end = scheduler.now() + 1s;
  int timers = 0;
  Time last = kNever;
  const int before = pinged;
  while (scheduler.now() < end) {
    const Time next = observer.node.reactor().next_deadline();
    if (next != last && next < scheduler.now() + 100ms) ++timers;
    last = next;
    scheduler.run_for(1ms);
  }
  EXPECT_NEAR(pinged - before, 3, 1);
  EXPECT_LE(timers, 11);
}

TEST_F(PeerPingsTest, AServerThatWasLateReportsNobody) {
  pings->start(1);
  scheduler.run_for(1s);
  suspend(peer);
  scheduler.run_for(150ms);
  suspend(observer);
  scheduler.run_for(10s);
  scheduler.resume(observer.node);
  scheduler.resume(peer.node);
  scheduler.run_for(5s);
  EXPECT_TRUE(reports.empty());
}

TEST_F(PeerPingsTest, BrokenConnectionsAreReportedOnceInAWhile) {
  pings->start(1);
  for (int i = 0; i < 1000; ++i) pings->connection_failed(2);
  pings->connection_failed(77);
  scheduler.run_for(20ms);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].state, PeerState::kBroken);
  pings->connection_failed(2);
  scheduler.run_for(20ms);
  EXPECT_EQ(reports.size(), 1u);
  scheduler.run_for(200ms);
  pings->connection_failed(2);
  scheduler.run_for(20ms);
  EXPECT_EQ(reports.size(), 2u);
}

}  // namespace
}  // namespace ramcloud::server
