// The log of a master [Ousterhout15 §4.1-4.2, §4.5]: appends groups to the head segment and
// switches heads in the order that makes recovery safe. Replication is another layer's
// (Replicator); this layer knows nothing of RPC.
//
// Head ordering. The next head is opened ahead, when the current one is half full: its header group
// (segment header, digest that lists itself, safe version) is published and segment_opened()
// called. When a group does not fit any more and the next head is open on all replicas, the head is
// closed (footer, segment_closed()); when that is durable, the next head takes data, not before. In
// between append() answers RETRY.
//
// Joining and leaving. Segments enter the log and leave it with a fresh head, whose digest is made
// for that: see commit() and docs/design/log.md#commit. A head that was opened ahead before is
// abandoned: its digest must not decide any more. A head that was closed with no entry in it leaves
// with the next head that is opened for other reasons.
//
// Threads: append() may be called by any thread, and commit(), withdraw(), take_retired() and
// reclaim(); set_durable() by the reactor that drives replication, one at a time; start(),
// roll_head() and on_replication_progress() belong to one thread. The Replicator is called by the
// thread that was the cause. Lock order: a stripe lock of the store, then the head lock, then the
// arena's.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/spin_lock.h"
#include "base/status.h"
#include "log/arena.h"
#include "log/format.h"
#include "log/moved_segments.h"
#include "log/segment.h"
#include "log/segment_pool.h"
#include "log/segment_writer.h"

namespace ramcloud::log {

/// What replicates the log. Calls are made without locks of the log held, on the thread that
/// appended (which may hold a stripe lock of the store) or called start(), roll_head(), commit() or
/// on_replication_progress(); with one thread they may call on_replication_progress() at once. A
/// head is opened after the one before it, whichever threads say so: the next is not opened before
/// the last was reported open, or abandoned.
class Replicator {
 public:
  virtual ~Replicator() = default;
  /// The header group [0, segment.header_length()) is published in it. Report of a head: by
  /// segment.mark_opened_durable(), then Log::on_replication_progress().
  virtual void segment_opened(Segment& segment) = 0;
  /// The footer is published; no more bytes come. Report by segment.mark_closed_durable(), then
  /// Log::on_replication_progress(). Heads are reported in their order, abandoned ones and side
  /// segments as they come.
  virtual void segment_closed(Segment& segment) = 0;
  /// It belongs to the log no more: its replicas may be freed. Report by segment.mark_released()
  /// once it is not used any more; that does not have to wait for the backups.
  virtual void segment_removed(Segment& segment) = 0;
  /// `after` has the id of `before`, which is closed durable, and those of its entries that are needed:
  /// replicas that are made from now on may have its bytes instead, once the log up to after.judged()
  /// is synced. Those that there are stay as they are. Report by before.mark_released() once it is not
  /// used any more.
  virtual void segment_compacted(Segment& before, Segment& after) = 0;
  /// Bytes before this position are to be on the devices of their backups; they are durable. Report
  /// by Log::set_synced(). Any thread.
  virtual void sync_wanted(LogPosition position) = 0;
  /// False: nothing is replicated; the log then treats all as durable as soon as it is published.
  virtual bool replicates() const { return true; }
};

/// R = 0: everything is durable at once.
class NullReplicator final : public Replicator {
 public:
  void segment_opened(Segment&) override {}
  void segment_closed(Segment&) override {}
  void segment_removed(Segment&) override {}
  void segment_compacted(Segment&, Segment&) override {}
  void sync_wanted(LogPosition) override {}
  bool replicates() const override { return false; }
};

struct LogOptions {
  std::array<uint8_t, 16> cluster_uuid{};
  uint64_t master_id = 0;
  uint64_t first_segment_id = 1;  // > 0; above every id this master id has used
  /// Segments that only deletes may open, so that memory full can be left by deleting.
  uint32_t reserve_segments = 1;
  /// Segments that only survivors of cleaning may take, so that cleaning can always begin. Then
  /// there is also room for emergency heads, so that it can always be committed. 0: no cleaning.
  uint32_t cleaner_segments = 0;
  /// Safe version for the header of each head: above every version ever assigned. Called with the
  /// head lock held; must not take locks. Can be set later, before start().
  std::function<uint64_t()> safe_version;
};

struct Appended {
  LogPosition end;  // the reply of this operation waits until durable() >= end
};

/// The purpose of taking memory. Each one leaves the reserves of those below it.
enum class For : uint8_t {
  kWrites,     // and recovery, migration, purging without cleaning
  kDeletes,    // which make room
  kSurvivors,  // of cleaning, which makes more
};

struct LogStatistics {
  uint32_t total_segments = 0;  // the limit
  uint32_t free_segments = 0;
  uint32_t reserve_segments = 0;
  uint64_t total_bytes = 0;  // the limit
  uint64_t used_bytes = 0;   // published in segments, headers and padding included
  uint64_t live_bytes = 0;   // of entries still needed, tombstones included
  uint64_t entry_bytes = 0;  // of entries, dead ones included
  uint64_t free_bytes = 0;   // in no segment, and below the limit
  uint64_t emergency_heads = 0;
  uint64_t appended_groups = 0;
  uint64_t appended_bytes = 0;
  uint64_t head_switches = 0;
  uint64_t retries = 0;        // appends answered RETRY
  uint64_t out_of_memory = 0;  // appends answered OUT_OF_MEMORY
};

/// Segments that enter the log and leave it together, with one digest: all of them or none,
/// whenever a crash comes. The caller of commit() keeps it until it is done or withdrawn.
struct Change {
  std::vector<Segment*> enter;  // side segments, closed durable
  std::vector<Segment*> leave;  // of the log, closed durable

