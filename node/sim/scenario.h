// Scenarios: each one creates a simulated cluster from a seed, injects faults and changes, and
// checks the outcome. The test programs run fixed seeds; `ramcloud-sim` runs any.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace ramcloud::sim {

class Cluster;

struct ScenarioConfig {
  uint64_t seed = 1;
  // Reduces the scenario, to find what a failure needs; none: everything.
  std::optional<uint32_t> clients = {};              // at the same time
  std::optional<uint32_t> operations = {};           // of each of them
  std::optional<std::vector<uint32_t>> faults = {};  // only these of the plan, by number
  std::optional<uint32_t> steps_between_looks = {};  // as in ClusterOptions
};

struct Outcome {
  std::string wrong;  // empty: no failure
  uint64_t event_hash = 0;
  uint64_t events = 0;
  uint64_t operations = 0;
  uint64_t indeterminate = 0;
  uint64_t lost = 0;             // messages
  uint64_t sent_by_others = 0;   // messages to backups, by reactors other than the first
  uint64_t taken_by_others = 0;  // writes to replicas, by reactors other than the first
  uint64_t strikes = 0;          // how often the scenario's own fault had an effect
  uint64_t refused = 0;          // transactions of former leaders
  Duration virtual_time{};
  std::map<std::string, uint64_t> faults;       // faults that had an effect, by kind
  std::map<std::string, uint64_t> fault_pairs;  // pairs of kinds that were combined
  std::map<uint32_t, std::string> plan;         // of faults, by number, for people
  uint32_t clients = 0;                         // that ran
  uint32_t operations_of_each = 0;
  std::string history;  // JSON lines (history.h); empty if the scenario keeps none
};

struct Scenario {
  const char* name;
  const char* what;
  Outcome (*run)(const ScenarioConfig& config);
};

/// All scenarios.
std::span<const Scenario> scenarios();
/// Null if there is none of that name.
const Scenario* find_scenario(std::string_view name);

// The scenarios; what each does is said in scenarios().
Outcome run_operations(const ScenarioConfig& config);
Outcome run_restarts(const ScenarioConfig& config);
Outcome run_backups(const ScenarioConfig& config);
Outcome run_faults(const ScenarioConfig& config);
Outcome run_recovery(const ScenarioConfig& config);
Outcome run_cleaning(const ScenarioConfig& config);
Outcome run_rot(const ScenarioConfig& config);
Outcome run_failover(const ScenarioConfig& config);
Outcome run_failpoints(const ScenarioConfig& config);

/// Adds the cluster's hash, events, faults and times to the outcome.
void note_numbers(Cluster& cluster, Outcome& outcome);

}  // namespace ramcloud::sim
