#include "log/compacted_segment.h"

#include <algorithm>
#include <utility>

#include "base/logging.h"
#include "base/sometimes.h"

namespace ramcloud::log {

// ---- how large it will be

uint32_t CompactedSize::end_of_group(uint32_t at, uint32_t entry_bytes) {
  const auto length =
      static_cast<uint32_t>(align_up(sizeof(GroupHeader) + entry_bytes, kGroupAlignment));
  return at + SegmentWriter::padding_before(at, length) + length;
}

void CompactedSize::add(uint32_t entry_bytes) {
  if (entries_ == kMaxGroupEntries || (entries_ > 0 && bytes_ + entry_bytes > group_bytes_)) {
    at_ = end_of_group(at_, bytes_);
    entries_ = bytes_ = 0;
  }
  ++entries_;
  bytes_ += entry_bytes;
}

uint32_t CompactedSize::seglets() const {
  const uint32_t end = bytes();
  // If entries are left out, padding is at other places and may be larger.
  const uint32_t padding = end / kSegletBytes * kMaxContiguousGroupBytes / 8;
  return (end + padding + kFooterReserveBytes + kSegletBytes - 1) / kSegletBytes;
}

// ---- the copy

StatusCode CompactedSegment::open(uint32_t seglets) {
  if (uint64_t{seglets} * kSegletBytes >= original_.memory_bytes()) {
    return StatusCode::kInvalidArgument;
  }
  copy_ = log_.open_copy(original_, seglets);
  if (copy_ == nullptr) return StatusCode::kOutOfMemory;
  SegmentWriter(*copy_).copy_header(original_);
  return StatusCode::kOk;
}

StatusCode CompactedSegment::append(std::span<const EntrySource> entries, const char* refs[]) {
  if (entries.empty() || entries.size() > kMaxGroupEntries) return StatusCode::kInvalidArgument;
  GroupSource group(entries);
  if (group.too_large()) return StatusCode::kInvalidArgument;
  SegmentWriter writer(*copy_);
  if (!writer.fits(group, copy_->memory_bytes())) return StatusCode::kOutOfMemory;
  writer.place(group, 0, refs);
  writer.copy(group);
  copy_->entry_bytes_.store(copy_->entry_bytes() + group.entry_bytes, std::memory_order_relaxed);
  copy_->published_.store(copy_->reserved_, std::memory_order_release);
  return StatusCode::kOk;
}

void CompactedSegment::close(LogPosition judged) {
  copy_->judged_ = std::max(judged, original_.judged());
  SegmentWriter(*copy_).write_footer(0);
  log_.close_copy(*copy_);
}

void CompactedSegment::replace() {
  log_.replace(original_, *std::exchange(copy_, nullptr));
}

void CompactedSegment::abort() {
  if (copy_ != nullptr) log_.abort_copy(*std::exchange(copy_, nullptr));
}

// ---- the log's part

/// Null: no memory above the reserve for emergency heads.
Segment* Log::open_copy(const Segment& original, uint32_t seglets) {
  SpinGuard guard(lock_);
  if (!pool_.has_room(seglets, must_stay_free(MemoryPurpose::kSurvivors))) return nullptr;
  Segment* copy = pool_.take(original.identity(), original.kind(), seglets);
  if (copy == nullptr) return nullptr;
  copy->compactions_ = original.compactions() + 1;
  copy->has_replicas_ = false;
  copy->set_replication_epoch(original.replication_epoch());
  others_.push_back(copy);
  return copy;
}

void Log::close_copy(Segment& copy) {
  SpinGuard guard(lock_);
  pool_.trim(copy);
}

void Log::abort_copy(Segment& copy) {
  SpinGuard guard(lock_);
  retire_memory(copy);
}

void Log::replace(Segment& original, Segment& copy) {
  {
    SpinGuard guard(lock_);
    const auto at = std::ranges::lower_bound(segments_, original.id(), {}, &Segment::id);
    if (at == segments_.end() || *at != &original || in_waiting_change(&original)) {
      fatal("log.compacted_segment_has_left", {{"segment", original.id()}});
    }
    RC_SOMETIMES("log.segment_is_compacted");
    copy.mark_opened_durable();
    copy.mark_closed_durable();
    copy.has_replicas_ = std::exchange(original.has_replicas_, false);
    *at = &copy;
    std::erase(others_, &copy);
    others_.push_back(&original);
    retired_.push_back(&original);
    has_retired_.store(true, std::memory_order_relaxed);
    if (!replicates_) original.mark_released();
    changed_segments_.mark(original.number());
    changed_segments_.mark(copy.number());
  }
  if (replicates_) replicator_.segment_compacted(original, copy);
}

/// Retires the memory of a segment without replicas of its own.
void Log::retire_memory(Segment& segment) {
  retired_.push_back(&segment);
  has_retired_.store(true, std::memory_order_relaxed);
  segment.mark_released();
}

}  // namespace ramcloud::log
