// Tables of hundreds of tablets, which take several transactions: the leader dies before and after
// each of them.
#include "coordinator/core/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/testing/sanitizer.h"
#include "coordinator/core/testing/fake_cluster.h"

namespace ramcloud {
namespace {

using testing::FakeCluster;
using testing::FakeServer;
using Point = SimMetadata::Point;
using wire::Opcode;

constexpr uint32_t kSpan = testing::kSanitized ? 64 : 320;
/// A third and more of its chunks, which are 8 or 40.
constexpr size_t kAtOnce = testing::kSanitized ? 3 : 16;

class TablesTest : public ::testing::Test {
 protected:
  void start(uint32_t servers, size_t operations_at_once) {
    cluster.options.operations_at_once = operations_at_once;
    if (servers > 100) cluster.turns_between_checks = 100;
    ASSERT_TRUE(cluster.start_coordinator().ok());
    for (uint32_t i = 0; i < servers; ++i) cluster.add_server();
  }
  void TearDown() override {
    EXPECT_EQ(cluster.violation, "");
    for (const auto& s : cluster.servers) EXPECT_EQ(s->violation, "");
  }
  const ClusterState& state() { return cluster.coordinator->state(); }
  template <typename Reply, typename Message>
  Task<Result<Reply>> begin(Opcode opcode, Message message) {
    const Locator to{"tcp", {"10.0.0.1", FakeCluster::kCoordinatorPort}};
    auto call =
        cluster.client->call<Reply>(to, 0, opcode, std::move(message), cluster.reactor.now() + 2s);
    call.resume();
    return call;
  }
  auto begin_create(const std::string& name) {
    return begin<wire::TableInfo>(Opcode::kCreateTable, wire::CreateTableRequest{name, kSpan});
  }
  auto begin_drop(const std::string& name) {
    return begin<wire::Empty>(Opcode::kDropTable, wire::DropTableRequest{name});
  }
  static bool of_tables(const MetadataTransaction& transaction) {
    const auto is = [](const std::string& key) { return key.starts_with(kTablePrefix); };
    return std::ranges::any_of(transaction.puts, [&](const auto& put) { return is(put.first); }) ||
           std::ranges::any_of(transaction.deletes, is);
  }
  /// Counts transactions from now on; at the one with this number the leader is cut off from the
  /// store for ever.
  void strike_at(size_t number, Point point) {
    seen_ = 0;
    struck_ = false;
    cluster.store->set_probe([this, number, point](Point at, const MetadataTransaction& t) {
      if (at != point || !of_tables(t) || struck_) return;
      if (seen_++ != number) return;
      struck_ = true;
      cluster.store->set_cut_off(true);
    });
  }
  /// The next leader has finished the operation.
  void go_on() {
    cluster.stop_coordinator();
    ASSERT_TRUE(cluster.start_coordinator().ok());
    ASSERT_TRUE(cluster.run_until([&] { return all_served_and_written(); }));
    check_all();
  }
  bool all_served_and_written() {
    return std::ranges::all_of(state().tables, [](const auto& entry) {
      return entry.second.state == TableState::kNormal && entry.second.strays.empty();
    });
  }
  /// The records are exactly the coordinator's state, and the servers' tablets.
  void check_all() {
    const auto stored = read_cluster_state(cluster.metadata.records);
    ASSERT_TRUE(stored.has_value()) << stored.error().to_string();
    ASSERT_EQ(stored->tables.size(), state().tables.size());
    size_t keys = 0, tablets = 0;
    for (const auto& [id, table] : state().tables) {
      const TableRecord& same = stored->tables.at(id);
      EXPECT_EQ(same.state, table.state);
      EXPECT_EQ(same.layout, table.layout);
      EXPECT_EQ(same.latest_revision(), table.latest_revision());
      EXPECT_TRUE(std::ranges::equal(same.tablets, table.tablets, [](const auto& a, const auto& b) {
        return !differs(a, b) && a.revision == b.revision;
      }));
      keys += 1 + table.chunks.size();
      tablets += table.tablets.size();
      check_servers(table);
    }
    size_t recorded = 0;
    for (const auto& [key, value] : cluster.metadata.records) {
      recorded += key.starts_with(kTablePrefix) ? 1 : 0;
    }
    EXPECT_EQ(recorded, keys) << "something is recorded that belongs to no table";
    size_t held = 0;
    for (const auto& s : cluster.servers) {
      for (const auto& [id, owned] : s->tablets) held += owned.size();
    }
    EXPECT_EQ(held, tablets) << "servers have what nobody gave them, or not what was given";
  }
  void check_servers(const TableRecord& table) {
    for (const TabletRecord& tablet : table.tablets) {
      const FakeServer& owner = server(tablet.server_id);
      ASSERT_TRUE(owner.tablets.contains(table.id)) << "server " << owner.id;
      EXPECT_EQ(owner.tablets.at(table.id).at(tablet.start_hash), tablet.end_hash);
      EXPECT_EQ(tablet.creation_position, owner.positions.at({table.id, tablet.start_hash}));
      EXPECT_NE(tablet.creation_position, 0u);
    }
  }
  FakeServer& server(uint64_t id) {
    return **std::ranges::find_if(cluster.servers, [id](const auto& s) { return s->id == id; });
  }

