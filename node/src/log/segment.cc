#include "log/segment.h"

namespace ramcloud::log {

uint32_t Segment::chunk_end(uint32_t from, uint32_t max_bytes) const {
  const SegmentBytes all = bytes();
  if (all.size() - from <= max_bytes) return all.size();
  uint32_t at = from;
  while (at < all.size()) {
    // A group's and a padding's first word are alike.
    const uint32_t end = at + (all.load_at<uint32_t>(at) & 0xffffff);
    if (end - from > max_bytes) return at == from ? end : at;
    at = end;
  }
  return at;
}

}  // namespace ramcloud::log
