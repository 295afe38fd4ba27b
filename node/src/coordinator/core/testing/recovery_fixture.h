// A cluster of fake servers that can recover each other, with made-up logs.
#pragma once

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "coordinator/core/testing/coordinator_fixture.h"
#include "log/digest.h"

namespace ramcloud::testing {

inline constexpr uint64_t kMiB = 1u << 20;

inline constexpr Duration kLeaseIsOver = std::chrono::milliseconds(525);

struct LogShape {
  uint64_t segments = 3;  // the number of segments; the last is the head
  uint32_t length = 8u << 20;
  uint64_t safe_version = 5000;
  bool scanned = true;  // the head before the last is scanned
  bool power_safe = true;
};

class RecoveriesTest : public CoordinatorFixture {
 protected:
  using Phase = RecoveryProgress::Phase;
  using Flag = wire::RecoveryReplica::Flag;
  /// Servers with this many replicas of their logs, which can recover.
  void start(size_t servers, uint32_t replicas = 2) {
    cluster.prepare = [this, replicas](FakeServer& server) {
      server.request.read_lease_ms = read_lease_ms_;
      server.request.replicas = replicas;
      server.request.log_bytes = 1000 * kMiB;
      server.recovery.enabled = true;
      server.recovery.on_serve = [this, &server](const wire::HashRange& range, uint64_t attempt) {
        note_served(server.id, range, attempt);
      };
    };
    start_and_wait(servers);
  }
  FakeServer& server(uint64_t id) {
    for (const auto& one : cluster.servers) {
      if (one && one->id == id) return *one;
    }
    throw std::runtime_error("no such server");
  }
  FakeRecovery& recovery(uint64_t id) { return server(id).recovery; }
  bool is_up(uint64_t id) { return state().servers.at(id).up(); }
  /// Made-up replicas of the log of a dead master.
  void give_log(uint64_t master, const std::vector<uint64_t>& backups, LogShape shape = {}) {
    std::string digest;
    log::DigestEncoder encoder(digest);
    for (uint64_t id = 1; id <= shape.segments; ++id) encoder.add(id);
    encoder.finish();
    for (size_t b = 0; b < backups.size(); ++b) {
      auto& replicas = recovery(backups[b]).replicas[master];
      replicas.clear();
      for (uint64_t id = 1; id <= shape.segments; ++id) {
        wire::RecoveryReplica replica;
        replica.segment_id = id;
        replica.frame = static_cast<uint32_t>(10 * id + b);
        replica.backup_id = backups[b];
        replica.length = replica.durable_up_to = shape.length;
        replica.header_length = 64;
        replica.holders = backups;
        replica.safe_version = shape.safe_version - shape.segments + id;
        replica.flags = Flag::kCleanEnd | (shape.power_safe ? Flag::kPowerSafe : 0) |
                        (b == 0 ? Flag::kPrimary : 0);
        if (id == shape.segments) {
          replica.flags |= Flag::kScanned | Flag::kIsHead | Flag::kHasData;
          replica.length = replica.durable_up_to = 1000;
          replica.digest = digest;
        } else {
          replica.flags |= Flag::kClosed | (id + 1 == shape.segments ? Flag::kIsHead : 0) |
                           (shape.scanned ? Flag::kScanned : 0);
        }
        replicas.push_back(std::move(replica));
      }
    }
  }
  /// Kills a server; its port refuses connections, which condemns it.
  void kill(uint64_t id) {
    cluster.kill_server(server(id));
    ASSERT_TRUE(cluster.run_until([&] { return !is_up(id); }));
  }
  bool owns(uint64_t id) {
    const auto owned = state().tablets_by_server();
    return owned.contains(id);
  }
  bool recovered() {
    return std::ranges::all_of(state().tables, [this](const auto& entry) {
      return std::ranges::all_of(entry.second.tablets, [this](const TabletRecord& tablet) {
        return tablet.status == TabletStatus::kNormal && is_up(tablet.server_id);
      });
    });
  }
  bool all_served() {
    if (!recovered()) return false;
    for (const auto& [id, table] : state().tables) {
      for (const TabletRecord& tablet : table.tablets) {
        if (tablet.attempt == 0) continue;
        const auto& serving = recovery(tablet.server_id).serving;
        const auto found = serving.find({id, tablet.start_hash});
        if (found == serving.end() || found->second.attempt != tablet.attempt) return false;
      }
    }
    return true;
  }
  /// Checks that no tablet was served until `lease` after the last answer of server 1's backups (2
  /// and 3).
  void expect_served_after(Duration lease) {
    ASSERT_FALSE(served_at_.empty());
    for (const Time at : served_at_) {
      EXPECT_GE(at, std::max(recovery(2).frozen.at(1), recovery(3).frozen.at(1)) + lease);
    }
  }
  ::testing::AssertionResult wait_until_served() {
    if (cluster.run_until([this] { return all_served() && state().recoveries.empty(); })) {
      return ::testing::AssertionSuccess();
    }
    std::string text = "not recovered:";
    for (const auto& [id, progress] : state().recoveries) {
      text +=
          fmt::format(" {} {} {};", id, recovery_phase_name(progress.phase), progress.waits_for);
    }
    return ::testing::AssertionFailure() << text;
  }
  /// Checks that each range is served once, and only after the metadata assigned it to the server.
  void note_served(uint64_t server_id, const wire::HashRange& range, uint64_t attempt) {
    const auto stored = read_cluster_state(cluster.metadata.records);
    ASSERT_TRUE(stored.has_value());
    const auto table = stored->tables.find(range.table_id);
    ASSERT_NE(table, stored->tables.end());
    const auto tablet =
        std::ranges::find(table->second.tablets, range.start_hash, &TabletRecord::start_hash);
    ASSERT_NE(tablet, table->second.tablets.end());
    EXPECT_EQ(tablet->server_id, server_id) << "it serves what is not its own";
    EXPECT_EQ(tablet->attempt, attempt);
    EXPECT_EQ(tablet->status, TabletStatus::kNormal);
    EXPECT_TRUE(served_.insert({range.table_id, range.start_hash, attempt}).second)
        << "handed over twice";
    served_at_.push_back(cluster.clock.now());
  }
  std::set<uint64_t> attempts_at(uint64_t master) {
    std::set<uint64_t> attempts;
    for (const auto& one : cluster.servers) {
      if (!one) continue;
      for (const auto& order : one->recovery.orders) {
        if (order.master_id == master) attempts.insert(order.attempt);
      }
    }
    return attempts;
  }
  uint64_t owner(const std::string& table, size_t tablet = 0) {
    return state().find_table(table)->tablets.at(tablet).server_id;
  }
  Phase phase(uint64_t master) { return state().recoveries.at(master).phase; }
  bool in_phase(uint64_t master, Phase wanted) {
    const auto found = state().recoveries.find(master);
    return found != state().recoveries.end() && found->second.phase == wanted;
  }
  double metric(const std::string& name) {
    const std::string text = cluster.metrics.text();
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }

  std::set<std::tuple<uint64_t, uint64_t, uint64_t>> served_;
  uint32_t read_lease_ms_ = 0;  // the lease that servers report; 0: they report none
  std::vector<Time> served_at_;
};

/// The dead server owns the only tablet of table "t"; the first two other servers have its log.
class OneTablet : public RecoveriesTest {
 protected:
  void make(size_t servers, LogShape shape = {}) {
    start(servers);
    ASSERT_TRUE(cluster.create("t", 1).has_value());
    dead_ = owner("t");
    others_.clear();
    for (const auto& one : cluster.servers) {
      if (one && one->id != dead_) others_.push_back(one->id);
    }
    give_log(dead_, {others_[0], others_[1]}, shape);
  }
  FakeRecovery& holder(size_t i) { return recovery(others_[i]); }
  const RecoveryProgress& progress() { return state().recoveries.at(dead_); }
  /// The server that was ordered to recover, and has reached this phase.
  FakeServer* recovering(wire::RecoveryPhase reached) {
    for (const auto& one : cluster.servers) {
      if (!one) continue;
      for (const auto& [key, job] : one->recovery.jobs) {
        if (key.first == dead_ && job.state.phase == reached) return one.get();
      }
    }
    return nullptr;
  }
  void stop_all_in(std::optional<wire::RecoveryPhase> phase) {
    for (const auto& one : cluster.servers) {
      if (one) one->recovery.stuck_in = phase;
    }
  }
  /// The server dies, and the only part of its recovery gets no further than this phase.
  void die_and_stop_in(wire::RecoveryPhase phase) {
    make(4);
    stop_all_in(phase);
    kill(dead_);
    ASSERT_TRUE(cluster.run_until([&] { return recovering(phase); }));
  }
  /// Nothing stops any more. True if everything is served then.
  bool goes_on() {
    stop_all_in(std::nullopt);
    return wait_until_served();
  }
  /// What recovery masters say that they wait for. OK: for nothing.
  void all_wait_for(StatusCode what) {
    for (const auto& one : cluster.servers) {
      if (!one) continue;
      for (auto& [key, job] : one->recovery.jobs) {
        job.state.status = static_cast<uint16_t>(what);
      }
    }
  }
  /// Both replicas of its head end early, and another server, which may hold a later head, dies, too.
  void die_with_a_torn_tail() {
    make_torn(5);
    kill(others_[3]);
    kill(dead_);
  }
  /// Durable bytes are gone from all replicas of the head.
  void make_torn(size_t servers) {
    make(servers, {.power_safe = false});
    for (size_t i : {0, 1}) {
      for (auto& replica : holder(i).replicas.at(dead_)) {
        if (replica.segment_id == 3) replica.length = 500;
      }
    }
  }
  /// A server enlists with the volume that `gone` had, and these replicas on it.
  FakeServer& volume_comes_back(
      uint64_t gone, const std::map<uint64_t, std::vector<wire::RecoveryReplica>>& replicas) {
    cluster.prepare = [prepare = cluster.prepare, replicas, gone, this](FakeServer& server) {
      prepare(server);
      server.request.former_server_id = gone;
      server.request.cluster_uuid = state().uuid;
      server.recovery.replicas = replicas;
      server.recovery.former_server_id = gone;
    };
    return cluster.add_server();
  }
  void drop_while(wire::RecoveryPhase phase) {
    stop_all_in(phase);
    kill(dead_);
    ASSERT_TRUE(cluster.run_until([&] { return recovering(phase) != nullptr; }));
    const uint64_t second = recovering(phase)->id;
    ASSERT_TRUE(cluster.drop("t").has_value());
    stop_all_in(std::nullopt);
    ASSERT_TRUE(cluster.run_until([&] { return state().recoveries.empty(); }));
    cluster.run_for(1s);
    EXPECT_TRUE(served_.empty());
    EXPECT_TRUE(recovery(second).aborted.contains(dead_));
    EXPECT_EQ(attempts_at(dead_).size(), 1u);
  }

  uint64_t dead_ = 0;
  std::vector<uint64_t> others_;
};

}  // namespace ramcloud::testing
