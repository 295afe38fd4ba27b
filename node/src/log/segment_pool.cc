#include "log/segment_pool.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include "base/logging.h"

namespace ramcloud::log {
SegmentPool::SegmentPool(Arena& arena)
    : arena_(arena), most_(kSegmentsPerWholeOne * arena.most_segments()) {
  if (!mapping_.map(uint64_t{most_} * sizeof(Segment), false)) {
    fatal("the log's table of segments cannot be mapped", {{"error", strerror(errno)}});
  }
  segments_ = reinterpret_cast<Segment*>(mapping_.data());
  follow_arena();
}

SegmentPool::~SegmentPool() {
  std::destroy_n(segments_, capacity_);
}

void SegmentPool::follow_arena() {
  const uint32_t before = capacity_;
  const uint32_t wanted = kSegmentsPerWholeOne * arena_.total_segments();
  if (wanted <= before) return;
  std::uninitialized_value_construct(segments_ + before, segments_ + wanted);
  // Not for each step of a log that grows: that would copy the list each time.
  if (free_.capacity() < wanted) free_.reserve(std::max<size_t>(wanted, 2 * free_.capacity()));
  for (uint32_t i = wanted; i > before; --i) {
    free_.push_back(&segments_[i - 1]);
    segments_[i - 1].number_ = i - 1;
  }
  capacity_ = wanted;
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

uint32_t SegmentPool::most_seglets(uint32_t left) const {
  if (free_.empty()) return 0;
  const uint32_t free = arena_.free_seglets();
  return std::min(kSegletsPerSegment, free - std::min(free, left));
}

uint32_t SegmentPool::free_segments() const {
  return std::min(arena_.free_seglets() / kSegletsPerSegment, static_cast<uint32_t>(free_.size()));
}

}  // namespace ramcloud::log