  FakeCluster cluster;
  size_t seen_ = 0;
  bool struck_ = false;
};

TEST_F(TablesTest, ALeaderThatDiesAtAnyStepLeavesWhatTheNextOneGoesOnWith) {
  start(kSpan, kAtOnce);
  for (const Point point : {Point::kBefore, Point::kAfter}) {
    size_t steps = 0;
    for (;; ++steps) {
      SCOPED_TRACE(fmt::format("create, transaction {}, point {}", steps, static_cast<int>(point)));
      strike_at(steps, point);
      auto call = begin_create("t");
      ASSERT_TRUE(cluster.run_until([&] { return struck_ || call.done(); }));
      if (!struck_) break;
      go_on();
      ASSERT_FALSE(HasFatalFailure() || HasNonfatalFailure());
      const bool begun = steps > 0 || point == Point::kAfter;
      EXPECT_EQ(state().find_table("t") != nullptr, begun);
      ASSERT_TRUE(cluster.run_until([&] { return call.done(); }));
      if (begun) ASSERT_TRUE(cluster.drop("t").has_value());
      check_all();
    }
    EXPECT_EQ(steps, 7u) << "one that begins, three of chunks, three of positions";
    for (steps = 0;; ++steps) {
      SCOPED_TRACE(fmt::format("drop, transaction {}, point {}", steps, static_cast<int>(point)));
      ASSERT_TRUE(cluster.create("t", kSpan).has_value());
      strike_at(steps, point);
      auto call = begin_drop("t");
      ASSERT_TRUE(cluster.run_until([&] { return struck_ || call.done(); }));
      if (!struck_) break;
      go_on();
      ASSERT_FALSE(HasFatalFailure() || HasNonfatalFailure());
      EXPECT_EQ(state().find_table("t") != nullptr, steps == 0 && point == Point::kBefore);
      ASSERT_TRUE(cluster.run_until([&] { return call.done(); }));
      check_all();
    }
    EXPECT_EQ(steps, 4u) << "one that begins, three that remove";
  }
}

/// Also a leader that dies while it continues another one's operation.
TEST_F(TablesTest, OneLeaderAfterTheOtherDiesInTheMiddle) {
  start(20, 2);
  auto call = begin<wire::TableInfo>(Opcode::kCreateTable, wire::CreateTableRequest{"t", 20});
  for (size_t deaths = 0; deaths < 12; ++deaths) {
    strike_at(deaths % 4 + 1, deaths % 2 == 0 ? Point::kBefore : Point::kAfter);
    (void)cluster.run_until([&] { return struck_; }, 5s);
    cluster.stop_coordinator();
    ASSERT_TRUE(cluster.start_coordinator().ok());
  }
  ASSERT_TRUE(
      cluster.run_until([&] { return all_served_and_written() && !state().tables.empty(); }));
  check_all();
  ASSERT_TRUE(cluster.drop("t").has_value());
  check_all();
  EXPECT_TRUE(cluster.run_until([&] { return call.done(); }));
}

TEST_F(TablesTest, AFewHundredTabletsTakeOneTransaction) {
  start(20, kOperationsAtOnce);
  const uint64_t before = cluster.metadata.commits;
  ASSERT_TRUE(cluster.create("t", 20).has_value());
  EXPECT_EQ(cluster.metadata.commits - before, 2u) << "it is begun, and it is made";
  const TableRecord& table = state().tables.at(1);
  EXPECT_EQ(table.layout, 1u);
  EXPECT_EQ(table.chunks.size(), 3u);
  check_all();
}

TEST_F(TablesTest, AFormerServerTellsNoPosition) {
  start(1, kOperationsAtOnce);
  cluster.servers[0]->former_build = true;
  ASSERT_TRUE(cluster.create("t", 1).has_value());
  EXPECT_EQ(state().tables.at(1).tablets[0].creation_position, 0u);
}

/// As after an operator has restored only half of the keys of a store.
TEST_F(TablesTest, AChunkThatIsMissingOrLeftOverIsNotTakenForNothing) {
  start(20, kOperationsAtOnce);
  ASSERT_TRUE(cluster.create("t", 20).has_value());
  const uint64_t start = std::next(state().tables.at(1).chunks.begin())->first;
  cluster.stop_coordinator();
  const auto records = cluster.metadata.records;
  const auto outcome = [&](auto&& damage) {
    cluster.metadata.records = records;
    damage(cluster.metadata.records);
    const Status status = cluster.start_coordinator();
    cluster.stop_coordinator();
    return status.to_string();
  };
  const std::string key = tablet_chunk_key(1, 1, start);
  EXPECT_THAT(outcome([&](auto& r) { r.erase(key); }),
              ::testing::StartsWith("INTERNAL: table 1: tablet "));
  EXPECT_THAT(outcome([&](auto& r) { r.erase(tablet_chunk_key(1, 1, 0)); }),
              ::testing::HasSubstr("does not follow on 0x0"));
  EXPECT_EQ(outcome([&](auto& r) { r.erase(table_key(1)); }),
            "CORRUPT: metadata record '" + tablet_chunk_key(1, 1, 0) +
                "' is of table 1, which has no record");
  EXPECT_EQ(outcome([&](auto& r) { r[tablet_chunk_key(1, 1, start + 1)] = r[key]; }),
            "CORRUPT: metadata record '" + tablet_chunk_key(1, 1, start + 1) + "' is that of '" +
                key + "'");
  EXPECT_EQ(outcome([&](auto& r) { r[key] = encode_record(TabletChunkRecord{1, 1, {}}, 3); }),
            "CORRUPT: metadata record '" + key + "' has no tablets");
  EXPECT_EQ(outcome([](auto&) {}), "OK");
  ASSERT_TRUE(cluster.start_coordinator().ok());
}

}  // namespace
}  // namespace ramcloud
