// For tests of a coordinator with fake servers: start, end, and checks of rules.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/testing/fake_cluster.h"

namespace ramcloud::testing {

class CoordinatorFixture : public ::testing::Test {
 protected:
  /// A coordinator that leads, and servers that it knows.
  void start(size_t servers) {
    ASSERT_TRUE(cluster.start_coordinator().ok());
    for (size_t i = 0; i < servers; ++i) cluster.add_server();
  }
  /// The same, and one second until everything is settled.
  void start_and_wait(size_t servers) {
    start(servers);
    cluster.run_for(std::chrono::seconds(1));
  }
  void restart() {
    cluster.stop_coordinator();
    ASSERT_TRUE(cluster.start_coordinator().ok());
  }
  /// In every test: no fake server may have seen a violation.
  void TearDown() override {
    EXPECT_EQ(cluster.violation, "");
    for (const auto& server : cluster.servers) {
      if (server) EXPECT_EQ(server->violation, "");
      if (server) EXPECT_EQ(server->recovery.violation, "");
    }
  }
  const ClusterState& state() { return cluster.coordinator->state(); }
  /// Those of the masters of whose replicas backups are told that nobody needs them.
  std::vector<uint64_t> told_recovered(std::vector<uint64_t> ids) {
    const auto reply = cluster.call<wire::Recovered>(wire::Opcode::kGetRecovered,
                                                     wire::GetRecoveredRequest{std::move(ids)});
    EXPECT_TRUE(reply.has_value());
    return reply.value_or(wire::Recovered{}).master_ids;
  }

  FakeCluster cluster;
};

/// For tests of one coordinator.
class CoordinatorTest : public CoordinatorFixture {
 protected:
  wire::ServerState state_of(uint64_t id) { return state().servers.at(id).record.state; }
  bool crashed(uint64_t id) { return state_of(id) == wire::ServerState::kCrashed; }
  /// Starts a call that may wait.
  template <typename Reply, typename Message>
  Task<Result<Reply>> begin(wire::Opcode opcode, Message message, Duration timeout) {
    const Locator to{"tcp", {"10.0.0.1", FakeCluster::kCoordinatorPort}};
    auto call = cluster.client->call<Reply>(to, 0, opcode, std::move(message),
                                            cluster.reactor.now() + timeout);
    call.resume();
    return call;
  }
  FakeServer& server(size_t i) { return *cluster.servers.at(i); }
  /// True when orders are sent again after an import.
  bool orders_again() {
    return cluster.run_until([&] { return !state().restate; });
  }
  /// The tablets that every server owns, by server id.
  auto owned() {
    std::map<uint64_t, decltype(FakeServer::tablets)> all;
    for (const auto& s : cluster.servers) {
      if (s) all[s->id] = s->tablets;
    }
    return all;
  }
  using Places = std::vector<std::pair<uint64_t, uint64_t>>;  // start hash, server
  static Places places(const wire::TableInfo& table) {
    Places all;
    for (const auto& tablet : table.tablets) all.emplace_back(tablet.start_hash, tablet.server_id);
    return all;
  }
  /// The table as a client sees it.
  Places shown(const std::string& name) {
    const auto table =
        cluster.call<wire::TableInfo>(wire::Opcode::kGetTable, wire::GetTableRequest{name, 0});
    EXPECT_TRUE(table.has_value()) << name << ": " << table.error().to_string();
    return table ? places(*table) : Places();
  }
};

}  // namespace ramcloud::testing
