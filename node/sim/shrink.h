// Finds a smaller configuration of a scenario that fails all the same: fewer faults, clients and
// operations. The rest is necessary for the failure.
#pragma once

#include <functional>

#include "sim/scenario.h"

namespace ramcloud::sim {

/// `fails` runs a configuration; it holds for `config`. `outcome` is of that run. Gives the
/// smallest that was found by at most `most_runs` further runs.
ScenarioConfig shrink(ScenarioConfig config, const Outcome& outcome,
                      const std::function<bool(const ScenarioConfig&)>& fails,
                      uint32_t most_runs = 60);

}  // namespace ramcloud::sim
