#include "store/tablet_replay.h"

#include <algorithm>

#include "base/hash.h"
#include "base/sometimes.h"

namespace ramcloud::store {

using log::EntryType;

// ---- tablets

Status TabletReplay::begin(const Range& range, uint64_t first_segment) {
  RC_RETURN_IF_ERROR(store_.tablets_.add_recovering(range.table_id, range.start_hash,
                                                    range.end_hash, first_segment, attempt_));
  store_.held_.add(range.table_id, range.start_hash, range.end_hash);
  return {};
}

/// The tablet of this attempt with this range, if it is kRecovering.
Tablet* TabletReplay::find(const Range& range) const {
  Tablet* tablet = store_.tablets_.find(range.table_id, range.start_hash);
  const bool is_it = tablet != nullptr && tablet->start_hash == range.start_hash &&
                     tablet->end_hash == range.end_hash && tablet->attempt == attempt_ &&
                     tablet->state.load() == TabletState::kRecovering;
  return is_it ? tablet : nullptr;
}

bool TabletReplay::serve(const Range& range) {
  Tablet* tablet = find(range);
  if (tablet == nullptr) return false;
  tablet->state.store(TabletState::kNormal, std::memory_order_release);
  return true;
}

bool TabletReplay::give_up(const Range& range) {
  Tablet* tablet = find(range);
  if (tablet == nullptr) return false;
  tablet->state.store(TabletState::kGivenUp, std::memory_order_release);
  return true;
}

uint64_t TabletReplay::live_objects() const {
  uint64_t objects = 0;
  for (const Tablet* tablet : store_.tablets_.all()) {
    if (tablet->attempt == attempt_) objects += tablet->objects();
  }
  return objects;
}

// ---- entries

std::optional<TabletReplay::Incoming> TabletReplay::parse(const log::EntryView& entry) {
  Incoming incoming;
  incoming.entry = entry;
  uint32_t key_offset = 0, key_length = 0;
  if (const auto object = log::parse_object(entry)) {
    incoming.table_id = object->table_id;
    incoming.version = object->version;
    key_offset = log::ObjectView::key_offset;
    key_length = object->key_length;
  } else if (const auto tombstone = log::parse_tombstone(entry)) {
    incoming.is_tombstone = true;
    incoming.table_id = tombstone->table_id;
    incoming.version = tombstone->version;
    key_offset = log::TombstoneView::key_offset;
    key_length = tombstone->key_length;
  } else {
    return std::nullopt;
  }
  if (!entry.verify()) return std::nullopt;
  incoming.key = entry.contiguous(key_offset, key_length);
  incoming.hash = key_hash(incoming.table_id, incoming.key);
  return incoming;
}

/// An entry's bucket is in no cache. So the buckets of some entries are asked for while their
/// checksums are verified, and used afterwards.
TabletReplay::Replayed TabletReplay::replay(std::span<const log::EntryView> entries) {
  Replayed replayed;
  std::optional<Incoming> incoming[kAtOnce];
  while (replayed.count < entries.size()) {
    const size_t n = std::min(kAtOnce, entries.size() - replayed.count);
    uint64_t floor = 0;
    for (size_t i = 0; i < n; ++i) {
      incoming[i] = parse(entries[replayed.count + i]);
      if (!incoming[i]) continue;
      store_.table_.prefetch(incoming[i]->hash);
      floor = std::max(floor, incoming[i]->version + (incoming[i]->is_tombstone ? 1 : 0));
    }
    // The safe version must be above every version in this log, even if the dead master's safe
    // version is never learned.
    store_.raise_version_floor(floor);
    for (size_t i = 0; i < n; ++i, ++replayed.count) {
      replayed.status = incoming[i] ? replay(*incoming[i]) : StatusCode::kCorrupt;
      if (replayed.status != StatusCode::kOk) return replayed;
    }
  }
  return replayed;
}

StatusCode TabletReplay::replay(const Incoming& incoming) {
  Tablet* tablet = store_.tablets_.find(incoming.table_id, incoming.hash);
  if (tablet == nullptr || tablet->attempt != attempt_ ||
      tablet->state.load() != TabletState::kRecovering) {
    ++counts_.skipped;
    return StatusCode::kOk;
  }
  SpinGuard guard(store_.table_.lock_of(incoming.hash));
  HashTable::Slot* slot = store_.table_.find(incoming.hash, [&](const char* address) {
    return store_.matches(address, incoming.table_id, incoming.key);
  });
  const ObjectStore::Found old = store_.found_at(slot ? HashTable::address_in(*slot) : nullptr);
  if (slot != nullptr && !incoming.newer_than(old)) {
    ++counts_.skipped;
    return StatusCode::kOk;
  }
  return put(incoming, *tablet, slot, old);
}

StatusCode TabletReplay::put(const Incoming& incoming, Tablet& tablet, HashTable::Slot* slot,
                             const ObjectStore::Found& old) {
  const char* address = nullptr;
  const StatusCode status = append(incoming, old, address);
  if (status != StatusCode::kOk) return status;
  if (slot != nullptr) {
    store_.table_.replace(*slot, incoming.hash, address);
  } else {
    store_.table_.insert(incoming.hash, address);
  }
  int64_t objects = incoming.is_tombstone ? 0 : 1;
  int64_t bytes = incoming.is_tombstone ? 0 : int64_t{incoming.entry.total_length()};
  if (old.exists()) {
    store_.log_.mark_dead(old.address);
    objects -= 1;
    bytes -= int64_t{old.object.entry.total_length()};
  }
  tablet.count(objects, bytes);
  ++(incoming.is_tombstone ? counts_.tombstones : counts_.objects);
  counts_.bytes += incoming.entry.total_length();
  return StatusCode::kOk;
}

/// Appends the entry, and a tombstone for a replayed copy that it supersedes. That copy is in a
/// side segment of this log. Its tombstone must name that segment, so that cleaning keeps the
/// tombstone as long as the segment.
StatusCode TabletReplay::append(const Incoming& incoming, const ObjectStore::Found& old,
                                const char*& address) {
  log::EntrySource entries[2] = {
      {incoming.entry.type(),
       1,
       {Slice(incoming.entry.contiguous(0, incoming.entry.body_length()))},
       incoming.entry.stored_checksum()},
      {}};
  log::TombstoneBody dead{};
  size_t count = 1;
  if (old.exists()) {
    RC_SOMETIMES("store.replayed_copy_is_superseded");
    dead = {.table_id = incoming.table_id,
            .version = old.version,
            .log_id = store_.log_.options().master_id,
            .segment_id = store_.log_.arena().segment_of(old.address)->id(),
            .timestamp_s = static_cast<uint32_t>(store_.clock_.unix_ms() / 1000),
            .key_length = static_cast<uint16_t>(incoming.key.size()),
            .flags = static_cast<uint16_t>(incoming.is_tombstone ? 1 : 0)};
    entries[count++] = {EntryType::kTombstone, 2, {Slice(&dead, sizeof dead), Slice(incoming.key)}};
  }
  const char* refs[2];
  const StatusCode status = side_.append(std::span(entries, count), refs);
  address = refs[0];
  return status;
}

}  // namespace ramcloud::store
