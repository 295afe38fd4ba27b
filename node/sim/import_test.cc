// An import of metadata that is older than the servers' state: servers report what they own before
// the leader sends orders (docs/design/coordinator.md, "Imports"). The invariants of the cluster,
// which compare with the state before the import, hold all the time.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/logging.h"
#include "sim/cluster.h"

namespace ramcloud::sim {
namespace {

class ImportSim : public testing::Test {
 protected:
  ImportSim() { set_log_level(std::getenv("SIM_LOG") ? LogLevel::kDebug : LogLevel::kError); }
};

constexpr int kKeys = 40;

void write_all(Cluster& cluster, uint64_t table_id, const std::string& value) {
  for (int i = 0; i < kKeys; ++i) {
    const auto written =
        cluster.run(0, cluster.client(0).write(table_id, fmt::format("key{}", i), value));
    ASSERT_TRUE(written.has_value()) << written.error().to_string();
  }
}

TEST_F(ImportSim, NothingThatLiveServersHaveIsLostByAnOlderExport) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    ClusterOptions options;
    options.seed = seed;
    options.clients = 2;  // the second one knows nothing before the import
    Cluster cluster(options);
    ASSERT_TRUE(cluster.wait_ready());
    const auto create = [&](const char* name, uint32_t span) {
      auto made = cluster.run(0, cluster.client(0).create_table(name, span));
      EXPECT_TRUE(made.has_value()) << made.error().to_string();
      return made ? made->table_id : 0;
    };
    const uint64_t before = create("before", 2);
    create("gone", 2);
    const MetadataStore::Records exported = cluster.metadata_state().records;

    // Since the export one server has restarted with a new id, a table was created, and one was
    // dropped.
    const uint64_t former = 4;  // has nothing of "before"
    size_t place = 0;
    while (cluster.server(place).server_id() != former) ++place;
    cluster.kill_server(place);
    ASSERT_TRUE(cluster.scheduler().run_until(
        [&] { return cluster.coordinator()->status().servers_crashed == 1; }, 60s));
    cluster.restart_server(place);
    ASSERT_TRUE(cluster.wait_ready());
    const uint64_t newest = cluster.server(place).server_id();
    const uint64_t since = create("since", 4);
    ASSERT_TRUE(cluster.run(0, cluster.client(0).drop_table("gone")).ok());
    write_all(cluster, before, "old");
    write_all(cluster, since, "new");
    cluster.scheduler().run_for(2s);

    cluster.kill_coordinator();
    write_all(cluster, since, "newest");
    cluster.import_metadata(exported);
    cluster.restart_coordinator();
    auto& client = cluster.client(1);
    for (const auto& [name, value] : {std::pair("since", "newest"), {"before", "old"}}) {
      const auto table = cluster.run(1, client.open_table(name));
      ASSERT_TRUE(table.has_value()) << table.error().to_string();
      EXPECT_EQ(table->table_id, std::string(name) == "since" ? since : before);
      for (int i = 0; i < kKeys; ++i) {
        const auto found = cluster.run(1, client.read(table->table_id, fmt::format("key{}", i)));
        ASSERT_TRUE(found.has_value()) << name << " " << i << ": " << found.error().to_string();
        EXPECT_EQ(found->value, value);
      }
    }
    EXPECT_EQ(cluster.run(1, client.open_table("gone")).error().code(), StatusCode::kNotFound);
    const auto after = cluster.run(1, client.create_table("after", 4));
    ASSERT_TRUE(after.has_value()) << after.error().to_string();
    EXPECT_GT(after->table_id, since);
    const ClusterState& state = cluster.coordinator()->state();
    EXPECT_EQ(state.servers.at(former).record.state, wire::ServerState::kCrashed);
    EXPECT_TRUE(state.servers.at(newest).up());
    cluster.scheduler().run_for(20s);
    EXPECT_EQ(cluster.coordinator()->status().servers_up, 4u);
    EXPECT_EQ(cluster.failures(), "") << "no server ended itself";
    EXPECT_EQ(cluster.check_invariants(), "");
  }
}

TEST_F(ImportSim, ServersOfAnotherClusterThanTheirCoordinatorsSaySoAndGoOn) {
  MetadataStore::Records theirs;
  {
    Cluster another({.seed = 2});
    ASSERT_TRUE(another.wait_ready());
    theirs = another.metadata_state().records;
  }
  Cluster cluster({.seed = 1});
  ASSERT_TRUE(cluster.wait_ready());
  EXPECT_EQ(cluster.server(0).why_not_ready(), "");
  cluster.kill_coordinator();
  cluster.scheduler().run_for(60s);
  EXPECT_EQ(cluster.server(0).why_not_ready(), "") << "a coordinator that is only out of reach";
  const MetadataStore::Records ours = cluster.metadata_state().records;
  cluster.import_metadata(theirs);
  cluster.restart_coordinator();
  cluster.scheduler().run_for(30s);
  for (size_t i = 0; i < cluster.servers(); ++i) {
    EXPECT_THAT(cluster.server(i).why_not_ready(), testing::HasSubstr("belong to another cluster"));
  }
  EXPECT_EQ(cluster.failures(), "");
  cluster.kill_coordinator();
  cluster.import_metadata(ours);
  cluster.restart_coordinator();
  cluster.scheduler().run_for(30s);
  for (size_t i = 0; i < cluster.servers(); ++i) {
    EXPECT_EQ(cluster.server(i).why_not_ready(), "");
  }
}

}  // namespace
}  // namespace ramcloud::sim