  enum class State : uint8_t {
    kNew,      // not committed, or withdrawn
    kWaiting,  // for a fresh head
    kCarried,  // a digest with it is written, which may be in force after a crash
    kDone,     // no other digest can be
  };
  Atomic<State> state{State::kNew};
  bool done() const { return state.load(std::memory_order_acquire) == State::kDone; }
};

/// When a change is committed: with a head that is opened for it, or with the next one that is
/// opened anyway.
enum class Roll : uint8_t { kNow, kNext };

class Log {
 public:
  /// All must outlive the log; the arena is its own.
  Log(Arena& arena, Replicator& replicator, LogOptions options);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Before start().
  void set_safe_version_source(std::function<uint64_t()> source);
  /// `fn` is called after durable() rose, and after a new head began to take data: what waits for
  /// either looks again. Without locks of the log held, on the thread that was the cause; not for
  /// an append that was durable at once, because then nobody else waits for it. Before start().
  void set_progress_listener(std::function<void()> fn);

  /// Opens the first head. It takes data once the replicator has reported it opened durable.
  void start();

  /// Appends one group with these entries (at most kMaxGroupEntries), all or nothing. Fills refs[i]
  /// with the address of entry i (Arena::entry reads it). Does not allocate. `for_delete`: may use
  /// the reserve.
  ///   RETRY             the head is being switched (or not open yet): again after progress
  ///   OUT_OF_MEMORY     no free segment (above the reserve, unless for_delete)
  ///   INVALID_ARGUMENT  too many entries, or larger than a segment holds
  StatusCode append(std::span<const EntrySource> entries, bool for_delete, Appended& appended,
                    const char* refs[]);

  /// Switches heads although the current one is not full. OK: it began (append() answers RETRY
  /// until it is done), at once if replication is. OUT_OF_MEMORY: no free segment.
  StatusCode roll_head();

