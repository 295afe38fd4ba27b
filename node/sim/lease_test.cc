// Leases of whole servers (docs/design/recovery.md, "Leases"): replies from a master's memory wait
// until it knows that no other server has taken over.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/failpoint.h"
#include "base/logging.h"
#include "replication/replica_manager.h"
#include "sim/cluster.h"
#include "store/object_store.h"
#include "wire/recovery_messages.h"

namespace ramcloud::sim {
namespace {

constexpr Duration kLength = 500ms;  // ServerNodeOptions'
constexpr Duration kSoon = 20ms;

/// The parameter is the number of reactors of a server.
class LeaseClusterSim : public ::testing::TestWithParam<uint32_t> {
 protected:
  LeaseClusterSim() { set_log_level(LogLevel::kError); }
  void start(uint32_t replicas) {
    ClusterOptions options;
    options.seed = 5;
    options.replicas = replicas;
    options.reactors = GetParam();
    options.backup_silence = {};  // no holder is given up
    options.client_timeout = 600s;
    cluster_ = std::make_unique<Cluster>(options);
    ASSERT_TRUE(cluster_->wait_ready());
    const auto table = cluster_->run(0, client().create_table("t", 1));
    ASSERT_TRUE(table.has_value()) << table.error().to_string();
    table_ = table->table_id;
    owner_ = index_of(table->tablets.at(0).server_id);
    ASSERT_TRUE(cluster_->run(0, client().write(table_, "key", "value")).has_value());
    ASSERT_TRUE(answers_within(1s));
  }
  ClientCore& client() { return cluster_->client(0); }
  SimScheduler& scheduler() { return cluster_->scheduler(); }
  size_t index_of(uint64_t server_id) {
    for (size_t i = 0; i < cluster_->servers(); ++i) {
      if (cluster_->server_runs(i) && cluster_->server(i).server_id() == server_id) return i;
    }
    ADD_FAILURE() << "no server " << server_id;
    return 0;
  }
  /// A holder of the owner's head.
  size_t holder() {
    const auto& parts = cluster_->server(owner_).parts();
    const auto holders = parts.replicas->replica_servers(parts.store->log().head().segment_id());
    return index_of(holders.at(0));
  }
  Task<void> read_into(std::shared_ptr<std::optional<bool>> into) {
    const auto result = co_await client().read(table_, "key");
    *into = result.has_value() && result->value == "value";
  }
  /// Begins a read.
  std::shared_ptr<std::optional<bool>> begin_read() {
    auto into = std::make_shared<std::optional<bool>>();
    cluster_->spawn(0, read_into(into));
    return into;
  }
  bool answers_within(Duration limit) {
    const auto read = begin_read();
    return scheduler().run_until([&] { return read->has_value(); }, limit) && **read;
  }
  void cut_off_from_the_coordinator() {
    for (SimNode* node : cluster_->nodes_of_server(owner_)) {
      cluster_->network().partition(cluster_->coordinator_sim_node(0), *node);
    }
  }

  std::unique_ptr<Cluster> cluster_;
  uint64_t table_ = 0;
  size_t owner_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Reactors, LeaseClusterSim, ::testing::Values(1u, 3u));

TEST_P(LeaseClusterSim, CutOffFromAHolderReadsWaitForTheFence) {
  start(2);
  const size_t lost = holder();
  cluster_->cut_off(owner_, lost);
  EXPECT_TRUE(answers_within(kLength / 4)) << "the lease goes on for a while";
  scheduler().run_for(kLength + kSoon);
  const auto read = begin_read();
  scheduler().run_for(2s);
  EXPECT_FALSE(read->has_value());
  cluster_->kill_server(lost);
  EXPECT_TRUE(scheduler().run_until([&] { return read->has_value(); }, 30s));
  EXPECT_TRUE(**read);
  EXPECT_EQ(cluster_->check_invariants(), "");
}

TEST_P(LeaseClusterSim, ReadsGoOnWhenTheLinkIsBack) {
  start(2);
  cluster_->cut_off(owner_, holder());
  scheduler().run_for(kLength + kSoon);
  const auto read = begin_read();
  scheduler().run_for(1s);
  EXPECT_FALSE(read->has_value());
  cluster_->network().heal_all();
  EXPECT_TRUE(scheduler().run_until([&] { return read->has_value(); }, 5s));
}

TEST_P(LeaseClusterSim, CutOffFromTheCoordinatorOnlyNothingWaits) {
  start(2);
  cut_off_from_the_coordinator();
  scheduler().run_for(2 * kLength);
  EXPECT_TRUE(answers_within(kLength / 4));
}

TEST_P(LeaseClusterSim, WithoutReplicasTheCoordinatorLeases) {
  start(0);
  scheduler().run_for(3s);
  EXPECT_TRUE(answers_within(kLength / 4));
  cut_off_from_the_coordinator();
  scheduler().run_for(kLength + kSoon);
  const auto read = begin_read();
  scheduler().run_for(2s);
  EXPECT_FALSE(read->has_value());
  cluster_->network().heal_all();
  EXPECT_TRUE(scheduler().run_until([&] { return read->has_value(); }, 5s));
  EXPECT_TRUE(**read);
}

/// A recovery query came to one holder. The master answers for the rest of its lease, and then is
/// told CRASHED.
TEST_P(LeaseClusterSim, AFrozenMasterAnswersNothingAfterItsLease) {
  start(2);
  SimNode& node = cluster_->client_node(0);
  const auto transport = cluster_->network().make_transport(node);
  RpcClient raw(node.reactor(), *transport);
  const size_t asked = holder();
  const Locator to{"sim", {cluster_->server_sim_node(asked).name(), 11200}};
  wire::RecoveryQueryRequest query;
  query.term = cluster_->coordinator()->state().term;
  query.master_id = cluster_->server(owner_).server_id();
  const auto reply =
      cluster_->run(0, raw.call<wire::RecoveryQueryReply>(to, cluster_->server(asked).server_id(),
                                                          wire::Opcode::kRecoveryQuery, query,
                                                          node.reactor().now() + 10s));
  ASSERT_TRUE(reply.has_value()) << reply.error().to_string();
  scheduler().run_for(kLength);
  const auto read = begin_read();
  scheduler().run_for(2s);
  EXPECT_FALSE(read->has_value());
  EXPECT_NE(cluster_->failures().find("CRASHED"), std::string::npos) << cluster_->failures();
}

/// The process is suspended after it looked a key up and before it answers: when it goes on, other
/// servers may have served the key.
TEST_P(LeaseClusterSim, SuspendedInTheMiddleOfATurnNothingStaleIsTold) {
  start(2);
  constexpr size_t kBeforeReply = failpoint_number("master.reply.before_send");
  bool armed = true;
  cluster_->set_failpoint_probe([&](size_t number, const Cluster::Role& role) {
    if (number != kBeforeReply || role.coordinator || role.index != owner_ || !armed) return;
    armed = false;
    cluster_->pause_server(owner_, 2s);
    for (size_t i = 0; i < cluster_->servers(); ++i) {
      if (i != owner_) cluster_->cut_off(owner_, i);
    }
  });
  const auto read = begin_read();
  scheduler().run_for(4s);
  EXPECT_FALSE(armed);
  EXPECT_FALSE(read->has_value()) << "its backups did not say that it is still the owner";
  cluster_->network().heal_all();
  EXPECT_TRUE(scheduler().run_until([&] { return read->has_value(); }, 10s));
  EXPECT_TRUE(**read);
}

}  // namespace
}  // namespace ramcloud::sim
