// Imports of older metadata: the leader's questions to live servers, and its decisions.
#include "coordinator/core/import_reconciliation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/testing/coordinator_fixture.h"

namespace ramcloud {
namespace {

using testing::CoordinatorTest;
using ::testing::ElementsAre;
using testing::FakeCluster;
using testing::FakeServer;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using wire::Opcode;

/// The export is two elections and some tables and servers older than what servers have seen, and
/// no server reports that by itself.
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
  cluster.run_for(1s);  // all servers have the new list
  server(1).epoch = 3;
  server(1).lowest_open_segment = 17;
  const auto owned_before = owned();
  const auto last_order = [&](size_t i) { return server(i).orders[moving->table_id].revision; };
  const std::vector<uint64_t> orders_before{last_order(0), last_order(1), last_order(2)};
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
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(last_order(i), orders_before[i]) << "server " << i + 1 << " owned its part already";
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
  // Ids that are given out from now on are new.
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

/// Verdicts wait until live servers have had time to answer; then dead servers are detected as
/// always.
TEST_F(CoordinatorTest, AfterAnImportDeadServersHoldNothingUpForLong) {
  start(3);
  ASSERT_TRUE(cluster.create("t", 3).has_value());
  const auto exported = cluster.metadata.records;
  cluster.stop_coordinator();
  cluster.kill_server(server(2));
  ASSERT_TRUE(cluster.import_records(exported).ok());
  cluster.run_for(cluster.options.import_reconciliation.grace - 1s);
  EXPECT_FALSE(crashed(3));
  EXPECT_TRUE(state().detection.suspect);
  ASSERT_TRUE(orders_again());
  EXPECT_TRUE(crashed(3));
  EXPECT_TRUE(cluster.create("after", 2).has_value());
  // The next import is of an export in which it is dead.
  EXPECT_THAT(state().servers.at(3).record.state_reason, StartsWith(kFoundAtImport));
  ASSERT_TRUE(cluster.import_records(cluster.metadata.records).ok());
  EXPECT_THAT(state().servers.at(3).record.state_reason,
              ::testing::Not(StartsWith(kFoundAtImport)));
}

/// A dead master cannot report the epoch that was confirmed to it since the export.
TEST_F(CoordinatorTest, AfterAnImportTheEpochsOfTheDeadAreThoseOfTheExport) {
  start(4);
  cluster.kill_server(server(0));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(1); }));
  ASSERT_TRUE(cluster
                  .call<wire::Empty>(Opcode::kRaiseReplicationEpoch,
                                     wire::RaiseReplicationEpochRequest{3, 5, 1})
                  .has_value());
  const auto exported = cluster.metadata.records;
  const auto raise = [&](uint64_t id) {
    FakeServer& of = server(id - 1);
    of.epoch = 2;
    of.lowest_open_segment = 6;
    return cluster
        .call<wire::Empty>(Opcode::kRaiseReplicationEpoch,
                           wire::RaiseReplicationEpochRequest{id, 6, 2})
        .has_value();
  };
  ASSERT_TRUE(raise(2) && raise(3) && raise(4));
  cluster.stop_coordinator();
  cluster.kill_server(server(2));
  cluster.kill_server(server(3));
  ASSERT_TRUE(cluster.import_records(exported).ok());
  ASSERT_TRUE(orders_again());
  const auto& epochs = state().replication_epochs;
  EXPECT_FALSE(epochs.contains(1)) << "it was dead at the export, and nothing has changed since";
  EXPECT_EQ(epochs.at(2).epoch, 2u);
  EXPECT_FALSE(epochs.at(2).of_export);
  EXPECT_EQ(epochs.at(3).epoch, 1u);
  EXPECT_TRUE(epochs.at(3).of_export);
  EXPECT_TRUE(epochs.at(4).of_export);
  restart();
  EXPECT_TRUE(state().replication_epochs.at(4).of_export);
}

