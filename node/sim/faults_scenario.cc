// A plan of faults of every kind, with clients that have private keys and clients that share keys.
#include <algorithm>

#include "sim/cluster.h"
#include "sim/crowd.h"
#include "sim/fault_plan.h"
#include "sim/scenario.h"

namespace ramcloud::sim {
namespace {

constexpr uint32_t kServers = 5;

ClusterOptions options_of(const ScenarioConfig& config, Random& random) {
  ClusterOptions options;
  options.seed = config.seed;
  options.servers = kServers;
  options.replicas = 1 + static_cast<uint32_t>(random.below(3));
  options.synced = random.chance(0.4);
  options.reactors = random.chance(0.3) ? 3 : 1;
  options.clients = 3;
  options.network.most_delay = std::chrono::microseconds(20 + random.below(300));
  options.network.loss = random.chance(0.3) ? 0.01 : 0;
  options.network.reorder = random.chance(0.5);
  options.network.repeat = random.chance(0.5) ? 0.02 : 0;
  options.metadata.unknown = random.chance(0.3) ? 0.1 : 0;
  options.client_timeout = 20s;
  options.steps_between_looks = config.steps_between_looks.value_or(0);
  return options;
}

/// One run: its cluster, its clients, its faults.
class Run {
 public:
  explicit Run(const ScenarioConfig& config)
      : config_(config),
        random_(config.seed),
        cluster_(options_of(config, random_)),
        crowd_(cluster_, random_, outcome_) {
    outcome_.clients = config.clients.value_or(4);
    outcome_.operations_of_each = config.operations.value_or(80);
  }

  Outcome run() {
    if (!cluster_.wait_ready(60s)) return ended("servers did not enlist\n");
    if (!crowd_.make_tables(2)) return ended("");
    spread();
    FaultPlan plan(cluster_, owners_, spares_, random_.next(), config_.faults);
    outcome_.plan = plan.texts();
    crowd_.begin(random_.chance(0.3) ? 400'000 : 3'000);
    plan.begin();
    const auto done = [&] {
      return !cluster_.broken().empty() || (plan.over() && cluster_.running_tasks() == 0);
    };
    cluster_.scheduler().run_for(1ms);  // the clients' tasks are posted
    if (!cluster_.scheduler().run_until(done, 3600s)) outcome_.wrong += "the clients did not end\n";
    cluster_.network().options().loss = cluster_.network().options().repeat = 0;
    cluster_.network().heal_all();
    if (cluster_.broken().empty()) {
      crowd_.judge();
      cluster_.check_invariants();
    }
    return ended("");
  }

 private:
  void spread() {
    for (size_t i = 0; i < cluster_.servers(); ++i) {
      const auto is_its = [id = cluster_.server(i).server_id()](const auto& tablet) {
        return tablet.server_id == id;
      };
      const bool owner = std::ranges::any_of(crowd_.own_keys().tablets, is_its) ||
                         std::ranges::any_of(crowd_.shared_keys().tablets, is_its);
      (owner ? owners_ : spares_).push_back(i);
    }
  }

  Outcome ended(const std::string& why) {
    outcome_.wrong += why + cluster_.broken() + cluster_.failures();
    crowd_.leave_history();
    note_numbers(cluster_, outcome_);
    return outcome_;
  }

  const ScenarioConfig& config_;
  Random random_;
  Cluster cluster_;
  Outcome outcome_;
  Crowd crowd_;
  std::vector<size_t> owners_, spares_;
};

}  // namespace

Outcome run_faults(const ScenarioConfig& config) {
  return Run(config).run();
}

}  // namespace ramcloud::sim
