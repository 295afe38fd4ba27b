#include "sim/shrink.h"

#include <algorithm>

namespace ramcloud::sim {

ScenarioConfig shrink(ScenarioConfig config, const Outcome& outcome,
                      const std::function<bool(const ScenarioConfig&)>& fails, uint32_t most_runs) {
  uint32_t runs = 0;
  const auto try_it = [&](const ScenarioConfig& smaller) {
    if (runs == most_runs) return false;
    ++runs;
    if (!fails(smaller)) return false;
    config = smaller;
    return true;
  };
  // Faults first, because most are irrelevant. Tries without any, then leaves out one after the
  // other.
  std::vector<uint32_t> all;
  for (const auto& [number, text] : outcome.plan) all.push_back(number);
  if (!config.faults) config.faults = all;
  ScenarioConfig without = config;
  without.faults = std::vector<uint32_t>{};
  if (!config.faults->empty() && !try_it(without)) {
    for (const uint32_t number : std::vector(*config.faults)) {
      ScenarioConfig smaller = config;
      std::erase(*smaller.faults, number);
      (void)try_it(smaller);
    }
  }
  // Then halves numbers as long as the run fails, then single steps.
  const auto lower = [&](std::optional<uint32_t> ScenarioConfig::* number, uint32_t most) {
    if (!(config.*number)) config.*number = most;
    for (const uint32_t divisor : {2u, 4u}) {
      while ((config.*number).value() > 1) {
        ScenarioConfig smaller = config;
        const uint32_t now = (config.*number).value();
        smaller.*number = now - std::max(now / divisor, 1u);
        if (!try_it(smaller)) break;
      }
    }
  };
  lower(&ScenarioConfig::clients, outcome.clients);
  lower(&ScenarioConfig::operations, outcome.operations_of_each);
  return config;
}

}  // namespace ramcloud::sim
