#include "log/side_log.h"

#include <algorithm>
#include <utility>

#include "base/failpoint.h"

namespace ramcloud::log {

StatusCode SideLog::append(std::span<const EntrySource> entries, const char* refs[]) {
  if (closed_ || entries.empty() || entries.size() > kMaxGroupEntries) {
    return StatusCode::kInvalidArgument;
  }
  GroupSource group(entries);
  if (group.too_large()) return StatusCode::kInvalidArgument;
  const auto fits = [&] { return SegmentWriter(*open_).fits(group, open_->memory_bytes()); };
  if (open_ != nullptr && !fits()) close_open();
  if (open_ == nullptr && !open()) return StatusCode::kOutOfMemory;
  if (!fits()) return StatusCode::kOutOfMemory;  // survivors may be small
  SegmentWriter writer(*open_);
  // Recovery reads a side segment only if it is closed, so durable_up_to is not needed in its
  // groups.
  writer.place(group, 0, refs);
  writer.copy(group);
  open_->entry_bytes_.store(open_->entry_bytes() + group.entry_bytes, std::memory_order_relaxed);
  open_->published_.store(open_->reserved_, std::memory_order_release);
  writer.prefetch_next(group.length);
  return StatusCode::kOk;
}

bool SideLog::open() {
  open_ = log_.open_side_segment(purpose_);
  if (open_ == nullptr) return false;
  segments_.push_back(open_);
  RC_FAILPOINT("log.side_segment.opened");
  return true;
}

void SideLog::close_open() {
  Segment& segment = *std::exchange(open_, nullptr);
  SegmentWriter(segment).write_footer(0);
  log_.side_segment_closed(segment);
}

void SideLog::close() {
  closed_ = true;
  if (open_ != nullptr) close_open();
}

bool SideLog::all_durable() const {
  return closed_ && std::ranges::all_of(segments_, &Segment::closed_durable);
}

void SideLog::abort() {
  open_ = nullptr;
  log_.abort_side_segments(release());
}

std::vector<Segment*> SideLog::release() {
  closed_ = true;
  return std::exchange(segments_, {});
}

}  // namespace ramcloud::log
