// Random operations from a seed, compared with a model, with few or many faults.
#include <algorithm>
#include <optional>
#include <set>

#include "sim/cluster.h"
#include "sim/scenario.h"
#include "sim/workload.h"

namespace ramcloud::sim {
namespace {

/// The network of a seed: from good to bad.
SimNetworkOptions network_of(Random& random) {
  SimNetworkOptions network;
  network.most_delay = std::chrono::microseconds(20 + random.below(500));
  network.loss = random.chance(0.6) ? static_cast<double>(random.below(30)) / 1000.0 : 0;
  network.reorder = random.chance(0.5);
  return network;
}

/// The faults during a run.
enum class Trouble : uint8_t { kNone, kCoordinatorRestarts, kBackupsComeAndGo };

ClusterOptions options_of(uint64_t seed, Random& random, Trouble trouble) {
  ClusterOptions options;
  options.seed = seed;
  options.servers = 3 + static_cast<uint32_t>(random.below(3));
  options.replicas = static_cast<uint32_t>(random.below(std::min(options.servers, 4u)));
  options.synced = seed % 4 >= 2;
  options.reactors = seed % 2 == 0 ? 3 : 1;
  options.clients = 2;
  options.network = network_of(random);
  options.client_timeout = 20s;
  if (trouble == Trouble::kBackupsComeAndGo) {
    options.servers = 5;
    options.replicas = 1 + static_cast<uint32_t>(random.below(3));
    options.metadata.unknown = 0.1;
  }
  return options;
}

/// Servers without tablets die and return, or are cut off from masters that replicate to them.
class ComingAndGoing {
 public:
  ComingAndGoing(Cluster& cluster, const wire::TableInfo& table, uint64_t seed)
      : cluster_(cluster), random_(seed) {
    for (size_t i = 0; i < cluster.servers(); ++i) {
      const uint64_t id = cluster.server(i).server_id();
      const bool owner = std::ranges::any_of(
          table.tablets, [id](const auto& tablet) { return tablet.server_id == id; });
      (owner ? owners_ : spares_).push_back(i);
    }
    strike_later();
  }
  bool over() const { return left_ == 0 && down_.empty(); }

 private:
  void strike_later() {
    cluster_.scheduler().after(std::chrono::microseconds(random_.below(60'000)), [this] {
      if (left_ == 0) return;
      --left_;
      strike();
      strike_later();
    });
  }
  void strike() {
    const size_t spare = spares_[random_.below(spares_.size())];
    if (down_.contains(spare)) return;
    down_.insert(spare);
    SimScheduler& scheduler = cluster_.scheduler();
    const auto length = std::chrono::milliseconds(random_.chance(0.4) ? random_.below(50)
                                                                      : 500 + random_.below(4'000));
    if (random_.chance(0.7)) {
      cluster_.kill_server(spare);
      scheduler.after(length, [this, spare] {
        cluster_.restart_server(spare);
        down_.erase(spare);
      });
    } else {
      for (const size_t owner : owners_) cluster_.cut_off(owner, spare);
      scheduler.after(length, [this, spare] {
        cluster_.network().heal_all();
        down_.erase(spare);
      });
    }
  }
  Cluster& cluster_;
  Random random_;
  std::vector<size_t> owners_, spares_;
  std::set<size_t> down_;
  uint32_t left_ = 8;
};

Outcome run_seed(const ScenarioConfig& config, Trouble trouble) {
  const uint64_t seed = config.seed;
  Random random(seed);
  const bool restart_coordinator = trouble == Trouble::kCoordinatorRestarts;
  const bool backups = trouble == Trouble::kBackupsComeAndGo;
  ClusterOptions options = options_of(seed, random, trouble);
  options.steps_between_looks = config.steps_between_looks.value_or(0);
  Cluster cluster(options);
  Outcome outcome;
  outcome.clients = config.clients.value_or(4);
  outcome.operations_of_each = config.operations.value_or(100);
  if (!cluster.wait_ready()) {
    outcome.wrong = "servers did not enlist\n" + cluster.failures();
    return outcome;
  }
  auto table = cluster.run(0, cluster.client(0).create_table("t", backups ? 2 : options.servers));
  if (!table) {
    outcome.wrong = "create table: " + table.error().to_string();
    return outcome;
  }
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint32_t i = 0; i < outcome.clients; ++i) {
    Worker::Options o;
    o.seed = random.next();
    o.operations = outcome.operations_of_each;
    o.prefix = "w" + std::to_string(i);
    if (random.chance(0.1)) o.most_value_bytes = 100'000;
    if (backups) o.most_value_bytes = random.chance(0.5) ? 400'000 : 3'000;
    workers.push_back(std::make_unique<Worker>(cluster.client(i % 2), table->table_id, o));
    cluster.spawn(i % 2, workers.back()->work());
  }
  std::optional<ComingAndGoing> coming_and_going;
  if (backups) coming_and_going.emplace(cluster, *table, random.next());
  if (restart_coordinator) {
    cluster.scheduler().run_for(std::chrono::microseconds(random.below(50'000)));
    cluster.kill_coordinator();
    cluster.scheduler().run_for(std::chrono::milliseconds(random.below(2'000)));
    cluster.restart_coordinator();
  }
  const auto all_done = [&] {
    for (const auto& worker : workers) {
      if (!worker->done()) return false;
    }
    return !coming_and_going || coming_and_going->over();
  };
  if (!cluster.scheduler().run_until(all_done, 3600s)) outcome.wrong += "workers did not end\n";
  cluster.network().options().loss = 0;
  std::map<std::string, std::string> expected;
  for (auto& worker : workers) {
    cluster.run(0, worker->read_back(), 3600s);
    outcome.wrong += worker->wrong();
    outcome.indeterminate += worker->counts().indeterminate;
    outcome.operations += worker->counts().operations();
    expected.merge(worker->contents());
  }
  auto scanned = cluster.run(0, scan_table(cluster.client(0), table->table_id), 600s);
  if (!scanned) {
    outcome.wrong += "scan: " + scanned.error().to_string() + "\n";
  } else if (*scanned != expected) {
    outcome.wrong += "scan differs from the model\n";
  }
  if (restart_coordinator) {
    auto second = cluster.run(0, cluster.client(0).create_table("after", 2));
    if (!second) outcome.wrong += "create after restart: " + second.error().to_string() + "\n";
  }
  outcome.wrong += cluster.check_invariants() + cluster.failures();
  note_numbers(cluster, outcome);
  return outcome;
}

}  // namespace

Outcome run_operations(const ScenarioConfig& config) {
  return run_seed(config, Trouble::kNone);
}

Outcome run_restarts(const ScenarioConfig& config) {
  return run_seed(config, Trouble::kCoordinatorRestarts);
}

Outcome run_backups(const ScenarioConfig& config) {
  return run_seed(config, Trouble::kBackupsComeAndGo);
}

}  // namespace ramcloud::sim
