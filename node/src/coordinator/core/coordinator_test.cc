#include "coordinator/core/coordinator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/testing/coordinator_fixture.h"
#include "coordinator/metadata/metadata_export.h"

namespace ramcloud {
namespace {

using testing::CoordinatorFixture;
using ::testing::ElementsAre;
using testing::FakeCluster;
using testing::FakeServer;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using wire::Opcode;

class CoordinatorTest : public CoordinatorFixture {
 protected:
  wire::ServerState state_of(uint64_t id) { return state().servers.at(id).record.state; }
  bool crashed(uint64_t id) { return state_of(id) == wire::ServerState::kCrashed; }
  std::vector<uint64_t> recovered(std::vector<uint64_t> ids) {
    const auto reply = cluster.call<wire::Recovered>(Opcode::kGetRecovered,
                                                     wire::GetRecoveredRequest{std::move(ids)});
    EXPECT_TRUE(reply.has_value());
    return reply.value_or(wire::Recovered{}).master_ids;
  }
  /// Begins a call that may wait.
  template <typename Reply, typename Message>
  Task<Result<Reply>> begin(Opcode opcode, Message message, Duration timeout) {
    const Locator to{"tcp", {"10.0.0.1", FakeCluster::kCoordinatorPort}};
    auto call = cluster.client->call<Reply>(to, 0, opcode, std::move(message),
                                            cluster.reactor.now() + timeout);
    call.resume();
    return call;
  }
  FakeServer& server(size_t i) { return *cluster.servers.at(i); }
  /// After an import.
  bool orders_again() {
    return cluster.run_until([&] { return !state().restate; });
  }
  /// What every server owns, by its id.
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
  /// As a client sees it.
  Places shown(const std::string& name) {
    const auto table =
        cluster.call<wire::TableInfo>(Opcode::kGetTable, wire::GetTableRequest{name, 0});
    EXPECT_TRUE(table.has_value()) << name << ": " << table.error().to_string();
    return table ? places(*table) : Places();
  }
};

// ---- start

TEST_F(CoordinatorTest, MakesTheClusterOnceAndRaisesTheTermAtEachStart) {
  start(0);
  auto first = cluster.call<wire::ClusterInfo>(Opcode::kGetClusterInfo, wire::Empty());
  ASSERT_TRUE(first.has_value()) << first.error().to_string();
  EXPECT_EQ(first->cluster_name, "test");
  EXPECT_EQ(first->version, "1.2.3");
  EXPECT_EQ(first->term, 1u);
  EXPECT_EQ(first->admin_address, "inside:1");
  EXPECT_NE(first->cluster_uuid, wire::Uuid{});
  restart();
  auto second = cluster.call<wire::ClusterInfo>(Opcode::kGetClusterInfo, wire::Empty(),
                                                FakeCluster::kOutsidePort);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->cluster_uuid, first->cluster_uuid);
  EXPECT_EQ(second->term, 2u);
  EXPECT_EQ(second->admin_address, "outside:2");
}

TEST_F(CoordinatorTest, RefusesMetadataOfAnotherClusterOrDamaged) {
  start(0);
  cluster.stop_coordinator();
  cluster.options.cluster_name = "other";
  const Status other = cluster.start_coordinator();
  EXPECT_EQ(other.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(other.message(), HasSubstr("cluster name 'other' is not accepted: the metadata is of "
                                         "cluster 'test'"));
  EXPECT_FALSE(cluster.coordinator->ready());
  cluster.stop_coordinator();
  cluster.options.cluster_name = "";
  cluster.metadata.records[server_key(7)] = "garbage";
  EXPECT_EQ(cluster.start_coordinator().to_string(),
            "CORRUPT: metadata record '/servers/00000000000000000007' (7 bytes) does not decode");
  cluster.stop_coordinator();
  cluster.metadata.records[kTermKey] =
      encode_record(TermRecord{~uint64_t{0}, 1}, kMetadataFormatMax);
  EXPECT_THAT(cluster.start_coordinator().to_string(),
              StartsWith("CORRUPT: metadata record '/term' has 18446744073709551615, which is too "
                         "large"));
}

/// A store that others write to may give leaderships any numbers.
TEST_F(CoordinatorTest, RevisionsRiseWhateverTheTermsAre) {
  start(1);
  uint64_t last = cluster.coordinator->status().revision;
  for (const uint64_t term : {uint64_t{0xffff'fffe}, uint64_t{1} << 33, uint64_t{1} << 50}) {
    cluster.stop_coordinator();
    cluster.metadata.last_leadership = term;
    ASSERT_TRUE(cluster.start_coordinator().ok());
    EXPECT_GT(cluster.coordinator->state().term, term);
    EXPECT_GT(cluster.coordinator->status().revision, last);
    ASSERT_TRUE(cluster.create("t" + std::to_string(term), 1).has_value());
    last = cluster.coordinator->status().revision;
  }
}

/// 2^32 changes are nothing that a cluster stops at.
TEST_F(CoordinatorTest, RevisionsRiseBeyondAnyNumberOfTransactions) {
  start(1);
  uint64_t last = cluster.coordinator->status().revision;
  for (const uint64_t transactions :
       {(uint64_t{1} << 32) - 3, uint64_t{1} << 32, uint64_t{1} << 50}) {
    cluster.stop_coordinator();
    TermRecord term;
    ASSERT_TRUE(decode_record(cluster.metadata.records.at(kTermKey), term));
    term.revision = transactions;
    cluster.metadata.records[kTermKey] = encode_record(term, kMetadataFormatMax);
    for (int i = 0; i < 3; ++i) {
      restart();
      EXPECT_GT(cluster.coordinator->status().revision, last);
      last = cluster.coordinator->status().revision;
    }
    ASSERT_TRUE(cluster.create(fmt::format("t{}", transactions), 1).has_value());
    EXPECT_GT(cluster.coordinator->status().revision, last);
    last = cluster.coordinator->status().revision;
  }
}

/// The export is two elections and some tables and servers older than what servers have seen, and
/// no server can say so.
TEST_F(CoordinatorTest, AnOldExportIsImportedWithoutGivingOutAnythingTwice) {
  start(2);
  ASSERT_TRUE(cluster.create("before", 2).has_value());
  auto exported = cluster.metadata.records;
  restart();
  restart();
  const auto since = cluster.create("since", 2);
  ASSERT_TRUE(since.has_value());
  cluster.add_server();
  const uint64_t term = state().term;
  for (auto& s : cluster.servers) {
    s->heard_term = term;
    s->former_build = true;
  }
  ASSERT_TRUE(cluster.import_records(exported).ok());
  EXPECT_GT(state().term, term);
  ASSERT_TRUE(orders_again());
  const auto after = cluster.create("after", 2);
  ASSERT_TRUE(after.has_value()) << after.error().to_string();
  EXPECT_GT(after->table_id, since->table_id);
  EXPECT_GT(cluster.add_server().id, cluster.servers[2]->id);
  EXPECT_TRUE(cluster.drop("before").has_value());
}

// ---- after an import

/// Since the export: a table was made, one was dropped, one that was being created is elsewhere, a
/// server enlisted, and another crashed.
TEST_F(CoordinatorTest, AfterAnImportLiveServersSayWhatTheyOwnBeforeAnythingIsOrdered) {
  start(4);
  const auto moving = cluster.create("moving", 2);
  ASSERT_TRUE(cluster.create("dropped", 2).has_value());
  ASSERT_TRUE(cluster.create("kept", 4).has_value());
  auto exported = cluster.metadata.records;
  TableRecord begun;
  ASSERT_TRUE(decode_record(exported.at(table_key(moving->table_id)), begun));
  begun.state = TableState::kCreating;
  --begun.revision;
  --begun.revision;
  for (auto& tablet : begun.tablets) tablet.server_id = 5 - tablet.server_id;
  exported[table_key(moving->table_id)] = encode_record(begun, kMetadataFormatMax);

  ASSERT_TRUE(cluster.drop("dropped").has_value());
  const FakeServer& newest = cluster.add_server();
  ASSERT_EQ(newest.id, 5u);
  const auto since = cluster.create("since", 5);
  ASSERT_TRUE(since.has_value());
  cluster.kill_server(server(3));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(4); }));
  cluster.run_for(1s);  // everybody has heard
  server(1).epoch = 3;
  server(1).lowest_open_segment = 17;
  const auto owned_before = owned();
  const uint64_t term = state().term;
  for (auto& s : cluster.servers) {
    if (s) s->heard_term = term;
  }

  ASSERT_TRUE(cluster.import_records(exported).ok());
  EXPECT_EQ(cluster.create("early", 1).error().code(), StatusCode::kRetry);
  ASSERT_TRUE(orders_again());
  cluster.run_for(5s);
  EXPECT_EQ(owned(), owned_before) << "nobody was ordered to take or to drop what it owns";
  for (const auto& s : cluster.servers) {
    if (s) EXPECT_EQ(s->outdated_orders, 0) << "server " << s->id;
  }
  EXPECT_EQ(shown("moving"), places(*moving));
  EXPECT_EQ(shown("since"), places(*since));
  EXPECT_EQ(state().find_table("dropped"), nullptr);
  EXPECT_NE(state().find_table("kept"), nullptr);
  EXPECT_TRUE(crashed(4)) << "a verdict is final";
  EXPECT_EQ(state_of(5), wire::ServerState::kUp);
  EXPECT_EQ(state().servers.at(5).record.nonce, newest.request.nonce);
  EXPECT_EQ(state().replication_epochs.at(2).epoch, 3u);
  EXPECT_EQ(state().replication_epochs.at(2).lowest_open_segment, 17u);
  EXPECT_EQ(newest.list.version, state().list_version);
  // What is given out from now on is new.
  EXPECT_GT(cluster.create("after", 2)->table_id, since->table_id);
  EXPECT_GT(cluster.add_server().id, 5u);
  EXPECT_TRUE(cluster.drop("since").has_value());
  EXPECT_FALSE(server(0).tablets.contains(since->table_id));
  const auto records = cluster.metadata.records;
  restart();
  EXPECT_FALSE(state().restate) << "it is asked once";
  EXPECT_FALSE(records.contains(kRestateKey));
}

TEST_F(CoordinatorTest, AfterAnImportNothingIsDecidedWhileALiveServerIsSilent) {
  start(3);
  ASSERT_TRUE(cluster.create("t", 3).has_value());
  const auto exported = cluster.metadata.records;
  const auto since = cluster.create("since", 3);
  server(1).keeps_to_itself = true;
  ASSERT_TRUE(cluster.import_records(exported).ok());
  for (int i = 0; i < 30; ++i) {
    cluster.run_for(1s);
    EXPECT_EQ(cluster.call<wire::TableInfo>(Opcode::kGetTable, wire::GetTableRequest{"since", 0})
                  .error()
                  .code(),
              StatusCode::kRetry)
        << "not NOT_FOUND: somebody may know the table";
    EXPECT_EQ(cluster.drop("t").error().code(), StatusCode::kRetry);
    for (uint64_t id = 1; id <= 3; ++id) EXPECT_FALSE(crashed(id));
  }
  EXPECT_EQ(server(0).list.term, 1u) << "no list was pushed";
  EXPECT_THAT(cluster.coordinator->status().reasons,
              ::testing::Contains(HasSubstr("waiting for server 2 (server-12001)")));
  restart();
  EXPECT_EQ(cluster.drop("t").error().code(), StatusCode::kRetry) << "the next leader asks as well";
  server(1).keeps_to_itself = false;
  ASSERT_TRUE(orders_again());
  EXPECT_EQ(shown("since"), places(*since));
}

/// Whenever the leader dies, the next one finishes it.
TEST(CoordinatorImport, EachLeaderGoesOnWithAnImport) {
  for (int steps = 1; steps < 120; steps += 4) {
    SCOPED_TRACE(steps);
    FakeCluster c(static_cast<uint64_t>(steps));
    ASSERT_TRUE(c.start_coordinator().ok());
    for (int i = 0; i < 3; ++i) c.add_server();
    ASSERT_TRUE(c.create("old", 3).has_value());
    const auto exported = c.metadata.records;
    ASSERT_TRUE(c.drop("old").has_value());
    c.add_server();
    const auto since = c.create("since", 4);
    ASSERT_TRUE(since.has_value());
    ASSERT_TRUE(c.import_records(exported).ok());
    int turns = 0;
    c.run_until([&] { return ++turns > steps; });
    c.stop_coordinator();
    ASSERT_TRUE(c.start_coordinator().ok());
    ASSERT_TRUE(c.run_until([&] { return !c.coordinator->state().restate; }));
    const TableRecord* table = c.coordinator->state().find_table("since");
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->id, since->table_id);
    for (const auto& s : c.servers) {
      EXPECT_TRUE(table->has_tablet_on(s->id));
      EXPECT_TRUE(s->tablets.contains(table->id));
      EXPECT_EQ(s->outdated_orders, 0);
    }
    EXPECT_EQ(c.coordinator->state().find_table("old"), nullptr);
    EXPECT_EQ(c.violation, "");
  }
}

