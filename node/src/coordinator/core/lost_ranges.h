// Ranges of hashes that a dead server owned.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/core/recovery_plan.h"
#include "coordinator/metadata/cluster_state.h"

namespace ramcloud {

inline LostRange range_of(uint64_t table_id, const TabletRecord& tablet) {
  return {table_id, tablet.start_hash, tablet.end_hash};
}

/// The number of hashes in all ranges together.
inline double hashes_of(const std::vector<LostRange>& ranges) {
  double hashes = 0;
  for (const LostRange& range : ranges) {
    hashes += static_cast<double>(range.end_hash - range.start_hash) + 1;
  }
  return hashes;
}

}  // namespace ramcloud
