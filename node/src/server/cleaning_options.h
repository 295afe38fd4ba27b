// The user's options for cleaning.
#pragma once

#include <cstdint>

#include "log/cleaning_order.h"

namespace ramcloud::server {

/// Whether and how the memory of overwritten and deleted objects is reused
/// (docs/design/log.md#cleaning).
enum class CleaningLevels : uint8_t {
  kOff,  // the memory is never reused
  kOne,  // combined cleaning of memory and disk
  kTwo,  // compaction in memory first
};

struct CleaningOptions {
  CleaningLevels levels = CleaningLevels::kOne;
  bool on() const { return levels != CleaningLevels::kOff; }
  uint32_t threads = 1;  // 0: the first reactor cleans, one slice in each turn, as in simulation
  log::CleaningPolicy policy = log::CleaningPolicy::kCostBenefit;
};

}  // namespace ramcloud::server
