// Servers with data die, one after the other or together, and come back; what they had is served by
// others meanwhile. docs/design/recovery.md.
#include <fmt/core.h>

#include <algorithm>

#include "sim/cluster.h"
#include "sim/crowd.h"
#include "sim/scenario.h"

namespace ramcloud::sim {
namespace {

constexpr uint64_t kWithinMs = 8'000;
constexpr uint64_t kMostAwayMs = 6'000;
constexpr Duration kPatience = 3600s;

/// What happens to a server, or to the coordinator that leads.
struct Death {
  enum class Kind : uint8_t { kKill, kReboot, kSuspend, kCutOff, kLeader, kCount };
  Kind kind = Kind::kKill;
  Duration at{};
  Duration away{};  // until it is back
  size_t server = 0;

  std::string text() const {
    static constexpr const char* kNames[] = {"kill", "reboot the host of", "suspend", "cut off",
                                             "kill the leader, not"};
    return fmt::format(
        "at {:.3f} s for {:.3f} s: {} server {}", std::chrono::duration<double>(at).count(),
        std::chrono::duration<double>(away).count(), kNames[static_cast<size_t>(kind)], server + 1);
  }
};

ClusterOptions options_of(const ScenarioConfig& config, Random& random) {
  ClusterOptions options;
  options.seed = config.seed;
  options.coordinators = random.chance(0.3) ? 3 : 1;
  options.servers = 4 + static_cast<uint32_t>(random.below(3));
  options.replicas = 1 + static_cast<uint32_t>(random.below(3));
  options.synced = random.chance(0.4);
  options.reactors = random.chance(0.3) ? 3 : 1;
  options.clients = 3;
  options.condemned_start_again = true;
  options.network.most_delay = std::chrono::microseconds(20 + random.below(300));
  options.network.loss = random.chance(0.2) ? 0.005 : 0;
  options.network.reorder = random.chance(0.5);
  options.metadata.unknown = random.chance(0.3) ? 0.1 : 0;
  options.client_timeout = 120s;
  options.steps_between_looks = config.steps_between_looks.value_or(0);
  return options;
}

class Run {
 public:
  explicit Run(const ScenarioConfig& config)
      : config_(config),
        random_(config.seed),
        options_(options_of(config, random_)),
        cluster_(options_),
        crowd_(cluster_, random_, outcome_) {
    outcome_.clients = config.clients.value_or(4);
    outcome_.operations_of_each = config.operations.value_or(150);
  }

  Outcome run() {
    if (!cluster_.wait_ready(60s)) return ended("servers did not enlist\n");
    if (!crowd_.make_tables(1 + static_cast<uint32_t>(random_.below(options_.servers)))) {
      return ended("");
    }
    const std::vector<Death> deaths = plan();
    crowd_.begin(random_.chance(0.3) ? 200'000 : 3'000);
    cluster_.scheduler().run_for(1ms);  // the clients' tasks are posted
    for (const Death& death : deaths) {
      ++going_on_;
      cluster_.scheduler().after(death.at, [this, death] { strike(death); });
    }
    const auto done = [&] {
      return !cluster_.broken().empty() || (going_on_ == 0 && cluster_.running_tasks() == 0);
    };
    if (!cluster_.scheduler().run_until(done, kPatience)) {
      return ended("the clients did not end\n" + who_waits());
    }
    cluster_.network().options().loss = 0;
    const auto whole = [&] { return !cluster_.broken().empty() || all_is_served(); };
    if (!cluster_.scheduler().run_until(whole, kPatience)) {
      return ended("tablets are not served\n" + who_waits());
    }
    if (cluster_.broken().empty()) {
      crowd_.judge();
      cluster_.check_invariants();
    }
    return ended("");
  }

