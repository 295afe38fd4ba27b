// A plan of faults of every kind, beside clients with keys of their own and clients that share
// keys.
#include <algorithm>

#include "sim/cluster.h"
#include "sim/fault_plan.h"
#include "sim/history.h"
#include "sim/scenario.h"
#include "sim/workload.h"

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
      : config_(config), random_(config.seed), cluster_(options_of(config, random_)) {
    outcome_.clients = config.clients.value_or(4);
    outcome_.operations_of_each = config.operations.value_or(80);
  }

  Outcome run() {
    if (!cluster_.wait_ready(60s)) return ended("servers did not enlist\n");
    auto mine = cluster_.run(0, cluster_.client(0).create_table("mine", 2));
    auto shared = cluster_.run(0, cluster_.client(0).create_table("shared", 1));
    if (!mine) return ended("create table: " + mine.error().to_string() + "\n");
    if (!shared) return ended("create table: " + shared.error().to_string() + "\n");
    spread(*mine, *shared);
    FaultPlan plan(cluster_, owners_, spares_, random_.next(), config_.faults);
    outcome_.plan = plan.texts();
    start_clients(mine->table_id, shared->table_id);
    plan.begin();
    const auto done = [&] {
      return !cluster_.broken().empty() || (plan.over() && cluster_.running_tasks() == 0);
    };
    cluster_.scheduler().run_for(1ms);  // the clients' tasks are posted
    if (!cluster_.scheduler().run_until(done, 3600s)) outcome_.wrong += "the clients did not end\n";
    cluster_.network().options().loss = cluster_.network().options().repeat = 0;
    cluster_.network().heal_all();
    if (cluster_.broken().empty()) judge(mine->table_id);
    return ended("");
  }

 private:
  void spread(const wire::TableInfo& mine, const wire::TableInfo& shared) {
    for (size_t i = 0; i < cluster_.servers(); ++i) {
      const auto is_its = [id = cluster_.server(i).server_id()](const auto& tablet) {
        return tablet.server_id == id;
      };
      const bool owner =
          std::ranges::any_of(mine.tablets, is_its) || std::ranges::any_of(shared.tablets, is_its);
      (owner ? owners_ : spares_).push_back(i);
    }
  }

  void start_clients(uint64_t mine, uint64_t shared) {
    for (uint32_t i = 0; i < outcome_.clients; ++i) {
      Worker::Options o;
      o.seed = random_.next();
      o.operations = outcome_.operations_of_each;
      o.prefix = "w" + std::to_string(i);
      o.most_value_bytes = random_.chance(0.3) ? 400'000 : 3'000;
      workers_.push_back(std::make_unique<Worker>(cluster_.client(i % 3), mine, o));
      cluster_.spawn(i % 3, workers_.back()->work());
    }
    for (uint32_t i = 0; i < std::min(outcome_.clients, 3u); ++i) {
      sharing_.push_back(std::make_unique<HistoryWorker>(
          cluster_.client(i), i, shared, random_.next(), outcome_.operations_of_each, history_));
      cluster_.spawn(i, sharing_.back()->work());
    }
  }

  void judge(uint64_t table) {
    std::map<std::string, std::string> expected;
    for (auto& worker : workers_) {
      const auto settled = [](Worker& w) -> Task<bool> {
        co_await w.settle();
        co_return true;
      };
      cluster_.run(0, settled(*worker), 3600s);
      outcome_.wrong += worker->wrong();
      outcome_.indeterminate += worker->counts().indeterminate;
      outcome_.operations += worker->counts().operations();
      expected.merge(worker->contents());
    }
    for (const auto& worker : sharing_) outcome_.wrong += worker->wrong();
    const auto scanned = cluster_.run(0, scan_table(cluster_.client(0), table), 600s);
    if (!scanned) {
      outcome_.wrong += "scan: " + scanned.error().to_string() + "\n";
    } else if (*scanned != expected) {
      outcome_.wrong += "scan differs from the model\n";
    }
    cluster_.check_invariants();
  }

  Outcome ended(const std::string& why) {
    outcome_.wrong += why + cluster_.broken() + cluster_.failures();
    outcome_.operations += history_.size();
    outcome_.history = history_.to_json_lines();
    note_numbers(cluster_, outcome_);
    return outcome_;
  }

  const ScenarioConfig& config_;
  Random random_;
  Cluster cluster_;
  Outcome outcome_;
  std::vector<size_t> owners_, spares_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<HistoryWorker>> sharing_;
  History history_;
};

}  // namespace

Outcome run_faults(const ScenarioConfig& config) {
  return Run(config).run();
}

}  // namespace ramcloud::sim
