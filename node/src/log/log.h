// The log of a master [Ousterhout15 §4.1-4.2, §4.5]: appends groups to the head segment and
// switches heads in the order that makes recovery safe. Another layer replicates (Replicator); this
// one knows nothing of RPC.
//
// Head ordering. The next head is opened ahead, when the current one is half full: its header group
// (segment header, digest that lists itself, safe version) is published and segment_opened()
// called. When a group does not fit and the next head is open on all replicas, the head is closed
// (footer, segment_closed()). Only when that is durable does the next head take data. In between
// append() answers RETRY.
//
// Joining and leaving. Segments enter and leave the log with the digest of a fresh head: see
// commit() and docs/design/log.md#commit. A head that was opened ahead before that is abandoned,
// because its digest must not decide. A head that was closed empty leaves with the next head that
// is opened anyway.
//
// Threads: append() may be called by any thread, and commit(), withdraw(), take_retired() and
// reclaim(); set_durable() by the reactor that drives replication, one at a time; start(),
// roll_head() and on_replication_progress() by one thread only. The Replicator is called on the
// thread that caused the event. Lock order: a stripe lock of the store, then the head lock, then
// the arena's.
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
#include "log/changed_segments.h"
#include "log/format.h"
#include "log/owned_tablets.h"
#include "log/segment.h"
#include "log/segment_pool.h"
#include "log/segment_writer.h"

namespace ramcloud::log {

/// The interface to replication. Calls are made without locks of the log held, on the thread that
/// appended (which may hold a stripe lock of the store) or called start(), roll_head(), commit() or
/// on_replication_progress(); with one thread they may call on_replication_progress() at once.
/// Heads are opened in order, on any threads: the next is not opened before the last was reported
/// open, or abandoned.
class Replicator {
 public:
  virtual ~Replicator() = default;
  /// The header group [0, segment.header_length()) is published in it. Report of a head: by
  /// segment.mark_opened_durable(), then Log::on_replication_progress().
  virtual void segment_opened(Segment& segment) = 0;
  /// The footer is published; no more bytes follow. Report by segment.mark_closed_durable(), then
  /// Log::on_replication_progress(). Heads are reported in order; abandoned heads and side segments
  /// in any order.
  virtual void segment_closed(Segment& segment) = 0;
  /// The segment left the log: its replicas may be freed. Report by segment.mark_released() once
  /// replication does not use its memory any more; that need not wait for the backups.
  virtual void segment_removed(Segment& segment) = 0;
  /// `after` has the same id as `before`, which is closed durable, and only the entries that are
  /// needed. New replicas may be made from its bytes once the log is synced up to after.judged().
  /// Existing replicas do not change. Report by before.mark_released() once replication does not
  /// use its memory any more.
  virtual void segment_compacted(Segment& before, Segment& after) = 0;
  /// Asks that all bytes before this position get to the devices of their backups. They are
  /// durable. Report by Log::set_synced(). Any thread.
  virtual void sync_wanted(LogPosition position) = 0;
  /// Why the segment has too few replicas, and backups take no more now. OK: enough take them, or
  /// none was asked yet. On the thread that called start().
  virtual Status shortage_of(const Segment&) { return {}; }
  /// False: nothing is replicated; the log then treats a byte as durable as soon as it is
  /// published.
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
  uint64_t first_segment_id = 1;  // > 0; above every id that this master has used
  /// Segments that only deletes may open, so that clients can delete when memory is full. A log that
  /// is cleaned keeps more if it is large (Log::seglets_for_deletes).
  uint32_t reserve_segments = 1;
  /// Segments that only survivors of cleaning may take, so that cleaning can always begin. Memory
  /// for emergency heads is then reserved, too, so that it can always be committed. 0: no cleaning.
  uint32_t cleaner_segments = 0;
  /// Safe version for the header of each head: above every version ever assigned. Called with the
  /// head lock held; must not take locks. Can be set later, before start().
  std::function<uint64_t()> safe_version;
  /// Adds the tablets that the header of each head lists; null: it has no list. Called as
  /// safe_version.
  std::function<void(OwnedTabletsEncoder&)> owned_tablets;
};

struct Appended {
  LogPosition end;  // the reply of this operation waits until durable() >= end
};

/// The purpose of taking memory. Each purpose leaves the reserves of those listed after it
/// untouched.
enum class MemoryPurpose : uint8_t {
  kWrites,     // also recovery, migration, and purging without cleaning
  kDeletes,    // they free memory
  kSurvivors,  // copies made by cleaning, which frees more
};

struct LogStatistics {
  uint32_t total_segments = 0;  // the limit
  uint32_t free_segments = 0;
  uint32_t reserve_segments = 0;
  uint64_t total_bytes = 0;  // the limit
  uint64_t used_bytes = 0;   // published in segments, headers and padding included
  uint64_t live_bytes = 0;   // bytes of entries still needed, including tombstones
  uint64_t entry_bytes = 0;  // bytes of entries, including dead ones
  uint64_t free_bytes = 0;   // bytes in no segment, up to the limit
  uint64_t emergency_heads = 0;
  uint64_t appended_groups = 0;
  uint64_t appended_bytes = 0;
  uint64_t head_switches = 0;
  uint64_t retries = 0;        // appends answered RETRY
  uint64_t out_of_memory = 0;  // appends answered OUT_OF_MEMORY
};

/// Segments that enter and leave the log together, with one digest: all of them or none, even in a
/// crash. The caller of commit() keeps it until it is done or withdrawn.
struct SegmentChange {
  std::vector<Segment*> enter;  // side segments, closed durable
  std::vector<Segment*> leave;  // of the log, closed durable; commit() puts them in order of ids

