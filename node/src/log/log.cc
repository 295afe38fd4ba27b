#include "log/log.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "base/spin_lock.h"
#include "log/digest.h"

namespace ramcloud::log {
namespace {

constexpr uint32_t kHalfFull = kSegmentBytes / 2;
constexpr uint32_t kUsableBytes = kSegmentBytes - kFooterReserveBytes;
constexpr uint32_t kFooterGroupBytes =
    sizeof(GroupHeader) + sizeof(EntryHeader) + sizeof(FooterBody);
// Footer and the padding before it: less than the footer's group, or it would have fitted.
static_assert(kFooterGroupBytes % kGroupAlignment == 0);
static_assert(2 * kFooterGroupBytes - kGroupAlignment <= kFooterReserveBytes);

uint32_t body_length(const EntrySource& entry) {
  uint64_t n = 0;
  for (int i = 0; i < entry.piece_count; ++i) n += entry.pieces[i].size;
  return static_cast<uint32_t>(std::min<uint64_t>(n, kSegmentBytes));
}

EntryHeader header_of(const EntrySource& entry) {
  const auto type = static_cast<char>(entry.type);
  uint32_t crc = crc32c(ByteView(&type, 1));
  for (int i = 0; i < entry.piece_count; ++i) {
    const Slice& piece = entry.pieces[i];
    crc = crc32c(ByteView(static_cast<const char*>(piece.data), piece.size), crc);
  }
  return {.length_and_type = body_length(entry) | static_cast<uint32_t>(entry.type) << 24,
          .body_crc = crc};
}

/// Bytes of padding before a group of this length at `at`, so that small groups do not straddle.
uint32_t padding_before(uint32_t at, uint32_t length) {
  const uint32_t room = kSegletBytes - at % kSegletBytes;
  return length <= kMaxContiguousGroupBytes && room < length ? room : 0;
}

}  // namespace

/// A group on its way into a segment: sized and summed before the lock, placed under it, copied
/// under it or outside.
struct Log::Group {
  explicit Group(std::span<const EntrySource> sources) : entries(sources) {
    for (size_t i = 0; i < entries.size(); ++i) {
      length += sizeof(EntryHeader) + body_length(entries[i]);
      if (length > kMaxGroupBytes) return;  // append() refuses it
      headers[i] = header_of(entries[i]);
    }
    entry_bytes = length - sizeof(GroupHeader);
    length = static_cast<uint32_t>(align_up(length, kGroupAlignment));
  }
  std::span<const EntrySource> entries;
  EntryHeader headers[kMaxGroupEntries];
  uint32_t length = sizeof(GroupHeader);  // with fill
  uint32_t entry_bytes = 0;
  GroupHeader header{};  // when it has its place
  uint32_t offset = 0;
};

/// Puts bytes into the reserved part of a segment.
class SegmentWriter {
 public:
  SegmentWriter(Segment& segment, uint32_t offset) : segment_(segment), at_(offset) {}
  void write(const void* data, size_t n) {
    const auto* from = static_cast<const char*>(data);
    while (n > 0) {
      const size_t room = std::min<size_t>(n, kSegletBytes - at_ % kSegletBytes);
      std::memcpy(segment_.address(at_), from, room);
      from += room;
      at_ += static_cast<uint32_t>(room);
      n -= room;
    }
  }
  void zero_until(uint32_t end) {
    while (at_ < end) {
      const uint32_t room = std::min(end - at_, kSegletBytes - at_ % kSegletBytes);
      std::memset(segment_.address(at_), 0, room);
      at_ += room;
    }
  }

