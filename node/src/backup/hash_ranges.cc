#include "backup/hash_ranges.h"

#include <fmt/format.h>

namespace ramcloud {

Result<HashRanges> HashRanges::make(std::vector<wire::HashRange> ranges) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].start_hash <= ranges[i].end_hash) continue;
    return fail(StatusCode::kInvalidArgument,
                fmt::format("ranges[{}] of table {} ends at {:#x}, before its start {:#x}", i,
                            ranges[i].table_id, ranges[i].end_hash, ranges[i].start_hash));
  }
  if (!std::ranges::is_sorted(ranges, {}, start_of)) std::ranges::sort(ranges, {}, start_of);
  HashRanges made;
  for (const wire::HashRange& range : ranges) {
    if (!made.ranges_.empty() && made.ranges_.back().contains(range.table_id, range.start_hash)) {
      auto& last = made.ranges_.back();
      last.end_hash = std::max(last.end_hash, range.end_hash);
    } else {
      made.ranges_.push_back(range);
    }
  }
  return made;
}

}  // namespace ramcloud