  /// @name Segments that enter and leave
  /// @{
  /// Commits a change [Ousterhout15 §4.5, §7.4 in other words]. It is done when no digest without
  /// it can decide any more; the progress listener is called then.
  ///   OK                 it waits for its head, or is on its way
  ///   OUT_OF_MEMORY      no segment for a fresh head (above the reserve); nothing was done. Not
  ///                      with cleaning: it waits until there is one, or room for an emergency head
  ///   INVALID_ARGUMENT   not one of this log's side segments or segments, not closed durable, or
  ///                     in a change that waits
  StatusCode commit(Change& change, Roll roll);
  /// Takes a change back that waits. False: a digest has it; it will be done.
  bool withdraw(Change& change);
  /// A change that was committed is not to wait any more: for the next head, or until the present
  /// one is full.
  void hurry(Change& change);
  /// A replay of this log may find a segment with this id: now, or once waiting changes are
  /// committed. False for ever then. (True for a while after it left.)
  bool may_be_found(uint64_t segment_id) const;
  /// The ids of all segments for which that is so. In no order.
  std::vector<uint64_t> ids_that_may_be_found() const;
  /// Segments that left the log, or were never in it, and that replication has released. Give them
  /// to reclaim() after a grace period (runtime/epoch.h): a reader of this turn may be in them.
  [[nodiscard]] std::vector<Segment*> take_retired();
  /// Some left and were not taken, whether or not they are released. Any thread, no lock.
  bool has_retired() const { return has_retired_.load(std::memory_order_relaxed); }
  /// Their memory is used again. Those that are pinned are kept for the next time.
  void reclaim(const std::vector<Segment*>& retired);
  /// @}

  /// True when append() would not answer RETRY for a small group.
  bool ready() const;

  /// @name For the cleaner
  /// @{
  struct Memory {
    uint32_t total_seglets = 0;
    uint32_t free_seglets = 0;
    uint32_t leaving_seglets = 0;  // of segments that left, and are not used again yet
    uint32_t excess_seglets = 0;   // that are to be given back, while the log shrinks
    uint32_t segments = 0;         // that have replicas, or may still have
    uint64_t appended_bytes = 0;   // by writers, so far
  };
  Memory memory() const;
  /// Seglets that must be left free when memory is taken for this.
  uint32_t kept_from(For whose) const;
  /// True if a whole segment can be taken for this.
  bool has_segment_for(For whose) const;
  /// Numbers (Segment::number) of about so many segments that entered, left, or have a step less of
  /// live bytes. One thread at a time.
  std::vector<uint32_t> take_moved(uint32_t about) { return moved_.take(about); }
  /// Makes take_moved() give the segment again: the cleaner has not read all of it. Any thread.
  void want_look(uint32_t number) { moved_.mark(number); }
  /// How many segments have left and are found by no replay any more (may_be_found() is false).
  uint64_t left() const { return left_.load(std::memory_order_acquire); }
  /// The closed member of the log that has this number; null if none has. It stays for the turn.
  /// Not a head that was closed empty: it leaves on its own.
  Segment* closed_member(uint32_t number);
  /// No version is known from this closed member alone: later heads are above all that were assigned
  /// before it was closed (docs/design/log.md#compaction). True for ever then.
  bool may_compact(const Segment& segment) const {
    return segment.side() || segment.id() < head_before_.load(std::memory_order_relaxed);
  }
  /// All segment numbers are below this. Rises when the log grows.
  uint32_t most_segments() const { return most_segments_.load(std::memory_order_relaxed); }
  /// It will never be above this.
  uint32_t most_segments_ever() const { return most_segments_ever_; }
  /// True: memory that is full now may become free. The cleaner can free some, or something died
  /// since it looked last. Any thread. False at first.
  bool cleaning_helps() const {
    return cleaning_helps_.load(std::memory_order_relaxed) ||
           news() > judged_at_.load(std::memory_order_relaxed);
  }
  /// For the cleaner: what it found when news() was `news`.
  void set_cleaning_helps(bool helps, uint64_t news) {
    judged_at_.store(news, std::memory_order_relaxed);
    cleaning_helps_.store(helps, std::memory_order_relaxed);
  }
  /// Rises when a segment enters or leaves, or has a step less of live bytes.
  uint64_t news() const { return moved_.marks(); }
  /// @}

