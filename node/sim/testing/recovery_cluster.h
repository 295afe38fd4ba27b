// A simulated cluster for tests of recoveries, with the common steps: fill a table, kill its owner,
// wait until everything is served.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/logging.h"
#include "base/testing/sanitizer.h"
#include "replication/replica_manager.h"
#include "sim/cluster.h"
#include "sim/testing/durability.h"
#include "sim/testing/seed_range.h"
#include "store/object_store.h"

namespace ramcloud::sim {

class RecoveryClusterTest : public ::testing::Test {
 protected:
  RecoveryClusterTest() {
    set_log_level(std::getenv("SIM_LOG") != nullptr ? LogLevel::kInfo : LogLevel::kError);
  }

  /// Starts with a table "t" over so many servers.
  void start(ClusterOptions options, uint32_t span) {
    options.clients = std::max(options.clients, 2u);
    options.client_timeout = 600s;
    cluster_.reset();
    values_.clear();
    ids_.clear();
    cluster_ = std::make_unique<Cluster>(options);
    ASSERT_TRUE(cluster_->wait_ready());
    create("t", span);
  }
  Cluster& cluster() { return *cluster_; }
  ClientCore& client() { return cluster_->client(0); }
  Coordinator& leading() { return *cluster_->coordinator(); }

  // ---- tables
  void create(const std::string& name, uint32_t span) {
    const auto table = cluster_->run(0, client().create_table(name, span), 600s);
    ASSERT_TRUE(table.has_value()) << table.error().to_string();
    ids_[name] = table->table_id;
  }
  uint64_t id(const std::string& name) { return ids_.at(name); }
  static std::string key(uint32_t i) { return fmt::format("key{}", i); }
  void fill(const std::string& name, uint32_t from, uint32_t count, uint32_t bytes) {
    for (uint32_t i = from; i < from + count; ++i) {
      const std::string value = fmt::format("{} of {} ", i, name) + std::string(bytes, 'v');
      const auto written = cluster_->run(0, client().write(id(name), key(i), value), 600s);
      ASSERT_TRUE(written.has_value()) << written.error().to_string();
      values_[name][i] = value;
    }
  }
  void remove(const std::string& name, uint32_t from, uint32_t count) {
    for (uint32_t i = from; i < from + count; ++i) {
      const auto removed = cluster_->run(0, client().remove(id(name), key(i)), 600s);
      ASSERT_TRUE(removed.has_value()) << removed.error().to_string();
    }
  }
  void expect_filled(const std::string& name, uint32_t from, uint32_t count) {
    for (uint32_t i = from; i < from + count; ++i) {
      const auto found = cluster_->run(0, client().read(id(name), key(i)), 600s);
      ASSERT_TRUE(found.has_value()) << name << " " << key(i) << ": " << found.error().to_string();
      ASSERT_EQ(found->value, values_[name][i]) << name << " " << key(i);
    }
  }
  void expect_absent(const std::string& name, uint32_t from, uint32_t count) {
    for (uint32_t i = from; i < from + count; ++i) {
      const auto found = cluster_->run(0, client().read(id(name), key(i)), 600s);
      ASSERT_FALSE(found.has_value()) << name << " " << key(i) << " came back";
      ASSERT_EQ(found.error().code(), StatusCode::kNotFound) << found.error().to_string();
    }
  }

  // ---- clients that write all the time
  /// Starts writers, each with private keys, which it writes once.
  void begin_writers(const std::string& name, uint32_t count, uint32_t bytes) {
    writing_ = std::make_shared<Writing>();
    for (uint32_t i = 0; i < count; ++i) {
      cluster_->spawn(0, write_on(client(), id(name), fmt::format("w{}", i), bytes, writing_));
    }
  }
  /// Stops the writers after their present operation. Returns the acknowledged keys with the times.
  std::map<std::string, Time> stop_writers() {
    writing_->stop = true;
    return writing_->acknowledged;
  }

  /// Operations of the writers that were acknowledged so far.
  size_t acknowledged_writes() const { return writing_->acknowledged.size(); }
  /// Operations of the writers that were not acknowledged.
  uint32_t failed_writes() const { return writing_->failed; }
  /// The longest time of an acknowledged write.
  Duration longest_write() const { return writing_->longest; }

  // ---- servers
  size_t place_of(uint64_t server_id) {
    for (size_t i = 0; i < cluster_->servers(); ++i) {
      if (cluster_->server_runs(i) && cluster_->server(i).server_id() == server_id) return i;
    }
    ADD_FAILURE() << "no server " << server_id;
    return 0;
  }
  /// The owner of the table's first tablet, by the metadata.
  uint64_t owner(const std::string& name) {
    return leading().state().tables.at(id(name)).tablets.at(0).server_id;
  }
  uint64_t head_of(uint64_t server_id) {
    return cluster_->server(place_of(server_id)).parts().store->log().head().segment_id();
  }
  std::vector<uint64_t> holders_of_head(uint64_t server_id) {
    const auto parts = cluster_->server(place_of(server_id)).parts();
    return parts.replicas->replica_servers(parts.store->log().head().segment_id());
  }
  void kill(uint64_t server_id) { cluster_->kill_server(place_of(server_id)); }
  void kill_all() {
    for (size_t i = 0; i < cluster_->servers(); ++i) {
      if (cluster_->server_runs(i)) cluster_->kill_server(i);
    }
  }
  void reboot_all() {
    for (size_t i = 0; i < cluster_->servers(); ++i) {
      if (cluster_->server_runs(i)) cluster_->reboot_server(i);
    }
    for (size_t i = 0; i < cluster_->servers(); ++i) cluster_->restart_server(i);
  }
  /// Servers that the leader gave up, whether they started again or not.
  uint32_t verdicts() {
    return static_cast<uint32_t>(std::ranges::count_if(
        leading().state().servers, [](const auto& server) { return !server.second.up(); }));
  }