/// It answers, and dies while another server is still silent. It was the only one that knew its fence
/// and a table that was made after the export.
TEST_F(CoordinatorTest, AfterAnImportWhatAServerSaidHoldsThoughItDied) {
  start(3);
  const auto exported = cluster.metadata.records;
  ASSERT_TRUE(cluster.create("since", 3).has_value());
  server(2).epoch = 2;
  server(2).lowest_open_segment = 6;
  ASSERT_TRUE(cluster
                  .call<wire::Empty>(Opcode::kRaiseReplicationEpoch,
                                     wire::RaiseReplicationEpochRequest{3, 6, 2})
                  .has_value());
  server(1).keeps_to_itself = true;
  ASSERT_TRUE(cluster.import_records(exported).ok());
  ASSERT_TRUE(cluster.run_until([&] { return server(2).restated > 0; }));
  cluster.kill_server(server(2));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(3); }));
  ASSERT_TRUE(state().restate.has_value());
  server(1).keeps_to_itself = false;
  ASSERT_TRUE(orders_again());
  EXPECT_EQ(state().replication_epochs.at(3).epoch, 2u);
  EXPECT_EQ(state().replication_epochs.at(3).lowest_open_segment, 6u);
  EXPECT_FALSE(state().replication_epochs.at(3).of_export);
  ASSERT_NE(state().find_table("since"), nullptr);
  EXPECT_TRUE(state().find_table("since")->has_tablet_on(3)) << "its log is read";
  EXPECT_THAT(told_recovered({3}), ElementsAre());
}

/// The leader that gave up a possible new owner of a tablet dies before it has recorded the
/// tablet's owner.
TEST_F(CoordinatorTest, AfterAnImportTheNextLeaderKnowsWhomTheFormerOneGaveUp) {
  start(4);
  ASSERT_TRUE(cluster.create("t", 1).has_value());
  const auto exported = cluster.metadata.records;
  const uint64_t owner = state().find_table("t")->tablets.at(0).server_id;
  const uint64_t heir = owner == 4 ? 3 : 4;
  cluster.kill_server(server(owner - 1));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(owner); }));
  cluster.run_for(1s);  // all servers have the new list
  cluster.stop_coordinator();
  cluster.kill_server(server(heir - 1));
  ASSERT_TRUE(cluster.import_records(exported).ok());
  ASSERT_TRUE(cluster.run_until([&] { return crashed(heir); }));
  ASSERT_TRUE(state().restate.has_value());
  restart();
  ASSERT_TRUE(orders_again());
  EXPECT_EQ(state().find_table("t")->tablets.at(0).creation_position, kNobodysPosition)
      << "it may have been server " << heir << "'s since";
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

/// The same export leaves the same gap: only servers know the ids that were given out after it.
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

/// It was given a table that the imported metadata do not know.
TEST_F(CoordinatorTest, AfterAnImportWhoWasSilentIsNeverCalledRecovered) {
  cluster.options.retirement.after = cluster.options.recoveries.query.returning = 10s;
  start(3);
  const auto exported = cluster.metadata.records;
  ASSERT_TRUE(cluster.create("since", 1).has_value());
  cluster.stop_coordinator();
  cluster.kill_server(server(2));
  ASSERT_TRUE(cluster.import_records(exported).ok());
  ASSERT_TRUE(orders_again());
  ASSERT_TRUE(cluster.run_until([&] { return state_of(3) == wire::ServerState::kRemoved; }));
  EXPECT_THAT(told_recovered({3}), ElementsAre());
  cluster.kill_server(server(1));
  while (cluster.drop("since").has_value()) {
  }
  ASSERT_TRUE(cluster.run_until([&] { return state_of(2) == wire::ServerState::kRemoved; }));
  EXPECT_THAT(told_recovered({2, 3}), ElementsAre(2)) << "that one said what it owned";
}

}  // namespace
}  // namespace ramcloud
