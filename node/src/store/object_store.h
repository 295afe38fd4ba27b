// The single-node key-value store [Ousterhout15 §3.1, §4]: objects in the log, found by the hash
// table.
//
// Dependency. Every operation returns the log position that must be durable before a reply may tell
// the outcome: the position of the write, of the fresh object that was read, or of the tombstone
// that made the object absent. If that is durable already, 0/0 is returned. After a delete the slot
// points at the tombstone until that is durable, so absence has a position, too; then sweep()
// clears the slot.
//
// Versions. A new version is above the old one and at least the floor. The floor is at least every
// version that was assigned here, and above every version that was deleted. So versions rise across
// delete and re-creation. The safe version, logged with each head, is above the floor.
//
// Threads: all operations, and sweep(), may run on any threads at the same time; read() takes no
// lock. take_tablet, drop_tablet, purge_step and take_retired belong to one thread, which
// TabletReplay and RecoveredSlots use as well.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/atomic.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/spin_lock.h"
#include "base/status.h"
#include "log/entry_view.h"
#include "log/log.h"
#include "store/cleaned_segments.h"
#include "store/hash_table.h"
#include "store/held_ranges.h"
#include "store/tablets.h"
#include "wire/data_messages.h"

namespace ramcloud::store {

inline constexpr uint32_t kMaxKeyBytes = log::kMaxKeyBytes;      // 65,535
inline constexpr uint32_t kMaxValueBytes = log::kMaxValueBytes;  // 1,048,576

struct ReadResult {
  uint64_t version = 0;
  log::LogPosition depends_on;
  log::EntryView entry;       // the value is entry.slices(value_offset, value_length, …)
  uint32_t value_offset = 0;  // in the entry's body
  uint32_t value_length = 0;
};

struct StoreOptions {
  uint64_t buckets = 1 << 16;  // of the hash table; about one per four expected objects
  /// Deletes whose tombstones are not durable yet; more answer RETRY. A segment's worth is enough,
  /// because the next segment takes data only after the one before is durable.
  uint32_t max_pending_deletes = 128 * 1024;
};

struct EnumerateLimits {
  uint32_t max_bytes = 1 << 20;  // sum of {EnumeratedObject, key, value}; one object always fits
  bool keys_only = false;        // values do not count
  // The most buckets that one call looks at, so that it stays short. Entries of other tables in
  // them are looked at, too.
  uint32_t max_buckets = 1 << 16;
  uint32_t max_entries = ~uint32_t{0};
  /// The caller can go on between objects with the same hash. Otherwise more of them than fit in
  /// `out` or in 3 MiB are INTERNAL.
  bool splits_hashes = false;
  ByteView after_key{};  // not empty: at the cursor's own place, only objects with a later key
};

struct EnumerateResult {
  uint32_t count = 0;  // objects returned; can be 0 before the end
  bool done = false;
  uint64_t next_cursor = 0;
  bool within_hash = false;  // next_cursor is the last object's place; more of its hash follow
  uint64_t tablet_end = 0;   // inclusive
  log::LogPosition depends_on;
};

/// The place of this hash in the order of enumeration. Applied twice, it gives the hash again.
uint64_t enumeration_position(uint64_t hash);

struct TabletCounts {
  uint64_t table_id = 0, start_hash = 0, end_hash = 0;
  TabletState state = TabletState::kNormal;
  uint64_t objects = 0;
  uint64_t object_bytes = 0;
  uint64_t first_segment = 0;
  uint64_t attempt = 0;  // the recovery attempt that brought the tablet; 0: none
};

class ObjectStore {
 public:
  /// Registers the safe version and the owned tablets with the log: construct before Log::start().
  /// The clock is used for time stamps of objects only. All arguments must outlive the store.
  ObjectStore(log::Log& log, Clock& clock, StoreOptions options);
  /// The same with existing memory for the hash table; `options.buckets` is ignored.
  ObjectStore(log::Log& log, Clock& clock, StoreOptions options, HashTable::Memory table);
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  /// Each of the operations fills depends_on (also when a condition fails) and answers
  ///   UNKNOWN_TABLET    the hash of the key is in no tablet served here
  ///   INVALID_ARGUMENT  key longer than 65,535, value longer than 1,048,576, unknown reject flag
  ///   NOT_FOUND, EXISTS, WRONG_VERSION   by the reject rules, and reading an absent object
  /// write and remove also RETRY and OUT_OF_MEMORY, as Log::append. None allocates.
  ///
  /// The views in the result stay valid until the end of the turn. The version is given also when a
  /// condition fails (0: absent).
  StatusCode read(uint64_t table_id, ByteView key, const wire::RejectRules& reject,
                  ReadResult& result) const;
  /// `version`: the new object's; if a condition fails, the present one's (0: absent).
  StatusCode write(uint64_t table_id, ByteView key, ByteView value, const wire::RejectRules& reject,
                   uint64_t& version, log::LogPosition& depends_on);
  /// `version`: that of the deleted object, or of the object for which a condition failed. 0 if
  /// there was none (which is OK without kIfAbsent).
  StatusCode remove(uint64_t table_id, ByteView key, const wire::RejectRules& reject,
                    uint64_t& version, log::LogPosition& depends_on);

