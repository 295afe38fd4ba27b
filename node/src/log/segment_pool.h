// The segments that a log can have at a time, and their memory from the arena. Free ones are used
// again, in no order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/mapping.h"
#include "log/arena.h"
#include "log/segment.h"

namespace ramcloud::log {

/// Segments that are closed early keep a part of their memory, so there may be more than whole ones.
/// What stands here for each costs a thousandth of the log's memory.
inline constexpr uint32_t kSegmentsPerWholeOne = 8;

/// Used under the log's head lock.
class SegmentPool {
 public:
  explicit SegmentPool(Arena& arena);
  ~SegmentPool();
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  /// One with so much memory, that of a whole segment at most, and nothing in it; null: no memory.
  Segment* take(const SegmentIdentity& identity, SegmentKind kind,
                uint32_t seglets = kSegletsPerSegment);
  /// A closed segment keeps the seglets that its bytes are in.
  void trim(Segment& segment);
  /// Nobody refers to it any more.
  void give_back(Segment& segment);

  /// Most segments there can be at a time, with the arena's limit as high as it was so far.
  uint32_t capacity() const { return capacity_; }
  /// All numbers will be below this.
  uint32_t most() const { return most_; }
  /// More of them, if the arena has more memory than ever before.
  void follow_arena();
  /// So many whole segments could be taken.
  uint32_t free_segments() const;
  /// One with so much memory can be taken, and leaves so much.
  bool has_room(uint32_t seglets, uint32_t left) const;
  /// By its number. It may be free.
  Segment& operator[](uint32_t number) { return segments_[number]; }

 private:
  Arena& arena_;
  const uint32_t most_;
  uint32_t capacity_ = 0;
  Mapping mapping_;  // address space for most_ of them, with memory for those that there are
  Segment* segments_ = nullptr;
  std::vector<Segment*> free_;
};

}  // namespace ramcloud::log