/// Verdicts wait until live servers have had their time; then the dead are found as always.
TEST_F(CoordinatorTest, AfterAnImportDeadServersHoldNothingUpForLong) {
  start(3);
  ASSERT_TRUE(cluster.create("t", 3).has_value());
  const auto exported = cluster.metadata.records;
  cluster.stop_coordinator();
  cluster.kill_server(server(2));
  ASSERT_TRUE(cluster.import_records(exported).ok());
  cluster.run_for(cluster.options.restating.settle - 1s);
  EXPECT_FALSE(crashed(3));
  EXPECT_TRUE(state().detection.suspect);
  ASSERT_TRUE(orders_again());
  EXPECT_TRUE(crashed(3));
  EXPECT_TRUE(cluster.create("after", 2).has_value());
}

/// No server of the export lives: the one that enlisted since asks for the list.
TEST_F(CoordinatorTest, AfterAnImportAServerThatNobodyKnowsShowsItself) {
  start(1);
  const auto exported = cluster.metadata.records;
  FakeServer& since = cluster.add_server();
  cluster.kill_server(server(0));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(1); }));
  const auto table = cluster.create("t", 1);
  ASSERT_TRUE(table.has_value());
  ASSERT_TRUE(cluster.import_records(exported).ok());
  cluster.run_for(3s);
  wire::GetServerListRequest asks{since.id, since.request.locator};
  EXPECT_EQ(cluster.call<wire::ServerList>(Opcode::kGetServerList, asks).error().code(),
            StatusCode::kRetry);
  wire::EnlistRequest request = since.request;
  request.nonce += 2;
  request.locator = "tcp:host=10.0.0.1,port=9";
  EXPECT_EQ(cluster.call<wire::EnlistReply>(Opcode::kEnlist, request).error().code(),
            StatusCode::kRetry)
      << "whose id would it be given?";
  ASSERT_TRUE(orders_again());
  EXPECT_TRUE(crashed(1));
  EXPECT_EQ(state_of(2), wire::ServerState::kUp);
  EXPECT_EQ(shown("t"), places(*table));
}

