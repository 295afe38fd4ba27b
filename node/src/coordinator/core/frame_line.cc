#include "coordinator/core/frame_line.h"

namespace ramcloud {

bool FrameLine::may_begin(uint64_t master_id, uint64_t room, bool alone) const {
  const Place& own = all_.at(master_id);
  bool is_first = true;
  uint64_t wanted = own.bytes;
  for (const auto& [id, other] : all_) {
    if (other.rank(id) >= own.rank(master_id)) continue;
    is_first = false;
    wanted += other.bytes;
  }
  return is_first || (!alone && wanted <= room);
}

void FrameLine::end(uint64_t master_id, bool served) {
  Place& own = all_[master_id];
  own.begun = false;
  own.in_vain = served ? 0 : ++attempts_in_vain_;
}

uint64_t FrameLine::first() const {
  uint64_t first = 0;
  for (const auto& [id, place] : all_) {
    if (first == 0 || place.rank(id) < all_.at(first).rank(first)) first = id;
  }
  return first;
}

}  // namespace ramcloud