 private:
  std::vector<Death> plan() {
    std::vector<Death> deaths;
    const auto count = static_cast<uint32_t>(1 + random_.below(4));
    const bool together = random_.chance(0.3);
    // What was acknowledged is in R page caches: as many hosts must not lose them.
    uint32_t reboots_left = options_.synced ? count : options_.replicas - 1;
    for (uint32_t i = 0; i < count; ++i) {
      Death death;
      death.kind =
          static_cast<Death::Kind>(random_.below(static_cast<uint64_t>(Death::Kind::kCount)));
      death.at = std::chrono::microseconds(random_.below(kWithinMs * 1000));
      if (together && i > 0)
        death.at = deaths[0].at + std::chrono::microseconds(random_.below(10'000));
      death.away = std::chrono::milliseconds(1 + random_.below(kMostAwayMs));
      death.server = random_.below(options_.servers);
      if (death.kind == Death::Kind::kReboot && reboots_left-- == 0) {
        reboots_left = 0;
        death.kind = Death::Kind::kKill;
      }
      outcome_.plan[i] = death.text();
      if (!config_.faults || std::ranges::count(*config_.faults, i) > 0) deaths.push_back(death);
    }
    return deaths;
  }

  void strike(const Death& death) {
    const auto over = [this, death](std::function<void()> undo) {
      cluster_.scheduler().after(death.away, [this, undo = std::move(undo)] {
        --going_on_;
        undo();
      });
    };
    size_t leader = 0;
    switch (death.kind) {
      case Death::Kind::kLeader:
        if (cluster_.coordinator(&leader) == nullptr) break;
        ++outcome_.strikes;
        cluster_.kill_coordinator(leader);
        return over([this, leader] { cluster_.restart_coordinator(leader); });
      case Death::Kind::kSuspend:
        if (!cluster_.server_runs(death.server)) break;
        ++outcome_.strikes;
        cluster_.pause_server(death.server, death.away);
        return over([] {});
      case Death::Kind::kCutOff:
        for (size_t i = 0; i < cluster_.servers(); ++i) {
          if (i != death.server) cluster_.cut_off(death.server, i);
        }
        for (size_t i = 0; i < cluster_.coordinators(); ++i) {
          for (SimNode* node : cluster_.nodes_of_server(death.server)) {
            cluster_.network().partition(*node, cluster_.coordinator_sim_node(i));
          }
        }
        ++outcome_.strikes;
        return over([this] { cluster_.network().heal_all(); });
      default:
        break;
    }
    const bool dies = death.kind == Death::Kind::kKill || death.kind == Death::Kind::kReboot;
    if (!dies || !cluster_.server_runs(death.server)) {
      --going_on_;
      return;
    }
    ++outcome_.strikes;
    if (death.kind == Death::Kind::kKill) {
      cluster_.kill_server(death.server);
    } else {
      cluster_.reboot_server(death.server);
    }
    over([this, death] { cluster_.restart_server(death.server); });
  }

  /// By the coordinator's metadata: every tablet is on a server that is UP.
  bool all_is_served() {
    Coordinator* leading = cluster_.coordinator();
    if (leading == nullptr) return false;
    const ClusterState& state = leading->state();
    for (const auto& [id, table] : state.tables) {
      for (const TabletRecord& tablet : table.tablets) {
        const auto server = state.servers.find(tablet.server_id);
        if (server == state.servers.end() || !server->second.up()) return false;
      }
    }
    return true;
  }

  /// For people.
  std::string who_waits() {
    Coordinator* leading = cluster_.coordinator();
    if (leading == nullptr) return "nobody leads\n";
    std::string text;
    for (const auto& [id, table] : leading->state().tables) {
      for (const TabletRecord& tablet : table.tablets) {
        const auto server = leading->state().servers.find(tablet.server_id);
        if (server != leading->state().servers.end() && server->second.up()) continue;
        text += fmt::format("table {}, {:#x}..{:#x}: server {}, attempt {}\n", id,
                            tablet.start_hash, tablet.end_hash, tablet.server_id, tablet.attempt);
      }
    }
    return text;
  }

  Outcome ended(const std::string& why) {
    outcome_.wrong += why + cluster_.broken() + cluster_.failures();
    crowd_.leave_history();
    note_numbers(cluster_, outcome_);
    return outcome_;
  }

  const ScenarioConfig& config_;
  Random random_;
  ClusterOptions options_;
  Cluster cluster_;
  Outcome outcome_;
  Crowd crowd_;
  uint32_t going_on_ = 0;
};

}  // namespace

Outcome run_recovery(const ScenarioConfig& config) {
  return Run(config).run();
}

}  // namespace ramcloud::sim