/// The same export leaves the same gap: only servers know what was given out behind it.
TEST_F(CoordinatorTest, AnExportThatIsImportedTwiceGivesOutNothingTwice) {
  start(2);
  const auto exported = cluster.metadata.records;
  ASSERT_TRUE(cluster.import_records(exported).ok());
  ASSERT_TRUE(orders_again());
  const auto since = cluster.create("since", 2);
  const FakeServer& newest = cluster.add_server();
  ASSERT_TRUE(cluster.import_records(exported).ok());
  ASSERT_TRUE(orders_again());
  EXPECT_EQ(shown("since"), places(*since));
  EXPECT_EQ(server(0).outdated_orders, 0);
  EXPECT_GT(cluster.create("after", 3)->table_id, since->table_id);
  EXPECT_GT(cluster.add_server().id, newest.id);
  EXPECT_EQ(server(0).outdated_orders, 0);
  ASSERT_TRUE(cluster.run_until([&] { return server(0).list.servers.size() == 4; }));
}

TEST_F(CoordinatorTest, AReplacedCoordinatorChangesNothing) {
  start(2);
  // Nobody has told the first: its own clock says that its lease still runs.
  cluster.metadata.lease_end = {};
  SimMetadata second_store(cluster.reactor, cluster.metadata);
  const auto leader = cluster.wait_for(second_store.campaign("second"));
  ASSERT_TRUE(leader.has_value());
  ASSERT_EQ(leader->number, second_store.leading());
  Ledger usurper(cluster.reactor, second_store);
  ASSERT_TRUE(cluster.wait_for(usurper.open("", leader->number)).has_value());
  ASSERT_NE(cluster.store->leading(), 0u);
  const auto before = cluster.metadata.records;
  const auto refused = cluster.create("t", 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kNotLeader);
  EXPECT_EQ(cluster.metadata.records, before);
  EXPECT_FALSE(cluster.coordinator->ready());
}

