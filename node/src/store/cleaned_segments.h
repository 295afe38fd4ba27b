// State that cleaning passes and given-up recoveries share about segments: which of them makes a
// segment leave the log, and which survivors have copies of dead objects that no tombstone names.
//
// A survivor may hold a copy of an object that died while the copy was made. The tombstone that was
// written then names the segment of the original. The tombstone kills the copy, too, because
// versions decide. But once the original's segment has left the log, cleaning would drop the
// tombstone. So this class notes that it must stay while the survivor is in the log; all others that
// name that segment may go. The note takes no log memory and cannot fail. It lives as long as the
// process, as the log does.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace ramcloud::store {

/// A copy of an object that died while it was copied.
struct DeadCopy {
  uint64_t key_hash = 0;
  uint64_t version = 0;
  auto operator<=>(const DeadCopy&) const = default;
};

/// Any thread. Segments are named by their ids, which are never reused; those that left the log are
/// forgotten. A survivor takes at most 64 KiB (kMostCopies) for each of its victims.
class CleanedSegments {
 public:
  /// Claims the segment for a caller that will make it leave the log: a pass, or a recovery that is
  /// given up. False: another one has claimed it. See claim().
  bool begin(uint64_t victim);
  /// Withdraws the claim: the segment stays in the log, or was not in it.
  void give_up(uint64_t victim);
  bool being_cleaned(uint64_t segment) const;

  /// With more dead copies of one victim in a survivor, all tombstones that name the victim stay. So
  /// many dead objects are worth it to clean the survivor soon.
  static constexpr size_t kMostCopies = 4096;
  static constexpr size_t kUncounted = ~size_t{0};

  /// `survivor` has a copy of a dead object of `victim`; the tombstone names `victim`.
  void note_dead_copy(uint64_t victim, uint64_t survivor, const DeadCopy& copy);
  /// Some tombstones that name this segment must stay, although it has left the log.
  bool has_dead_copies(uint64_t segment) const;
  /// A tombstone that names this segment, with this hash and version, kills one of its dead copies. A
  /// key that was overwritten often has as many tombstones, and only its last object was copied.
  bool kills_dead_copy(uint64_t segment, const DeadCopy& by) const;
  /// The segments for which has_dead_copies() is true, by rising ids, and the number of dead copies,
  /// or kUncounted.
  std::vector<std::pair<uint64_t, size_t>> with_dead_copies() const;
  /// The survivors that have dead copies.
  std::set<uint64_t> survivors_with_dead_copies() const;
  /// The segment left the log: no digest that can decide names it, now or later.
  void segment_left(uint64_t segment);

 private:
  mutable Mutex mutex_;
  std::set<uint64_t> victims_ RC_GUARDED_BY(mutex_);
  /// Of one victim in one survivor. Sorted; empty: too many to count.
  struct Copies {
    std::vector<DeadCopy> all;
    bool killed_by(const DeadCopy& tombstone) const;
  };
  std::map<uint64_t, std::map<uint64_t, Copies>> dead_copies_
      RC_GUARDED_BY(mutex_);                                                 // victim -> survivors
  std::map<uint64_t, std::set<uint64_t>> victims_of_ RC_GUARDED_BY(mutex_);  // by survivor
};

}  // namespace ramcloud::store
