// Computes the figures by which the cleaner chooses among closed segments (log/cleaning_order.h):
// how many bytes are live, and how old they are.
//
// The operation that kills an object counts it (Segment::live_bytes). Dead tombstones cannot be
// counted like that: a tombstone dies when the segment that it names leaves the log, and no
// operation touches the tombstone then. So each closed segment is read once, in slices, and the
// segments that its tombstones name are remembered. The data path pays nothing for this. A
// tombstone that a pass copied is found again when its survivor is read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "log/cleaner.h"
#include "log/compacted_segment.h"
#include "log/segment.h"
#include "store/object_store.h"
#include "store/relocation.h"
#include "store/tombstone_places.h"

namespace ramcloud::store {

/// Any thread, within one turn of a participant of the store's epochs.
class SegmentJudge {
 public:
  /// The store outlives it.
  explicit SegmentJudge(ObjectStore& store);

  /// None: the segment may not be cleaned now. Until a segment is read to its end, all its
  /// tombstones count as live, and Log::take_changed() will return it again.
  std::optional<log::CleaningFigures> judge(const log::Segment& segment,
                                            log::Look look = log::Look::kQuick);

  /// The most entries that one call reads.
  static constexpr uint32_t kEntriesAtOnce = 2048;
  /// Of segments that one segment's tombstones name. If they name more, neighbours share an entry, and
  /// the figures are an estimate.
  static constexpr size_t kMostNamed = 256;

 private:
  /// Bytes of tombstones that name segments with ids from `first` to `last`. A replay could find
  /// `findable` segments with such ids when the tombstones were read.
  struct Named {
    uint64_t first = 0, last = 0;
    uint32_t findable = 1;
    uint32_t bytes = 0;
  };
  struct Known {
    uint64_t id = 0;
    uint32_t compactions = 0;
    bool is_of(const log::Segment& segment) const {
      return id == segment.id() && compactions == segment.compactions();
    }
    uint32_t at = 0;  // the next group that is to be read
    bool read = false;
    /// Bytes of tombstones that name segments of another log, or segments that had left this log
    /// when they were read. They are dead unless a tablet is being recovered.
    uint32_t of_no_segment = 0;
    uint32_t tombstone_bytes = 0;
    uint32_t tombstones = 0;
    TombstonePlaces places;  // of tombstones
    uint64_t entry_bytes = 0;
    log::CompactedSize as_survivor{0, Relocation::kGroupedBytes};  // what all entries would take
    double seconds = 0;  // time stamps of entries, by their bytes
    uint32_t youngest_s = 0;
    std::unordered_map<uint64_t, uint32_t> names;  // while the segment is being read
    std::vector<Named> named;                      // by rising ids; afterwards
    bool estimated = false;                        // segments share entries of `named`
    uint64_t segments_gone = 0;                    // as below, when that was made
  };

  Known& known_of(const log::Segment& segment) RC_REQUIRES(mutex_);
  void read_more(const log::Segment& segment, Known& known) RC_REQUIRES(mutex_);
  void read_entry(const log::EntryView& entry, Known& known) RC_REQUIRES(mutex_);
  static void note_age(const log::EntryView& entry, uint32_t seconds, Known& known);
  bool is_old_estimate(const Known& known) const;
  void finish(Known& known) RC_REQUIRES(mutex_);
  void drop_gone(std::vector<std::pair<uint64_t, uint32_t>>& names, Known& known)
      RC_REQUIRES(mutex_);
  static uint32_t as_survivors(const log::Segment& segment, const Known& known,
                               uint32_t live_bytes);
  void refresh_findable() RC_REQUIRES(mutex_);
  void list_findable() RC_REQUIRES(mutex_);
  uint32_t findable_between(uint64_t first, uint64_t last) const RC_REQUIRES(mutex_);
  size_t dead_copies_between(uint64_t first, uint64_t last) const RC_REQUIRES(mutex_);
  uint32_t dead_tombstones(const Known& known) const RC_REQUIRES(mutex_);
  bool may_be_recovered(const Known& known) const;

  ObjectStore& store_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Known>> known_ RC_GUARDED_BY(mutex_);  // by number
  /// Rising ids of the segments that a replay may find: tombstones that name them are needed. All
  /// segments from first_unseen_ on count as findable, because the list does not cover them yet.
  std::vector<uint64_t> findable_ RC_GUARDED_BY(mutex_);
  uint64_t first_unseen_ RC_GUARDED_BY(mutex_) = 0;
  /// For each segment with dead copies in survivors, by rising id: how many copies. Each needs one of
  /// the tombstones that name the segment, also after the segment has left.
  std::vector<std::pair<uint64_t, size_t>> dead_copies_ RC_GUARDED_BY(mutex_);
  /// Log::segments_gone() when findable_ was built, and the calls since then.
  uint64_t segments_gone_ RC_GUARDED_BY(mutex_) = ~uint64_t{0};
  uint32_t calls_ RC_GUARDED_BY(mutex_) = 0;
};

}  // namespace ramcloud::store
