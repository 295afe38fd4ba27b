// The failover scenario by place: where it is that the leader dies.
#pragma once

#include <cstddef>

#include "sim/scenario.h"

namespace ramcloud::sim {

size_t failover_places();
const char* failover_place(size_t number);
/// `number` below failover_places(). run_failover() takes it from the seed.
Outcome run_failover_at(size_t number, const ScenarioConfig& config, bool synced);

}  // namespace ramcloud::sim
