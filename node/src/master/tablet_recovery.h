// One part of the recovery of a dead master [Ousterhout15 §7.4]: some of its tablets, from the
// order to recover them until they are served here or given up.
// docs/design/recovery.md#recovery-of-one-server.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "log/log.h"
#include "master/fetch_queue.h"
#include "master/segment_fetch.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "runtime/async_mutex.h"
#include "runtime/epoch.h"
#include "runtime/pace.h"
#include "runtime/reactor.h"
#include "store/object_store.h"
#include "store/tablet_replay.h"
#include "wire/recovery_messages.h"

namespace ramcloud::master {

/// What all recoveries share. Everything in it outlives them.
struct RecoveryTools {
  RpcClient& rpc;
  const ServerList& servers;
  Epochs& epochs;
  store::ObjectStore& store;
  /// The lock of the recovery that fetches. Only one fetches at a time, which bounds the memory for
  /// pages. A recovery that waits for a source releases the lock to others.
  AsyncMutex& fetching;
  /// Limits the bytes of entries that are fetched.
  Pace& pace;
  uint32_t fetches;  // RecoveryLimits
  /// Called when tablets were served or given up: RecoveredSlots must clear slots.
  std::function<void()> want_pass;
  Counter& replayed_bytes;
  Counter& replayed_entries;
  Counter& skipped_entries;
};

/// Runs on the reactor that takes and drops tablets.
class TabletRecovery {
 public:
  /// The most tablets of a part: a request to a backup names so many ranges.
  static constexpr size_t kMostTablets = 4096;

  /// Precondition: the order was checked. Its ranges do not overlap, and the number of its attempt
  /// is unique.
  TabletRecovery(const RecoveryTools& tools, wire::RecoverRequest order);
  ~TabletRecovery();
  TabletRecovery(const TabletRecovery&) = delete;
  TabletRecovery& operator=(const TabletRecovery&) = delete;

  /// Runs the whole recovery, once. Returns when every tablet is served or given up, and nothing is
  /// left to undo.
  Task<void> run();

  uint64_t master_id() const { return order_.master_id; }
  uint64_t attempt() const { return order_.attempt; }
  wire::RecoveryState state() const;
  /// Set and reset when the phase changes, and when the recovery is given up.
  Event& changed() { return changed_; }
  /// The recovery was given up by order. It may still have something to undo.
  bool given_up() const { return given_up_; }

  /// True if it recovers exactly this tablet, which is not served yet.
  bool recovers(const wire::HashRange& range) const;
  bool overlaps(const wire::HashRange& range) const;
  /// Starts serving this tablet. Precondition: phase kReady, and recovers(). Returns the table's
  /// name.
  std::string serve(const wire::HashRange& range);
  /// Gives up the tablets that are not served and for which `which` is true. Leaves no tombstones.
  void give_up(const std::function<bool(const wire::HashRange&)>& which);

 private:
  enum class Fate : uint8_t { kOpen, kServed, kGivenUp };
  struct Tablet {
    wire::LostTablet lost;
    Fate fate = Fate::kOpen;
  };

  Task<Status> take_segments();
  Task<Status> begin_tablets();
  Task<Status> fetch_all();
  Task<void> fetch_some();
  std::unique_ptr<SegmentFetch> next_fetch();
  Task<Status> fetch_segment(SegmentFetch& fetch);
  static Status take_slice(FetchedPage& page, std::vector<log::EntryView>& slice);
  Task<Status> replay_slice(std::span<const log::EntryView> slice);
  Task<Status> replay_page(FetchedPage page);
  bool may_get_memory(Time limit) const;
  Status shortage() const;
  StatusCode waits_for() const;
  Status may_get_frames();
  std::vector<wire::HashRange> ranges_of(const wire::RecoverySegment& segment) const;
  Task<Status> commit();
  Task<void> undo();
  Task<void> leave_log();
  void give_up(Tablet& tablet);
  bool any(Fate fate) const;
  void enter(wire::RecoveryPhase phase);
  void tell_changed();

  RecoveryTools tools_;
  Reactor& reactor_;
  log::Log& log_;
  wire::RecoverRequest order_;
  std::vector<Tablet> tablets_;
  store::TabletReplay replay_;
  log::SegmentChange change_;      // commits the side segments
  std::vector<uint64_t> entered_;  // ids, not pointers: the segments may have left, and their
                                   // memory be reused
  bool committed_ = false;         // change_ is done
  wire::RecoveryPhase phase_ = wire::RecoveryPhase::kReplaying;
  bool given_up_ = false;
  uint64_t first_segment_ = 0;
  Status status_;                      // why the recovery fails
  Status lacks_;                       // why recovered segments do not get their replicas
  bool waits_for_others_ = false;      // which are fetched first
  std::optional<Time> lacking_since_;  // no segment got its replicas since then
  size_t durable_ = 0;                 // recovered segments that have theirs
  Time next_look_{};                   // at the shortage
  uint64_t failed_segment_ = 0;
  FetchQueue queue_;  // of order_.segments
  bool queued_ = false;
  uint64_t segments_done_ = 0;
  uint64_t segments_fetched_ = 0;
  uint64_t bytes_fetched_ = 0;
  uint32_t fetchers_ = 0;
  static constexpr size_t kMostTabletsAtOnce = 64;
  /// Segments that no source has sent so far. This round of fetching ends when the outstanding
  /// pages have come.
  std::deque<std::unique_ptr<SegmentFetch>> later_;
  std::deque<std::unique_ptr<SegmentFetch>> again_;  // from earlier rounds: to be tried again
  Event changed_;
  Event fetched_or_done_;  // set when a fetcher ends, or a tablet is served or given up
  AsyncMutex replaying_;   // one page at a time is replayed, so that a turn has one slice
  TaskScope tasks_;        // fetchers
};

}  // namespace ramcloud::master