  enum class State : uint8_t {
    kNew,      // not committed yet, or withdrawn
    kWaiting,  // waits for a fresh head
    kCarried,  // a digest that includes it is written, and may decide after a crash
    kDone,     // no digest without it can decide
  };
  Atomic<State> state{State::kNew};
  bool done() const { return state.load(std::memory_order_acquire) == State::kDone; }
};

/// When a change is committed: with a head of its own, or with the next head that is opened anyway.
enum class Roll : uint8_t { kNow, kNext };

class Log {
 public:
  /// All arguments must outlive the log; nobody else uses the arena.
  Log(Arena& arena, Replicator& replicator, LogOptions options);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Before start().
  void set_safe_version_source(std::function<uint64_t()> source);
  /// Before start().
  void set_owned_tablets_source(std::function<void(OwnedTabletsEncoder&)> source);
  /// `fn` is called after durable() rose, and after a new head began to take data: whoever waits
  /// for either checks again. Without locks of the log held, on the thread that was the cause; not
  /// for an append that is durable at once, because nobody else waits for that. Before start().
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
  /// Commits a change: its side segments become part of the log, and its old segments leave. (The
  /// paper describes this in two places, not as one operation [Ousterhout15 §4.5, §7.4].) It is
  /// done when recovery can no longer use a digest without it; the progress listener is called
  /// then.
  ///   OK                 it waits for its head, or is on its way
  ///   OUT_OF_MEMORY      no segment for a fresh head (above the reserve); nothing was done. Never
  ///                      returned with cleaning on: the change waits for a segment, or for an
  ///                      emergency head
  ///   INVALID_ARGUMENT   not one of this log's side segments or segments, not closed durable, or
  ///                     in a change that waits
  StatusCode commit(SegmentChange& change, Roll roll);
  /// Takes a change back that waits. False: a digest has it; it will be done.
  bool withdraw(SegmentChange& change);
  /// Makes a committed change stop waiting for the next head, or for the present one to be full.
  void hurry(SegmentChange& change);
  /// A replay of this log may find a segment with this id: now, or once waiting changes are
  /// committed. Once false, it stays false. (After a segment left, it is true for a while.)
  bool may_be_found(uint64_t segment_id) const;
  /// The ids of all segments for which may_be_found() is true, in no order.
  std::vector<uint64_t> ids_that_may_be_found() const;
  /// Segments that left the log, or were never in it, and that replication has released. Give them
  /// to reclaim() after a grace period (runtime/epoch.h): a reader of this turn may be in them.
  [[nodiscard]] std::vector<Segment*> take_retired();
  /// Some segments left and were not taken yet, released or not. Any thread, no lock.
  bool has_retired() const { return has_retired_.load(std::memory_order_relaxed); }
  /// Reuses their memory. Pinned segments are kept for the next call.
  void reclaim(const std::vector<Segment*>& retired);
  /// @}

  /// True when append() would not answer RETRY for a small group.
  bool ready() const;

