// Recoveries of crashed servers, with pretended backups and recovery masters.
#include "coordinator/core/recoveries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "coordinator/core/testing/coordinator_fixture.h"
#include "log/digest.h"

namespace ramcloud {
namespace {

using testing::CoordinatorFixture;
using testing::FakeRecovery;
using testing::FakeServer;
using ::testing::HasSubstr;
using wire::Opcode;
using Flag = wire::RecoveryReplica::Flag;
using Phase = RecoveryProgress::Phase;
using Point = SimMetadata::Point;

constexpr uint64_t kMiB = 1u << 20;

constexpr Duration kLeaseIsOver = std::chrono::milliseconds(525);

struct LogShape {
  uint64_t segments = 3;  // the last one is the head
  uint32_t length = 8u << 20;
  uint64_t safe_version = 5000;
  bool scanned = true;  // the last head before is
  bool power_safe = true;
};

class RecoveriesTest : public CoordinatorFixture {
 protected:
  /// Servers with this many replicas of their logs, which can recover.
  void start(size_t servers, uint32_t replicas = 2) {
    cluster.prepare = [this, replicas](FakeServer& server) {
      server.request.replicas = replicas;
      server.request.log_bytes = 1000 * kMiB;
      server.recovery.enabled = true;
      server.recovery.on_serve = [this, &server](const wire::HashRange& range, uint64_t attempt) {
        note_served(server.id, range, attempt);
      };
    };
    start_and_settle(servers);
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
  /// Its verdict is by refusal.
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
  /// One word is given by the metadata before, once.
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
  std::vector<Time> served_at_;
};

// ---- one server -----------------------------------------------------------------------------------

TEST_F(RecoveriesTest, TheTabletsOfACrashedServerAreServedByOthers) {
  start(4);
  ASSERT_TRUE(cluster.create("t", 4).has_value());
  give_log(1, {2, 3});
  const uint64_t before = state().tables.at(1).latest_revision();
  kill(1);
  ASSERT_TRUE(wait_until_served());
  EXPECT_FALSE(owns(1));
  EXPECT_GT(state().tables.at(1).latest_revision(), before);
  ASSERT_EQ(attempts_at(1).size(), 1u);
  const uint64_t attempt = *attempts_at(1).begin();
  for (const auto& one : cluster.servers) {
    if (!one) continue;
    for (const auto& order : one->recovery.orders) {
      EXPECT_EQ(order.attempt, attempt);
      EXPECT_EQ(order.safe_version, 5000u);
      ASSERT_EQ(order.segments.size(), 3u);
      EXPECT_EQ(order.segments[0].segment_id, 3u);
      EXPECT_EQ(order.segments[0].length, 1000u);
      EXPECT_EQ(order.segments[1].length, 8u << 20);
      ASSERT_EQ(order.segments[1].sources.size(), 2u);
      EXPECT_EQ(order.segments[1].sources[0].server_id, 2u) << "the primary replica first";
      EXPECT_EQ(order.segments[1].sources[0].frame, 20u);
      EXPECT_EQ(order.segments[1].sources[1].server_id, 3u);
      ASSERT_EQ(order.tablets.size(), 1u);
      EXPECT_EQ(order.tablets[0].table_name, "t");
      EXPECT_NE(order.tablets[0].creation_position, 0u);
    }
  }
  EXPECT_EQ(metric("ramcloud_recoveries_completed_total"), 1);
  EXPECT_EQ(metric("ramcloud_recoveries_attempts_total"), 1);
  cluster.run_for(100ms);
  EXPECT_EQ(metric("ramcloud_recoveries_running"), 0);
}

TEST_F(RecoveriesTest, NothingIsServedBeforeTheLeaseOfTheDeadIsOver) {
  start(4);
  ASSERT_TRUE(cluster.create("t", 4).has_value());
  give_log(1, {2, 3});
  kill(1);
  ASSERT_TRUE(wait_until_served());
  ASSERT_FALSE(served_at_.empty());
  for (const Time at : served_at_) {
    EXPECT_GE(at, std::max(recovery(2).frozen.at(1), recovery(3).frozen.at(1)) + kLeaseIsOver);
  }
}

TEST_F(RecoveriesTest, ALongLogIsSharedOutAmongAllServers) {
  start(4);
  ASSERT_TRUE(cluster.create("t", 1).has_value());
  const uint64_t dead = owner("t");
  std::vector<uint64_t> others;
  for (uint64_t id = 1; id <= 4; ++id) {
    if (id != dead) others.push_back(id);
  }
  give_log(dead, {others[0], others[1]}, {.segments = 12});
  kill(dead);
  ASSERT_TRUE(wait_until_served());
  const TableRecord& table = state().tables.at(1);
  EXPECT_EQ(table.tablets.size(), 3u);
  for (const uint64_t id : others) EXPECT_TRUE(table.has_tablet_on(id));
  EXPECT_EQ(table.span, 1u);
}

}  // namespace
}  // namespace ramcloud
