// State that cleaning passes and given-up recoveries share about segments: which of them makes a
// segment leave the log, and which survivors have copies of dead objects that no tombstone names.
//
// A survivor may hold a copy of an object that died while the copy was made. The tombstone that was
// written then names the segment of the original. The tombstone kills the copy, too, because
// versions decide. But once the original's segment has left the log, cleaning would drop the
// tombstone. So this class notes that the tombstones of the object's key that name that segment must
// stay while the survivor is in the log; all others that name it may go. The note takes no log memory
// and cannot fail. It lives as long as the process, as the log does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace ramcloud::store {

/// Any thread. Segments are named by their ids, which are never reused. Bounded by the number of
/// segments that a log can have: segments that left the log are forgotten.
class CleanedSegments {
 public:
  /// Claims the segment for a caller that will make it leave the log: a pass, or a recovery that is
  /// given up. False: another one has claimed it. See claim().
  bool begin(uint64_t victim);
  /// Withdraws the claim: the segment stays in the log, or was not in it.
  void give_up(uint64_t victim);
  bool being_cleaned(uint64_t segment) const;

  /// With more dead objects of one victim in a survivor, all tombstones that name the victim stay. So
  /// many dead objects are worth it to clean the survivor soon.
  static constexpr size_t kMostKeys = 4096;
  static constexpr size_t kAllKeys = ~size_t{0};

  /// `survivor` has a copy of a dead object of `victim`, of a key with this hash; the tombstone names
  /// `victim`.
  void note_dead_copy(uint64_t victim, uint64_t survivor, uint64_t key_hash);
  /// Some tombstones that name this segment must stay, although it has left the log.
  bool has_dead_copies(uint64_t segment) const;
  /// Those of keys with this hash must stay.
  bool has_dead_copy(uint64_t segment, uint64_t key_hash) const;
  /// The segments for which has_dead_copies() is true, by rising ids, and the number of dead copies,
  /// or kAllKeys.
  std::vector<std::pair<uint64_t, size_t>> with_dead_copies() const;
  /// The survivors that have dead copies.
  std::set<uint64_t> survivors_with_dead_copies() const;
  /// The segment left the log: no digest that can decide names it, now or later.
  void segment_left(uint64_t segment);

 private:
  mutable Mutex mutex_;
  std::set<uint64_t> victims_ RC_GUARDED_BY(mutex_);
  struct Keys {
    std::vector<uint64_t> hashes;  // sorted; empty: all keys
    bool contains(uint64_t hash) const;
  };
  std::map<uint64_t, std::map<uint64_t, Keys>> dead_copies_
      RC_GUARDED_BY(mutex_);                                                 // victim -> survivors
  std::map<uint64_t, std::set<uint64_t>> victims_of_ RC_GUARDED_BY(mutex_);  // by survivor
};

}  // namespace ramcloud::store