  /// @name For the cleaner
  /// @{
  struct Memory {
    uint32_t total_seglets = 0;
    uint32_t free_seglets = 0;
    uint32_t leaving_seglets = 0;  // of segments that left the log, until their memory is reused
    uint32_t excess_seglets = 0;   // to be given back to the system, while the log shrinks
    uint32_t segments = 0;         // segments that have replicas, or may still have some
    uint64_t appended_bytes = 0;   // appended by writers since the start
  };
  Memory memory() const;
  /// A survivor takes a whole frame of each backup, so not less memory than this is worth one.
  static constexpr uint32_t kLeastSurvivorSeglets = 8;
  /// Seglets that must stay free when memory is taken for this purpose.
  uint32_t must_stay_free(MemoryPurpose purpose) const;
  /// True if a whole segment can be taken for this purpose.
  bool has_segment_for(MemoryPurpose purpose) const;
  /// Numbers (Segment::number) of about so many segments that entered, left, or lost a step of live
  /// bytes. One thread at a time.
  std::vector<uint32_t> take_changed(uint32_t about) { return changed_segments_.take(about); }
  /// Makes take_changed() return the segment again, because the cleaner has not read all of it. Any
  /// thread.
  void want_look(uint32_t number) { changed_segments_.mark(number); }
  /// How many segments have left for good: no replay finds them (may_be_found() is false).
  uint64_t segments_gone() const { return segments_gone_.load(std::memory_order_acquire); }
  /// Rises when a cleaner that sleeps should look again: reclaim() gave memory back, resize() set
  /// another size, or a recovery takes memory.
  uint64_t room_changes() const { return room_changes_.load(std::memory_order_acquire); }
  /// The closed segment of the log with this number; null if there is none. The pointer is valid
  /// for the turn. A head that was closed empty is not returned, because it leaves without the
  /// cleaner.
  Segment* closed_member(uint32_t number);
  /// True if recovery does not need this closed segment to know the highest version: the safe
  /// version of a later head is above all versions assigned before it was closed
  /// (docs/design/log.md#compaction). Once true, it stays true.
  bool may_compact(const Segment& segment) const {
    return segment.side() || segment.id() < head_before_.load(std::memory_order_relaxed);
  }
  /// All segment numbers are below this. Rises when the log grows.
  uint32_t most_segments() const { return most_segments_.load(std::memory_order_relaxed); }
  /// most_segments() is never above this.
  uint32_t most_segments_ever() const { return most_segments_ever_; }
  /// True if the cleaner may be able to free memory: it can free some, or an entry died since it
  /// looked last. Any thread. False at first.
  bool cleaning_helps() const {
    // In this order: the finding is the one that was made at these changes, or a later one.
    const uint64_t judged_at = judged_at_.load(std::memory_order_acquire);
    return cleaning_helps_.load(std::memory_order_relaxed) || segment_changes() > judged_at;
  }
  /// For the cleaner: its finding when segment_changes() was `changes`.
  void set_cleaning_helps(bool helps, uint64_t changes) {
    cleaning_helps_.store(helps, std::memory_order_relaxed);
    judged_at_.store(changes, std::memory_order_release);
  }
  /// Counts changes: a segment enters or leaves, or loses a step of live bytes.
  uint64_t segment_changes() const { return changed_segments_.marks(); }
  /// @}

  /// @name Resizing (docs/design/log.md#resize)
  /// @{
  /// In bytes; see Arena::Sizes.
  struct Sizes {
    uint64_t target = 0, limit = 0, held = 0;
    uint64_t least = 0, most = 0;  // bounds that resize() accepts now
    bool done() const { return limit == target && held == target; }
  };
  /// `live_bytes`: bytes of live objects in the log.
  Sizes sizes(uint64_t live_bytes) const;
  /// Sets the target size, rounded down to whole segments. continue_resize() moves the log there.
  ///   INVALID_ARGUMENT  below `least` or above `most`; the message names both. Nothing changes.
  ///   UNSUPPORTED       the log is in reserved huge pages, so its size is fixed
  Status resize(uint64_t bytes, uint64_t live_bytes);
  /// A slice of work towards the target, as Arena::continue_resize(). One thread at a time, with
  /// resize().
  bool continue_resize();
  /// How many of `segments` are reserved for survivors if the log is cleaned: a hundredth. So a
  /// pass in a large log that is nearly full of live bytes has enough room.
  static uint32_t segments_for_survivors(uint32_t segments);
  /// A running log cannot shrink below this.
  static constexpr uint32_t kLeastSegments = 8;
  /// @}

  /// False between two heads, when append() answers RETRY to every group. Any thread, no lock;
  /// sequentially consistent with the progress listener, as durable().
  bool takes_data() const { return takes_data_.load(std::memory_order_seq_cst); }