  // ---- recoveries
  bool until(const std::function<bool()>& condition, Duration limit = 900s) {
    return cluster_->scheduler().run_until(condition, limit);
  }
  bool until_served(Duration limit = 900s) {
    uint32_t asked = 0;  // a look costs more than a step
    return until([&] { return ++asked % 64 == 0 && served(); }, limit);
  }
  /// The phase of the most advanced recovery; 0 if there is none.
  RecoveryProgress::Phase phase() {
    RecoveryProgress::Phase furthest{};
    if (cluster_->coordinator() == nullptr) return furthest;
    for (const auto& [id, progress] : leading().state().recoveries) {
      furthest = std::max(furthest, progress.phase);
    }
    return furthest;
  }
  std::string waits_for() {
    std::string text;
    if (cluster_->coordinator() == nullptr) return "nobody leads";
    for (const auto& [id, progress] : leading().state().recoveries) {
      text += fmt::format("server {}, phase {}: {}\n", id, static_cast<int>(progress.phase),
                          progress.waits_for);
    }
    return text;
  }
  /// True if every tablet has an owner that is UP, runs, and serves it.
  bool served() {
    if (cluster_->coordinator() == nullptr || leading().state().restate) return false;
    for (const auto& [table_id, table] : leading().state().tables) {
      for (const TabletRecord& tablet : table.tablets) {
        if (!serves(table_id, tablet)) return false;
      }
    }
    return true;
  }
  /// True if also all servers are UP, nothing is recovered, and no segment lacks a replica.
  bool whole() {
    const ClusterStatus status = leading().status();
    return status.servers_up == cluster_->servers() && status.recoveries.empty() &&
           status.replication.segments_under_replicated == 0 && served();
  }
  void expect_sound() {
    EXPECT_EQ(cluster_->check_invariants(), "");
    EXPECT_EQ(cluster_->failures(), "");
  }

 private:
  struct Writing {
    bool stop = false;
    uint32_t failed = 0;
    Duration longest{};
    std::map<std::string, Time> acknowledged;
  };
  static Task<void> write_on(ClientCore& client, uint64_t table_id, std::string prefix,
                             uint32_t bytes, std::shared_ptr<Writing> writing) {
    const std::string value(bytes, 'v');
    for (uint32_t i = 0; !writing->stop; ++i) {
      const std::string name = fmt::format("{}-{}", prefix, i);
      const Time began = client.reactor().now();
      const auto written = co_await client.write(table_id, name, value);
      const Time ended = client.reactor().now();
      if (!written) ++writing->failed;
      if (!written || writing->stop) continue;
      writing->acknowledged[name] = ended;
      writing->longest = std::max<Duration>(writing->longest, ended - began);
    }
  }
  bool serves(uint64_t table_id, const TabletRecord& tablet) {
    for (size_t i = 0; i < cluster_->servers(); ++i) {
      if (!cluster_->server_runs(i)) continue;
      if (cluster_->server(i).server_id() != tablet.server_id) continue;
      const auto* store = cluster_->server(i).parts().store;
      return store != nullptr && std::ranges::any_of(store->tablets(), [&](const auto& there) {
               return there.table_id == table_id && there.start_hash == tablet.start_hash &&
                      there.end_hash == tablet.end_hash &&
                      there.state == store::TabletState::kNormal;
             });
    }
    return false;
  }

  std::unique_ptr<Cluster> cluster_;
  std::map<std::string, uint64_t> ids_;
  std::map<std::string, std::map<uint32_t, std::string>> values_;
  std::shared_ptr<Writing> writing_;
};

/// The same with each durability: cases are TEST_P, and have the names `…/buffered` and `…/synced`.
class DurabilityTest : public RecoveryClusterTest, public ::testing::WithParamInterface<bool> {
 protected:
  static bool synced() { return GetParam(); }
  /// SEEDS, or the first `count`; only the first one with a sanitizer.
  static std::vector<uint64_t> seeds(uint64_t count) {
    SeedRange range = seed_range(count);
    if (testing::kSanitized && std::getenv("SEEDS") == nullptr) range.last = range.first;
    std::vector<uint64_t> all;
    for (uint64_t seed = range.first; seed <= range.last; ++seed) all.push_back(seed);
    return all;
  }
  void start(ClusterOptions options, uint32_t span) {
    options.synced = synced();
    RecoveryClusterTest::start(options, span);
  }
};

}  // namespace ramcloud::sim
