// What a user chooses of a server's cleaning.
#pragma once

#include <cstdint>

#include "log/cleaning_order.h"

namespace ramcloud::server {

struct CleaningOptions {
  /// Overwritten and deleted objects are cleaned away; else their memory is never used again.
  bool on = true;
  uint32_t threads = 1;  // 0: the first reactor cleans, a slice a turn, as in simulation
  log::CleaningPolicy policy = log::CleaningPolicy::kCostBenefit;
};

}  // namespace ramcloud::server