  /// The end of the last appended group.
  LogPosition head() const { return from_value(head_position_.load(std::memory_order_acquire)); }
  /// The id of the newest head: the one that was opened ahead, if there is one. What the source of
  /// owned tablets says from now on is listed only by later heads.
  uint64_t newest_head() const;
  /// All groups before it are on all replicas that are required now (R; fewer in degraded mode), in
  /// the page caches or on the devices of backups, and all earlier segments are closed there.
  /// Sequentially consistent with set_durable(): a reactor that first announces that it waits, and
  /// then reads this, either sees the new position or is called by the listener.
  LogPosition durable() const { return from_value(durable_.load(std::memory_order_seq_cst)); }
  /// Called by replication. Must be the end of a group (as Segment::published() and chunk_end()
  /// are) in a segment whose predecessors are closed durable. A lower value than before is ignored.
  void set_durable(LogPosition position);
  /// All bytes before this position are on the devices of R backups; rises only when want_synced()
  /// asks. Bytes that are durable but not synced may be in page caches only, and a power cut of all
  /// machines loses them (docs/design/log.md#cleaning). Sequentially consistent with the progress
  /// listener, as durable().
  LogPosition synced() const {
    return replicates_ ? from_value(synced_.load(std::memory_order_seq_cst)) : durable();
  }
  /// Asks replication to sync until synced() >= position. The position must be durable. Any thread.
  void want_synced(LogPosition position);
  /// Called by replication. A lower value than before is ignored.
  void set_synced(LogPosition position);
  /// As Replicator::shortage_of(): of a head that is not open on its replicas yet, or a side segment.
  Status shortage_of(const Segment& segment) const { return replicator_.shortage_of(segment); }
  /// A segment was marked opened or closed durable: switches heads as far as that allows.
  void on_replication_progress();
  /// Called by replication: no replica of the segment is left. True: it is the head that was opened
  /// ahead, and is not needed. It counts as not open, so until it is reported open again the present
  /// head is not closed. False: recovery may need it, because the head before it, or one that was
  /// abandoned for it, may be closed already.
  bool withdraw_opened(Segment& segment);

  /// Position of the end of the entry at this address: durable() >= this means that the entry (and
  /// its group) is durable. For an entry of a side segment it is durable already: nobody sees such
  /// an entry before.
  LogPosition position_of(const char* entry) const;
  EntryView entry(const char* address) const { return arena_.entry(address); }
  /// Keeps the memory of the entry, which was found in this turn, for later turns.
  Pin pin(const EntryView& entry) const;
  /// Accounting: the entry at this address is not needed any more.
  void mark_dead(const char* address) {
    Segment& segment = *arena_.segment_of(address);
    if (segment.add_dead(entry(address).total_length())) changed_segments_.mark(segment.number());
  }

  const LogOptions& options() const { return options_; }
  const Arena& arena() const { return arena_; }
  LogStatistics statistics() const;

  /// Segments in the log by rising id, the opened-ahead one last. Copies pointers; not for data
  /// paths. The pointers are valid for the turn.
  std::vector<Segment*> segments() const;
  /// Segments that have memory but are not in the log: side segments, abandoned heads, retired
  /// segments.
  std::vector<Segment*> others() const;
  /// The segment in the log with this id, or null.
  Segment* find_segment(uint64_t id) const;

 private:
  friend class Invariants;
  friend class SideLog;
  friend class CompactedSegment;

  /// What the replicator and the listener must be told once the lock is released.
  struct Events {
    Segment* closed = nullptr;
    Segment* opened = nullptr;
    bool switched = false;  // a new head takes data
    bool removed = false;   // the replicator must be told of removed_
    bool any() const { return closed != nullptr || opened != nullptr || switched || removed; }
  };
  /// A group that has its place in the segment. Small groups are copied under the lock. Large ones
  /// are copied without it, so publishing waits for those before them.
  struct Reservation {
    uint32_t start = 0;  // offset of the group in the segment, after any padding
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
  uint32_t seglets_for_deletes(uint32_t segments) const;
  void keep_reserves(uint32_t segments, uint32_t cleaner_segments) RC_REQUIRES(lock_);
  bool has_objects_for(MemoryPurpose purpose) const RC_REQUIRES(lock_);
  bool has_room_for(MemoryPurpose purpose) const RC_REQUIRES(lock_);
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
  bool can_commit(const SegmentChange& change) const RC_REQUIRES(lock_);
  bool in_waiting_change(const Segment* segment) const RC_REQUIRES(lock_);
  void retire(Segment& segment, Events& events) RC_REQUIRES(lock_);
  void reclaim_locked(const std::vector<Segment*>& retired) RC_REQUIRES(lock_);
  Segment* open_side_segment(MemoryPurpose purpose);
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
  /// Most appends have nothing to tell.
  void deliver(const Events& events) {
    if (events.any()) deliver_some(events);
  }
  void deliver_some(const Events& events);
  uint32_t durable_in(const Segment& segment) const;

