// Servers with data die, one after the other or together, and return; meanwhile others serve their
// data (docs/design/recovery.md). Memory is plentiful, or so short that all servers clean
// (docs/design/log.md).
#include <fmt/core.h>

#include <algorithm>

#include "sim/cluster.h"
#include "sim/crowd.h"
#include "sim/deaths.h"
#include "sim/overwriter.h"
#include "sim/scenario.h"
#include "sim/table_churn.h"

namespace ramcloud::sim {
namespace {

constexpr Duration kPatience = 3600s;
constexpr uint32_t kRounds = 12;  // rounds of table creation

enum class Memory : uint8_t { kPlenty, kShort };

/// Five segments, two of which are reserved for cleaning and deletes.
constexpr uint64_t kShortLogBytes = 40u << 20;
/// Logs of servers that clean grow and shrink up to this.
constexpr uint64_t kMostLogBytes = 2 * kShortLogBytes;
/// Bytes of values that one client writes; as much goes to every backup.
constexpr uint64_t kOverwrittenBytes = 160u << 20;

ClusterOptions options_of(const ScenarioConfig& config, Random& random, Memory memory) {
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
  // Logs have few segments here. One fetch at a time takes several of them at once.
  if (config.seed % 3 == 0) options.recovery_fetches = 1;
  if (config.seed % 5 == 0) options.former_servers = 1 + config.seed % 3;
  if (config.seed % 2 == 0) options.cleaning = server::CleaningLevels::kTwo;
  if (memory == Memory::kShort) {
    options.servers = 4;
    options.replicas = 1 + static_cast<uint32_t>(random.below(2));
    options.log_bytes = kShortLogBytes;
    options.log_bytes_most = kMostLogBytes;
    options.volume = 4;        // dead servers' logs and short segments take whole frames
    options.network.loss = 0;  // otherwise large values would be sent again for minutes
  }
  return options;
}

class Run {
 public:
  Run(const ScenarioConfig& config, Memory memory)
      : memory_(memory),
        random_(config.seed),
        options_(options_of(config, random_, memory)),
        cluster_(options_),
        crowd_(cluster_, random_, outcome_),
        deaths_(cluster_, options_, random_, config.faults),
        churn_(cluster_.client(0), random_.next(), options_.servers),
        overwriter_(cluster_.client(1), {.seed = random_.next(), .bytes = kOverwrittenBytes}),
        sizes_(config.seed + 1) {
    outcome_.plan = deaths_.texts();
    outcome_.clients = config.clients.value_or(4);
    outcome_.operations_of_each = config.operations.value_or(150);
  }

  Outcome run() {
    if (!cluster_.wait_ready(60s)) return ended("servers did not enlist\n");
    if (!crowd_.make_tables(1 + static_cast<uint32_t>(random_.below(options_.servers)))) {
      return ended("");
    }
    crowd_.begin(random_.chance(0.3) ? 200'000 : 3'000);
    if (random_.chance(0.4)) cluster_.spawn(0, churn_.work(kRounds));
    if (memory_ == Memory::kShort && !overwrite()) return ended("");
    if (memory_ == Memory::kShort && sizes_.chance(0.5)) resize_one();
    cluster_.scheduler().run_for(1ms);  // the clients' tasks are posted
    deaths_.begin();
    const auto done = [&] {
      return !cluster_.broken().empty() || (deaths_.over() && cluster_.running_tasks() == 0);
    };
    if (!cluster_.scheduler().run_until(done, kPatience)) {
      return ended("the clients did not end\n" + who_waits());
    }
    cluster_.network().options().loss = 0;
    const auto whole = [&] { return !cluster_.broken().empty() || everything_is_served(cluster_); };
    if (!cluster_.scheduler().run_until(whole, kPatience)) {
      return ended("tablets are not served\n" + who_waits());
    }
    if (cluster_.broken().empty()) {
      crowd_.judge();
      cluster_.run(0, churn_.check(), kPatience);
      cluster_.run(1, overwriter_.check(), kPatience);
      cluster_.check_invariants();
    }
    return ended("");
  }

 private:
  /// From now on, again and again: a server's log grows, or shrinks if its data allows that.
  void resize_one() {
    cluster_.scheduler().after(std::chrono::milliseconds(20 + sizes_.below(800)), [this] {
      const uint64_t bytes = kShortLogBytes + sizes_.below(kMostLogBytes - kShortLogBytes + 1);
      (void)cluster_.resize_log(sizes_.below(cluster_.servers()), bytes);
      resize_one();
    });
  }

  bool overwrite() {
    auto table = cluster_.run(1, cluster_.client(1).create_table("overwritten", options_.servers));
    if (table) {
      cluster_.spawn(1, overwriter_.work(table->table_id));
    } else {
      outcome_.wrong += "create table: " + table.error().to_string() + "\n";
    }
    return table.has_value();
  }

  /// A text for people.
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
    outcome_.strikes = deaths_.strikes();
    outcome_.wrong +=
        why + churn_.wrong() + overwriter_.wrong() + cluster_.broken() + cluster_.failures();
    crowd_.leave_history();
    note_numbers(cluster_, outcome_);
    return outcome_;
  }

  const Memory memory_;
  Random random_;
  ClusterOptions options_;
  Cluster cluster_;
  Outcome outcome_;
  Crowd crowd_;
  Deaths deaths_;
  TableChurn churn_;
  Overwriter overwriter_;
  Random sizes_;
};

}  // namespace

Outcome run_recovery(const ScenarioConfig& config) {
  return Run(config, Memory::kPlenty).run();
}

Outcome run_cleaning(const ScenarioConfig& config) {
  return Run(config, Memory::kShort).run();
}

}  // namespace ramcloud::sim
