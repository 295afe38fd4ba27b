// Re-verifies the whole state of an object store and its log; run after steps of tests and
// simulations.
#pragma once

#include <string>
#include <vector>

#include "log/invariants.h"
#include "store/object_store.h"

namespace ramcloud::store {

class Invariants {
 public:
  explicit Invariants(ObjectStore& store) : store_(store), log_(store.log()) {}

  /// The broken invariants, one text each; empty when all is well. Precondition: nobody uses the
  /// store in the meantime.
  ///
  /// - the invariants of the log (log::Invariants)
  /// - every slot points at a published entry, an object or a tombstone, whose checksum holds and
  ///   whose key has the slot's bucket and tag; no key has two slots
  /// - every slot points into a segment that is in the log, or into a side segment that may enter
  /// it
  /// - tombstones are kept only for dead copies in segments that have memory
  /// - every tombstone in a slot waits for sweep(), but for those that were recovered
  /// - live bytes of each segment are those of the objects in slots and of all tombstones
  /// - the safe version is above all versions; tablets count the objects that slots hold
  std::vector<std::string> check();

 private:
  void check_slots();
  void check_slot(uint64_t bucket, uint16_t tag, const char* address);
  void check_accounting();
  void check_dead_copies();

  ObjectStore& store_;
  log::Invariants log_;
  struct State;
  State* state_ = nullptr;  // state of the current check
};

}  // namespace ramcloud::store
