// Slots that recoveries leave in the hash table: of recovered tombstones, which are needed only
// until their tablet is served, and slots of tablets that were given up.
#pragma once

#include <cstdint>
#include <vector>

#include "store/object_store.h"

namespace ramcloud::store {

/// Clears them in passes over the table, in slices. A slot of a given-up tablet is cleared without
/// a tombstone: one would kill live objects of the tablet by its version, if it comes back later.
/// On the thread of TabletReplay.
class RecoveredSlots {
 public:
  explicit RecoveredSlots(ObjectStore& store) : store_(store) {}

  /// Tablets were served or given up: a pass has something to do.
  void want_pass() { wanted_ = true; }
  /// A slice of a pass, ObjectStore::kPurgeSlice of work. False: nothing is left to do. At the end
  /// of a pass the tablets leave that were given up when it began.
  bool step();

 private:
  void begin_pass();
  void clear_bucket(uint64_t bucket);
  bool may_clear(const ObjectStore::Found& found, Tablet*& tablet) const;

  ObjectStore& store_;
  bool wanted_ = false;
  bool running_ = false;
  std::vector<const Tablet*> given_up_;  // when the pass began
  uint64_t cursor_ = 0;
  uint32_t work_ = 0;  // in this step
};

}  // namespace ramcloud::store
