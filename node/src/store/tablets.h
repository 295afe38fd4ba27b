// The tablets this master owns [Ousterhout15 §3.1]: ranges of key hashes of tables, with counters
// for each. Looked up on every operation, changed rarely.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/atomic.h"
#include "base/spin_lock.h"
#include "base/status.h"
#include "base/thread_number.h"
#include "log/owned_tablets.h"

namespace ramcloud::store {

enum class TabletState : uint8_t {
  kNormal,      // served
  kDropping,    // not served; a thread that found it before may still use it
  kPurging,     // not served, and no thread uses it; its objects are being purged
  kRecovering,  // not served yet; a dead master's entries are replayed into it (TabletReplay)
  kGivenUp,     // recovery was given up; replayed entries are removed from the table
                // (RecoveredSlots)
};

class Tablet {
 public:
  uint64_t table_id = 0;
  uint64_t start_hash = 0;
  uint64_t end_hash = 0;  // inclusive
  Atomic<TabletState> state{TabletState::kNormal};
  uint64_t dropped_at = 0;  // number of the drop
  /// Entries in segments with lower ids do not belong to this tablet, but to an earlier one with
  /// the same range. 0: there are none.
  uint64_t first_segment = 0;
  /// The recovery attempt that brought it; 0: none.
  uint64_t attempt = 0;

  /// Adds to the counts of objects and of the bytes of their log entries; negative values subtract.
  void count(int64_t objects, int64_t bytes) {
    Share& share = shares_[thread_number() % kShares];
    share.objects.fetch_add(objects, std::memory_order_relaxed);
    share.bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  /// Exact while no thread writes. Otherwise a removal may be counted before its insertion, so the
  /// result may be negative.
  int64_t net_objects() const { return sum(&Share::objects); }
  uint64_t objects() const { return not_below_zero(net_objects()); }
  uint64_t object_bytes() const { return not_below_zero(sum(&Share::bytes)); }

  bool contains(uint64_t table, uint64_t hash) const {
    return table_id == table && start_hash <= hash && hash <= end_hash;
  }

 private:
  /// A thread's share of the counts. Each write changes only its own share, on another cache line
  /// than the fields that every operation reads.
  struct alignas(kCacheLineBytes) Share {
    Atomic<int64_t> objects{0};
    Atomic<int64_t> bytes{0};
  };
  static constexpr size_t kShares = 16;

  int64_t sum(Atomic<int64_t> Share::* what) const {
    int64_t total = 0;
    for (const Share& share : shares_) total += (share.*what).load(std::memory_order_relaxed);
    return total;
  }
  static uint64_t not_below_zero(int64_t n) {
    return static_cast<uint64_t>(std::max<int64_t>(n, 0));
  }

  std::array<Share, kShares> shares_;
};

/// find() is lock-free and may run on any thread, concurrently with the other functions, which take
/// a lock. A change creates a new sorted list; old lists and removed tablets are kept until
/// take_retired().
class Tablets {
 public:
  Tablets();
  ~Tablets();
  Tablets(const Tablets&) = delete;
  Tablets& operator=(const Tablets&) = delete;

  /// The tablet that covers the hash, in any state, or null.
  Tablet* find(uint64_t table_id, uint64_t hash) const;
  /// The same, only if it is served.
  Tablet* find_served(uint64_t table_id, uint64_t hash) const {
    Tablet* tablet = find(table_id, hash);
    return tablet && tablet->state.load(std::memory_order_acquire) == TabletState::kNormal
               ? tablet
               : nullptr;
  }

  /// OK also when exactly this tablet is there already. EXISTS: it overlaps another. RETRY: it
  /// overlaps one that is still being dropped. INVALID_ARGUMENT: start above end.
  Status add(uint64_t table_id, uint64_t start_hash, uint64_t end_hash, uint64_t first_segment = 0);
  /// Adds a tablet that is kRecovering. EXISTS also if exactly this tablet is there.
  Status add_recovering(uint64_t table_id, uint64_t start_hash, uint64_t end_hash,
                        uint64_t first_segment, uint64_t attempt);
  /// Why add() would refuse it, or OK.
  Status check_add(uint64_t table_id, uint64_t start_hash, uint64_t end_hash) const;
  /// Stops serving the tablets of the table that lie in the range; returns how many.
  uint32_t mark_dropping(uint64_t table_id, uint64_t start_hash, uint64_t end_hash);
  /// How many drops there were: pass it to mark_purging() after a grace period.
  uint64_t drops() const;
  /// Tells that no operation uses the tablets of the first `drops` drops any more.
  void mark_purging(uint64_t drops);
  void remove(const std::vector<const Tablet*>& tablets);

  /// True if some tablet is in this state. Any thread, lock-free, as find().
  bool any_in(TabletState state) const;
  /// Adds the tablets whose entries in the log are live or may become live: served ones, and those
  /// that are being recovered. Any thread, lock-free, as find().
  void list_owned(log::OwnedTabletsEncoder& encoder) const;
  /// All tablets in any state, by table, then start.
  std::vector<Tablet*> all() const;
  /// Sorted by table, then start. Ranges are in the list itself, so that a search touches one
  /// tablet only. The last result is not cached, because every thread would write to the cache.
  struct List {
    struct Place {
      uint64_t table_id = 0;
      uint64_t start_hash = 0;
      uint64_t end_hash = 0;
      Tablet* tablet = nullptr;
    };
    std::vector<Place> sorted;
  };
  /// Lists and tablets that find() does not use any more. Threads inside the store may still use
  /// them: destroy them after a grace period (runtime/epoch.h).
  struct Retired {
    std::vector<std::unique_ptr<Tablet>> tablets;
    std::vector<std::unique_ptr<const List>> lists;
  };
  [[nodiscard]] Retired take_retired();

 private:
  Status check(uint64_t table_id, uint64_t start_hash, uint64_t end_hash, bool& is_there) const
      RC_REQUIRES(lock_);
  void insert(std::unique_ptr<Tablet> tablet) RC_REQUIRES(lock_);
  void publish(const std::vector<Tablet*>& sorted) RC_REQUIRES(lock_);
  std::vector<Tablet*> sorted() const RC_REQUIRES(lock_);

  mutable SpinLock lock_;
  Atomic<const List*> current_;
  std::vector<std::unique_ptr<Tablet>> owned_ RC_GUARDED_BY(lock_);
  std::vector<std::unique_ptr<Tablet>> removed_ RC_GUARDED_BY(lock_);
  std::vector<std::unique_ptr<const List>> lists_ RC_GUARDED_BY(lock_);  // the last is current
  uint64_t drops_ RC_GUARDED_BY(lock_) = 0;
};

}  // namespace ramcloud::store
