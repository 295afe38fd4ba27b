// State that cleaning passes and given-up recoveries share about segments: which of them makes a
// segment leave the log, and which survivors have copies of dead objects that no tombstone names.
//
// A survivor may hold a copy of an object that died while the copy was made. The tombstone that was
// written then names the segment of the original. The tombstone kills the copy, too, because
// versions decide. But once the original's segment has left the log, cleaning would drop the
// tombstone. So this class notes that the tombstone must stay while the survivor is in the log. The
// note takes no log memory and cannot fail. It lives as long as the process, as the log does.
#pragma once

#include <cstdint>
#include <map>
#include <set>
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

  /// `survivor` has a copy of a dead object of `victim`; the tombstone names `victim`.
  void note_dead_copy(uint64_t victim, uint64_t survivor);
  /// Tombstones that name this segment must stay, although it has left the log.
  bool has_dead_copies(uint64_t segment) const;
  /// The segments for which has_dead_copies() is true, by rising ids.
  std::vector<uint64_t> with_dead_copies() const;
  /// The survivors that have dead copies.
  std::set<uint64_t> survivors_with_dead_copies() const;
  /// The segment left the log: no digest that can decide names it, now or later.
  void segment_left(uint64_t segment);

 private:
  mutable Mutex mutex_;
  std::set<uint64_t> victims_ RC_GUARDED_BY(mutex_);
  std::map<uint64_t, std::set<uint64_t>> dead_copies_ RC_GUARDED_BY(mutex_);  // victim -> survivors
};

}  // namespace ramcloud::store