  /// Adds to the number in an object's value: 8 bytes, little-endian, an int64 (which wraps around)
  /// or a double. An absent object counts as 0 and is created. Also answers INVALID_ARGUMENT when
  /// the value has another length, which is then in `value_length`.
  struct Incremented {
    uint64_t version = 0;  // of the new object
    uint64_t bits = 0;     // of the sum
    uint32_t value_length = 0;
  };
  StatusCode increment(uint64_t table_id, ByteView key, wire::NumberType type, uint64_t delta,
                       const wire::RejectRules& reject, Incremented& result,
                       log::LogPosition& depends_on);

  /// A page of the served tablet that holds start_hash: objects into `out` (at most its size). An
  /// object that exists during all pages is returned exactly once, even if its value or other
  /// objects change in between. Cursor: 0 at first, then next_cursor. It is a place in an order
  /// that depends only on the hashes of keys: all objects before it were returned. So a cursor is
  /// valid on every server, and for a part of the tablet as well. INTERNAL: more objects have the
  /// same hash than fit into a page.
  StatusCode enumerate(uint64_t table_id, uint64_t start_hash, uint64_t cursor,
                       const EnumerateLimits& limits, std::span<log::ObjectView> out,
                       EnumerateResult& result);

  /// @name Several operations at once: the memory that they touch is fetched together, not one
  /// after the other. First prefetch() for each, then prefetch_entry() for each, then the operation
  /// with the hash.
  /// @{ Prefetches the cache line of the table that an operation on this key touches first. Returns
  /// the key's hash.
  uint64_t prefetch(uint64_t table_id, ByteView key) const;
  void prefetch_entry(uint64_t hash) const { table_.prefetch_entry(hash); }
  StatusCode read(uint64_t table_id, ByteView key, uint64_t hash, const wire::RejectRules& reject,
                  ReadResult& result) const;
  StatusCode write(uint64_t table_id, ByteView key, uint64_t hash, ByteView value,
                   const wire::RejectRules& reject, uint64_t& version,
                   log::LogPosition& depends_on);
  StatusCode remove(uint64_t table_id, ByteView key, uint64_t hash, const wire::RejectRules& reject,
                    uint64_t& version, log::LogPosition& depends_on);
  /// @}

  /// Clears the slots of deletes that have become durable, at most so many. Called in each turn in
  /// which durable() rose. True if it stopped at the limit: more may be left.
  bool sweep(uint32_t at_most = ~uint32_t{0});
  uint32_t pending_deletes() const;
  /// deletes_so_far() counts deletes. deletes_are_over(n): the first n have left the table and the
  /// list of pending deletes, so nothing refers to their tombstones.
  uint64_t deletes_so_far() const;
  bool deletes_are_over(uint64_t deletes) const;

  /// Begins to serve a tablet (see Tablets::add). RETRY while an overlapping one is being purged.
  ///
  /// If the log may hold entries of an earlier time of this tablet (may_hold()), they must stay
  /// distinguishable from new entries, even after cleaning moves them. So roll the head first, and
  /// pass the new head's id as `first_segment`. The tablet is in tablets() afterwards.
  ///
  /// A head that was opened ahead does not list the tablet, so nothing may be written to the tablet
  /// before that head takes data (master::begin_with_newest_head()).
  Status take_tablet(uint64_t table_id, uint64_t start_hash, uint64_t end_hash,
                     uint64_t first_segment = 0);
  /// What take_tablet() would return.
  Status check_take(uint64_t table_id, uint64_t start_hash, uint64_t end_hash) const {
    return tablets_.check_add(table_id, start_hash, end_hash);
  }
  /// True if a part of the range was served here once, and exactly this tablet is not served now.
  bool may_hold(uint64_t table_id, uint64_t start_hash, uint64_t end_hash) const;
  /// Stops serving the tablets of the table within the range at once. After a grace period call
  /// may_purge(); then purge_step() removes their objects and appends tombstones, so that a replay
  /// does not restore them. NOT_FOUND: there is no such tablet.
  Status drop_tablet(uint64_t table_id, uint64_t start_hash, uint64_t end_hash);
  Status drop_table(uint64_t table_id) { return drop_tablet(table_id, 0, ~uint64_t{0}); }
  /// drops() counts how many times tablets were dropped. may_purge(n): a grace period has passed
  /// since the first n drops, so no operation uses those tablets any more.
  uint64_t drops() const { return tablets_.drops(); }
  void may_purge(uint64_t drops) { tablets_.mark_purging(drops); }
  /// A slice of purging, kPurgeSlice of work. True while something is left to purge: call it again
  /// in a later turn. It is also true if the log answered RETRY or OUT_OF_MEMORY; see
  /// purge_waits().
  bool purge_step();
  /// The last purge_step() ended because the log takes no tombstone now: calling it again at once
  /// is useless.
  bool purge_waits() const { return purge_waits_; }
  /// Dropped tablets are still to be purged; then cleaning can free their memory. Any thread.
  bool memory_will_come() const;
  /// The cost of steps of purging, in units of about 20 ns: for each bucket, each entry, and each
  /// tombstone appended. A bucket is never split between slices.
  static constexpr uint32_t kPurgeBucket = 1;
  static constexpr uint32_t kPurgeEntry = 5;
  static constexpr uint32_t kPurgeTombstone = 25;
  static constexpr uint32_t kPurgeSlice = 1000;
  /// Removed tablets and old lists of tablets; destroy them after a grace period.
  [[nodiscard]] Tablets::Retired take_retired() { return tablets_.take_retired(); }