/// The successor has not written anything yet: only the leadership tells.
TEST_F(CoordinatorTest, WhoseLeaseAnotherHasChangesNothing) {
  start(2);
  cluster.metadata.lease_end = {};
  SimMetadata second_store(cluster.reactor, cluster.metadata);
  ASSERT_TRUE(cluster.wait_for(second_store.campaign("second")).has_value());
  ASSERT_NE(second_store.leading(), 0u);
  const auto before = cluster.metadata.records;
  const auto refused = cluster.create("t", 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kNotLeader);
  EXPECT_EQ(cluster.metadata.records, before);
}

// ---- enlisting

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

TEST_F(CoordinatorTest, EveryServerLearnsOfEveryOther) {
  start(4);
  ASSERT_TRUE(cluster.run_until([&] {
    return std::ranges::all_of(cluster.servers,
                               [](const auto& s) { return s->list.servers.size() == 4; });
  }));
  const uint64_t term = server(0).list.term;
  const uint64_t version = server(0).list.version;
  restart();
  ASSERT_TRUE(cluster.run_until([&] {
    return std::ranges::all_of(cluster.servers, [&](const auto& s) { return s->list.term > term; });
  })) << "the list is pushed again with the new term";
  EXPECT_GT(server(0).list.version, version);
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

// ---- tables

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
  // Whatever the moment: the two calls are begun, the coordinator dies after `steps` turns.
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
    // Whatever was durable is done; what was not has left no trace at any server.
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

TEST(CoordinatorAmbiguity, UnknownOutcomesChangeNothingForUsers) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    SimMetadata::Options shaky;
    shaky.unknown = 0.4;
    shaky.load_failure = 0.2;
    FakeCluster c(seed, shaky);
    ASSERT_TRUE(c.start_coordinator().ok());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(c.add_server().id, static_cast<uint64_t>(i + 1));
    for (int i = 0; i < 5; ++i) {
      const auto table = c.create("t" + std::to_string(i), 2);
      ASSERT_TRUE(table.has_value()) << table.error().to_string();
      EXPECT_EQ(table->table_id, static_cast<uint64_t>(i + 1));
    }
    ASSERT_TRUE(c.drop("t0").has_value());
    c.stop_coordinator();
    ASSERT_TRUE(c.start_coordinator().ok());
    EXPECT_EQ(c.coordinator->state().tables.size(), 4u);
    EXPECT_EQ(c.coordinator->state().servers.size(), 3u);
    EXPECT_EQ(c.violation, "");
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

/// Nobody who could be waited for is left: the flow must not go round for ever.
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

// ---- a store that takes no changes

TEST_F(CoordinatorTest, ADropThatWasGivenUpIsNotMadeLater) {
  start(2);
  ASSERT_TRUE(cluster.create("kept", 1).has_value());
  ASSERT_TRUE(cluster.create("also_kept", 1).has_value());
  cluster.store->set_full(true);
  auto first = begin<wire::Empty>(Opcode::kDropTable, wire::DropTableRequest{"kept"}, 1s);
  auto behind = begin<wire::Empty>(Opcode::kDropTable, wire::DropTableRequest{"also_kept"}, 1s);
  auto enlisting = begin<wire::EnlistReply>(
      Opcode::kEnlist,
      [&] {
        wire::EnlistRequest request = server(0).request;
        request.nonce += 2;
        return request;
      }(),
      1s);
  cluster.run_for(10s);
  EXPECT_EQ(first.take().error().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(behind.take().error().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(enlisting.take().error().code(), StatusCode::kDeadlineExceeded);
  cluster.store->set_full(false);
  ASSERT_TRUE(cluster.create("new", 1).has_value());
  EXPECT_NE(state().find_table("kept"), nullptr);
  EXPECT_NE(state().find_table("also_kept"), nullptr);
  EXPECT_EQ(state().servers.size(), 2u);
}

TEST_F(CoordinatorTest, CallsThatNobodyWaitsForMakePlaceForOthers) {
  cluster.options.calls_at_once = 2;
  start(1);
  cluster.store->set_full(true);
  const auto drop = [&](Duration timeout) {
    return begin<wire::Empty>(Opcode::kDropTable, wire::DropTableRequest{"t"}, timeout);
  };
  auto writes = begin<wire::TableInfo>(Opcode::kCreateTable, wire::CreateTableRequest{"t", 1}, 5s);
  cluster.run_for(100ms);
  auto waits = drop(5s);
  cluster.run_for(100ms);
  auto third = drop(5s);
  cluster.run_for(1s);
  ASSERT_TRUE(third.done());
  EXPECT_EQ(third.take().error().code(), StatusCode::kRetry);
  // What does not wait has no part in this.
  EXPECT_TRUE(cluster.call<wire::ClusterInfo>(Opcode::kGetClusterInfo, wire::Empty()).has_value());
  EXPECT_TRUE(cluster.call<wire::ListTablesReply>(Opcode::kListTables, wire::Empty()).has_value());
  cluster.run_for(5s);
  auto fourth = drop(60s);
  cluster.run_for(1s);
  EXPECT_FALSE(fourth.done());
  cluster.store->set_full(false);
  ASSERT_TRUE(cluster.run_until([&] { return fourth.done(); }));
  EXPECT_EQ(fourth.take().error().code(), StatusCode::kNotFound)
      << "the table was not made, either";
}

// ---- the server list ----------------------------------------------------------------------------

TEST_F(CoordinatorTest, ServersAreToldWhatChangedOnly) {
  start(20);
  cluster.run_for(5s);
  for (const auto& s : cluster.servers) s->pushed_entries = 0;
  cluster.add_server();
  cluster.kill_server(server(3));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(4); }));
  cluster.run_for(5s);
  for (const auto& s : cluster.servers) {
    if (s == nullptr || s->id == 4 || s->id == 21) continue;
    // Two changes; one may come twice, when a probe's answer was behind the acknowledgement.
    EXPECT_GE(s->pushed_entries, 2u) << "server " << s->id;
    EXPECT_LE(s->pushed_entries, 4u) << "server " << s->id;
    EXPECT_EQ(s->list.servers.size(), 21u);
    EXPECT_EQ(s->list.version, state().list_version);
  }
  // One that has another version than it said is given the whole list.
  server(0).list.version -= 1;
  server(0).list.servers.clear();
  cluster.add_server();
  ASSERT_TRUE(cluster.run_until([&] { return server(0).list.version == state().list_version; }));
  EXPECT_EQ(server(0).list.servers.size(), 22u);
}

