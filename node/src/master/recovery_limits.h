// What a recovery master may take at a time.
#pragma once

#include <cstdint>

namespace ramcloud::master {

struct RecoveryLimits {
  uint64_t bytes_per_second = 0;  // of entries that all parts together fetch; 0: no limit
  /// Pages that are fetched or replayed at a time; each has SegmentFetch::kPageBytes, or one group.
  uint32_t fetches = 8;
};

}  // namespace ramcloud::master
