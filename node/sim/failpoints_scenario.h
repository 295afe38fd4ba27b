// The failpoints scenario by failpoint.
#pragma once

#include <cstddef>

#include "sim/scenario.h"

namespace ramcloud::sim {

/// `number`: a place in kFailpoints. run_failpoints() takes it from the seed.
Outcome run_failpoint(size_t number, const ScenarioConfig& config);

}  // namespace ramcloud::sim
