// Log: segments that enter and leave it (changes, side segments, retired segments).
#include <algorithm>

#include "base/sometimes.h"
#include "log/log.h"
#include "log/segment_writer.h"

namespace ramcloud::log {
namespace {

bool contains(const std::vector<Segment*>& list, const Segment* segment) {
  return std::ranges::find(list, segment) != list.end();
}

/// Of a list by rising ids, which may be long.
bool contains_by_id(const std::vector<Segment*>& list, const Segment* segment) {
  const auto at = std::ranges::lower_bound(list, segment->id(), {}, &Segment::id);
  return at != list.end() && *at == segment;
}

}  // namespace

// ---- changes

StatusCode Log::commit(SegmentChange& change, Roll roll) {
  Events events;
  std::ranges::sort(change.leave, {}, &Segment::id);
  {
    SpinGuard guard(lock_);
    if (!can_commit(change)) return StatusCode::kInvalidArgument;
    if (roll == Roll::kNow && !cleans() && !has_room_for(MemoryPurpose::kWrites)) {
      return StatusCode::kOutOfMemory;
    }
    change.state.store(SegmentChange::State::kWaiting, std::memory_order_release);
    waiting_.push_back(&change);
    roll_now_ = roll_now_ || roll == Roll::kNow;
    advance(events);
  }
  deliver(events);
  return StatusCode::kOk;
}

/// Carried changes are not looked at: their segments are already in segments_, or have left it.
bool Log::in_waiting_change(const Segment* segment) const {
  return std::ranges::any_of(waiting_, [segment](const SegmentChange* change) {
    return contains(change->enter, segment) || contains(change->leave, segment);
  });
}

bool Log::can_commit(const SegmentChange& change) const {
  const auto may_enter = [this](const Segment* segment) RC_NO_THREAD_SAFETY_ANALYSIS {
    return segment->side() && segment->closed_durable() && contains(others_, segment) &&
           !contains(retired_, segment) && !in_waiting_change(segment);
  };
  const auto may_leave = [this](const Segment* segment) RC_NO_THREAD_SAFETY_ANALYSIS {
    return segment->closed_durable() && contains_by_id(segments_, segment) &&
           !in_waiting_change(segment);
  };
  return std::ranges::all_of(change.enter, may_enter) &&
         std::ranges::all_of(change.leave, may_leave) &&
         change.state.load(std::memory_order_relaxed) == SegmentChange::State::kNew;
}

bool Log::withdraw(SegmentChange& change) {
  SpinGuard guard(lock_);
  const auto at = std::ranges::find(waiting_, &change);
  if (at == waiting_.end()) return false;
  waiting_.erase(at);
  if (waiting_.empty()) roll_now_ = false;
  change.state.store(SegmentChange::State::kNew, std::memory_order_release);
  return true;
}

void Log::hurry(SegmentChange& change) {
  Events events;
  {
    SpinGuard guard(lock_);
    const SegmentChange::State state = change.state.load(std::memory_order_relaxed);
    if (state == SegmentChange::State::kWaiting) roll_now_ = true;
    // Without a head, the head that carries the change takes data next anyway.
    if (state == SegmentChange::State::kCarried && head_ != nullptr) switch_now_ = true;
    advance(events);
  }
  deliver(events);
}

bool Log::may_be_found(uint64_t segment_id) const {
  SpinGuard guard(lock_);
  const auto at = std::ranges::lower_bound(segments_, segment_id, {}, &Segment::id);
  if (at != segments_.end() && (*at)->id() == segment_id) return true;
  return std::ranges::any_of(others_, [&](const Segment* segment) {
    return segment->id() == segment_id && segment->has_replicas_;
  });
}

std::vector<uint64_t> Log::ids_that_may_be_found() const {
  std::vector<uint64_t> ids;
  ids.reserve(2 * size_t{arena_.total_segments()});  // without the lock; nearly always enough
  SpinGuard guard(lock_);
  for (const Segment* segment : segments_) ids.push_back(segment->id());
  for (const Segment* segment : others_) {
    if (segment->has_replicas_) ids.push_back(segment->id());
  }
  return ids;
}

/// Puts the waiting changes into the digest of the head that is opened now. No other head is opened
/// before this one takes data.
void Log::carry_changes() {
  for (SegmentChange* change : waiting_) {
    for (Segment* segment : change->enter) {
      segments_.insert(std::ranges::upper_bound(segments_, segment->id(), {}, &Segment::id),
                       segment);
      std::erase(others_, segment);
    }
    std::erase_if(segments_,
                  [change](Segment* segment) { return contains_by_id(change->leave, segment); });
    others_.insert(others_.end(), change->leave.begin(), change->leave.end());
    change->state.store(SegmentChange::State::kCarried, std::memory_order_release);
  }
  carried_.insert(carried_.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
  switch_now_ = std::exchange(roll_now_, false);
}

/// Opens a head for changes that do not wait until the present head is full. If the next head was
/// opened ahead, its digest lacks them, so it is abandoned for a new one. If it carries other
/// changes, it cannot be abandoned: it takes data at once, and then a fresh head is opened. Without
/// memory the changes wait.
void Log::open_fresh_head(Events& events) {
  if (!roll_now_ || head_ == nullptr) return;
  if (!carried_.empty()) switch_now_ = true;
  if (!carried_.empty() || abandoned_ != nullptr) return;
  const bool ordinary = has_room_for(MemoryPurpose::kWrites);
  const uint32_t emergency = emergency_seglets_.load(std::memory_order_relaxed);
  if (!ordinary && !(emergency > 0 && pool_.has_room(emergency, 0))) return;
  if (next_ != nullptr) {
    RC_SOMETIMES("log.head_that_was_opened_ahead_is_abandoned");
    abandoned_ = std::exchange(next_, nullptr);
    abandoned_->abandoned_.store(true, std::memory_order_release);
    std::erase(segments_, abandoned_);
    others_.push_back(abandoned_);
  }
  ordinary ? open_next_if_possible(events) : open_emergency_head(events);
}

/// Once an abandoned head is closed on its replicas, its digest decides nothing. It is closed after
/// the fresh head is open and before the old head is closed, so recovery finds an open head at any
/// time.
void Log::close_abandoned(Events& events) {
  if (abandoned_ == nullptr || abandoned_->closed()) return;
  if (next_ == nullptr || !next_->opened_durable()) return;
  SegmentWriter(*abandoned_).write_footer(0);
  pool_.trim(*abandoned_);
  if (!replicates_) abandoned_->mark_closed_durable();
  events.closed = abandoned_;
}

/// The head whose digest has the changes takes data, so the head before it is closed on its
/// replicas: no other digest can decide.
void Log::finish_changes(Events& events) {
  for (SegmentChange* change : carried_) {
    for (const Segment* segment : change->enter) changed_segments_.mark(segment->number());
    for (Segment* segment : change->leave) {
      retire(*segment, events);
      changed_segments_.mark(segment->number());
    }
    change->state.store(SegmentChange::State::kDone, std::memory_order_release);
  }
  carried_.clear();
  for (Segment* segment : leaving_) retire(*segment, events);
  leaving_.clear();
}

/// Leaves heads that were closed empty out of the digest of the head that is opened now. That is
/// safe: all heads before the present one were closed on their replicas before it took data, so
/// recovery does not use their digests. Nor does it need their versions, because later heads log a
/// higher safe version. If a change names such a head, the change removes it.
void Log::leave_empty_heads() {
  if (!waiting_.empty()) return;
  for (Segment* segment : empty_) {
    if (std::erase(segments_, segment) == 0) continue;
    RC_SOMETIMES("log.empty_head_leaves");
    others_.push_back(segment);
    leaving_.push_back(segment);
  }
  empty_.clear();
}

// ---- side segments

/// A segment for a SideLog; null: no memory above the reserves for other purposes.
Segment* Log::open_side_segment(MemoryPurpose purpose) {
  // A recovery takes memory without a new head.
  if (purpose != MemoryPurpose::kSurvivors) room_changes_.fetch_add(1, std::memory_order_release);
  Segment* segment = nullptr;
  {
    SpinGuard guard(lock_);
    // When memory is short, the rest of it is enough for a survivor, which is trimmed in the end.
    const uint32_t least =
        purpose == MemoryPurpose::kSurvivors ? kLeastSurvivorSeglets : kSegletsPerSegment;
    const uint32_t seglets = pool_.most_seglets(must_stay_free(purpose));
    if (seglets < least) return nullptr;
    segment = pool_.take({options_.cluster_uuid, options_.master_id, next_id_}, SegmentKind::kSide,
                         seglets);
    if (segment == nullptr) return nullptr;
    ++next_id_;
    others_.push_back(segment);
  }
  SegmentWriter(*segment).write_side_header();
  if (replicates_) {
    replicator_.segment_opened(*segment);
  } else {
    segment->mark_opened_durable();
  }
  return segment;
}

/// Its footer is published.
void Log::side_segment_closed(Segment& segment) {
  {
    SpinGuard guard(lock_);
    pool_.trim(segment);
  }
  if (replicates_) {
    replicator_.segment_closed(segment);
  } else {
    segment.mark_closed_durable();
  }
}

void Log::abort_side_segments(const std::vector<Segment*>& segments) {
  Events events;
  {
    SpinGuard guard(lock_);
    for (Segment* segment : segments) retire(*segment, events);
  }
  deliver(events);
}

// ---- retired segments

/// Precondition: the segment is in no digest that can decide.
void Log::retire(Segment& segment, Events& events) {
  retired_.push_back(&segment);
  has_retired_.store(true, std::memory_order_relaxed);
  if (!replicates_) return segment.mark_released();
  removed_.push_back(&segment);
  events.removed = true;
}

std::vector<Segment*> Log::take_retired() {
  std::vector<Segment*> taken;
  SpinGuard guard(lock_);
  std::erase_if(retired_, [&](Segment* segment) {
    if (!segment->released()) return false;
    taken.push_back(segment);
    return true;
  });
  for (const Segment* segment : taken) taken_seglets_ += segment->seglet_count_;
  has_retired_.store(!retired_.empty(), std::memory_order_relaxed);
  return taken;
}

void Log::reclaim(const std::vector<Segment*>& retired) {
  Events events;
  {
    SpinGuard guard(lock_);
    reclaim_locked(retired);
    advance(events);  // a change may have waited for memory
  }
  room_changes_.fetch_add(1, std::memory_order_release);
  deliver(events);
}

void Log::reclaim_locked(const std::vector<Segment*>& retired) {
  for (Segment* segment : retired) {
    taken_seglets_ -= segment->seglet_count_;
    if (segment->pins() > 0) {
      RC_SOMETIMES("log.pinned_segment_is_kept");
      retired_.push_back(segment);
      has_retired_.store(true, std::memory_order_relaxed);
      continue;
    }
    std::erase(others_, segment);
    const bool left = segment->has_replicas_;
    pool_.give_back(*segment);
    if (left) segments_gone_.fetch_add(1, std::memory_order_release);
  }
  follow_limit();
}

}  // namespace ramcloud::log
