#include "log/segment.h"

namespace ramcloud::log {

uint32_t Segment::chunk_end(uint32_t from, uint32_t max_bytes) const {
  const SegmentBytes all = bytes();
  if (all.size() - from <= max_bytes) return all.size();
  uint32_t at = from;
  while (at < all.size()) {
    // The first word of a group and of a padding have the same layout.
    const uint32_t end = at + (all.load_at<uint32_t>(at) & 0xffffff);
    if (end - from > max_bytes) return at == from ? end : at;
    at = end;
  }
  return at;
}

/// Resets all fields. Atomics are stored to and not re-created, because statistics may read them
/// meanwhile.
void Segment::reset() {
  identity_ = {};
  head_id_ = 0;
  checksum_seed_ = header_length_ = seglet_count_ = reserved_ = footer_crc_ = 0;
  kind_ = SegmentKind::kHead;
  compactions_ = 0;
  judged_ = {};
  has_replicas_ = true;
  takes_.store(Takes::kAll, std::memory_order_relaxed);
  seglets_.fill(nullptr);
  for (auto* count : {&published_, &epoch_, &entry_bytes_, &dead_bytes_}) {
    count->store(0, std::memory_order_relaxed);
  }
  for (auto* flag : {&closed_, &opened_durable_, &closed_durable_, &abandoned_, &released_}) {
    flag->store(false, std::memory_order_relaxed);
  }
}

}  // namespace ramcloud::log
