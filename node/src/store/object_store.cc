#include "store/object_store.h"

#include <algorithm>
#include <bit>

#include "base/hash.h"
#include "base/sometimes.h"

namespace ramcloud::store {

using log::EntryType;
using log::EntryView;
using log::LogPosition;
using wire::RejectRules;

namespace {

StatusCode check_rules(const RejectRules& rules, bool exists, uint64_t version) {
  if (!exists) {
    if (rules.flags & RejectRules::kIfAbsent) return StatusCode::kNotFound;
    if (rules.flags & RejectRules::kIfVersionNotEqual) return StatusCode::kWrongVersion;
    return StatusCode::kOk;
  }
  if (rules.flags & RejectRules::kIfExists) return StatusCode::kExists;
  if ((rules.flags & RejectRules::kIfVersionNotEqual) && version != rules.version) {
    return StatusCode::kWrongVersion;
  }
  if ((rules.flags & RejectRules::kIfVersionAtMost) && version <= rules.version) {
    return StatusCode::kWrongVersion;
  }
  return StatusCode::kOk;
}

uint64_t add_numbers(wire::NumberType type, uint64_t a, uint64_t b) {
  if (type == wire::NumberType::kInt64)
    return a + b;  // two's complement: the same addition of
                   // bits
  return std::bit_cast<uint64_t>(std::bit_cast<double>(a) + std::bit_cast<double>(b));
}

bool valid_request(ByteView key, const RejectRules& rules) {
  return key.size() <= kMaxKeyBytes && (rules.flags & ~wire::kAllRejectFlags) == 0;
}

}  // namespace

ObjectStore::ObjectStore(log::Log& log, Clock& clock, StoreOptions options)
    : ObjectStore(log, clock, options, HashTable::Memory(options.buckets)) {}

ObjectStore::ObjectStore(log::Log& log, Clock& clock, StoreOptions options, HashTable::Memory table)
    : log_(log),
      clock_(clock),
      options_(options),
      table_(std::move(table)),
      pending_(std::make_unique_for_overwrite<PendingDelete[]>(options.max_pending_deletes)) {
  log_.set_safe_version_source([this] { return safe_version(); });
  log_.set_owned_tablets_source(
      [this](log::OwnedTabletsEncoder& encoder) { tablets_.list_owned(encoder); });
}

ObjectStore::~ObjectStore() = default;

bool ObjectStore::matches(const char* address, uint64_t table_id, ByteView key) const {
  const EntryView entry = log_.entry(address);
  // Only entries that the log appended are in the table, so their lengths are valid.
  if (entry.type() == EntryType::kObject) {
    const auto body = entry.load_at<log::ObjectBody>(0);
    return body.table_id == table_id && body.key_length == key.size() &&
           entry.equals(sizeof(log::ObjectBody), key);
  }
  const auto body = entry.load_at<log::TombstoneBody>(0);
  return body.table_id == table_id && body.key_length == key.size() &&
         entry.equals(sizeof(log::TombstoneBody), key);
}

LogPosition ObjectStore::dependency(const char* address) const {
  const LogPosition position = log_.position_of(address);
  return position <= log_.durable() ? LogPosition() : position;
}

/// Inline, so that the result stays in registers.
[[gnu::always_inline]] inline ObjectStore::Found ObjectStore::describe(const char* address) const {
  Found found;
  found.address = address;
  if (address == nullptr) return found;
  found.depends_on = dependency(address);
  const EntryView entry = log_.entry(address);
  if (entry.type() == EntryType::kTombstone) {
    found.is_tombstone = true;
    found.version = entry.load_at<log::TombstoneBody>(0).version;
    return found;
  }
  found.object = *log::parse_object(entry);
  found.version = found.object.version;
  return found;
}

ObjectStore::Found ObjectStore::found_at(const char* address) const {
  return describe(address);
}

/// One above the old version. Without an old version it is the floor, which only deletes raise: so
/// creating an object writes nothing that is shared between threads.
uint64_t ObjectStore::next_version(uint64_t old_version) {
  const uint64_t version =
      std::max(old_version + 1, version_floor_.load(std::memory_order_relaxed));
  raise_version_floor(version);
  return version;
}

void ObjectStore::raise_version_floor(uint64_t version) {
  uint64_t floor = version_floor_.load(std::memory_order_relaxed);
  while (floor < version &&
         !version_floor_.compare_exchange_weak(floor, version, std::memory_order_release,
                                               std::memory_order_relaxed)) {
  }
}

uint64_t ObjectStore::prefetch(uint64_t table_id, ByteView key) const {
  const uint64_t hash = key_hash(table_id, key);
  table_.prefetch(hash);
  return hash;
}

StatusCode ObjectStore::read(uint64_t table_id, ByteView key, const RejectRules& reject,
                             ReadResult& result) const {
  return read(table_id, key, key_hash(table_id, key), reject, result);
}

StatusCode ObjectStore::read(uint64_t table_id, ByteView key, uint64_t hash,
                             const RejectRules& reject, ReadResult& result) const {
  result = {};
  if (!valid_request(key, reject)) return StatusCode::kInvalidArgument;
  if (tablets_.find_served(table_id, hash) == nullptr) return StatusCode::kUnknownTablet;
  const Found found = describe(
      table_.lookup(hash, [&](const char* address) { return matches(address, table_id, key); }));
  result.depends_on = found.depends_on;
  if (found.exists()) result.version = found.version;
  const StatusCode status = check_rules(reject, found.exists(), found.version);
  if (status != StatusCode::kOk) return status;
  if (!found.exists()) return StatusCode::kNotFound;
  result.entry = found.object.entry;
  result.value_offset = found.object.value_offset;
  result.value_length = found.object.value_length;
  return StatusCode::kOk;
}

StatusCode ObjectStore::find_target(Target& target, const RejectRules& reject,
                                    LogPosition& depends_on) {
  target.tablet = tablets_.find_served(target.table_id, target.hash);
  if (target.tablet == nullptr) return StatusCode::kUnknownTablet;
  target.slot = table_.find(target.hash, [&](const char* address) {
    return matches(address, target.table_id, target.key);
  });
  target.old = describe(target.slot ? HashTable::address_in(*target.slot) : nullptr);
  depends_on = target.old.depends_on;
  return check_rules(reject, target.old.exists(), target.old.version);
}

StatusCode ObjectStore::put(const Target& target, ByteView value, uint64_t& version,
                            LogPosition& depends_on) {
  const Found& old = target.old;
  const auto now_s = static_cast<uint32_t>(clock_.unix_ms() / 1000);
  const log::ObjectBody body{.table_id = target.table_id,
                             .version = next_version(old.version),
                             .timestamp_s = now_s,
                             .key_length = static_cast<uint16_t>(target.key.size()),
                             .extra_keys = 0,
                             .flags = 0};
  log::EntrySource entries[2] = {
      {EntryType::kObject, 3, {Slice(&body, sizeof body), Slice(target.key), Slice(value)}}, {}};
  log::TombstoneBody dead{};
  size_t count = 1;
  if (old.is_tombstone) RC_SOMETIMES("store.key_is_written_over_its_fresh_delete");
  if (old.exists()) {
    dead = {.table_id = target.table_id,
            .version = old.version,
            .log_id = log_.options().master_id,
            .segment_id = log_.arena().segment_of(old.address)->id(),
            .timestamp_s = now_s,
            .key_length = static_cast<uint16_t>(target.key.size()),
            .flags = 0};
    entries[count++] = {EntryType::kTombstone, 2, {Slice(&dead, sizeof dead), Slice(target.key)}};
  }
  log::Appended appended;
  const char* refs[2];
  const StatusCode status = log_.append(std::span(entries, count), false, appended, refs);
  if (status != StatusCode::kOk) return status;

  const auto size = static_cast<int64_t>(log_.entry(refs[0]).total_length());
  if (target.slot != nullptr) {
    table_.replace(*target.slot, target.hash, refs[0]);
  } else {
    table_.insert(target.hash, refs[0]);
  }
  if (old.exists()) {
    log_.mark_dead(old.address);
    target.tablet->count(0, size - int64_t{old.object.entry.total_length()});
  } else {
    target.tablet->count(1, size);
  }
  version = body.version;
  depends_on = appended.end <= log_.durable() ? LogPosition() : appended.end;
  return StatusCode::kOk;
}

StatusCode ObjectStore::write(uint64_t table_id, ByteView key, ByteView value,
                              const RejectRules& reject, uint64_t& version,
                              LogPosition& depends_on) {
  return write(table_id, key, key_hash(table_id, key), value, reject, version, depends_on);
}

StatusCode ObjectStore::write(uint64_t table_id, ByteView key, uint64_t hash, ByteView value,
                              const RejectRules& reject, uint64_t& version,
                              LogPosition& depends_on) {
  version = 0;
  depends_on = {};
  if (!valid_request(key, reject) || value.size() > kMaxValueBytes) {
    return StatusCode::kInvalidArgument;
  }
  Target target(table_id, key, hash);
  SpinGuard guard(table_.lock_of(target.hash));
  const StatusCode rejected = find_target(target, reject, depends_on);
  if (target.old.exists()) version = target.old.version;
  if (rejected != StatusCode::kOk) return rejected;
  return put(target, value, version, depends_on);
}

StatusCode ObjectStore::increment(uint64_t table_id, ByteView key, wire::NumberType type,
                                  uint64_t delta, const RejectRules& reject, Incremented& result,
                                  LogPosition& depends_on) {
  result = {};
  depends_on = {};
  if (!valid_request(key, reject)) return StatusCode::kInvalidArgument;
  if (type != wire::NumberType::kInt64 && type != wire::NumberType::kDouble) {
    return StatusCode::kInvalidArgument;
  }
  Target target(table_id, key, key_hash(table_id, key));
  SpinGuard guard(table_.lock_of(target.hash));
  const StatusCode rejected = find_target(target, reject, depends_on);
  if (rejected != StatusCode::kOk) return rejected;
  uint64_t present = 0;  // the bits of the integer 0 and of 0.0
  if (target.old.exists()) {
    const log::ObjectView& object = target.old.object;
    result.value_length = object.value_length;
    if (object.value_length != sizeof present) return StatusCode::kInvalidArgument;
    object.entry.read(object.value_offset, &present, sizeof present);
  }
  result.bits = add_numbers(type, present, delta);
  return put(target, bytes_of(result.bits), result.version, depends_on);
}

/// Appends the tombstone of a delete; `key_pieces` (at most three) are the key. A later write to
/// the key gets a higher version, even when the tombstone is no longer in the table.
StatusCode ObjectStore::append_tombstone(const Found& victim, uint64_t table_id, Slice key_pieces[],
                                         int key_piece_count, Reserve reserve,
                                         log::Appended& appended, const char*& address) {
  raise_version_floor(victim.version + 1);
  const log::TombstoneBody body{.table_id = table_id,
                                .version = victim.version,
                                .log_id = log_.options().master_id,
                                .segment_id = log_.arena().segment_of(victim.address)->id(),
                                .timestamp_s = static_cast<uint32_t>(clock_.unix_ms() / 1000),
                                .key_length = victim.object.key_length,
                                .flags = 1};
  log::EntrySource entry{EntryType::kTombstone,
                         static_cast<uint8_t>(1 + key_piece_count),
                         {Slice(&body, sizeof body)}};
  for (int i = 0; i < key_piece_count; ++i) entry.pieces[1 + i] = key_pieces[i];
  return log_.append(std::span(&entry, 1), reserve == Reserve::kUse, appended, &address);
}

StatusCode ObjectStore::remove(uint64_t table_id, ByteView key, const RejectRules& reject,
                               uint64_t& version, LogPosition& depends_on) {
  return remove(table_id, key, key_hash(table_id, key), reject, version, depends_on);
}

StatusCode ObjectStore::remove(uint64_t table_id, ByteView key, uint64_t hash,
                               const RejectRules& reject, uint64_t& version,
                               LogPosition& depends_on) {
  version = 0;
  depends_on = {};
  if (!valid_request(key, reject)) return StatusCode::kInvalidArgument;
  if (!reserve_pending_delete()) return StatusCode::kRetry;
  Target target(table_id, key, hash);
  SpinGuard guard(table_.lock_of(target.hash));
  const StatusCode rejected = find_target(target, reject, depends_on);
  const Found& old = target.old;
  if (old.exists()) version = old.version;
  if (rejected != StatusCode::kOk || !old.exists()) return rejected;

  log::Appended appended;
  const char* tombstone = nullptr;
  Slice pieces[] = {Slice(key)};
  const StatusCode status =
      append_tombstone(old, table_id, pieces, 1, Reserve::kUse, appended, tombstone);
  if (status != StatusCode::kOk) return status;
  log_.mark_dead(old.address);
  target.tablet->count(-1, -int64_t{old.object.entry.total_length()});
  table_.replace(*target.slot, target.hash, tombstone);
  add_pending_delete({target.hash, tombstone, appended.end});
  depends_on = appended.end <= log_.durable() ? LogPosition() : appended.end;
  return StatusCode::kOk;
}

/// True if there is room for one more pending delete, and for one of each other thread between this
/// call and add_pending_delete().
bool ObjectStore::reserve_pending_delete() {
  constexpr uint32_t kMargin = 64;
  constexpr uint32_t kSwept = 128;  // about 20 us
  if (pending_deletes() + kMargin <= options_.max_pending_deletes) return true;
  (void)sweep(kSwept);
  return pending_deletes() + kMargin <= options_.max_pending_deletes;
}

void ObjectStore::add_pending_delete(const PendingDelete& pending) {
  SpinGuard guard(pending_lock_);
  pending_[pending_tail_++ % options_.max_pending_deletes] = pending;
}

uint32_t ObjectStore::pending_deletes() const {
  SpinGuard guard(pending_lock_);
  return static_cast<uint32_t>(pending_tail_ - pending_head_);
}

uint64_t ObjectStore::deletes_so_far() const {
  SpinGuard guard(pending_lock_);
  return pending_tail_;
}

bool ObjectStore::deletes_are_over(uint64_t deletes) const {
  SpinGuard guard(pending_lock_);
  return pending_head_ >= deletes;
}

bool ObjectStore::sweep(uint32_t at_most) {
  const LogPosition durable = log_.durable();
  for (uint32_t n = 0; n < at_most; ++n) {
    PendingDelete next;
    {
      SpinGuard guard(pending_lock_);
      if (pending_head_ == pending_tail_) return false;
      next = pending_[pending_head_ % options_.max_pending_deletes];
      if (next.position > durable) return false;
      ++pending_head_;
    }
    SpinGuard guard(table_.lock_of(next.hash));
    HashTable::Slot* slot =
        table_.find(next.hash, [&](const char* address) { return address == next.tombstone; });
    if (slot == nullptr) RC_SOMETIMES("store.sweep_finds_the_key_written_again");
    // Null if the key was written again.
    if (slot != nullptr) table_.clear(*slot, table_.bucket_of(next.hash));
  }
  return true;
}

Status ObjectStore::take_tablet(uint64_t table_id, uint64_t start_hash, uint64_t end_hash,
                                uint64_t first_segment) {
  RC_RETURN_IF_ERROR(tablets_.add(table_id, start_hash, end_hash, first_segment));
  held_.add(table_id, start_hash, end_hash);
  return {};
}

bool ObjectStore::may_hold(uint64_t table_id, uint64_t start_hash, uint64_t end_hash) const {
  const Tablet* tablet = tablets_.find_served(table_id, start_hash);
  const bool is_there =
      tablet != nullptr && tablet->start_hash == start_hash && tablet->end_hash == end_hash;
  return !is_there && held_.overlaps(table_id, start_hash, end_hash);
}

Status ObjectStore::drop_tablet(uint64_t table_id, uint64_t start_hash, uint64_t end_hash) {
  if (tablets_.mark_dropping(table_id, start_hash, end_hash) > 0) return {};
  return {StatusCode::kNotFound,
          "no tablet of table " + std::to_string(table_id) + " in the given range is served here"};
}

bool ObjectStore::purge_step() {
  purge_waits_ = false;
  purge_work_ = 0;
  if (purging_.empty()) {
    for (const Tablet* tablet : tablets_.all()) {
      if (tablet->state.load() == TabletState::kPurging) purging_.push_back(tablet);
    }
    purge_cursor_ = 0;
    if (purging_.empty()) return false;
  }
  for (; purge_cursor_ < table_.bucket_count() && purge_work_ < kPurgeSlice; ++purge_cursor_) {
    purge_work_ += kPurgeBucket;
    if (purge_bucket(purge_cursor_)) continue;
    RC_SOMETIMES("store.purge_waits_for_the_log");
    purge_waits_ = true;
    return true;  // the log is being switched, or full
  }
  if (purge_cursor_ < table_.bucket_count()) return true;
  tablets_.remove(purging_);
  purging_.clear();
  const auto left = tablets_.all();  // if more tablets must be purged, another pass begins
  return std::any_of(left.begin(), left.end(),
                     [](const Tablet* t) { return t->state.load() == TabletState::kPurging; });
}

bool ObjectStore::purge_bucket(uint64_t bucket) {
  bool all = true;
  table_.scan_slots(bucket, [&](HashTable::Slot& slot) {
    purge_work_ += kPurgeEntry;
    const Found found = describe(HashTable::address_in(slot));
    if (!found.exists()) return true;  // sweep() clears tombstones
    const auto& object = found.object;
    const uint64_t hash =
        log::hash_of_key(object.table_id, object.entry, object.key_offset, object.key_length);
    Tablet* tablet = tablets_.find(object.table_id, hash);
    if (tablet == nullptr ||
        std::find(purging_.begin(), purging_.end(), tablet) == purging_.end()) {
      return true;
    }
    purge_work_ += kPurgeTombstone;
    all = purge_object(bucket, slot, found, *tablet) == StatusCode::kOk;
    return all;
  });
  return all;
}

StatusCode ObjectStore::purge_object(uint64_t bucket, HashTable::Slot& slot, const Found& found,
                                     Tablet& tablet) {
  Slice key[3];  // 64 KiB at most: in two seglets, at worst three
  const int pieces =
      found.object.entry.slices(found.object.key_offset, found.object.key_length, key);
  log::Appended appended;
  const char* tombstone = nullptr;
  // Without cleaning the reserve is kept for clients that delete, because a large dropped table
  // would use it up. With cleaning, purged objects free memory.
  const Reserve reserve = cleans() ? Reserve::kUse : Reserve::kKeep;
  const StatusCode status =
      append_tombstone(found, found.object.table_id, key, pieces, reserve, appended, tombstone);
  if (status != StatusCode::kOk) return status;
  log_.mark_dead(found.address);
  tablet.count(-1, -int64_t{found.object.entry.total_length()});
  table_.clear(slot, bucket);  // the tablet is not served any more, so no reply can depend on the
                               // object
  return StatusCode::kOk;
}

bool ObjectStore::memory_will_come() const {
  return cleans() &&
         (tablets_.any_in(TabletState::kDropping) || tablets_.any_in(TabletState::kPurging));
}

std::vector<TabletCounts> ObjectStore::tablets() const {
  std::vector<TabletCounts> counts;
  for (const Tablet* t : tablets_.all()) {
    counts.push_back({t->table_id, t->start_hash, t->end_hash, t->state.load(), t->objects(),
                      t->object_bytes(), t->first_segment, t->attempt});
  }
  return counts;
}

uint64_t ObjectStore::object_count(uint64_t table_id) const {
  uint64_t count = 0;
  for (const Tablet* t : tablets_.all()) {
    if (t->table_id == table_id && t->state.load() == TabletState::kNormal) {
      count += t->objects();
    }
  }
  return count;
}

}  // namespace ramcloud::store
