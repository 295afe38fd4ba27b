// Whole clusters of which one server's disk is full, broken or slow: no process ends, no
// acknowledged write is lost, and the status names the server.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "sim/cluster.h"
#include "sim/workload.h"

namespace ramcloud::sim {
namespace {

/// With replicas synced (past the cache), or buffered.
class DiskFaults : public testing::TestWithParam<bool> {
 protected:
  DiskFaults() { set_log_level(LogLevel::kError); }

  /// Workers run while `fault` is injected into the disk of server 0, and are checked at the end.
  void run(const std::function<void(SimDisk&)>& fault) {
    ClusterOptions options;
    options.seed = 11;
    options.servers = 4;
    options.replicas = 2;
    options.synced = GetParam();
    cluster_ = std::make_unique<Cluster>(options);
    ASSERT_TRUE(cluster_->wait_ready()) << cluster_->failures();
    auto table = cluster_->run(0, cluster_->client(0).create_table("t", 4));
    ASSERT_TRUE(table.has_value()) << table.error().to_string();
    for (uint32_t i = 0; i < 3; ++i) {
      Worker::Options o;
      o.seed = i + 1;
      o.operations = 300;
      o.most_value_bytes = 600'000;
      o.prefix = fmt::format("w{}", i);
      workers_.push_back(std::make_unique<Worker>(cluster_->client(0), table->table_id, o));
      cluster_->spawn(0, workers_.back()->work());
    }
    cluster_->scheduler().run_for(1ms);
    fault(cluster_->disk(0));
    ASSERT_TRUE(
        cluster_->scheduler().run_until([&] { return cluster_->running_tasks() == 0; }, 3600s));
    for (auto& worker : workers_) {
      cluster_->run(0, worker->read_back(), 3600s);
      EXPECT_EQ(worker->wrong(), "");
      EXPECT_EQ(worker->counts().failed, 0u) << "writes went on";
    }
    EXPECT_EQ(cluster_->check_invariants() + cluster_->failures(), "");
  }

  std::string reasons() {
    std::string text;
    for (const auto& reason : cluster_->coordinator()->status().reasons) text += reason + "\n";
    return text;
  }
  bool eventually(const std::function<bool()>& condition) {
    return cluster_->scheduler().run_until(condition, 60s);
  }
  bool whole() {
    const auto& sum = cluster_->coordinator()->status().replication;
    return sum.segments_under_replicated == 0 && sum.segments_degraded == 0;
  }

  std::unique_ptr<Cluster> cluster_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

INSTANTIATE_TEST_SUITE_P(Durability, DiskFaults, testing::Bool(), [](const auto& about) {
  return std::string(about.param ? "synced" : "buffered");
});

TEST_P(DiskFaults, ABrokenDiskIsLeftByItsMastersAndNamed) {
  run([](SimDisk& disk) { disk.fail_with({StatusCode::kIoError, "bad sector"}); });
  EXPECT_TRUE(eventually([&] {
    return reasons().find("its backup takes no replicas, the device has failed") !=
           std::string::npos;
  })) << reasons();
  EXPECT_TRUE(eventually([&] { return whole(); })) << reasons();
}

TEST_P(DiskFaults, AFullDiskKeepsWhatItHasAndIsNamed) {
  run([](SimDisk& disk) { disk.set_full(true); });
  EXPECT_TRUE(eventually([&] {
    return reasons().find("its backup takes no replicas, the device is full") != std::string::npos;
  })) << reasons();
  EXPECT_TRUE(eventually([&] { return whole(); })) << reasons();
}

TEST_P(DiskFaults, ASlowDiskIsOnlySlow) {
  run([](SimDisk& disk) { disk.set_sync_time(400ms); });
  EXPECT_TRUE(eventually([&] { return whole(); })) << reasons();
}

}  // namespace
}  // namespace ramcloud::sim