TEST_F(CoordinatorTest, AServerThatNobodyNeedsLeavesTheList) {
  cluster.options.retirement.after = 10s;
  start(3);
  ASSERT_TRUE(cluster.create("t", 3).has_value());
  cluster.kill_server(server(0));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(1); }));
  cluster.run_for(60s);
  EXPECT_TRUE(crashed(1)) << "a table has a tablet there";
  ASSERT_TRUE(cluster.drop("t").has_value());
  ASSERT_TRUE(cluster.run_until([&] { return state_of(1) == wire::ServerState::kRemoved; }));
  cluster.run_for(2s);
  const auto has_first = [](const wire::ServerList& list) {
    return std::ranges::any_of(list.servers, [](const auto& e) { return e.server_id == 1; });
  };
  EXPECT_FALSE(has_first(server(1).list));
  EXPECT_FALSE(has_first(server(2).list));
  restart();
  EXPECT_EQ(state_of(1), wire::ServerState::kRemoved) << "its record proves that it is not needed";
  FakeServer& late = cluster.add_server();
  EXPECT_FALSE(has_first(late.list));
  EXPECT_EQ(late.id, 4u);
}

/// What backups free frames by.
TEST_F(CoordinatorTest, OnlyCrashedServersWithoutTabletsAreCalledRecovered) {
  cluster.options.retirement.after = 10s;
  start(3);
  ASSERT_TRUE(cluster.create("t", 3).has_value());
  EXPECT_THAT(recovered({1, 2, 3, 99}), ElementsAre()) << "UP, or never heard of";
  cluster.kill_server(server(0));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(1); }));
  cluster.run_for(60s);
  EXPECT_THAT(recovered({1}), ElementsAre()) << "a table has a tablet there";
  ASSERT_TRUE(cluster.drop("t").has_value());
  ASSERT_TRUE(cluster.run_until([&] { return state().tables.empty(); }));
  EXPECT_EQ(state_of(1), wire::ServerState::kCrashed);
  EXPECT_THAT(recovered({1, 2, 3, 99}), ElementsAre(1)) << "it will never have one again";
  ASSERT_TRUE(cluster.run_until([&] { return state_of(1) == wire::ServerState::kRemoved; }));
  EXPECT_THAT(recovered({1, 2, 3, 99}), ElementsAre(1));
  restart();
  EXPECT_THAT(recovered({99, 1}), ElementsAre(1));
  const std::vector<uint64_t> many(wire::GetRecoveredRequest::kMaxIdsAtOnce + 1, 1);
  const auto refused =
      cluster.call<wire::Recovered>(Opcode::kGetRecovered, wire::GetRecoveredRequest{many});
  EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("1025 ids; at most 1024"));
}