 private:
  Segment& segment_;
  uint32_t at_;
};

Log::Log(Arena& arena, Replicator& replicator, LogOptions options)
    : arena_(arena),
      replicator_(replicator),
      options_(std::move(options)),
      replicates_(replicator.replicates()),
      durable_(replicates_ ? durable_replicated_ : durable_at_once_),
      next_id_(options_.first_segment_id),
      pool_(std::make_unique<Segment[]>(arena.total_segments())) {
  // With one segment in all there is nothing to keep in reserve.
  options_.reserve_segments = std::min(options_.reserve_segments, arena.total_segments() - 1);
  segments_.reserve(arena.total_segments());
  digest_.reserve(4096);
}

Log::~Log() {
  for (Segment* segment : segments_) arena_.free(segment->seglets_);
}

void Log::set_safe_version_source(std::function<uint64_t()> source) {
  options_.safe_version = std::move(source);
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
  Group group(entries);
  if (group.length > kMaxGroupBytes) return StatusCode::kInvalidArgument;
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
      copy(*copy_outside, group);
      {
        SpinGuard guard(lock_);
        finish_copy(*copy_outside, group.offset);
        // Rolling the head always completes: it may have waited for this copy, and nobody else
        // comes back to it.
        advance(events);
      }
      // Groups of others may have waited behind this one.
      if (!replicates_) tell_progress();
    }
    deliver(events);
    // Replication that reports at once has made the next head ready by now.
    if (status != StatusCode::kRetry || events.closed == nullptr || !ready()) return status;
  }
}

