// All operations against a map, through client and server: in simulated clusters with a bad network
// and over real loopback connections, with no replicas up to three. A seed is printed; MODEL_SEED
// and MODEL_OPERATIONS (of each test) choose others.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/logging.h"
#include "base/testing/sanitizer.h"
#include "client/blocking_client.h"
#include "daemon/testing/dev_cluster.h"
#include "runtime/when_all.h"
#include "sim/cluster.h"
#include "sim/workload.h"

namespace ramcloud::sim {
namespace {

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Sanitizers make everything several times slower and check the same code: fewer operations
/// suffice.
uint64_t operations_in(uint64_t normally) {
  return number_from("MODEL_OPERATIONS", testing::kSanitized ? normally / 20 : normally);
}

/// A table's workers and their results, compared with a scan at the end.
struct Model {
  Model(ClientCore& core, uint64_t table_id, uint64_t seed, uint32_t count, uint64_t operations,
        uint32_t most_at_once)
      : client(core), table(table_id) {
    for (uint32_t i = 0; i < count; ++i) {
      Worker::Options options;
      options.seed = seed * 1000 + i;
      options.keys = 200;
      options.operations = static_cast<uint32_t>(operations / count);
      options.most_at_once = most_at_once;
      options.prefix = "w" + std::to_string(i);
      workers.push_back(std::make_unique<Worker>(client, table, options));
    }
  }
  Task<bool> work() {
    std::vector<Task<void>> tasks;
    for (auto& worker : workers) tasks.push_back(worker->work());
    co_await when_all(std::move(tasks));
    co_return true;
  }
  Task<bool> read_back() {
    bool certain = true;
    for (auto& worker : workers) certain = co_await worker->read_back() && certain;
    co_return certain;
  }
  /// Observations that no correct cluster allows; empty when all is well.
  std::string verdict(const Result<std::map<std::string, std::string>>& scanned) {
    std::string wrong;
    std::map<std::string, std::string> expected;
    for (auto& worker : workers) {
      wrong += worker->wrong();
      expected.merge(worker->contents());
    }
    if (!scanned) return wrong + "scan: " + scanned.error().to_string() + "\n";
    if (*scanned != expected) wrong += "the scan differs from the model\n";
    return wrong;
  }
  Worker::Counts counts() const {
    Worker::Counts sum;
    for (const auto& worker : workers) {
      const Worker::Counts& c = worker->counts();
      sum.reads += c.reads, sum.writes += c.writes, sum.removes += c.removes;
      sum.increments += c.increments, sum.conditional += c.conditional, sum.multi += c.multi;
      sum.refused += c.refused, sum.indeterminate += c.indeterminate, sum.failed += c.failed;
    }
    return sum;
  }
  ClientCore& client;
  uint64_t table;
  std::vector<std::unique_ptr<Worker>> workers;
};

void print(const char* where, uint32_t replicas, uint64_t seed, const Worker::Counts& c) {
  std::printf(
      "%s, R = %u, seed %llu: %llu operations (%llu reads, %llu writes, %llu removes, "
      "%llu increments), %llu in conditions, %llu multi, %llu refused, %llu unknown\n",
      where, replicas, static_cast<unsigned long long>(seed),
      static_cast<unsigned long long>(c.operations()), static_cast<unsigned long long>(c.reads),
      static_cast<unsigned long long>(c.writes), static_cast<unsigned long long>(c.removes),
      static_cast<unsigned long long>(c.increments), static_cast<unsigned long long>(c.conditional),
      static_cast<unsigned long long>(c.multi), static_cast<unsigned long long>(c.refused),
      static_cast<unsigned long long>(c.indeterminate));
}

class ModelTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  ModelTest() { set_log_level(LogLevel::kError); }
  const uint32_t replicas_ = GetParam();
  const uint64_t seed_ = number_from("MODEL_SEED", 1);
};

TEST_P(ModelTest, SimulatedCluster) {
  ClusterOptions options;
  options.seed = seed_;
  options.servers = 4;
  options.replicas = replicas_;
  options.log_bytes = 64u << 20;
  options.network.loss = 0.002;
  options.network.reorder = true;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.wait_ready()) << cluster.failures();
  ClientCore& client = cluster.client(0);
  auto table = cluster.run(0, client.create_table("t", 4));
  ASSERT_TRUE(table.has_value()) << table.error().to_string();
  Model model(client, table->table_id, seed_, 8, operations_in(60'000), 100);
  cluster.run(0, model.work(), 24h);
  cluster.network().options().loss = 0;
  cluster.run(0, model.read_back(), 24h);
  print("simulated", replicas_, seed_, model.counts());
  EXPECT_EQ(model.verdict(cluster.run(0, scan_table(client, model.table), 24h)), "");
  EXPECT_EQ(cluster.check_invariants() + cluster.failures(), "");
  EXPECT_GT(model.counts().refused, 0u);
}

// Not under the thread sanitizer: it would start ramcloudd, whose gRPC, which is Debian's, is not
// instrumented.
#if !__has_feature(thread_sanitizer)
TEST_P(ModelTest, LoopbackConnections) {
  // With more replicas more reactors, so that both are seen in every number.
  daemon::DevCluster cluster({"--servers", "4", "--replicas", std::to_string(replicas_),
                              "--reactors", std::to_string(replicas_ + 1), "--log-memory",
                              "64MiB"});
  auto coordinators = parse_cluster(cluster.address());
  ASSERT_TRUE(coordinators.has_value()) << cluster.address();
  BlockingClient client({.coordinators = *coordinators, .timeout = 120s});
  auto table = client.run(client.core().create_table("t", 4));
  ASSERT_TRUE(table.has_value()) << table.error().to_string();
  Model model(client.core(), table->table_id, seed_, 8, operations_in(200'000), 100);
  client.run(model.work());
  client.run(model.read_back());
  print("loopback", replicas_, seed_, model.counts());
  EXPECT_EQ(model.verdict(client.run(scan_table(client.core(), model.table))), "");
  EXPECT_EQ(model.counts().indeterminate + model.counts().failed, 0u);
  EXPECT_GT(model.counts().refused, 0u);
}

#endif

INSTANTIATE_TEST_SUITE_P(Replicas, ModelTest, ::testing::Range(0u, 4u));

}  // namespace
}  // namespace ramcloud::sim
