// The segments that a log can have at a time, and their memory from the arena. Free ones are used
// again, in no order.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "log/arena.h"
#include "log/segment.h"

namespace ramcloud::log {

/// Used under the log's head lock.
class SegmentPool {
 public:
  explicit SegmentPool(Arena& arena);

  /// One with so much memory, that of a whole segment at most, and nothing in it; null: no memory.
  Segment* take(const SegmentIdentity& identity, SegmentKind kind,
                uint32_t seglets = kSegletsPerSegment);
  /// A closed segment keeps the seglets that its bytes are in.
  void trim(Segment& segment);
  /// Nobody refers to it any more.
  void give_back(Segment& segment);

  /// Most segments there can be at a time.
  uint32_t capacity() const { return capacity_; }
  /// So many whole segments could be taken.
  uint32_t free_segments() const;
  /// One with so much memory can be taken, and leaves so much.
  bool has_room(uint32_t seglets, uint32_t left) const;
  /// By its number. It may be free.
  Segment& operator[](uint32_t number) { return segments_[number]; }

 private:
  Arena& arena_;
  const uint32_t capacity_;
  std::unique_ptr<Segment[]> segments_;
  std::vector<Segment*> free_;
};

}  // namespace ramcloud::log
