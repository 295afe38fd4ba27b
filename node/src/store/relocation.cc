#include "store/relocation.h"

#include <algorithm>

#include "base/hash.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "log/group_reader.h"

namespace ramcloud::store {

using log::EntryType;
using log::EntryView;
using log::Segment;

namespace {

/// Limits of a step: about 20 us, more only for a single large object. Of so many entries the
/// memory that a step looks at is fetched at once, instead of one cache miss after the other.
constexpr uint32_t kEntriesAtOnce = 64;
constexpr uint32_t kBytesAtOnce = 64 << 10;
constexpr size_t kOldestAtOnce = log::kMaxGroupEntries + kEntriesAtOnce;

uint32_t timestamp_of(const EntryView& entry) {
  return entry.type() == EntryType::kObject ? entry.load_at<log::ObjectBody>(0).timestamp_s
                                            : entry.load_at<log::TombstoneBody>(0).timestamp_s;
}

/// Of the key of an object or a tombstone.
uint64_t hash_of(const EntryView& entry) {
  if (entry.type() == EntryType::kObject) {
    const log::ObjectView object = *log::parse_object(entry);
    return log::hash_of_key(object.table_id, entry, log::ObjectView::key_offset, object.key_length);
  }
  const log::TombstoneView tombstone = *log::parse_tombstone(entry);
  return log::hash_of_key(tombstone.table_id, entry, log::TombstoneView::key_offset,
                          tombstone.key_length);
}

}  // namespace

bool may_clean(ObjectStore& store, const Segment& segment) {
  return store.log().closed_member(segment.number()) == &segment &&
         !store.cleaned().being_cleaned(segment.id());
}

/// In this order: the previous claimant may have made the segment leave the log just before.
bool claim(ObjectStore& store, const Segment& segment) {
  if (!store.cleaned().begin(segment.id())) return false;
  if (store.log().closed_member(segment.number()) == &segment) return true;
  store.cleaned().give_up(segment.id());
  return false;
}

Relocation::Relocation(ObjectStore& store, const std::vector<Segment*>& victims, Order order)
    : store_(store), order_(order) {
  for (Segment* victim : victims) {
    if (!claim(store, *victim)) continue;
    victims_.push_back(victim);
    victim_ids_.push_back(victim->id());
  }
  if (victims_.empty()) phase_ = Phase::kDone;
}

bool Relocation::abort() {
  if (phase_ == Phase::kFailed) return true;
  if (phase_ > Phase::kWait) return false;
  drop_copies();
  for (const Segment* victim : victims_) store_.cleaned_.give_up(victim->id());
  survivors_ = {};
  phase_ = Phase::kFailed;
  return true;
}

Relocation::Progress Relocation::give_up(StatusCode why) {
  abort();
  return why == StatusCode::kOutOfMemory ? Progress::kFailed : Progress::kNoGain;
}

log::CleaningWork::Progress Relocation::step() {
  switch (phase_) {
    case Phase::kScan:
      return scan();
    case Phase::kCopy:
      return copy();
    case Phase::kWait:
      return wait();
    case Phase::kSwitch:
      return switch_slots();
    case Phase::kEnter:
      return finish();
    case Phase::kDone:
      return Progress::kDone;
    case Phase::kFailed:
      return Progress::kFailed;
  }
  return Progress::kFailed;
}

// ---- what is live

Relocation::Progress Relocation::scan() {
  gather();
  for (Survivor& entry : slice_) {
    const EntryView view = store_.log_.entry(entry.from);
    if (!is_live(entry, view)) continue;
    found(view.total_length());
    add_to_age(order_ == Order::kOldestFirst ? timestamp_of(view) : 0);
    survivors_.push_back(entry);
  }
  if (victim_ < victims_.size()) return Progress::kMore;
  const StatusCode begun = begin_copies();
  if (begun != StatusCode::kOk) return give_up(begun);
  phase_ = Phase::kCopy;
  return Progress::kMore;
}

/// The survivor that is added next. Neighbours in a segment were mostly written in the same second.
void Relocation::add_to_age(uint32_t timestamp_s) {
  const bool same = age_ != nullptr && age_->first == timestamp_s;
  if (!same) age_ = &*by_age_.try_emplace(timestamp_s).first;
  age_->second.push_back(static_cast<uint32_t>(survivors_.size()));
}

/// The next entries of the victims, whole groups of them.
void Relocation::gather() {
  slice_.clear();
  for (uint32_t groups = 0; slice_.size() < kEntriesAtOnce && groups < kEntriesAtOnce;) {
    if (victim_ == victims_.size()) return;
    const log::SegmentBytes bytes = victims_[victim_]->bytes();
    if (at_ == bytes.size()) {
      ++victim_;
      at_ = 0;
      continue;
    }
    const auto header = bytes.load_at<log::GroupHeader>(at_);
    ++groups;
    if (header.magic() == log::kGroupMagic) {
      const log::GroupView group(bytes, at_, header);
      for (auto e = group.first(); e; e = group.next(*e)) gather_entry(e->view, e->offset);
    }
    at_ += header.length();  // a padding has its length at the same place
  }
}

void Relocation::gather_entry(const EntryView& entry, uint32_t offset) {
  if (entry.type() != EntryType::kObject && entry.type() != EntryType::kTombstone) return;
  result_.bytes_read += entry.total_length();
  const uint64_t hash = hash_of(entry);
  store_.table_.prefetch(hash);
  slice_.push_back({.from = victims_[victim_]->bytes().piece(offset, 1).data(),
                    .hash = hash,
                    .victim = victim_,
                    .offset = offset,
                    .is_object = entry.type() == EntryType::kObject});
}

bool Relocation::is_live(Survivor& survivor, const EntryView& entry) {
  return survivor.is_object ? object_is_live(survivor) : tombstone_is_live(survivor, entry);
}

/// Most are in the table, and no lock is needed to see that. One that is not found is looked for
/// again under the key's lock: the thread that appended it held that lock, so it is in the table by
/// now, or its pending delete is noted.
bool Relocation::object_is_live(Survivor& survivor) {
  const auto is_it = [&](const char* address) { return address == survivor.from; };
  survivor.has_slot = store_.table_.lookup(survivor.hash, is_it) != nullptr;
  if (survivor.has_slot) return true;
  SpinGuard guard(store_.table_.lock_of(survivor.hash));
  survivor.has_slot = store_.table_.find(survivor.hash, is_it) != nullptr;
  return survivor.has_slot;
}

/// Under the key's lock, for the same reason.
bool Relocation::tombstone_is_live(Survivor& survivor, const EntryView& entry) {
  const log::TombstoneView tombstone = *log::parse_tombstone(entry);
  const Tablet* tablet = store_.tablets_.find(tombstone.table_id, survivor.hash);
  // A relocated tombstone would have a higher position than the tablet's first segment. It would
  // then kill objects that the tablet has now.
  const bool of_tablet =
      tablet != nullptr && victims_[survivor.victim]->id() >= tablet->first_segment;
  SpinGuard guard(store_.table_.lock_of(survivor.hash));
  HashTable::Slot* slot = store_.table_.find(
      survivor.hash, [&](const char* address) { return address == survivor.from; });
  survivor.has_slot = slot != nullptr;
  if (!of_tablet) {
    ++counts_.of_no_tablet;
    // The tombstone is durable, so no reply depends on it.
    if (slot != nullptr) store_.table_.clear(*slot, store_.table_.bucket_of(survivor.hash));
    return false;
  }
  if (slot != nullptr || protects(tombstone, survivor.hash, *tablet)) return true;
  ++counts_.tombstones_dropped;
  return false;
}

/// True if a replay may still find an object that the tombstone kills.
bool Relocation::protects(const log::TombstoneView& tombstone, uint64_t key_hash,
                          const Tablet& tablet) {
  // Older entries of the key may still be replayed.
  if (tablet.state.load() == TabletState::kRecovering) return true;
  // The tombstone came from another log by recovery, where it was needed against older entries of
  // that log. The tablet is served only after the hand-over is durable, so that log is not read for
  // it again. Entries that were replayed before this tombstone, and superseded, have a tombstone of
  // this log (TabletReplay).
  if (tombstone.log_id != store_.log_.options().master_id) return false;
  const Needed needed = needed_against(tombstone.segment_id);
  if (needed != Needed::kOfDeadCopies) return needed == Needed::kAll;
  return store_.cleaned_.kills_dead_copy(tombstone.segment_id, {key_hash, tombstone.version});
}

/// The log is asked first: a segment's dead copies are noted before it leaves.
Relocation::Needed Relocation::needed_against(uint64_t segment) {
  const auto known = needed_against_.find(segment);
  if (known != needed_against_.end()) return known->second;
  Needed needed = Needed::kAll;
  if (!store_.log_.may_be_found(segment)) {
    const bool copies = store_.cleaned_.has_dead_copies(segment);
    needed = copies ? Needed::kOfDeadCopies : Needed::kNone;
  }
  needed_against_.emplace(segment, needed);
  return needed;
}

// ---- copies

Relocation::Progress Relocation::copy() {
  for (uint32_t copied = 0; copied < kBytesAtOnce;) {
    take_oldest();
    if (oldest_.empty()) {
      deletes_ = store_.deletes_so_far();
      judged_ = store_.log_.head();
      close_copies(judged_);
      phase_ = Phase::kWait;
      return Progress::kMore;
    }
    const StatusCode status = copy_group(copied);
    if (status != StatusCode::kOk) return give_up(status);
  }
  return Progress::kMore;
}

/// Keeps at least as many in oldest_ as fit into a group, until all are copied. Those of one second
/// stay in the order of the scan.
void Relocation::take_oldest() {
  if (oldest_.size() - next_ >= log::kMaxGroupEntries) return;
  oldest_.erase(oldest_.begin(), oldest_.begin() + static_cast<ptrdiff_t>(next_));
  next_ = 0;
  while (oldest_.size() < kOldestAtOnce && !by_age_.empty()) {
    std::deque<uint32_t>& of_age = by_age_.begin()->second;
    for (; !of_age.empty() && oldest_.size() < kOldestAtOnce; of_age.pop_front()) {
      oldest_.push_back(of_age.front());
      fetch(survivors_[oldest_.back()]);
    }
    if (of_age.empty()) by_age_.erase(by_age_.begin());
  }
}

void Relocation::fetch(const Survivor& survivor) const {
  store_.table_.prefetch(survivor.hash);
  for (uint32_t line = 0; line < 3; ++line) {
    __builtin_prefetch(survivor.from + line * kCacheLineBytes);
  }
}

/// Copies the next survivors, unless they died since the scan. A tablet may have been taken or
/// dropped since then, too. Such a change needs a grace period, so it cannot happen between this
/// check and the append.
StatusCode Relocation::copy_group(uint32_t& copied) {
  log::EntrySource entries[log::kMaxGroupEntries];
  Survivor* copies[log::kMaxGroupEntries];
  Slice pieces[log::kMaxEntrySlices];
  size_t count = 0;
  for (uint32_t bytes = 0; next_ < oldest_.size() && count < log::kMaxGroupEntries;) {
    Survivor& next = survivors_[oldest_[next_]];
    const EntryView entry = store_.log_.entry(next.from);
    if (count > 0 && bytes + entry.total_length() > kGroupedBytes) break;
    ++next_;
    copied += entry.total_length() / 2 + kBytesAtOnce / kEntriesAtOnce / 2;
    if (!entry.verify()) {
      fatal("store.entry_is_damaged_in_memory",
            {{"segment", victims_[next.victim]->id()}, {"offset", next.offset}});
    }
    if (!is_live(next, entry)) continue;
    bytes += entry.total_length();
    copies[count] = &next;
    const int n = entry.slices(0, entry.body_length(), pieces);
    log::EntrySource& source = entries[count++];
    source.type = entry.type();
    source.verified_crc = entry.stored_checksum();
    if (n > log::EntrySource::kMostPieces) {
      body_.resize(entry.body_length());
      entry.read(0, body_.data(), entry.body_length());
      source.piece_count = 1;
      source.pieces[0] = Slice(ByteView(body_));
    } else {
      source.piece_count = static_cast<uint8_t>(n);
      std::copy(pieces, pieces + n, source.pieces);
    }
  }
  if (count == 0) return StatusCode::kOk;
  const char* refs[log::kMaxGroupEntries];
  const StatusCode status = append(std::span(entries, count), refs);
  if (status != StatusCode::kOk) return status;
  for (size_t i = 0; i < count; ++i) {
    copies[i]->to = refs[i];
    ++(entries[i].type == EntryType::kObject ? counts_.objects : counts_.tombstones);
    result_.bytes_written += store_.log_.entry(refs[i]).total_length();
  }
  return StatusCode::kOk;
}

/// sweep() finds pending tombstones by the address where they were written. So tombstones in the
/// victims must have left the table and the list before the victims' memory is freed.
Relocation::Progress Relocation::wait() {
  (void)store_.sweep(kEntriesAtOnce);
  if (!may_be_seen(judged_) || !store_.deletes_are_over(deletes_)) return Progress::kWaits;
  phase_ = Phase::kSwitch;
  return Progress::kMore;
}

// ---- switch and enter

Relocation::Progress Relocation::switch_slots() {
  if (survivors_.empty()) {
    enter();
    phase_ = Phase::kEnter;
    return Progress::kMore;
  }
  const size_t count = std::min<size_t>(survivors_.size(), kEntriesAtOnce);
  for (size_t i = 0; i < count; ++i) store_.table_.prefetch(survivors_[i].hash);
  for (size_t i = 0; i < count; ++i) {
    switch_slot(survivors_.front());
    survivors_.pop_front();
  }
  return Progress::kMore;
}

void Relocation::switch_slot(const Survivor& survivor) {
  if (survivor.to == nullptr || !survivor.has_slot) return;
  SpinGuard guard(store_.table_.lock_of(survivor.hash));
  HashTable::Slot* slot = store_.table_.find(
      survivor.hash, [&](const char* address) { return address == survivor.from; });
  if (slot != nullptr && !survivor.is_object && !victims_[survivor.victim]->side()) {
    // The tombstone of a durable delete. If sweep() has taken it from the list already, it will
    // find the slot changed.
    return store_.table_.clear(*slot, store_.table_.bucket_of(survivor.hash));
  }
  if (slot != nullptr) {
    store_.table_.replace(*slot, survivor.hash, survivor.to);
    if (survivor.is_object) store_.log_.mark_dead(survivor.from);
    return;
  }
  if (!survivor.is_object) return;
  RC_SOMETIMES("store.survivor_is_dead_before_it_is_seen");
  ++counts_.dead_copies;
  store_.log_.mark_dead(survivor.to);
  const auto version = store_.log_.entry(survivor.to).load_at<log::ObjectBody>(0).version;
  died(*victims_[survivor.victim], *store_.log_.arena().segment_of(survivor.to),
       {survivor.hash, version});
}

Relocation::Progress Relocation::finish() {
  if (!entered()) return Progress::kWaits;
  phase_ = Phase::kDone;
  return Progress::kDone;
}

}  // namespace ramcloud::store
