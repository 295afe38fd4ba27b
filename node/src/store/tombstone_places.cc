#include "store/tombstone_places.h"

#include <algorithm>

namespace ramcloud::store {

void TombstonePlaces::add(uint64_t table_id, uint64_t hash) {
  if (too_many_) return;
  auto at = std::ranges::find(tables_, table_id, [](const auto& table) { return table.first; });
  if (at == tables_.end()) {
    too_many_ = tables_.size() == kMostTables;
    if (too_many_) return;
    at = tables_.insert(at, {table_id, {}});
  }
  at->second.set(part_of(hash));
}

bool TombstonePlaces::may_be_in(const Tablet& tablet) const {
  if (too_many_) return true;
  const auto at =
      std::ranges::find(tables_, tablet.table_id, [](const auto& table) { return table.first; });
  if (at == tables_.end()) return false;
  for (uint32_t part = part_of(tablet.start_hash); part <= part_of(tablet.end_hash); ++part) {
    if (at->second.test(part)) return true;
  }
  return false;
}

}  // namespace ramcloud::store