  /// @name Resizing (docs/design/log.md#resize)
  /// @{
  /// In bytes; see Arena::Sizes.
  struct Sizes {
    uint64_t target = 0, limit = 0, held = 0;
    uint64_t least = 0, most = 0;  // that is accepted now
    bool done() const { return limit == target && held == target; }
  };
  /// `live_bytes`: of objects, as they are in the log.
  Sizes sizes(uint64_t live_bytes) const;
  /// The log is to have so much memory, rounded down to whole segments. It gets there by settle().
  ///   INVALID_ARGUMENT  below `least` or above `most`; the message names both. Nothing changes.
  ///   UNSUPPORTED       its pages were set aside
  Status resize(uint64_t bytes, uint64_t live_bytes);
  /// A slice of work towards that, as Arena::settle(). One thread at a time, with resize().
  bool settle();
  /// How many segments are kept for survivors, in a log of so many that is cleaned: a hundredth, so
  /// that a pass of a large log that is nearly full of live bytes has room for as many as it needs.
  static uint32_t segments_for_survivors(uint32_t segments);
  /// No log is made smaller while it runs.
  static constexpr uint32_t kLeastSegments = 8;
  /// @}

  /// False between two heads, when append() answers RETRY whatever the size. Any thread, no lock;
  /// sequentially consistent with the progress listener, as durable().
  bool takes_data() const { return takes_data_.load(std::memory_order_seq_cst); }

  /// The end of the last appended group.
  LogPosition head() const { return from_value(head_position_.load(std::memory_order_acquire)); }
  /// All groups before it are on R replicas and all earlier segments are closed on R replicas.
  /// Sequentially consistent with what set_durable() does: a reactor that first says that it waits
  /// and then looks here is either told by the listener, or sees the position itself.
  LogPosition durable() const { return from_value(durable_.load(std::memory_order_seq_cst)); }
  /// By replication's side. Must be the end of a group (values of Segment::published() or
  /// chunk_end() are) in a segment whose predecessors are closed durable. A lower value than before
  /// is ignored.
  void set_durable(LogPosition position);
  /// All before it is on the devices of R backups, as far as want_synced() asked. What is
  /// durable may be in page caches alone, and a power cut of all machines takes it
  /// (docs/design/log.md#cleaning). Sequentially consistent with the progress listener, as
  /// durable().
  LogPosition synced() const {
    return replicates_ ? from_value(synced_.load(std::memory_order_seq_cst)) : durable();
  }
  /// Makes it so that synced() >= position, which is durable. Any thread.
  void want_synced(LogPosition position);
  /// By replication's side. A lower value than before is ignored.
  void set_synced(LogPosition position);
  /// A segment was marked opened or closed durable: switches heads as far as that allows.
  void on_replication_progress();

  /// Position of the end of the entry at this address: durable() >= this means that the entry (and
  /// its group) is durable. Entries of side segments are when they are seen: none.
  LogPosition position_of(const char* entry) const;
  EntryView entry(const char* address) const { return arena_.entry(address); }
  /// Keeps the memory of the entry, found in this turn, for later ones.
  Pin pin(const EntryView& entry) const;
  /// Accounting: the entry at this address is not needed any more.
  void mark_dead(const char* address);

  const LogOptions& options() const { return options_; }
  const Arena& arena() const { return arena_; }
  LogStatistics statistics() const;

  /// Segments in the log by rising id, the opened-ahead one last. Copies pointers; not for data
  /// paths. They stay for the turn.
  std::vector<Segment*> segments() const;
  /// Those that have memory and are not in the log: side segments, abandoned heads, retired ones.
  std::vector<Segment*> others() const;
  /// The segment in the log with this id, or null.
  Segment* find_segment(uint64_t id) const;

 private:
  friend class Invariants;
  friend class SideLog;
  friend class CompactedSegment;

