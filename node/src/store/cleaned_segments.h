// What passes of cleaning, and recoveries that are given up, tell each other about segments: which
// of them makes a segment leave the log, and which survivors have copies of dead objects that no
// tombstone names.
//
// A survivor may hold a copy of an object that died while the copy was made. The tombstone that was
// written then names the segment of the original. It says that the copy is dead, too, because it
// kills by version; but once the original's segment has left the log, nothing would keep it. So it
// is noted here that it must stay while the survivor is in the log. That costs no memory of the log
// and cannot fail. A log lives as long as its process, and so does this.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/mutex.h"

namespace ramcloud::store {

/// Any thread. Segments are named by their ids, which are not used again. Bounded by the segments
/// that a log can have: what left it is forgotten.
class CleanedSegments {
 public:
  /// Claims the segment for a caller that will make it leave the log: a pass, or a recovery that is
  /// given up. False: another one has claimed it. See claim().
  bool begin(uint64_t victim);
  /// Takes the claim back: the segment stays in the log, or was not there.
  void give_up(uint64_t victim);
  bool being_cleaned(uint64_t segment) const;

  /// A copy of a dead object of `victim` stands in `survivor`; the tombstone names `victim`.
  void note_dead_copy(uint64_t victim, uint64_t survivor);
  /// Tombstones that name this segment must stay, although it has left the log.
  bool has_dead_copies(uint64_t segment) const;
  /// The segments for which has_dead_copies() is true, by rising ids.
  std::vector<uint64_t> with_dead_copies() const;
  /// The survivors that the copies are in.
  std::set<uint64_t> survivors_with_dead_copies() const;
  /// It left the log: no digest that can decide names it, and neither will one.
  void left(uint64_t segment);

 private:
  mutable Mutex mutex_;
  std::set<uint64_t> victims_ RC_GUARDED_BY(mutex_);
  std::map<uint64_t, std::set<uint64_t>> dead_copies_ RC_GUARDED_BY(mutex_);  // victim -> survivors
};

}  // namespace ramcloud::store
