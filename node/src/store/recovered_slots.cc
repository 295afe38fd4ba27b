#include "store/recovered_slots.h"

#include "base/sometimes.h"

namespace ramcloud::store {

using log::EntryView;

void RecoveredSlots::begin_pass() {
  wanted_ = false;
  running_ = true;
  cursor_ = 0;
  given_up_.clear();
  for (const Tablet* tablet : store_.tablets_.all()) {
    if (tablet->state.load() == TabletState::kGivenUp) given_up_.push_back(tablet);
  }
}

bool RecoveredSlots::step() {
  if (!running_) {
    if (!wanted_) return false;
    begin_pass();
  }
  work_ = 0;
  for (; cursor_ < store_.table_.bucket_count() && work_ < ObjectStore::kPurgeSlice; ++cursor_) {
    work_ += ObjectStore::kPurgeBucket;
    clear_bucket(cursor_);
  }
  if (cursor_ < store_.table_.bucket_count()) return true;
  if (!given_up_.empty()) store_.tablets_.remove(given_up_);
  given_up_.clear();
  running_ = false;
  return wanted_;
}

void RecoveredSlots::clear_bucket(uint64_t bucket) {
  store_.table_.scan_slots(bucket, [&](HashTable::Slot& slot) {
    const char* address = HashTable::address_in(slot);
    work_ += 1;
    if (!store_.log_.arena().segment_of(address)->side())
      return true;  // the entry was not recovered
    work_ += ObjectStore::kPurgeEntry;
    const ObjectStore::Found found = store_.found_at(address);
    Tablet* tablet = nullptr;
    if (!may_clear(found, tablet)) return true;
    if (found.exists()) {
      store_.log_.mark_dead(address);
      tablet->count(-1, -int64_t{found.object.entry.total_length()});
    }
    store_.table_.clear(slot, bucket);
    return true;
  });
}

/// True if the slot may be cleared. `tablet` is set for an object.
bool RecoveredSlots::may_clear(const ObjectStore::Found& found, Tablet*& tablet) const {
  const EntryView entry = store_.log_.entry(found.address);
  const auto table_id = entry.load_at<uint64_t>(0);  // both kinds of body begin with it
  const auto key_length = found.is_tombstone ? entry.load_at<log::TombstoneBody>(0).key_length
                                             : found.object.key_length;
  const uint32_t key_offset =
      found.is_tombstone ? log::TombstoneView::key_offset : log::ObjectView::key_offset;
  tablet =
      store_.tablets_.find(table_id, log::hash_of_key(table_id, entry, key_offset, key_length));
  // The tablet was dropped meanwhile.
  if (tablet == nullptr) return found.is_tombstone;
  const TabletState state = tablet->state.load();
  if (state == TabletState::kGivenUp) {
    RC_SOMETIMES("store.given_up_slot_is_cleared");
    return true;
  }
  // While the tablet is being recovered, older entries of the key may still be replayed.
  return found.is_tombstone && state != TabletState::kRecovering;
}

}  // namespace ramcloud::store