  /// What to tell the replicator, and the listener, once the lock is released.
  struct Events {
    Segment* closed = nullptr;
    Segment* opened = nullptr;
    bool switched = false;  // a new head takes data
    bool removed = false;   // removed_ has something for the replicator
  };
  /// A group that was given its place. Small ones are copied under the lock; large ones outside, so
  /// publishing waits for those before them.
  struct Reservation {
    uint32_t start = 0;  // of the group in the segment, behind any padding
    uint32_t end = 0;
    bool copied = false;
  };
  static constexpr uint32_t kMaxReservations = 64;

  static LogPosition from_value(uint64_t value) {
    LogPosition position;
    position.value = value;
    return position;
  }

  StatusCode append_locked(GroupSource& group, bool for_delete, Appended& appended,
                           const char* refs[], Segment*& copy_outside, Events& events)
      RC_REQUIRES(lock_);
  bool head_for_all_may_follow() const RC_REQUIRES(lock_);
  StatusCode make_room(bool for_delete, Events& events) RC_REQUIRES(lock_);
  void open_next_if_possible(Events& events) RC_REQUIRES(lock_);
  void carry_changes() RC_REQUIRES(lock_);
  void open_fresh_head(Events& events) RC_REQUIRES(lock_);
  void close_abandoned(Events& events) RC_REQUIRES(lock_);
  bool next_may_follow() const RC_REQUIRES(lock_);
  void open_head(Segment& segment, Events& events) RC_REQUIRES(lock_);
  void open_emergency_head(Events& events) RC_REQUIRES(lock_);
  void leave_emergency_head(Events& events) RC_REQUIRES(lock_);
  void drop_emergency_head() RC_REQUIRES(lock_);
  void lift_restrictions() RC_REQUIRES(lock_);
  void keep_reserves(uint32_t segments, uint32_t cleaner_segments) RC_REQUIRES(lock_);
  void follow_limit() RC_REQUIRES(lock_);
  uint64_t least_bytes(uint64_t live_bytes) const;
  bool cleans() const { return options_.cleaner_segments > 0; }
  bool take_next(Events& events) RC_REQUIRES(lock_);
  void finish_changes(Events& events) RC_REQUIRES(lock_);
  void leave_empty_heads() RC_REQUIRES(lock_);
  void write_header_group(Segment& segment) RC_REQUIRES(lock_);
  void close_head(Events& events) RC_REQUIRES(lock_);
  void begin_switch(Events& events) RC_REQUIRES(lock_);
  void advance(Events& events) RC_REQUIRES(lock_);
  bool can_commit(const Change& change) const RC_REQUIRES(lock_);
  bool in_waiting_change(const Segment* segment) const RC_REQUIRES(lock_);
  void retire(Segment& segment, Events& events) RC_REQUIRES(lock_);
  void reclaim_locked(const std::vector<Segment*>& retired) RC_REQUIRES(lock_);
  Segment* open_side_segment(For whose);
  void side_segment_closed(Segment& segment);
  void abort_side_segments(const std::vector<Segment*>& segments);
  Segment* open_copy(const Segment& original, uint32_t seglets);
  void close_copy(Segment& copy);
  void abort_copy(Segment& copy);
  void replace(Segment& original, Segment& copy);
  void retire_memory(Segment& segment) RC_REQUIRES(lock_);
  static void fetch_room(Segment& segment, uint32_t from);
  void publish(Segment& segment, uint32_t end) RC_REQUIRES(lock_);
  bool raise_durable(LogPosition position) { return raise(durable_, position); }
  static bool raise(Atomic<uint64_t>& value, LogPosition to);
  void tell_progress() const {
    if (on_progress_) on_progress_();
  }
  void finish_copy(Segment& segment, uint32_t start) RC_REQUIRES(lock_);
  void deliver(const Events& events);
  uint32_t durable_in(const Segment& segment) const;

