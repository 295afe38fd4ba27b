// Log: growing and shrinking while it is used (docs/design/log.md#resize).
#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "log/log.h"

namespace ramcloud::log {
namespace {

/// Heads that writers need next: the one being filled, and one opened ahead.
constexpr uint32_t kHeadsAhead = 2;
/// And the present head.
constexpr uint32_t kHeads = kHeadsAhead + 1;

}  // namespace

uint32_t Log::segments_for_survivors(uint32_t segments) {
  constexpr uint32_t kShare = 100, kMost = 16;
  return std::clamp<uint32_t>(segments / kShare, 1, kMost);
}

/// Live objects need extra space for group headers and segment ends. Tombstones are not counted,
/// because most of them die when the segments that they name are cleaned. If too many are needed,
/// the limit stays above the target.
uint64_t Log::least_bytes(uint64_t live_bytes) const {
  const uint64_t used = uint64_t{arena_.sizes().used} * kSegletBytes;
  uint64_t bytes = cleans() ? std::min(live_bytes + live_bytes / 10, used) : used;
  const uint64_t emergency = must_stay_free(MemoryPurpose::kSurvivors);
  bytes += emergency * kSegletBytes;
  bytes += uint64_t{kHeads} * kSegmentBytes;
  const auto segments = static_cast<uint32_t>(align_up(bytes, kSegmentBytes) / kSegmentBytes);
  bytes += uint64_t{seglets_for_deletes(segments)} * kSegletBytes;
  if (cleans()) bytes += uint64_t{segments_for_survivors(segments)} * kSegmentBytes;
  return std::max(align_up(bytes, kSegmentBytes), uint64_t{kLeastSegments} * kSegmentBytes);
}

Log::Sizes Log::sizes(uint64_t live_bytes) const {
  const Arena::Sizes seglets = arena_.sizes();
  Sizes sizes;
  sizes.target = uint64_t{seglets.target} * kSegletBytes;
  sizes.limit = uint64_t{seglets.limit} * kSegletBytes;
  sizes.held = uint64_t{seglets.held} * kSegletBytes;
  const bool resizable = arena_.resizable();
  sizes.most = resizable ? uint64_t{arena_.most_segments()} * kSegmentBytes : sizes.target;
  // The present target is always accepted, even if live data needs more.
  sizes.least = resizable ? std::min(least_bytes(live_bytes), sizes.target) : sizes.target;
  return sizes;
}

Status Log::resize(uint64_t bytes, uint64_t live_bytes) {
  const Sizes now = sizes(live_bytes);
  const uint64_t wanted = bytes / kSegmentBytes * kSegmentBytes;
  if (!arena_.resizable() && wanted != now.target) {
    return {StatusCode::kUnsupported,
            fmt::format("log-memory {}: it stays {}, because memory in reserved huge pages "
                        "(--huge-pages) cannot be resized",
                        exact_size(bytes), exact_size(now.target))};
  }
  if (wanted < now.least || wanted > now.most) {
    return {StatusCode::kInvalidArgument,
            fmt::format("log-memory {}: accepted are {} ({}) to {} (--log-memory-max)",
                        exact_size(bytes), exact_size(now.least),
                        cleans() ? "what live objects and cleaning need"
                                 : "what is used and needed for heads, without cleaning",
                        exact_size(now.most))};
  }
  const auto segments = static_cast<uint32_t>(wanted / kSegmentBytes);
  SpinGuard guard(lock_);
  arena_.set_target(segments);
  const size_t most = kSegmentsPerWholeOne * size_t{segments};
  for (auto* list : {&segments_, &others_, &removed_, &retired_, &empty_, &leaving_}) {
    list->reserve(most);
  }
  follow_limit();
  room_changes_.fetch_add(1, std::memory_order_release);
  return {};
}

bool Log::continue_resize() {
  const bool more = arena_.continue_resize();
  Events events;
  {
    SpinGuard guard(lock_);
    follow_limit();
    advance(events);  // a change may have waited for memory
  }
  deliver(events);
  return more;
}

/// The reserve for cleaning is computed from the smaller of target and limit: a log that shrinks
/// may need the difference for its data.
void Log::follow_limit() {
  pool_.follow_arena();
  most_segments_.store(pool_.capacity(), std::memory_order_relaxed);
  const Arena::Sizes sizes = arena_.sizes();
  const uint32_t segments = std::min(sizes.target, sizes.limit) / kSegletsPerSegment;
  if (segments != segments_kept_for_) {
    segments_kept_for_ = segments;
    keep_reserves(segments, cleans() ? segments_for_survivors(segments) : 0);
  }
  if (sizes.target >= sizes.limit) return;
  const uint32_t heads = next_ == nullptr ? kHeadsAhead : kHeadsAhead - 1;
  arena_.lower_limit(must_stay_free(MemoryPurpose::kWrites) + heads * kSegletsPerSegment);
}

}  // namespace ramcloud::log
