// Clears slots that recoveries leave in the hash table: those of recovered tombstones, which are
// needed only until their tablet is served, and those of tablets whose recovery was given up.
#pragma once

#include <cstdint>
#include <vector>

#include "store/object_store.h"

namespace ramcloud::store {

/// It works in passes over the table, in slices. For a slot of a given-up tablet no tombstone is
/// appended: its version would kill live objects if the tablet is recovered here later. Runs on the
/// thread of TabletReplay.
class RecoveredSlots {
 public:
  explicit RecoveredSlots(ObjectStore& store) : store_(store) {}

  /// Called when tablets were served or given up: a pass is needed.
  void want_pass() { wanted_ = true; }
  /// A slice of a pass, ObjectStore::kPurgeSlice of work. False: nothing is left to do. At the end
  /// of a pass, tablets that were given up before it began are removed.
  bool step();

 private:
  void begin_pass();
  void clear_bucket(uint64_t bucket);
  bool may_clear(const ObjectStore::Found& found, Tablet*& tablet) const;

  ObjectStore& store_;
  bool wanted_ = false;
  bool running_ = false;
  std::vector<const Tablet*> given_up_;  // those at the beginning of the pass
  uint64_t cursor_ = 0;
  uint32_t work_ = 0;  // in this step
};

}  // namespace ramcloud::store
