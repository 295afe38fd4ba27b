// The Segment objects of a log, with their memory from the arena. Free ones are reused in no order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/mapping.h"
#include "log/arena.h"
#include "log/segment.h"

namespace ramcloud::log {

/// A segment that is closed early gives part of its memory back, so there may be more segments than
/// whole ones. Their Segment objects take a thousandth of the log's memory.
inline constexpr uint32_t kSegmentsPerWholeOne = 8;

/// Used under the log's head lock.
class SegmentPool {
 public:
  explicit SegmentPool(Arena& arena);
  ~SegmentPool();
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  /// An empty segment with so much memory, at most that of a whole segment; null: no memory.
  Segment* take(const SegmentIdentity& identity, SegmentKind kind,
                uint32_t seglets = kSegletsPerSegment);
  /// Gives back the seglets of a closed segment that hold none of its bytes.
  void trim(Segment& segment);
  /// Precondition: nobody refers to it any more.
  void give_back(Segment& segment);

  /// The maximum of segments at a time, for the highest limit that the arena has had.
  uint32_t capacity() const { return capacity_; }
  /// All segment numbers are always below this.
  uint32_t most() const { return most_; }
  /// Adds segments if the arena's limit is higher than ever before.
  void follow_arena();
  /// Segments that could be taken if there is memory for them.
  uint32_t unused() const { return static_cast<uint32_t>(free_.size()); }
  /// How many whole segments could be taken.
  uint32_t free_segments() const;
  /// A segment with so many seglets can be taken, and leaves `left` free.
  bool has_room(uint32_t seglets, uint32_t left) const;
  /// The most seglets, up to a whole segment, that the next one may have so that `left` stay free.
  uint32_t most_seglets(uint32_t left) const;
  /// The segment with this number. It may be free.
  Segment& operator[](uint32_t number) { return segments_[number]; }

 private:
  Arena& arena_;
  const uint32_t most_;
  uint32_t capacity_ = 0;
  Mapping mapping_;  // address space for most_ segments; memory only for existing ones
  Segment* segments_ = nullptr;
  std::vector<Segment*> free_;
};

}  // namespace ramcloud::log