  Arena& arena_;
  Replicator& replicator_;
  LogOptions options_;
  const bool replicates_;
  Atomic<uint32_t> most_segments_{0};
  uint32_t most_segments_ever_ = 0;
  Atomic<bool> cleaning_helps_{false};
  Atomic<uint64_t> judged_at_{~uint64_t{0}};  // no cleaning yet
  Atomic<uint64_t> segments_gone_{0};
  Atomic<uint64_t> room_changes_{0};
  Atomic<uint64_t> head_before_{0};        // id of the segment that was closed before the head took
                                           // data
  Atomic<uint32_t> emergency_seglets_{0};  // size of one emergency head
  Atomic<uint32_t> cleaner_seglets_{0};    // reserved for survivors
  Atomic<uint32_t> reserve_seglets_{0};    // reserved for deletes
  uint32_t segments_kept_for_ = 0;         // the log size that the three above were computed for
  Atomic<uint64_t>& durable_;              // refers to one of the two below
  std::function<void()> on_progress_;

  Atomic<bool> takes_data_{false};  // there is a head_, and it is not being switched

  // The fields that every append writes. They share a cache line with the lock, because they move
  // from core to core with it, and with nothing else, so that no other field moves along.
  alignas(kCacheLineBytes) mutable SpinLock lock_;  // "head lock"
  uint32_t first_reservation_ RC_GUARDED_BY(lock_) = 0;
  uint32_t reservation_count_ RC_GUARDED_BY(lock_) = 0;
  Segment* head_ RC_GUARDED_BY(lock_) = nullptr;  // takes data; null while heads are switched
  Segment* next_ RC_GUARDED_BY(lock_) = nullptr;  // opened ahead
  uint64_t appended_groups_ RC_GUARDED_BY(lock_) = 0;
  uint64_t appended_bytes_ RC_GUARDED_BY(lock_) = 0;
  Atomic<uint64_t> head_position_{0};
  Atomic<uint64_t> durable_at_once_{0};  // used if nothing is replicated

  alignas(kCacheLineBytes) Segment* closing_
      RC_GUARDED_BY(lock_) = nullptr;              // the head that has its footer but is not closed
                                                   // durable yet
  bool want_switch_ RC_GUARDED_BY(lock_) = false;  // a group did not fit: switch when next is ready
  Segment* abandoned_ RC_GUARDED_BY(lock_) = nullptr;  // from its abandonment until it is closed
                                                       // durable
  uint64_t next_id_ RC_GUARDED_BY(lock_) = 1;
  SegmentPool pool_ RC_GUARDED_BY(lock_);
  // Capacity for the maximum is reserved at start, so that a head switch allocates nothing.
  std::vector<Segment*> segments_ RC_GUARDED_BY(lock_);  // as in the last digest, by id
  std::vector<Segment*> others_ RC_GUARDED_BY(lock_);    // have memory, but are not in segments_
  std::vector<Segment*> removed_ RC_GUARDED_BY(lock_);   // the replicator was not told of them yet
  std::vector<Segment*> retired_ RC_GUARDED_BY(lock_);   // left the log, until reclaim()
  uint32_t taken_seglets_ RC_GUARDED_BY(lock_) = 0;      // of the segments that take_retired()
                                                         // returned
  Atomic<bool> has_retired_{false};                      // retired_ is not empty
  std::vector<SegmentChange*> waiting_ RC_GUARDED_BY(lock_);  // wait for a fresh head
  std::vector<SegmentChange*> carried_ RC_GUARDED_BY(lock_);  // in the digest of next_
  std::vector<Segment*> empty_ RC_GUARDED_BY(lock_);    // heads closed empty, which leave with the
                                                        // next digest
  std::vector<Segment*> leaving_ RC_GUARDED_BY(lock_);  // segments that left with the digest of
                                                        // next_
  bool roll_now_ RC_GUARDED_BY(lock_) = false;          // a waiting change wants a head of its own
  bool switch_now_ RC_GUARDED_BY(lock_) = false;        // a carried change does not wait for the
                                                        // present head to be full
  std::string digest_ RC_GUARDED_BY(lock_);   // its capacity is kept, so that a head switch
                                              // allocates nothing
  std::string tablets_ RC_GUARDED_BY(lock_);  // likewise
  Reservation reservations_[kMaxReservations] RC_GUARDED_BY(lock_);
  LogStatistics counters_ RC_GUARDED_BY(lock_);  // counters other than those of appends
  ChangedSegments changed_segments_;

  // Every operation reads it, and replication raises it.
  alignas(kCacheLineBytes) Atomic<uint64_t> durable_replicated_{0};
  Atomic<uint64_t> synced_{0};
};

}  // namespace ramcloud::log