/// It was given a table that the imported metadata do not know.
TEST_F(CoordinatorTest, AfterAnImportWhoWasSilentIsNeverCalledRecovered) {
  cluster.options.retirement.after = 10s;
  start(3);
  const auto exported = cluster.metadata.records;
  ASSERT_TRUE(cluster.create("since", 1).has_value());
  cluster.stop_coordinator();
  cluster.kill_server(server(2));
  ASSERT_TRUE(cluster.import_records(exported).ok());
  ASSERT_TRUE(orders_again());
  ASSERT_TRUE(cluster.run_until([&] { return state_of(3) == wire::ServerState::kRemoved; }));
  EXPECT_THAT(recovered({3}), ElementsAre());
  cluster.kill_server(server(1));
  while (cluster.drop("since").has_value()) {
  }
  ASSERT_TRUE(cluster.run_until([&] { return state_of(2) == wire::ServerState::kRemoved; }));
  EXPECT_THAT(recovered({2, 3}), ElementsAre(2)) << "that one said what it owned";
}

/// As many as made the list longer than a message may be.
TEST_F(CoordinatorTest, AnyNumberOfIncarnationsLeavesAShortList) {
  cluster.options.retirement.after = 1s;
  start(1);
  cluster.stop_coordinator();
  constexpr uint64_t kIncarnations = 2000;
  for (uint64_t id = 2; id <= kIncarnations; ++id) {
    ServerRecord record;
    record.id = id;
    record.nonce = id;
    record.state = wire::ServerState::kCrashed;
    record.locator = "tcp:host=10.0.0.9,port=1";
    cluster.metadata.records[server_key(id)] = encode_record(record, kMetadataFormatMax);
  }
  cluster.metadata.records[kIdsKey] =
      encode_record(IdsRecord{kIncarnations, 0}, kMetadataFormatMax);
  ASSERT_TRUE(cluster.start_coordinator().ok());
  ASSERT_TRUE(cluster.run_until([&] {
    return std::ranges::none_of(state().servers, [&](const auto& s) { return crashed(s.first); });
  }));
  ASSERT_TRUE(cluster.run_until([&] { return server(0).list.version == state().list_version; }));
  EXPECT_EQ(server(0).list.servers.size(), 1u);
  EXPECT_EQ(cluster.add_server().id, kIncarnations + 1);
  EXPECT_EQ(server(1).list.servers.size(), 2u);
}

