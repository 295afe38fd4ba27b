#include "store/held_ranges.h"

#include <algorithm>
#include <iterator>

namespace ramcloud::store {

void HeldRanges::add(uint64_t table_id, uint64_t start_hash, uint64_t end_hash) {
  Ranges& ranges = by_table_[table_id];
  auto at = ranges.upper_bound(start_hash);
  if (at != ranges.begin() && std::prev(at)->second >= start_hash) --at;
  while (at != ranges.end() && at->first <= end_hash) {
    start_hash = std::min(start_hash, at->first);
    end_hash = std::max(end_hash, at->second);
    at = ranges.erase(at);
  }
  ranges[start_hash] = end_hash;
  if (ranges.size() > kMostRanges) {
    ranges = {{ranges.begin()->first, ranges.rbegin()->second}};
  }
  if (by_table_.size() > kMostTables) {
    // The lowest one may be a table that was forgotten before and came back.
    forgotten_up_to_ = std::max(forgotten_up_to_, by_table_.begin()->first);
    by_table_.erase(by_table_.begin());
  }
}

bool HeldRanges::overlaps(uint64_t table_id, uint64_t start_hash, uint64_t end_hash) const {
  if (table_id <= forgotten_up_to_) return true;
  const auto table = by_table_.find(table_id);
  if (table == by_table_.end()) return false;
  const auto above = table->second.upper_bound(end_hash);
  return above != table->second.begin() && std::prev(above)->second >= start_hash;
}

}  // namespace ramcloud::store
