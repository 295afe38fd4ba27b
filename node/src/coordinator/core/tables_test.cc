// Creating and dropping tables of a few tablets; large_tables_test.cc has those of many.
#include "coordinator/core/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "coordinator/core/testing/coordinator_fixture.h"

namespace ramcloud {
namespace {

using testing::CoordinatorTest;
using ::testing::ElementsAre;
using testing::FakeCluster;
using testing::FakeServer;
using ::testing::HasSubstr;
using wire::Opcode;

TEST_F(CoordinatorTest, CreatesListsAndDropsTables) {
  start(3);
  const auto table = cluster.create("users", 2);
  ASSERT_TRUE(table.has_value()) << table.error().to_string();
  EXPECT_EQ(table->table_id, 1u);
  ASSERT_EQ(table->tablets.size(), 2u);
  EXPECT_EQ(table->tablets[0].end_hash, 0x7fffffffffffffffu);
  for (const auto& tablet : table->tablets) {
    EXPECT_EQ(tablet.state, wire::TabletState::kNormal);
    const FakeServer& owner = server(tablet.server_id - 1);
    EXPECT_TRUE(owner.tablets.at(1).contains(tablet.start_hash)) << "told before it is NORMAL";
    EXPECT_EQ(tablet.locator, owner.request.locator);
  }
  // Again: the same table; with another span: EXISTS.
  EXPECT_EQ(cluster.create("users", 2)->table_id, 1u);
  EXPECT_EQ(cluster.create("users", 3).error().to_string(),
            "EXISTS: table 'users' exists with span 2, not 3");

  ASSERT_TRUE(cluster.create("logs", 1).has_value());
  const auto all = cluster.call<wire::ListTablesReply>(Opcode::kListTables, wire::Empty());
  ASSERT_EQ(all->tables.size(), 2u);
  EXPECT_EQ(all->tables[0].name, "users");
  const auto outside = cluster.call<wire::TableInfo>(
      Opcode::kGetTable, wire::GetTableRequest{"users", 0}, FakeCluster::kOutsidePort);
  EXPECT_THAT(outside->tablets[0].locator, HasSubstr("outside.example"));
  EXPECT_EQ(cluster.call<wire::TableInfo>(Opcode::kGetTable, wire::GetTableRequest{"", 2})->name,
            "logs");

  ASSERT_TRUE(cluster.drop("users").has_value());
  for (const auto& s : cluster.servers) EXPECT_FALSE(s->tablets.contains(1)) << "told before OK";
  EXPECT_EQ(cluster.drop("users").error().to_string(), "NOT_FOUND: table 'users' does not exist");
  EXPECT_EQ(cluster.call<wire::TableInfo>(Opcode::kGetTable, wire::GetTableRequest{"", 1})
                .error()
                .to_string(),
            "NOT_FOUND: table 1 does not exist");
  EXPECT_EQ(cluster.create("users", 1)->table_id, 3u) << "ids are not reused";
}

/// So that a list of very many tables fits into messages.
TEST_F(CoordinatorTest, TablesAreListedInPages) {
  start(2);
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    ASSERT_TRUE(cluster.create(name, 1).has_value());
  }
  ASSERT_TRUE(cluster.drop("c").has_value());
  const auto page = [this](uint64_t first_id, uint32_t max_bytes) {
    return *cluster.call<wire::ListTablesReply>(Opcode::kListTables,
                                                wire::ListTablesRequest{first_id, max_bytes});
  };
  const auto whole = page(0, 0);
  EXPECT_EQ(whole.next_id, 0u);
  ASSERT_EQ(whole.tables.size(), 4u);
  const auto bytes = static_cast<uint32_t>(wire::encode(whole.tables[0], wire::kVersionMax).size());
  for (const uint32_t max_bytes : {1u, bytes, 2 * bytes, 3 * bytes, 1u << 20}) {
    std::string names;
    uint64_t pages = 0, next = 0;
    do {
      const auto reply = page(next, max_bytes);
      for (const auto& table : reply.tables) names += table.name;
      next = reply.next_id;
      ++pages;
    } while (next != 0 && pages < 10);
    EXPECT_EQ(names, "abde");
    const uint32_t in_a_page = std::clamp(max_bytes / bytes, 1u, 4u);
    EXPECT_EQ(pages, (4 + in_a_page - 1) / in_a_page);
  }
}

TEST_F(CoordinatorTest, TabletsGoToTheLeastLoadedServers) {
  start(4);
  ASSERT_TRUE(cluster.create("a", 3).has_value());
  const auto owners = [](const Result<wire::TableInfo>& table) {
    std::vector<uint64_t> ids;
    for (const auto& tablet : table->tablets) ids.push_back(tablet.server_id);
    return ids;
  };
  EXPECT_THAT(owners(cluster.create("b", 2)), ElementsAre(4, 1));
  EXPECT_THAT(owners(cluster.create("c", 4)), ElementsAre(2, 3, 4, 1));
}

TEST_F(CoordinatorTest, BadNamesAndSpansAreNamed) {
  ASSERT_TRUE(cluster.start_coordinator().ok());
  EXPECT_EQ(cluster.create("t", 1).error().to_string(),
            "UNAVAILABLE: no server is up to hold the table");
  cluster.add_server();
  cluster.add_server();
  EXPECT_EQ(cluster.create("", 1).error().to_string(),
            "INVALID_ARGUMENT: name '' is not accepted; accepted: 1 to 255 printable ASCII bytes");
  EXPECT_EQ(cluster.create("tab\tle", 1).error().to_string(),
            "INVALID_ARGUMENT: name 'tab\\x09le' is not accepted; accepted: 1 to 255 printable "
            "ASCII bytes");
  EXPECT_EQ(cluster.create(std::string(256, 'x'), 1).error().to_string(),
            "INVALID_ARGUMENT: name '" + std::string(64, 'x') +
                "…' (256 bytes) is not accepted; accepted: 1 to 255 printable ASCII bytes");
  EXPECT_EQ(cluster.create("t", 0).error().to_string(),
            "INVALID_ARGUMENT: span 0 is not accepted; accepted: 1 to 2 (the servers that are up)");
  EXPECT_EQ(cluster.create("t", 3).error().to_string(),
            "INVALID_ARGUMENT: span 3 is not accepted; accepted: 1 to 2 (the servers that are up)");
  EXPECT_TRUE(cluster.create(std::string(255, 'x'), 2).has_value());
  EXPECT_EQ(state().tables.size(), 1u);
}

TEST_F(CoordinatorTest, LostRepliesAndBusyServersOnlyDelay) {
  start(3);
  cluster.network.lose_replies[Opcode::kTakeTablet] = 2;
  cluster.network.lose_replies[Opcode::kDropTablet] = 2;
  server(0).refuse_takes = 5;
  ASSERT_TRUE(cluster.create("t", 3).has_value());
  ASSERT_TRUE(cluster.drop("t").has_value());
  for (const auto& s : cluster.servers) EXPECT_TRUE(s->tablets.empty());
}

TEST_F(CoordinatorTest, ARestartInTheMiddleOfCreatingAndDroppingFinishesBoth) {
  // At any moment: the two calls are begun, and the coordinator dies after `steps` turns.
  for (int steps = 1; steps < 60; steps += 3) {
    SCOPED_TRACE(steps);
    FakeCluster c(static_cast<uint64_t>(steps));
    ASSERT_TRUE(c.start_coordinator().ok());
    for (int i = 0; i < 3; ++i) c.add_server();
    ASSERT_TRUE(c.create("old", 3).has_value());
    const Time deadline = c.reactor.now() + 5s;
    const Locator to{"tcp", {"10.0.0.1", FakeCluster::kCoordinatorPort}};
    auto create = c.client->call<wire::TableInfo>(to, 0, Opcode::kCreateTable,
                                                  wire::CreateTableRequest{"new", 2}, deadline);
    auto drop = c.client->call<wire::Empty>(to, 0, Opcode::kDropTable,
                                            wire::DropTableRequest{"old"}, deadline);
    create.resume();
    drop.resume();
    int turns = 0;
    c.run_until([&] { return ++turns > steps; });
    c.stop_coordinator();
    ASSERT_TRUE(c.start_coordinator().ok());
    ASSERT_TRUE(c.run_until([&] {
      return std::ranges::all_of(c.coordinator->state().tables, [](const auto& t) {
        return t.second.state == TableState::kNormal;
      });
    }));
    // A durable change is done; one that was not durable has left no trace at any server.
    const ClusterState& s = c.coordinator->state();
    for (uint64_t id = 1; id <= 2; ++id) {
      size_t held = 0;
      for (const auto& server : c.servers) {
        if (const auto found = server->tablets.find(id); found != server->tablets.end()) {
          held += found->second.size();
        }
      }
      EXPECT_EQ(held, s.tables.contains(id) ? s.tables.at(id).tablets.size() : 0) << "table " << id;
    }
    EXPECT_TRUE(c.create("new", 2).has_value());
    EXPECT_EQ(c.violation, "");
    c.run_until([&] { return create.done() && drop.done(); });
  }
}

TEST_F(CoordinatorTest, ATableBeingCreatedMovesAwayFromACrashedServer) {
  start(3);
  server(1).refuse_takes = 1'000'000;
  const Locator to{"tcp", {"10.0.0.1", FakeCluster::kCoordinatorPort}};
  auto create = cluster.client->call<wire::TableInfo>(
      to, 0, Opcode::kCreateTable, wire::CreateTableRequest{"t", 2}, cluster.reactor.now() + 60s);
  create.resume();
  cluster.run_for(1s);
  EXPECT_FALSE(create.done());
  cluster.kill_server(server(1));
  ASSERT_TRUE(cluster.run_until([&] { return create.done(); }));
  const auto table = create.take();
  ASSERT_TRUE(table.has_value()) << table.error().to_string();
  for (const auto& tablet : table->tablets) EXPECT_NE(tablet.server_id, 2u);
}

/// No server is left to wait for: the flow must not loop for ever.
TEST_F(CoordinatorTest, ATableThatIsToBePlacedAnewIsLeftToTheNextLeader) {
  start(2);
  server(0).refuse_takes = 1'000'000;
  auto create = begin<wire::TableInfo>(Opcode::kCreateTable, wire::CreateTableRequest{"t", 1}, 60s);
  ASSERT_TRUE(cluster.run_until([&] { return state().tables.contains(1); }));
  ASSERT_EQ(state().tables.at(1).tablets[0].server_id, 1u);
  bool cut = false;
  cluster.store->set_probe([&](SimMetadata::Point point, const MetadataTransaction& transaction) {
    const bool again = transaction.puts[0].first.starts_with(table_key(1));
    if (point != SimMetadata::Point::kBefore || !again || cut) return;
    cut = true;
    cluster.store->set_cut_off(true);
  });
  cluster.kill_server(server(0));
  ASSERT_TRUE(cluster.run_until([&] { return cut; }));
  cluster.run_for(3s);  // longer than the lease
  cluster.store->set_cut_off(false);
  cluster.run_for(3s);
  EXPECT_FALSE(cluster.coordinator->ready());
  restart();
  ASSERT_TRUE(cluster.run_until([&] { return state().tables.at(1).state == TableState::kNormal; }));
  EXPECT_EQ(state().tables.at(1).tablets[0].server_id, 2u);
}

}  // namespace
}  // namespace ramcloud