// ---- terms --------------------------------------------------------------------------------------

TEST_F(CoordinatorTest, ALeaderRisesAboveATermThatAServerClaims) {
  for (const bool former_build : {false, true}) {
    if (!cluster.coordinator) start(2);
    bool fenced = false;
    cluster.coordinator->on_fenced([&] { fenced = true; });
    server(0).former_build = former_build;
    server(0).term_refusals = 0;
    const uint64_t claimed = state().term + 1'000'000;
    server(0).heard_term = claimed;
    ASSERT_TRUE(cluster.create(former_build ? "f" : "t", 2).has_value());
    EXPECT_FALSE(fenced);
    EXPECT_EQ(state().term, claimed + 1);
    ASSERT_TRUE(cluster.drop(former_build ? "f" : "t").has_value());
    EXPECT_TRUE(server(0).tablets.empty()) << "a refusal for its term does not end a drop";
    cluster.run_for(3s);
    EXPECT_FALSE(state().servers.at(1).suspected);
    EXPECT_LT(server(0).term_refusals, 10);
  }
  const uint64_t before = state().term;
  restart();
  EXPECT_GT(state().term, before);
}

/// Nothing is gained by following it: the next leader could not rise any more.
TEST_F(CoordinatorTest, AServerThatClaimsAnImpossibleTermIsSuspectAndStopsNobody) {
  start(3);
  const uint64_t term = state().term;
  for (const uint64_t claimed : {(uint64_t{1} << 62) - 1, ~uint64_t{0}}) {
    server(0).heard_term = claimed;
    ASSERT_TRUE(cluster.run_until([&] { return state().servers.at(1).suspected; }));
    cluster.run_for(3s);
    EXPECT_TRUE(cluster.coordinator->ready());
    EXPECT_EQ(state().term, term);
    ASSERT_TRUE(cluster.create("t" + std::to_string(claimed), 2).has_value());
    EXPECT_FALSE(crashed(1)) << "it lives";
    server(0).heard_term = 0;
    ASSERT_TRUE(cluster.run_until([&] { return !state().servers.at(1).suspected; }));
  }
}

TEST_F(CoordinatorTest, ALeaderThatWasReplacedStepsDownWhenAServerSaysSo) {
  start(2);
  cluster.metadata.lease_end = {};
  SimMetadata second_store(cluster.reactor, cluster.metadata);
  const auto leader = cluster.wait_for(second_store.campaign("second"));
  ASSERT_TRUE(leader.has_value());
  Ledger successor(cluster.reactor, second_store);
  const auto opened = cluster.wait_for(successor.open("", leader->number));
  ASSERT_TRUE(opened.has_value());
  bool fenced = false;
  cluster.coordinator->on_fenced([&] { fenced = true; });
  server(0).heard_term = opened->term;
  EXPECT_TRUE(cluster.run_until([&] { return fenced; }));
  EXPECT_FALSE(cluster.coordinator->ready());
  EXPECT_EQ(successor.term(), opened->term);
  EXPECT_EQ(cluster.create("t", 1).error().code(), StatusCode::kNotLeader);
}

// ---- what is shown

TEST_F(CoordinatorTest, StatusAddsUpWhatServersSay) {
  start(2);
  for (const auto& s : cluster.servers) {
    s->stats.objects = 10;
    s->stats.log_bytes_total = 100;
    s->stats.segments = 4;
    s->stats.segments_fully_replicated = 3;
    s->stats.segments_under_replicated = 1;
    s->stats.replicas_wanted = 2;
  }
  cluster.run_for(1s);
  const ClusterStatus status = cluster.coordinator->status();
  EXPECT_EQ(status.servers_up, 2u);
  EXPECT_EQ(status.objects, 20u);
  EXPECT_EQ(status.replication.segments_fully_replicated, 6u);
  EXPECT_EQ(status.health, "DEGRADED");
  EXPECT_THAT(status.reasons, ElementsAre("2 segments have fewer than 2 replicas"));
  const std::string text = cluster.metrics.text();
  EXPECT_THAT(text, HasSubstr("ramcloud_coordinator_servers{state=\"up\"} 2"));
  EXPECT_THAT(text, HasSubstr("ramcloud_coordinator_term 1"));
}

