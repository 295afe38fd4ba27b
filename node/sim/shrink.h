// Finds a smaller configuration of a scenario that still fails: with fewer faults, clients and
// operations.
#pragma once

#include <functional>

#include "sim/scenario.h"

namespace ramcloud::sim {

/// `fails` runs a configuration; it is true for `config`, whose run gave `outcome`. Returns the
/// smallest failing configuration found with at most `most_runs` further runs.
ScenarioConfig shrink(ScenarioConfig config, const Outcome& outcome,
                      const std::function<bool(const ScenarioConfig&)>& fails,
                      uint32_t most_runs = 60);

}  // namespace ramcloud::sim