  Arena& arena_;
  Replicator& replicator_;
  LogOptions options_;
  const bool replicates_;
  Atomic<uint32_t> most_segments_{0};
  uint32_t most_segments_ever_ = 0;
  Atomic<bool> cleaning_helps_{false};
  Atomic<uint64_t> judged_at_{~uint64_t{0}};  // nobody cleans
  Atomic<uint64_t> left_{0};
  Atomic<uint64_t> head_before_{0};        // id of the one that was closed when the head took data
  Atomic<uint32_t> emergency_seglets_{0};  // of one emergency head
  Atomic<uint32_t> cleaner_seglets_{0};    // kept for survivors
  Atomic<uint32_t> reserve_seglets_{0};    // kept for deletes
  uint32_t segments_kept_for_ = 0;         // the three above are for a log of so many
  Atomic<uint64_t>& durable_;              // one of the two below
  std::function<void()> on_progress_;

  Atomic<bool> takes_data_{false};  // head_ is there, and is not to be switched

  // What every append writes: on one line, because it goes from core to core with the lock, and on
  // one of its own, so that it takes nothing along.
  alignas(kCacheLineBytes) mutable SpinLock lock_;  // "head lock"
  uint32_t first_reservation_ RC_GUARDED_BY(lock_) = 0;
  uint32_t reservation_count_ RC_GUARDED_BY(lock_) = 0;
  Segment* head_ RC_GUARDED_BY(lock_) = nullptr;  // takes data; null while heads are switched
  Segment* next_ RC_GUARDED_BY(lock_) = nullptr;  // opened ahead
  uint64_t appended_groups_ RC_GUARDED_BY(lock_) = 0;
  uint64_t appended_bytes_ RC_GUARDED_BY(lock_) = 0;
  Atomic<uint64_t> head_position_{0};
  Atomic<uint64_t> durable_at_once_{0};  // without replication

  alignas(kCacheLineBytes) Segment* closing_
      RC_GUARDED_BY(lock_) = nullptr;              // has its footer, not yet closed durable
  bool want_switch_ RC_GUARDED_BY(lock_) = false;  // a group did not fit: switch when next is ready
  Segment* abandoned_ RC_GUARDED_BY(lock_) = nullptr;  // from then until it is closed durable
  uint64_t next_id_ RC_GUARDED_BY(lock_) = 1;
  SegmentPool pool_ RC_GUARDED_BY(lock_);
  // Room for all there can be was made, so that switching allocates nothing.
  std::vector<Segment*> segments_ RC_GUARDED_BY(lock_);  // as the last digest has them, by id
  std::vector<Segment*> others_ RC_GUARDED_BY(lock_);    // with memory, and not in segments_
  std::vector<Segment*> removed_ RC_GUARDED_BY(lock_);   // the replicator was not told yet
  std::vector<Segment*> retired_ RC_GUARDED_BY(lock_);   // until reclaim()
  uint32_t taken_seglets_ RC_GUARDED_BY(lock_) = 0;      // of what take_retired() gave
  Atomic<bool> has_retired_{false};                      // retired_ has some
  std::vector<Change*> waiting_ RC_GUARDED_BY(lock_);    // for a fresh head
  std::vector<Change*> carried_ RC_GUARDED_BY(lock_);    // by next_
  std::vector<Segment*> empty_ RC_GUARDED_BY(lock_);     // heads that leave with the next digest
  std::vector<Segment*> leaving_ RC_GUARDED_BY(lock_);   // that left with the digest of next_
  bool roll_now_ RC_GUARDED_BY(lock_) = false;           // one that waits wants a head of its own
  bool switch_now_ RC_GUARDED_BY(lock_) = false;         // one that is carried does
  std::string digest_ RC_GUARDED_BY(lock_);  // kept, so that switching allocates nothing
  Reservation reservations_[kMaxReservations] RC_GUARDED_BY(lock_);
  LogStatistics counters_ RC_GUARDED_BY(lock_);  // what is counted beside appends
  MovedSegments moved_;

  // What every operation reads, and replication raises.
  alignas(kCacheLineBytes) Atomic<uint64_t> durable_replicated_{0};
  Atomic<uint64_t> synced_{0};
};

}  // namespace ramcloud::log
