// A coordinator or server dies or pauses at one failpoint, while clients write and tables come and
// go. If the place is one of recovery, a server with data dies first.
#include "sim/failpoints_scenario.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "backup/replica_service.h"
#include "sim/cluster.h"
#include "sim/crowd.h"
#include "sim/history.h"

namespace ramcloud::sim {
namespace {

constexpr Duration kPause = 300ms;  // less than it takes to give a server up

/// Kills or pauses the first processes that pass the failpoint and are allowed.
class Striker {
 public:
  Striker(Cluster& cluster, size_t number, uint32_t times, Random& random)
      : cluster_(cluster), number_(number), left_(times), random_(random) {}
  /// `spared` is only paused.
  void begin(std::optional<size_t> spared) {
    spared_ = spared;
    cluster_.set_failpoint_probe([this](size_t number, const Cluster::Role& role) {
      if (number != number_ || left_ == 0 || busy_) return;
      if (skip_ > 0) {
        --skip_;
      } else {
        strike(role);
      }
    });
  }
  uint64_t strikes() const { return strikes_; }
  void stop() { left_ = 0; }
  bool over() const { return !busy_; }

 private:
  void strike(const Cluster::Role& role) {
    --left_;
    ++strikes_;
    skip_ = random_.below(3);
    SimScheduler& scheduler = cluster_.scheduler();
    if (!role.coordinator && role.index == spared_) {
      return cluster_.pause_server(role.index, kPause);
    }
    if (random_.chance(0.3)) {
      if (role.coordinator) return cluster_.pause_coordinator(role.index, 2 * kPause);
      return cluster_.pause_server(role.index, kPause);
    }
    busy_ = true;
    cluster_.die_here(role);
    scheduler.after(std::chrono::milliseconds(500 + random_.below(3000)), [this, role] {
      if (role.coordinator) {
        cluster_.restart_coordinator(role.index);
      } else {
        cluster_.restart_server(role.index);
      }
      busy_ = false;
    });
  }
  Cluster& cluster_;
  size_t number_;
  uint32_t left_;
  Random& random_;
  std::optional<size_t> spared_;
  uint64_t skip_ = 0;  // passes before the next strike
  uint64_t strikes_ = 0;
  bool busy_ = false;
};

/// Writes enough data to cause head switches.
Task<void> write_much(ClientCore& client, uint64_t table, uint32_t times) {
  for (uint32_t i = 0; i < times; ++i) {
    (void)co_await client.write(table, fmt::format("large-{}", i % 4), std::string(400'000, 'x'));
  }
}

/// Servers that hold a replica of this master's newest segment, the newest first.
std::vector<size_t> holders_of(Cluster& cluster, uint64_t master_id) {
  constexpr uint64_t kSegments = 8;
  std::vector<size_t> holders;
  for (uint64_t segment = kSegments; segment > 0 && holders.size() < 2; --segment) {
    holders.clear();
    for (size_t i = 0; i < cluster.servers(); ++i) {
      const ReplicaService* backup = cluster.server(i).parts().backup;
      if (backup->find(master_id, segment)) holders.push_back(i);
    }
  }
  return holders;
}

Task<void> make_tables(ClientCore& client, uint32_t times) {
  for (uint32_t i = 0; i < times; ++i) {
    (void)co_await client.create_table("other", 1);
    (void)co_await client.drop_table("other");
  }
}

ClusterOptions options_of(const ScenarioConfig& config) {
  ClusterOptions options;
  options.seed = config.seed;
  options.coordinators = 3;
  options.servers = 5;
  options.replicas = 2;
  options.synced = config.seed % 2 == 1;
  options.clients = 3;
  options.client_timeout = 60s;
  options.steps_between_looks = config.steps_between_looks.value_or(0);
  return options;
}

/// True if only recoveries pass the failpoint.
bool is_of_recovery(size_t number) {
  const std::string_view name = kFailpoints[number].name;
  return name.find(".recovery.") != name.npos || name == "log.side_segment.opened";
}

/// True if only a backup that came back passes the failpoint, or its master.
bool is_of_adoption(size_t number) {
  return std::string_view(kFailpoints[number].name).find(".adopt") != std::string_view::npos;
}

/// Servers that restart one after the other, and come back so soon that hardly anything is copied
/// before.
class QuickRestarts {
 public:
  QuickRestarts(Cluster& cluster, size_t spared) : cluster_(cluster), spared_(spared) {}
  void begin() {
    cluster_.scheduler().after(kBetween, [this] { next(); });
  }
  bool over() const { return left_ == 0; }

 private:
  static constexpr Duration kBetween = 700ms;
  void next() {
    const size_t i = left_ % cluster_.servers();
    if (i != spared_ && cluster_.server_runs(i) && !cluster_.server_sim_node(i).doomed()) {
      cluster_.kill_server(i);
      cluster_.scheduler().after(20ms, [this, i] { cluster_.restart_server(i); });
    }
    if (--left_ > 0) begin();
  }
  Cluster& cluster_;
  size_t spared_;
  uint32_t left_ = 15;
};

/// A server with data dies; a process that passes the failpoint is struck.
class RecoveryRun {
 public:
  RecoveryRun(size_t number, const ScenarioConfig& config)
      : random_(config.seed),
        options_(recovering(config)),
        cluster_(options_),
        crowd_(cluster_, random_, outcome_),
        striker_(cluster_, number, !config.faults || !config.faults->empty() ? 3 : 0, random_) {
    outcome_.clients = config.clients.value_or(3);
    outcome_.operations_of_each = config.operations.value_or(60);
    outcome_.plan[0] = kFailpoints[number].name;
  }

  Outcome run() {
    if (!cluster_.wait_ready(60s)) return ended("servers did not enlist\n");
    if (!crowd_.make_tables(2)) return ended("");
    striker_.begin(std::nullopt);
    crowd_.begin(100'000);
    SimScheduler& scheduler = cluster_.scheduler();
    scheduler.run_for(1ms);  // the clients' tasks are posted
    scheduler.after(100ms, [this] { kill_an_owner(); });
    const auto done = [this] {
      return !cluster_.broken().empty() ||
             (back_ && striker_.over() && cluster_.running_tasks() == 0);
    };
    if (!scheduler.run_until(done, 600s)) return ended("the clients did not end\n");
    striker_.stop();
    const auto whole = [this] {
      return !cluster_.broken().empty() || everything_is_served(cluster_);
    };
    if (!scheduler.run_until(whole, 600s)) return ended("tablets are not served\n");
    if (cluster_.broken().empty()) {
      crowd_.judge();
      cluster_.check_invariants();
    }
    return ended("");
  }

 private:
  static ClusterOptions recovering(const ScenarioConfig& config) {
    ClusterOptions options = options_of(config);
    options.condemned_start_again = true;
    options.client_timeout = 120s;
    return options;
  }

  void kill_an_owner() {
    size_t victim = 0;
    while (cluster_.server(victim).server_id() != crowd_.own_keys().tablets[0].server_id) ++victim;
    cluster_.kill_server(victim);
    cluster_.scheduler().after(5s, [this, victim] {
      cluster_.restart_server(victim);
      back_ = true;
    });
  }

  Outcome ended(const std::string& why) {
    outcome_.wrong += why + cluster_.broken() + cluster_.failures();
    crowd_.leave_history();
    outcome_.strikes = striker_.strikes();
    note_numbers(cluster_, outcome_);
    return outcome_;
  }

  Random random_;
  ClusterOptions options_;
  Cluster cluster_;
  Outcome outcome_;
  Crowd crowd_;
  Striker striker_;
  bool back_ = false;
};

}  // namespace

Outcome run_failpoint(size_t number, const ScenarioConfig& config) {
  if (is_of_recovery(number)) return RecoveryRun(number, config).run();
  Random random(config.seed);
  const ClusterOptions options = options_of(config);
  Cluster cluster(options);
  Outcome outcome;
  outcome.clients = std::min(config.clients.value_or(3), options.clients);
  outcome.operations_of_each = config.operations.value_or(60);
  outcome.plan[0] = kFailpoints[number].name;
  const auto fail_with = [&](const std::string& what) {
    outcome.wrong += what + cluster.failures();
    note_numbers(cluster, outcome);
    return outcome;
  };
  if (!cluster.wait_ready(60s)) return fail_with("servers did not enlist\n");
  auto table = cluster.run(0, cluster.client(0).create_table("data", 1));
  if (!table) return fail_with("create table: " + table.error().to_string() + "\n");
  size_t data_server = 0;
  while (cluster.server(data_server).server_id() != table->tablets[0].server_id) ++data_server;
  // One backup of its head dies, and the device of the other fails, so that replicas are lost,
  // copied and given up.
  const auto first = cluster.run(0, cluster.client(0).write(table->table_id, "first", "durable"));
  if (!first) return fail_with("write: " + first.error().to_string() + "\n");
  const std::vector<size_t> holders = holders_of(cluster, table->tablets[0].server_id);
  if (holders.size() < 2) return fail_with("the head has fewer than two replicas\n");
  const size_t spare = holders[0];

  const bool any = !config.faults || !config.faults->empty();
  Striker striker(cluster, number, any ? 3 : 0, random);
  // The data server stays alive: the failpoints are those of its replicas.
  striker.begin(data_server);
  History history;
  std::vector<std::unique_ptr<HistoryWorker>> workers;
  for (uint32_t i = 0; i < outcome.clients; ++i) {
    workers.push_back(std::make_unique<HistoryWorker>(
        cluster.client(i), i, table->table_id, random.next(), outcome.operations_of_each, history));
    cluster.spawn(i, workers.back()->work());
  }
  cluster.spawn(0, write_much(cluster.client(0), table->table_id, 40));
  cluster.spawn(1, make_tables(cluster.client(1), 4));
  SimScheduler& scheduler = cluster.scheduler();
  bool back = false;
  QuickRestarts restarts(cluster, data_server);
  const bool adopts = is_of_adoption(number);
  if (adopts) restarts.begin();
  scheduler.after(200ms, [&] {
    if (!adopts && cluster.server_runs(spare) && !cluster.server_sim_node(spare).doomed()) {
      cluster.kill_server(spare);
      scheduler.after(3s, [&] {
        cluster.restart_server(spare);
        back = true;
      });
    } else {
      back = true;
    }
  });
  if (!adopts) scheduler.after(500ms, [&] { cluster.disk(holders[1]).fail_syncs(1); });
  scheduler.run_for(1ms);
  const bool ended = scheduler.run_until(
      [&] {
        return !cluster.broken().empty() ||
               (back && (!adopts || restarts.over()) && cluster.server_runs(spare) &&
                cluster.server(spare).ready() && striker.over() && cluster.running_tasks() == 0);
      },
      600s);
  if (!ended) outcome.wrong += "the clients did not end\n";
  striker.stop();
  scheduler.run_for(5s);
  for (const auto& worker : workers) outcome.wrong += worker->wrong();
  outcome.wrong += cluster.check_invariants() + cluster.failures();
  note_numbers(cluster, outcome);
  outcome.strikes = striker.strikes();
  outcome.operations = history.size();
  outcome.history = history.to_json_lines();
  return outcome;
}

Outcome run_failpoints(const ScenarioConfig& config) {
  return run_failpoint(config.seed % kFailpointCount, config);
}

}  // namespace ramcloud::sim
