// Log: reserves of memory, and emergency heads for when memory runs out [Rumble14 §7].
#include <algorithm>

#include "base/logging.h"
#include "base/sometimes.h"
#include "log/log.h"

namespace ramcloud::log {
namespace {

/// Two, in alternation: one is closed while the other is opened.
constexpr uint32_t kEmergencyHeads = 2;
/// Bytes of one segment in a digest: two numbers of seven bits a byte. Few gaps need more.
constexpr uint32_t kDigestBytesPerSegment = 6;

uint32_t emergency_seglets_for(uint32_t most_segments) {
  const uint64_t digest = uint64_t{most_segments} * kDigestBytesPerSegment;
  return static_cast<uint32_t>(std::min<uint64_t>(1 + digest / kSegletBytes, kSegletsPerSegment));
}

}  // namespace

/// Deletes may be spread over all segments, and cleaning wins whole seglets of each. So the reserve
/// has room for tombstones that kill more than a seglet of every segment: three seglets for each,
/// because the smallest object takes a little less than half of what its tombstone takes. In whole
/// segments, because each head for deletes takes one. Otherwise a full log could not be cleaned
/// again.
uint32_t Log::seglets_for_deletes(uint32_t segments) const {
  constexpr uint32_t kOfEachSegment = 3;
  // A log of one segment keeps no reserve.
  const uint32_t least = std::min(options_.reserve_segments, segments - 1) * kSegletsPerSegment;
  if (least == 0 || !cleans()) return least;
  const uint32_t heads = (kOfEachSegment * segments + kSegletsPerSegment - 1) / kSegletsPerSegment;
  return std::max(least, heads * kSegletsPerSegment);
}

/// Sets the reserves of a log with so many segments in total.
void Log::keep_reserves(uint32_t segments, uint32_t cleaner_segments) {
  const uint32_t reserve = seglets_for_deletes(segments);
  const uint32_t rest = segments - 1 - (reserve + kSegletsPerSegment - 1) / kSegletsPerSegment;
  const uint32_t cleaner = std::min(cleaner_segments, rest);
  reserve_seglets_.store(reserve, std::memory_order_relaxed);
  cleaner_seglets_.store(cleaner * kSegletsPerSegment, std::memory_order_relaxed);
  if (cleaner == 0) return;
  emergency_seglets_.store(emergency_seglets_for(most_segments()), std::memory_order_relaxed);
}

uint32_t Log::must_stay_free(MemoryPurpose purpose) const {
  uint32_t kept = kEmergencyHeads * emergency_seglets_.load(std::memory_order_relaxed);
  if (purpose == MemoryPurpose::kSurvivors) return kept;
  kept += cleaner_seglets_.load(std::memory_order_relaxed);
  if (purpose == MemoryPurpose::kDeletes) return kept;
  return kept + reserve_seglets_.load(std::memory_order_relaxed);
}

bool Log::has_segment_for(MemoryPurpose purpose) const {
  SpinGuard guard(lock_);
  return has_room_for(purpose);
}

/// Writers leave some Segment objects to cleaning, as they leave memory: where compaction has made
/// segments small there is memory for more of them than the log can have, and none could leave it
/// without a head.
bool Log::has_objects_for(MemoryPurpose purpose) const {
  constexpr uint32_t kKeptShare = 16;
  const uint32_t kept = purpose == MemoryPurpose::kWrites ? pool_.capacity() / kKeptShare : 0;
  return pool_.unused() > kept;
}

/// For a whole segment.
bool Log::has_room_for(MemoryPurpose purpose) const {
  return has_objects_for(purpose) && pool_.has_room(kSegletsPerSegment, must_stay_free(purpose));
}

Log::Memory Log::memory() const {
  SpinGuard guard(lock_);
  Memory memory;
  const Arena::Sizes sizes = arena_.sizes();
  memory.total_seglets = sizes.limit;
  memory.free_seglets = sizes.limit - std::min(sizes.used, sizes.limit);
  memory.excess_seglets = sizes.limit - std::min(sizes.target, sizes.limit);
  memory.leaving_seglets = taken_seglets_;
  for (const Segment* segment : retired_) memory.leaving_seglets += segment->seglet_count_;
  const auto with_replicas = std::ranges::count_if(others_, &Segment::has_replicas_);
  memory.segments = static_cast<uint32_t>(segments_.size()) + static_cast<uint32_t>(with_replicas);
  memory.appended_bytes = appended_bytes_;
  return memory;
}

Segment* Log::closed_member(uint32_t number) {
  SpinGuard guard(lock_);
  Segment& segment = pool_[number];
  const auto at = std::ranges::lower_bound(segments_, segment.id(), {}, &Segment::id);
  const bool is_member = at != segments_.end() && *at == &segment && segment.closed_durable();
  const bool leaves = !segment.side() && segment.entry_bytes() == 0 && segment.compactions() == 0;
  return is_member && !leaves ? &segment : nullptr;
}

/// Opens an emergency head: changes wait, and there is no memory for a head that takes data. This
/// head has only its digest, which commits the changes, so the memory that cleaning freed can be
/// reused. The next head's digest leaves this head out.
void Log::open_emergency_head(Events& events) {
  Segment* segment =
      pool_.take({options_.cluster_uuid, options_.master_id, next_id_}, SegmentKind::kHead,
                 emergency_seglets_.load(std::memory_order_relaxed));
  if (segment == nullptr) return;
  RC_SOMETIMES("log.emergency_head");
  ++counters_.emergency_heads;
  segment->takes_.store(Segment::Takes::kNothing, std::memory_order_relaxed);
  carry_changes();
  open_head(*segment, events);
}

/// The emergency head is empty, so only its own digest names it.
void Log::drop_emergency_head() {
  for (Segment* before : {head_, closing_}) {
    if (before == nullptr) continue;
    if (before->takes_.load(std::memory_order_relaxed) != Segment::Takes::kNothing) continue;
    if (std::erase(segments_, before) > 0) others_.push_back(before);
  }
}

/// Leaves the emergency head as soon as there is memory for a head that takes everything. (A head
/// for deletes alone is opened only when a client deletes. Otherwise it could take as much memory
/// as a small pass frees.)
void Log::leave_emergency_head(Events& events) {
  if (head_ == nullptr) return;
  if (head_->takes_.load(std::memory_order_relaxed) != Segment::Takes::kNothing) return;
  if (next_ == nullptr && !has_room_for(MemoryPurpose::kWrites)) return;
  open_next_if_possible(events);
  want_switch_ = true;
  takes_data_.store(false, std::memory_order_seq_cst);
}

/// A head that was opened for deletes takes everything once the reserve is complete again without
/// it, and another for writers may follow.
void Log::lift_restrictions() {
  if (!has_objects_for(MemoryPurpose::kWrites)) return;
  if (arena_.free_seglets() < must_stay_free(MemoryPurpose::kWrites)) return;
  for (Segment* head : {head_, next_}) {
    if (head == nullptr) continue;
    if (head->takes_.load(std::memory_order_relaxed) != Segment::Takes::kDeletes) continue;
    RC_SOMETIMES("log.head_for_deletes_takes_all_again");
    head->takes_.store(Segment::Takes::kAll, std::memory_order_relaxed);
  }
}

}  // namespace ramcloud::log