  std::vector<TabletCounts> tablets() const;
  /// Objects in the served tablets of the table.
  uint64_t object_count(uint64_t table_id) const;

  /// Above every version ever assigned here.
  uint64_t safe_version() const { return version_floor_.load(std::memory_order_acquire) + 1; }
  /// New versions will be at least `version` (a new owner starts above all versions of the old
  /// one).
  void raise_version_floor(uint64_t version);

  const HashTable& table() const { return table_; }
  log::Log& log() { return log_; }
  CleanedSegments& cleaned() { return cleaned_; }
  /// Cleaning is on, and memory is reserved for it.
  bool cleans() const { return log_.options().cleaner_segments > 0; }

 private:
  friend class Invariants;
  friend class RecoveredSlots;
  friend class Relocation;
  friend class SegmentJudge;
  friend class TabletReplay;

  struct Found {  // the entry that a slot points at
    const char* address = nullptr;
    bool is_tombstone = false;
    uint64_t version = 0;
    log::LogPosition depends_on;
    log::ObjectView object;  // unless is_tombstone
    bool exists() const { return address != nullptr && !is_tombstone; }
  };
  struct PendingDelete {
    uint64_t hash = 0;
    const char* tombstone = nullptr;
    log::LogPosition position;
  };

  /// A key that is about to change, looked up under its stripe lock.
  struct Target {
    Target(uint64_t table, ByteView k, uint64_t h) : table_id(table), key(k), hash(h) {}
    uint64_t table_id;
    ByteView key;
    uint64_t hash;
    Tablet* tablet = nullptr;
    HashTable::Slot* slot = nullptr;  // null: the key is not in the table
    Found old;
  };

  bool matches(const char* address, uint64_t table_id, ByteView key) const;
  /// Looks up the object to change and checks the conditions. The caller holds
  /// lock_of(target.hash).
  StatusCode find_target(Target& target, const wire::RejectRules& reject,
                         log::LogPosition& depends_on);
  /// Replaces the object that was found by a new value.
  StatusCode put(const Target& target, ByteView value, uint64_t& version,
                 log::LogPosition& depends_on);
  Found describe(const char* address) const;
  Found found_at(const char* address) const;  // describe() for other files
  log::LogPosition dependency(const char* address) const;
  uint64_t next_version(uint64_t old_version);
  /// Whether a tombstone may use the log's reserve for deletes.
  enum class Reserve : uint8_t { kKeep, kUse };
  StatusCode append_tombstone(const Found& victim, uint64_t table_id, Slice key_pieces[],
                              int key_piece_count, Reserve reserve, log::Appended& appended,
                              const char*& address);
  bool reserve_pending_delete();
  void add_pending_delete(const PendingDelete& pending);
  bool purge_bucket(uint64_t bucket);
  StatusCode purge_object(uint64_t bucket, HashTable::Slot& slot, const Found& found,
                          Tablet& tablet);

  log::Log& log_;
  Clock& clock_;
  StoreOptions options_;
  HashTable table_;
  Tablets tablets_;
  HeldRanges held_;  // used by the thread that takes tablets
  CleanedSegments cleaned_;
  alignas(kCacheLineBytes) Atomic<uint64_t> version_floor_{1};

  alignas(kCacheLineBytes) mutable SpinLock pending_lock_;
  std::unique_ptr<PendingDelete[]> pending_;  // a ring, by position
  uint64_t pending_head_ RC_GUARDED_BY(pending_lock_) = 0;
  uint64_t pending_tail_ RC_GUARDED_BY(pending_lock_) = 0;

  std::vector<const Tablet*> purging_;  // the dropped tablets that the current pass covers
  uint64_t purge_cursor_ = 0;
  uint32_t purge_work_ = 0;  // in this step
  bool purge_waits_ = false;
};

}  // namespace ramcloud::store
