#include "sim/scenario.h"

#include <algorithm>

#include "sim/cluster.h"

namespace ramcloud::sim {
namespace {

constexpr Scenario kScenarios[] = {
    {"operations", "random operations on a calm or bad network", run_operations},
    {"restarts", "the same, and the coordinator restarts", run_restarts},
    {"backups", "servers without tablets die, come back and are cut off", run_backups},
    {"faults", "a plan of faults of networks, disks, processes and clocks", run_faults},
    {"recovery", "servers with data die, come back, and are given up while they live",
     run_recovery},
    {"cleaning", "the same, with so much overwritten that all servers clean their memory",
     run_cleaning},
    {"rot", "one device loses, misplaces or damages what it was given; then the data is rebuilt",
     run_rot},
    {"failover", "the leading coordinator of three dies, or is cut off from the store",
     run_failover},
    {"failpoints", "a coordinator or server dies or pauses at one failpoint", run_failpoints},
};

}  // namespace

std::span<const Scenario> scenarios() {
  return kScenarios;
}

const Scenario* find_scenario(std::string_view name) {
  const auto found = std::ranges::find(kScenarios, name, &Scenario::name);
  return found == std::end(kScenarios) ? nullptr : found;
}

void note_numbers(Cluster& cluster, Outcome& outcome) {
  SimScheduler& scheduler = cluster.scheduler();
  outcome.event_hash = scheduler.event_hash();
  outcome.events = scheduler.events();
  outcome.virtual_time = scheduler.now() - VirtualClock().now();
  outcome.faults = scheduler.faults().by_kind();
  outcome.fault_pairs = scheduler.faults().by_pair();
  outcome.lost = cluster.network().lost();
  outcome.sent_by_others = cluster.messages_of_other_reactors();
  outcome.taken_by_others = cluster.replica_writes_of_other_reactors();
}

}  // namespace ramcloud::sim
