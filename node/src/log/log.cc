#include "log/log.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/logging.h"
#include "base/sometimes.h"
#include "base/spin_lock.h"
#include "log/digest.h"
#include "log/segment_writer.h"

namespace ramcloud::log {
namespace {

constexpr uint32_t kHalfFull = kSegmentBytes / 2;

}  // namespace

Log::Log(Arena& arena, Replicator& replicator, LogOptions options)
    : arena_(arena),
      replicator_(replicator),
      options_(std::move(options)),
      replicates_(replicator.replicates()),
      durable_(replicates_ ? durable_replicated_ : durable_at_once_),
      next_id_(options_.first_segment_id),
      pool_(arena),
      changed_segments_(pool_.most()) {
  most_segments_.store(pool_.capacity(), std::memory_order_relaxed);
  most_segments_ever_ = pool_.most();
  segments_kept_for_ = arena_.total_segments();
  // A log with so little memory is not cleaned.
  options_.cleaner_segments = std::min(
      options_.cleaner_segments,
      segments_kept_for_ - 1 - std::min(options_.reserve_segments, segments_kept_for_ - 1));
  keep_reserves(segments_kept_for_, options_.cleaner_segments);
  for (auto* list : {&segments_, &others_, &removed_, &retired_, &empty_, &leaving_}) {
    list->reserve(pool_.capacity());
  }
  digest_.reserve(4096);
  tablets_.reserve(kMaxOwnedTabletsBytes);  // address space; pages that are not used take no memory
}

Log::~Log() {
  for (const auto* list : {&segments_, &others_}) {
    for (Segment* segment : *list) {
      arena_.free(std::span(segment->seglets_).first(segment->seglet_count_));
    }
  }
}

void Log::set_safe_version_source(std::function<uint64_t()> source) {
  options_.safe_version = std::move(source);
}

void Log::set_owned_tablets_source(std::function<void(OwnedTabletsEncoder&)> source) {
  options_.owned_tablets = std::move(source);
}

void Log::set_progress_listener(std::function<void()> fn) {
  on_progress_ = std::move(fn);
}

void Log::start() {
  Events events;
  {
    SpinGuard guard(lock_);
    if (!segments_.empty()) fatal("log started twice", {{"master_id", options_.master_id}});
    open_next_if_possible(events);
    advance(events);
  }
  deliver(events);
}

StatusCode Log::append(std::span<const EntrySource> entries, bool for_delete, Appended& appended,
                       const char* refs[]) {
  if (entries.empty() || entries.size() > kMaxGroupEntries) return StatusCode::kInvalidArgument;
  GroupSource group(entries);
  if (group.too_large()) return StatusCode::kInvalidArgument;
  for (;;) {
    Events events;
    Segment* copy_outside = nullptr;
    StatusCode status;
    {
      SpinGuard guard(lock_);
      status = append_locked(group, for_delete, appended, refs, copy_outside, events);
      if (status == StatusCode::kRetry) {
        RC_SOMETIMES("log.append_waits_for_the_next_head");
        ++counters_.retries;
      }
      if (status == StatusCode::kOutOfMemory) ++counters_.out_of_memory;
    }
    if (copy_outside != nullptr) {
      SegmentWriter(*copy_outside).copy(group);
      {
        SpinGuard guard(lock_);
        finish_copy(*copy_outside, group.offset);
        // Move a head switch on: it may have waited for this copy, and nobody else would continue
        // it.
        advance(events);
      }
      // Groups of other threads may have waited for this one to be published.
      if (!replicates_) tell_progress();
    }
    deliver(events);
    // If replication reports at once, the next head is ready now.
    if (status != StatusCode::kRetry || events.closed == nullptr || !ready()) return status;
  }
}

StatusCode Log::append_locked(GroupSource& group, bool for_delete, Appended& appended,
                              const char* refs[], Segment*& copy_outside, Events& events) {
  for (;;) {
    if (head_ == nullptr) return StatusCode::kRetry;
    if (head_->from_reserve() && !for_delete) lift_restrictions();
    const auto takes = head_->takes_.load(std::memory_order_relaxed);
    if (takes != Segment::Takes::kAll && !for_delete && !head_for_all_may_follow()) {
      return StatusCode::kOutOfMemory;
    }
    const bool takes_it =
        takes == Segment::Takes::kAll || (takes == Segment::Takes::kDeletes && for_delete);
    if (takes_it && SegmentWriter(*head_).has_room(group)) break;
    const StatusCode status = make_room(for_delete, events);
    if (status != StatusCode::kOk) return status;
  }
  Segment& segment = *head_;
  SegmentWriter writer(segment);
  const bool large = group.length > kMaxContiguousGroupBytes;
  if ((large || reservation_count_ > 0) && reservation_count_ == kMaxReservations) {
    return StatusCode::kRetry;
  }
  writer.place(group, durable_in(segment), refs);
  const uint32_t end = segment.reserved_;
  if (large || reservation_count_ > 0) {
    auto& slot = reservations_[(first_reservation_ + reservation_count_++) % kMaxReservations];
    slot = {.start = group.offset, .end = end, .copied = false};
  }
  if (large) {
    copy_outside = &segment;
  } else {
    writer.copy(group);
    if (reservation_count_ > 0) {
      finish_copy(segment, group.offset);
    } else {
      publish(segment, end);
    }
  }
  segment.entry_bytes_.store(segment.entry_bytes() + group.entry_bytes, std::memory_order_relaxed);
  appended.end = segment.position(end);
  head_position_.store(appended.end.value, std::memory_order_release);
  ++appended_groups_;
  appended_bytes_ += group.length;
  fetch_room(segment, end);
  if (end > kHalfFull && next_ == nullptr) open_next_if_possible(events);
  return StatusCode::kOk;
}

/// The next head is open already, or there is memory for it.
bool Log::head_for_all_may_follow() const {
  if (next_ == nullptr) return has_room_for(MemoryPurpose::kWrites);
  return next_->takes_.load(std::memory_order_relaxed) == Segment::Takes::kAll;
}

StatusCode Log::make_room(bool for_delete, Events& events) {
  if (next_ == nullptr) open_next_if_possible(events);
  if (next_ == nullptr || (next_->from_reserve() && !for_delete)) return StatusCode::kOutOfMemory;
  begin_switch(events);
  return head_ != nullptr && !want_switch_ ? StatusCode::kOk : StatusCode::kRetry;
}

/// The head takes no more data, from any thread: appends from now on wait for the next head.
void Log::begin_switch(Events& events) {
  want_switch_ = true;
  takes_data_.store(false, std::memory_order_seq_cst);
  advance(events);
}

/// Continues a head switch as far as the replicas allow. The steps: open a fresh head for changes
/// that want one; when it is open, close the head that was opened ahead before it; close the full
/// head; when that is durable, let the next head take data.
void Log::advance(Events& events) {
  lift_restrictions();
  do {
    open_fresh_head(events);
    leave_emergency_head(events);
    close_abandoned(events);
    if (!next_may_follow()) return;
    if (head_ != nullptr && switch_now_) {
      want_switch_ = true;
      takes_data_.store(false, std::memory_order_seq_cst);
    }
    if (head_ != nullptr && want_switch_ && reservation_count_ == 0) close_head(events);
  } while (take_next(events));
}

/// The next head is open on its replicas, and no abandoned head is open on any. So recovery uses
/// the digest of the next head or of the present one.
bool Log::next_may_follow() const {
  return next_ != nullptr && next_->opened_durable() &&
         (abandoned_ == nullptr || abandoned_->closed_durable());
}

bool Log::take_next(Events& events) {
  if (head_ != nullptr || !next_may_follow()) return false;
  if (closing_ != nullptr && !closing_->closed_durable()) return false;
  if (closing_ != nullptr) {
    if (closing_->takes_.load(std::memory_order_relaxed) == Segment::Takes::kNothing) {
      retire(*closing_, events);
    } else if (closing_->entry_bytes() == 0) {
      empty_.push_back(closing_);
    }
    changed_segments_.mark(closing_->number());
  }
  if (closing_ != nullptr) head_before_.store(closing_->id(), std::memory_order_relaxed);
  closing_ = nullptr;
  head_ = std::exchange(next_, nullptr);
  takes_data_.store(true, std::memory_order_seq_cst);
  ++counters_.head_switches;
  events.switched = true;
  const LogPosition begin = head_->position(head_->reserved_);
  head_position_.store(begin.value, std::memory_order_release);
  if (!replicates_) raise_durable(begin);
  if (abandoned_ != nullptr) retire(*std::exchange(abandoned_, nullptr), events);
  finish_changes(events);
  return true;
}

void Log::close_head(Events& events) {
  Segment& segment = *head_;
  SegmentWriter(segment).write_footer(durable_in(segment));
  if (!replicates_) raise_durable(segment.position(segment.reserved_));
  head_position_.store(segment.position(segment.reserved_).value, std::memory_order_release);
  pool_.trim(segment);
  closing_ = head_;
  head_ = nullptr;
  want_switch_ = switch_now_ = false;
  events.closed = closing_;
  if (!replicates_) closing_->mark_closed_durable();
}

void Log::open_next_if_possible(Events& events) {
  if (next_ != nullptr) return;
  const bool for_all = has_room_for(MemoryPurpose::kWrites);
  if (!for_all && !has_room_for(MemoryPurpose::kDeletes)) return;
  Segment* segment =
      pool_.take({options_.cluster_uuid, options_.master_id, next_id_}, SegmentKind::kHead);
  if (segment == nullptr) return;
  segment->takes_.store(for_all ? Segment::Takes::kAll : Segment::Takes::kDeletes,
                        std::memory_order_relaxed);
  // Without cleaning, changes free no memory, so they may not use the reserve for deletes.
  if (for_all || cleans()) carry_changes();
  open_head(*segment, events);
}

/// Precondition: its memory was taken, and segments_ includes the changes that it carries.
void Log::open_head(Segment& segment, Events& events) {
  ++next_id_;
  if (const Segment* before = head_ != nullptr ? head_ : closing_) {
    segment.set_replication_epoch(before->replication_epoch());
  }
  drop_emergency_head();
  leave_empty_heads();
  segments_.push_back(&segment);
  write_header_group(segment);
  if (!replicates_) segment.mark_opened_durable();
  next_ = &segment;
  events.opened = &segment;
}

void Log::write_header_group(Segment& segment) {
  DigestEncoder digest(digest_);
  for (const Segment* member : segments_) digest.add(member->id());
  digest.finish();
  SegmentWriter writer(segment);
  tablets_.clear();
  if (options_.owned_tablets) {
    OwnedTabletsEncoder tablets(tablets_, writer.room_for_tablets(digest_.size()));
    options_.owned_tablets(tablets);
    if (!tablets.finish()) RC_SOMETIMES("log.head_without_a_list_of_tablets");
  }
  writer.write_head_header(digest_, options_.safe_version ? options_.safe_version() : 1, tablets_);
}

/// Prefetches the cache lines that the next small group will be written to. Otherwise the next
/// locked instruction would wait until the copy has them (docs/benchmarks/profile.md).
void Log::fetch_room(Segment& segment, uint32_t from) {
  constexpr uint32_t kRoom = 384;  // an object of 100 bytes and the tombstone of the one before
  const uint32_t until = std::min(from + kRoom, kSegmentBytes);
  for (uint32_t at = from; at < until; at += kCacheLineBytes) {
    __builtin_prefetch(segment.address(at), 1);
  }
}

void Log::publish(Segment& segment, uint32_t end) {
  segment.published_.store(end, std::memory_order_release);
  if (!replicates_) raise_durable(segment.position(end));
}

void Log::finish_copy(Segment& segment, uint32_t start) {
  for (uint32_t i = 0; i < reservation_count_; ++i) {
    auto& slot = reservations_[(first_reservation_ + i) % kMaxReservations];
    if (slot.start == start) slot.copied = true;
  }
  uint32_t end = 0;
  while (reservation_count_ > 0 && reservations_[first_reservation_].copied) {
    end = reservations_[first_reservation_].end;
    first_reservation_ = (first_reservation_ + 1) % kMaxReservations;
    --reservation_count_;
  }
  if (end > 0) publish(segment, end);
}

void Log::deliver_some(const Events& events) {
  if (replicates_ && events.closed != nullptr) replicator_.segment_closed(*events.closed);
  if (replicates_ && events.opened != nullptr) replicator_.segment_opened(*events.opened);
  while (events.removed && replicates_) {
    Segment* removed = nullptr;
    {
      SpinGuard guard(lock_);
      if (removed_.empty()) break;
      removed = removed_.back();
      removed_.pop_back();
    }
    replicator_.segment_removed(*removed);
  }
  if (events.switched) tell_progress();
}

void Log::on_replication_progress() {
  Events events;
  {
    SpinGuard guard(lock_);
    advance(events);
  }
  deliver(events);
}

bool Log::withdraw_opened(Segment& segment) {
  SpinGuard guard(lock_);
  const bool needed =
      &segment != next_ || head_ == nullptr || (abandoned_ != nullptr && abandoned_->closed());
  if (!needed) segment.unmark_opened_durable();
  return !needed;
}

StatusCode Log::roll_head() {
  Events events;
  {
    SpinGuard guard(lock_);
    open_next_if_possible(events);
    if (next_ == nullptr) return StatusCode::kOutOfMemory;
    head_ != nullptr ? begin_switch(events) : advance(events);
  }
  deliver(events);
  return StatusCode::kOk;
}

bool Log::ready() const {
  SpinGuard guard(lock_);
  return head_ != nullptr && !want_switch_;
}

uint64_t Log::newest_head() const {
  SpinGuard guard(lock_);
  for (const Segment* segment : {next_, head_, closing_}) {
    if (segment != nullptr) return segment->id();
  }
  return 0;
}

bool Log::raise(Atomic<uint64_t>& value, LogPosition to) {
  uint64_t before = value.load(std::memory_order_relaxed);
  while (before < to.value) {
    if (value.compare_exchange_weak(before, to.value, std::memory_order_seq_cst,
                                    std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void Log::set_durable(LogPosition position) {
  if (raise_durable(position)) tell_progress();
}

void Log::want_synced(LogPosition position) {
  if (synced() < position) replicator_.sync_wanted(position);
}

void Log::set_synced(LogPosition position) {
  if (raise(synced_, position)) tell_progress();
}

uint32_t Log::durable_in(const Segment& segment) const {
  const LogPosition position = durable();
  return position.segment_id() == segment.id() ? position.offset() : 0;
}

LogPosition Log::position_of(const char* entry_address) const {
  const Arena::Location where = arena_.locate(entry_address);
  return where.segment->dependency(where.offset + entry(entry_address).total_length());
}

Pin Log::pin(const EntryView& entry) const {
  return Pin(*arena_.segment_of(entry.address()));
}

LogStatistics Log::statistics() const {
  std::vector<Segment*> all = segments();
  std::ranges::copy(others(), std::back_inserter(all));
  LogStatistics s;
  {
    SpinGuard guard(lock_);
    s = counters_;
    s.appended_groups = appended_groups_;
    s.appended_bytes = appended_bytes_;
    s.free_segments = pool_.free_segments();
  }
  s.free_bytes = uint64_t{arena_.free_seglets()} * kSegletBytes;
  s.total_segments = arena_.total_segments();

  s.reserve_segments = reserve_seglets_.load(std::memory_order_relaxed) / kSegletsPerSegment;
  s.total_bytes = uint64_t{s.total_segments} * kSegmentBytes;
  // Without the lock: there may be thousands of segments, with one or two cache misses each.
  for (const Segment* segment : all) {
    s.used_bytes += segment->published();
    s.entry_bytes += segment->entry_bytes();
    s.live_bytes += segment->live_bytes();
  }
  return s;
}

std::vector<Segment*> Log::segments() const {
  std::vector<Segment*> copy;
  copy.reserve(arena_.total_segments());  // without the lock; enough, unless many segments were
                                          // closed early
  SpinGuard guard(lock_);
  copy.assign(segments_.begin(), segments_.end());
  return copy;
}

std::vector<Segment*> Log::others() const {
  SpinGuard guard(lock_);
  return others_;
}

Segment* Log::find_segment(uint64_t id) const {
  SpinGuard guard(lock_);
  const auto at = std::lower_bound(segments_.begin(), segments_.end(), id,
                                   [](const Segment* s, uint64_t key) { return s->id() < key; });
  return at != segments_.end() && (*at)->id() == id ? *at : nullptr;
}

}  // namespace ramcloud::log