TEST_F(CoordinatorTest, ErrorsSayWhoseTheyAreAndWhenToAskAgain) {
  start(1);
  const Locator to{"tcp", {"10.0.0.1", FakeCluster::kCoordinatorPort}};
  const auto ask = [&](Opcode opcode, auto message) {
    return cluster.wait_for(cluster.client->call_with(to, 0, opcode, RpcClient::body_of(message),
                                                      cluster.reactor.now() + 5s));
  };
  const RpcReply absent = ask(Opcode::kGetTable, wire::GetTableRequest{"t", 0});
  EXPECT_EQ(absent.status.code(), StatusCode::kNotFound);
  EXPECT_EQ(absent.details.term, state().term);
  EXPECT_EQ(absent.details.retry_after_us, 0u);
  cluster.stop_coordinator();
  cluster.options.calls_at_once = 0;
  ASSERT_TRUE(cluster.start_coordinator().ok());
  const RpcReply busy = ask(Opcode::kCreateTable, wire::CreateTableRequest{"t", 1});
  EXPECT_EQ(busy.status.code(), StatusCode::kRetry);
  EXPECT_EQ(busy.details.term, state().term);
  EXPECT_GT(busy.details.retry_after_us, 0u);
  EXPECT_EQ(busy.details.retry_after_us, busy.retry_after_us);
}

TEST_F(CoordinatorTest, MalformedBodiesAreRefused) {
  start(1);
  const Locator to{"tcp", {"10.0.0.1", FakeCluster::kCoordinatorPort}};
  for (const Opcode opcode : {Opcode::kGetClusterInfo, Opcode::kCreateTable, Opcode::kDropTable,
                              Opcode::kListTables, Opcode::kGetTable, Opcode::kEnlist}) {
    const auto reply = cluster.wait_for(
        cluster.client->call(to, 0, opcode, "\xff\xff\xff\xff\x01", cluster.reactor.now() + 5s));
    EXPECT_EQ(reply.status.code(), StatusCode::kInvalidArgument) << static_cast<int>(opcode);
  }
}

// ---- the checker itself

TEST(InvariantsTest, FindsWhatIsBroken) {
  ClusterState good;
  good.term = 1;
  good.list_version = 5;
  good.ids = {2, 1};
  good.servers[1].record.id = 1;
  good.tables[1] = {1, "t", TableState::kNormal, 1, {{0, 99, 1}, {100, ~uint64_t{0}, 1}}};
  const auto broken = [&](auto&& damage) {
    Invariants invariants;
    EXPECT_TRUE(invariants.check(good).ok());
    ClusterState bad = good;
    damage(bad);
    return invariants.check(bad).message();
  };
  EXPECT_THAT(broken([](auto& s) { s.tables[1].tablets[1].start_hash = 101; }),
              HasSubstr("does not follow on"));
  EXPECT_THAT(broken([](auto& s) { s.tables[1].tablets.pop_back(); }), HasSubstr("covered by no"));
  EXPECT_THAT(broken([](auto& s) { s.tables[1].tablets[0].server_id = 9; }),
              HasSubstr("unknown server"));
  EXPECT_THAT(broken([](auto& s) { s.tables[1].tablets[0].server_id = 0; }),
              HasSubstr("is not placed"));
  EXPECT_THAT(broken([](auto& s) { s.tables[1].tablets[0].status = TabletStatus::kRecovering; }),
              HasSubstr("is recovered from server 1, which is UP"));
  EXPECT_THAT(broken([](auto& s) { s.tables[1].tablets[0].creation_position = 8; }),
              HasSubstr("changed from revision 0 to 0"));
  EXPECT_THAT(broken([](auto& s) { s.list_version = 4; }), HasSubstr("fell"));
  EXPECT_THAT(broken([](auto& s) { s.servers[2].record.id = 2; }), HasSubstr("without a new list"));
  EXPECT_THAT(broken([](auto& s) { s.ids.last_server_id = 0; }), HasSubstr("above the last id"));
  EXPECT_THAT(broken([](auto& s) {
                s.list_version = 6;
                s.servers[1].record.nonce = 7;
              }),
              HasSubstr("reused"));
}

}  // namespace
}  // namespace ramcloud
