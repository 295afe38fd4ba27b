// What a user chooses of a server's cleaning.
#pragma once

#include <cstdint>

#include "log/cleaning_order.h"

namespace ramcloud::server {

/// Whether the memory of overwritten and deleted objects is used again, and how
/// (docs/design/log.md#cleaning).
enum class CleaningLevels : uint8_t {
  kOff,  // never
  kOne,  // combined cleaning: memory and disks alike
  kTwo,  // compaction in memory first
};

struct CleaningOptions {
  CleaningLevels levels = CleaningLevels::kOne;
  bool on() const { return levels != CleaningLevels::kOff; }
  uint32_t threads = 1;  // 0: the first reactor cleans, a slice a turn, as in simulation
  log::CleaningPolicy policy = log::CleaningPolicy::kCostBenefit;
};

}  // namespace ramcloud::server
