// Rebuilds some tablets of a dead master from entries of its log, in any order [Ousterhout15 §7.4].
// Entries go into a side log, and slots of the hash table point at them; clients do not see them
// before serve(). See docs/design/recovery.md#recovery-of-one-server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "log/entry_view.h"
#include "log/side_log.h"
#include "store/object_store.h"

namespace ramcloud::store {

/// One part of one recovery attempt. Runs on the thread that takes and drops tablets.
class TabletReplay {
 public:
  struct Range {
    uint64_t table_id = 0;
    uint64_t start_hash = 0;
    uint64_t end_hash = 0;  // inclusive
  };
  struct Counts {
    uint64_t objects = 0;     // that were put in
    uint64_t tombstones = 0;  // that were put in
    uint64_t skipped = 0;     // a newer entry was there, or the tablet is not in this attempt
    uint64_t bytes = 0;       // bytes of entries that were put in
  };

  /// How many entries were replayed; if not all, why the next one was not.
  struct Replayed {
    size_t count = 0;
    StatusCode status = StatusCode::kOk;
  };
  /// Entries whose places in the hash table are fetched from memory at the same time. More in one
  /// call are no faster.
  static constexpr size_t kAtOnce = 16;

  /// `attempt` > 0; no other replay into this store has it. The store outlives it.
  TabletReplay(ObjectStore& store, uint64_t attempt)
      : store_(store), attempt_(attempt), side_(store.log()) {}

  /// Begins to recover a tablet: it is kRecovering from now on. `first_segment` as for
  /// ObjectStore::take_tablet(). EXISTS: the tablet, or an overlapping one, is served here. RETRY:
  /// an overlapping tablet is being recovered, or removed.
  Status begin(const Range& range, uint64_t first_segment);
  /// Starts serving clients. Precondition: everything in the tablet is durably in the log.
  /// Afterwards RecoveredSlots has tombstones to clear. False: the tablet is not kRecovering in
  /// this attempt.
  bool serve(const Range& range);
  /// Gives the tablet up: no entries are replayed into it any more, and RecoveredSlots removes it.
  /// False as for serve().
  bool give_up(const Range& range);

  /// Replays entries, one after the other. The highest version of a key wins; a tombstone wins over
  /// the object of the same version. Each entry is contiguous; its body is copied without change.
  ///   CORRUPT        its checksum or its lengths do not hold, or it is of another type
  ///   OUT_OF_MEMORY  as SideLog::append
  Replayed replay(std::span<const log::EntryView> entries);
  StatusCode replay(const log::EntryView& entry) { return replay(std::span(&entry, 1)).status; }

  const Counts& counts() const { return counts_; }
  /// Live objects in the tablets of this attempt.
  uint64_t live_objects() const;
  uint64_t attempt() const { return attempt_; }
  log::SideLog& side() { return side_; }
  const log::SideLog& side() const { return side_; }

 private:
  /// An object or a tombstone.
  struct Incoming {
    log::EntryView entry;
    uint64_t table_id = 0;
    uint64_t version = 0;
    bool is_tombstone = false;
    ByteView key;
    uint64_t hash = 0;
    bool newer_than(const ObjectStore::Found& old) const {
      if (version != old.version) return version > old.version;
      return is_tombstone && !old.is_tombstone;
    }
  };
  static std::optional<Incoming> parse(const log::EntryView& entry);
  StatusCode replay(const Incoming& incoming);
  Tablet* find(const Range& range) const;
  StatusCode put(const Incoming& incoming, Tablet& tablet, HashTable::Slot* slot,
                 const ObjectStore::Found& old);
  StatusCode append(const Incoming& incoming, const ObjectStore::Found& old, const char*& address);

  ObjectStore& store_;
  const uint64_t attempt_;
  log::SideLog side_;
  Counts counts_;
};

}  // namespace ramcloud::store