StatusCode Log::append_locked(Group& group, bool for_delete, Appended& appended, const char* refs[],
                              Segment*& copy_outside, Events& events) {
  uint32_t padding = 0;
  for (;;) {
    if (head_ == nullptr) return StatusCode::kRetry;
    if (head_->from_reserve_ && !for_delete) return StatusCode::kOutOfMemory;
    padding = padding_before(head_->reserved_, group.length);
    if (head_->reserved_ + padding + group.length <= kUsableBytes) break;
    const StatusCode status = make_room(for_delete, events);
    if (status != StatusCode::kOk) return status;
  }
  Segment& segment = *head_;
  const bool large = group.length > kMaxContiguousGroupBytes;
  if ((large || reservation_count_ > 0) && reservation_count_ == kMaxReservations) {
    return StatusCode::kRetry;
  }
  place(segment, group, padding, refs);
  const uint32_t end = segment.reserved_;
  if (large || reservation_count_ > 0) {
    auto& slot = reservations_[(first_reservation_ + reservation_count_++) % kMaxReservations];
    slot = {.start = group.offset, .end = end, .copied = false};
  }
  if (large) {
    copy_outside = &segment;
  } else {
    copy(segment, group);
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

StatusCode Log::make_room(bool for_delete, Events& events) {
  if (next_ == nullptr) open_next_if_possible(events);
  if (next_ == nullptr || (next_->from_reserve_ && !for_delete)) return StatusCode::kOutOfMemory;
  begin_switch(events);
  return head_ != nullptr && !want_switch_ ? StatusCode::kOk : StatusCode::kRetry;
}

/// The head takes no more data, from whomever: what comes now waits for the next one.
void Log::begin_switch(Events& events) {
  want_switch_ = true;
  takes_data_.store(false, std::memory_order_seq_cst);
  advance(events);
}

/// Moves the head switch on as far as the replicas allow: close the full head once the next is
/// open, use the next once the old one is closed.
void Log::advance(Events& events) {
  if (head_ != nullptr && want_switch_ && reservation_count_ == 0 && next_ != nullptr &&
      next_->opened_durable()) {
    close_head(events);
  }
  if (head_ != nullptr || next_ == nullptr || !next_->opened_durable()) return;
  if (closing_ != nullptr && !closing_->closed_durable()) return;
  closing_ = nullptr;
  head_ = next_;
  next_ = nullptr;
  takes_data_.store(true, std::memory_order_seq_cst);
  ++counters_.head_switches;
  events.switched = true;
  const LogPosition begin = head_->position(head_->reserved_);
  head_position_.store(begin.value, std::memory_order_release);
  if (!replicates_) raise_durable(begin);
}

void Log::close_head(Events& events) {
  Segment& segment = *head_;
  const uint32_t padding = padding_before(segment.reserved_, kFooterGroupBytes);
  if (padding > 0) place_padding(segment, padding);
  const FooterBody body{.length = segment.reserved_, .crc = segment.footer_crc_};
  const EntrySource entry{
      .type = EntryType::kFooter, .piece_count = 1, .pieces = {Slice(&body, sizeof body)}};
  Group group(std::span(&entry, 1));
  const char* ref = nullptr;
  place(segment, group, 0, &ref);
  copy(segment, group);
  publish(segment, segment.reserved_);
  segment.closed_.store(true, std::memory_order_release);
  head_position_.store(segment.position(segment.reserved_).value, std::memory_order_release);
  closing_ = head_;
  head_ = nullptr;
  want_switch_ = false;
  events.closed = closing_;
  if (!replicates_) closing_->mark_closed_durable();
}

void Log::open_next_if_possible(Events& events) {
  const uint32_t free = free_segments();
  if (next_ != nullptr || free == 0) return;
  Segment& segment = pool_[segments_.size()];
  if (!arena_.allocate(segment, segment.seglets_)) return;
  segment.identity_ = {options_.cluster_uuid, options_.master_id, next_id_++};
  segment.checksum_seed_ = segment.identity_.checksum_seed();
  segment.from_reserve_ = free <= options_.reserve_segments;
  if (!segments_.empty()) {
    segment.set_replication_epoch(segments_.back()->replication_epoch());
  }
  segments_.push_back(&segment);
  write_header_group(segment);
  if (!replicates_) segment.mark_opened_durable();
  next_ = &segment;
  events.opened = &segment;
}

void Log::write_header_group(Segment& segment) {
  SegmentHeaderBody header{.format_version = kFormatVersion,
                           .flags = 1,
                           .segment_bytes = kSegmentBytes,
                           .cluster_uuid = {},
                           .master_id = options_.master_id,
                           .segment_id = segment.id()};
  std::copy(options_.cluster_uuid.begin(), options_.cluster_uuid.end(), header.cluster_uuid);
  DigestEncoder digest(digest_);
  for (const Segment* member : segments_) digest.add(member->id());
  digest.finish();
  const SafeVersionBody safe{options_.safe_version ? options_.safe_version() : 1};
  const EntrySource entries[] = {
      {EntryType::kSegmentHeader, 1, {Slice(&header, sizeof header)}},
      {EntryType::kLogDigest, 1, {Slice(digest_)}},
      {EntryType::kSafeVersion, 1, {Slice(&safe, sizeof safe)}},
  };
  Group group{std::span(entries)};
  const char* refs[std::size(entries)];
  place(segment, group, 0, refs);
  copy(segment, group);
  segment.header_length_ = segment.reserved_;
  segment.published_.store(segment.reserved_, std::memory_order_release);
}

/// Gives the group its place behind `padding` bytes, and with it its header.
void Log::place(Segment& segment, Group& group, uint32_t padding, const char* refs[]) {
  if (padding > 0) place_padding(segment, padding);
  group.offset = segment.reserved_;
  segment.reserved_ += group.length;
  GroupHeader& header = group.header;
  header.length_and_magic = group.length | uint32_t{kGroupMagic} << 24;
  header.replication_epoch = segment.replication_epoch();
  header.durable_up_to = durable_in(segment);
  uint32_t crc = crc32c(bytes_of(group.offset), segment.checksum_seed_);
  crc = crc32c(bytes_of(header).substr(0, offsetof(GroupHeader, crc)), crc);
  uint32_t at = group.offset + sizeof(GroupHeader);
  for (size_t i = 0; i < group.entries.size(); ++i) {
    crc = crc32c(bytes_of(group.headers[i]), crc);
    refs[i] = segment.address(at);
    at += sizeof(EntryHeader) + group.headers[i].length();
  }
  header.crc = crc;
  segment.footer_crc_ = crc32c(bytes_of(crc), segment.footer_crc_);
}

void Log::place_padding(Segment& segment, uint32_t length) {
  const uint32_t offset = segment.reserved_;
  segment.reserved_ += length;
  PaddingHeader header{.length_and_magic = length | uint32_t{kPaddingMagic} << 24, .crc = 0};
  uint32_t crc = crc32c(bytes_of(offset), segment.checksum_seed_);
  crc = crc32c(bytes_of(header).substr(0, offsetof(PaddingHeader, crc)), crc);
  header.crc = crc;
  segment.footer_crc_ = crc32c(bytes_of(crc), segment.footer_crc_);
  SegmentWriter writer(segment, offset);
  writer.write(&header, sizeof header);
  writer.zero_until(offset + length);
}

void Log::copy(Segment& segment, const Group& group) {
  SegmentWriter writer(segment, group.offset);
  writer.write(&group.header, sizeof group.header);
  for (size_t i = 0; i < group.entries.size(); ++i) {
    writer.write(&group.headers[i], sizeof group.headers[i]);
    const EntrySource& entry = group.entries[i];
    for (int p = 0; p < entry.piece_count; ++p) {
      writer.write(entry.pieces[p].data, entry.pieces[p].size);
    }
  }
  writer.zero_until(group.offset + group.length);
}

/// Brings the lines that the next small group will be written to. They are not in any cache:
/// without this the next locked instruction would wait until the copy has them
/// (docs/benchmarks/profile.md).
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

void Log::deliver(const Events& events) {
  if (replicates_ && events.closed != nullptr) replicator_.segment_closed(*events.closed);
  if (replicates_ && events.opened != nullptr) replicator_.segment_opened(*events.opened);
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

bool Log::raise_durable(LogPosition position) {
  uint64_t before = durable_.load(std::memory_order_relaxed);
  while (before < position.value) {
    if (durable_.compare_exchange_weak(before, position.value, std::memory_order_seq_cst,
                                       std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void Log::set_durable(LogPosition position) {
  if (raise_durable(position)) tell_progress();
}

uint32_t Log::durable_in(const Segment& segment) const {
  const LogPosition position = durable();
  return position.segment_id() == segment.id() ? position.offset() : 0;
}

LogPosition Log::position_of(const char* entry_address) const {
  const Arena::Location where = arena_.locate(entry_address);
  return where.segment->position(where.offset + entry(entry_address).total_length());
}

void Log::mark_dead(const char* address) {
  arena_.segment_of(address)->add_dead(entry(address).total_length());
}

LogStatistics Log::statistics() const {
  const std::vector<Segment*> all = segments();
  LogStatistics s;
  {
    SpinGuard guard(lock_);
    s = counters_;
    s.appended_groups = appended_groups_;
    s.appended_bytes = appended_bytes_;
  }
  s.total_segments = arena_.total_segments();
  s.free_segments = free_segments();
  s.reserve_segments = options_.reserve_segments;
  s.total_bytes = uint64_t{s.total_segments} * kSegmentBytes;
  // Outside the lock: there may be thousands, and each is a cache miss or two.
  for (const Segment* segment : all) {
    s.used_bytes += segment->published();
    s.live_bytes += segment->live_bytes();
  }
  return s;
}

std::vector<Segment*> Log::segments() const {
  std::vector<Segment*> copy;
  copy.reserve(arena_.total_segments());  // outside the lock
  SpinGuard guard(lock_);
  copy.assign(segments_.begin(), segments_.end());
  return copy;
}

Segment* Log::find_segment(uint64_t id) const {
  SpinGuard guard(lock_);
  const auto at = std::lower_bound(segments_.begin(), segments_.end(), id,
                                   [](const Segment* s, uint64_t key) { return s->id() < key; });
  return at != segments_.end() && (*at)->id() == id ? *at : nullptr;
}

}  // namespace ramcloud::log
