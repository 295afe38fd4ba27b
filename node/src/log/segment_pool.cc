#include "log/segment_pool.h"

#include <algorithm>
#include <span>

#include "base/logging.h"

namespace ramcloud::log {
namespace {

/// Segments that are closed early keep a part of their memory, so there may be more than whole ones.
/// What stands here for each costs a thousandth of the log's memory.
constexpr uint32_t kSegmentsPerWholeOne = 8;

}  // namespace

SegmentPool::SegmentPool(Arena& arena)
    : arena_(arena),
      capacity_(kSegmentsPerWholeOne * arena.total_segments()),
      segments_(std::make_unique<Segment[]>(capacity_)) {
  free_.reserve(capacity_);
  for (uint32_t i = capacity_; i > 0; --i) {
    free_.push_back(&segments_[i - 1]);
    segments_[i - 1].number_ = i - 1;
  }
}

Segment* SegmentPool::take(const SegmentIdentity& identity, SegmentKind kind, uint32_t seglets) {
  if (free_.empty()) return nullptr;
  Segment& segment = *free_.back();
  if (!arena_.allocate(segment, std::span(segment.seglets_).first(seglets))) return nullptr;
  free_.pop_back();
  segment.seglet_count_ = seglets;
  segment.identity_ = identity;
  segment.checksum_seed_ = identity.checksum_seed();
  segment.kind_ = kind;
  segment.head_id_ = kind == SegmentKind::kHead ? identity.segment_id : 0;
  return &segment;
}

void SegmentPool::trim(Segment& segment) {
  const uint32_t used = (segment.published() + kSegletBytes - 1) / kSegletBytes;
  const std::span<char*> seglets(segment.seglets_);
  arena_.free(seglets.subspan(used, segment.seglet_count_ - used));
  std::ranges::fill(seglets.subspan(used), nullptr);
  segment.seglet_count_ = used;
}

void SegmentPool::give_back(Segment& segment) {
  if (segment.pins() != 0) {
    fatal("log.pinned_segment_is_freed", {{"segment", segment.id()}, {"pins", segment.pins()}});
  }
  arena_.free(std::span(segment.seglets_).first(segment.seglet_count_));
  segment.reset();
  free_.push_back(&segment);
}

bool SegmentPool::has_room(uint32_t seglets, uint32_t left) const {
  return !free_.empty() && arena_.free_seglets() >= uint64_t{seglets} + left;
}

uint32_t SegmentPool::free_segments() const {
  return std::min(arena_.free_seglets() / kSegletsPerSegment, static_cast<uint32_t>(free_.size()));
}

}  // namespace ramcloud::log
