// The master's side of replication [Ousterhout15 §4.2, §4.5]: keeps R replicas of every segment
// on other servers' backups, tells the log what is durable, and re-creates replicas that were
// lost.
//
// This class orders the steps of a turn: drive_unsettled_once() and drive_settled() are its two
// lists of steps. The states of a replica are in replica_state.h; segments, backups, repairs and
// the fence have files of their own. Calls go down only: events from below are stored, and taken in
// the next turn.
//
// What "durable" means: on all R replicas. If there are too few failure domains for R, a segment
// goes on with the replicas it has, at least --min-replicas
// (docs/design/replication.md#fewer-servers-than-replicas). It is shown as under-replicated, and
// gets R replicas again as soon as possible. With fewer than --min-replicas, nothing is
// acknowledged.
//
// All work is done at the end of a turn; a reply that arrives is only stored. Each replica has at
// most one call in flight; bytes published meanwhile go with the next, so that many small writes
// share a message under load.
//
// Threads: the reactor that holds the DriveLock drives replication; no reactor waits for it. Only
// the first reactor decides (placement, opening and closing replicas, losses, the fence, repairs):
// on_turn(). Each reactor sends the bytes that it appended to the head, over its own sessions:
// drive(), with its ReplicaLane. It leaves every answer but a clean acknowledgement to the first
// reactor. With one reactor there are no lanes, and that one does everything. segment_opened() and
// segment_closed() may be called by any thread that appends. Each field names its guard, and each
// function what it requires.
//
// The lock guards the few segments that are not settled: the heads whose data is not all durable. A
// settled segment (closed on its replicas) belongs to the first reactor alone from then on, so
// repairs, losses and checks of its replicas need no lock. The same holds for a side segment from
// its start, because no client waits for it. No step walks all segments: BackupTable lists the
// replicas of each backup, and the counts of settled segments are running sums.
// (docs/design/replication.md#threads)
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "base/mutex.h"
#include "log/log.h"
#include "log/replay.h"
#include "replication/adoptions.h"
#include "replication/awaited_backups.h"
#include "replication/backup_table.h"
#include "replication/drive_lock.h"
#include "replication/epoch_fence.h"
#include "replication/lease_term.h"
#include "replication/placement.h"
#include "replication/reactor_role.h"
#include "replication/read_lease.h"
#include "replication/repair_queue.h"
#include "replication/replica_lane.h"
#include "replication/segment_replicas.h"
#include "replication/shortage.h"
#include "replication/silence.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "runtime/reactor.h"
#include "wire/volume_messages.h"

namespace ramcloud {

/// For wire::ServerStats and metrics.
struct ReplicationStats {
  uint64_t segments = 0;
  uint64_t fully_replicated = 0;  // all R replicas count (of an open segment: are open)
  uint64_t under_replicated = 0;
  uint64_t degraded = 0;            // segments that go on with fewer than R replicas
  uint64_t unreplicated_bytes = 0;  // published, but not yet on R replicas (degraded segment: on
                                    // those that it has)
  uint64_t replicas_wanted = 0;     // R
  uint64_t replicas_lost = 0;       // since the start
  uint64_t replicas_recreated = 0;  // copied
  uint64_t replicas_adopted = 0;
  uint64_t messages = 0;     // opens and writes sent
  uint32_t epoch = 0;        // replication epoch: losses of open replicas so far
  bool writes_wait = false;  // too few replicas can be placed, or the fence does not hold
  Status waiting;            // not OK: why replicas cannot be placed
};

class ReplicaManager final : public log::Replicator, public TurnHook {
 public:
  struct Options {
    uint64_t master_id = 0;
    std::string failure_domain;  // empty: the master is a domain of its own
    uint32_t replicas = 3;       // R; 0: nothing is replicated
    uint32_t min_replicas = 0;   // with fewer, writes wait; 0: max(1, R - 1)
    /// If no backup could take a replica for this long, writes go on without it.
    Duration degrade_after = std::chrono::seconds(1);
    /// A call without an answer is sent again after this time (it is idempotent).
    Duration write_timeout = std::chrono::seconds(2);
    Duration open_timeout = std::chrono::seconds(5);  // longer, because the backup syncs
    /// After a failure, doubled with each, up to the maximum.
    Duration retry_delay = std::chrono::milliseconds(10);
    Duration max_retry_delay = std::chrono::milliseconds(500);
    /// How long a backup that refused a replica gets no new ones; doubled with each refusal in a
    /// row, up to the maximum.
    Duration refused_delay = std::chrono::seconds(1);
    Duration max_refused_delay = std::chrono::seconds(16);
    Duration max_no_frame_delay = std::chrono::seconds(4);
    /// How often each backup is asked for one of its closed replicas, in rotation. Otherwise a
    /// master that writes nothing would not learn of a failed device.
    Duration check_interval = std::chrono::seconds(10);
    /// Segments whose lost replicas are re-created at the same time, not counting open segments.
    uint32_t concurrent_repairs = 4;
    /// Limits until when this master may answer from memory. It outlives the manager. Null (tests
    /// of single parts): no lease is kept.
    LeaseTerm* lease = nullptr;
    Duration read_lease = std::chrono::milliseconds(500);  // how long it lasts
    /// A backup that answers nothing for this long loses its replicas of open segments, and those
    /// that cleaning waits for, if another backup can take its place. 0: never; only the server
    /// list gives a backup up. Needs a lease.
    Duration backup_silence{};
    /// How long closed replicas on a backup that stopped by a plan are not copied, because it may
    /// come back with them. 0: they are copied at once.
    Duration restart_grace{};
    /// Counts the messages that the first reactor sends. May be null; outlives the manager.
    Counter* messages = nullptr;
    /// Count replicas of closed segments that were re-created. May be null; outlive the manager.
    Counter* copied = nullptr;
    Counter* adopted = nullptr;
  };

  /// On the first reactor, to which `rpc` belongs. `servers` outlives the manager.
  ReplicaManager(RpcClient& rpc, ServerList& servers, Options options);
  ~ReplicaManager() override;
  ReplicaManager(const ReplicaManager&) = delete;
  ReplicaManager& operator=(const ReplicaManager&) = delete;

  /// Adds the lane of a reactor, in which it sends what it appended. With several reactors each has
  /// one, the first reactor included. Before attach(). The manager owns the lane; it is used on the
  /// reactor of `rpc`, whose messages `messages` counts.
  ReplicaLane& add_lane(RpcClient& rpc, Counter& messages);
  /// Before log.start(). The manager uses the log from then on, until detach().
  void attach(log::Log& log);
  /// Stops replicating; retracts calls in flight. Only while no other reactor runs.
  void detach();

  void segment_opened(log::Segment& segment) override;
  void segment_closed(log::Segment& segment) override;
  void segment_removed(log::Segment& segment) override;
  void segment_compacted(log::Segment& before, log::Segment& after) override;
  void sync_wanted(log::LogPosition position) override;
  Status shortage_of(const log::Segment& segment) override;
  bool replicates() const override { return options_.replicas > 0; }
  /// The first reactor's turn.
  bool on_turn() override;
  /// At the end of a turn of the lane's reactor, when all that it appended is published: takes the
  /// answers that came for the head's replicas and sends published bytes. When another reactor is
  /// driving, that one does it. `wanted`: bytes were appended that replies of this reactor wait
  /// for. True if anything was done.
  bool drive(ReplicaLane& lane, bool wanted);

  /// @name For the server, after the first reactor's turn
  /// @{
  /// The cluster has given this master up, and why: it must stop serving.
  std::optional<Status> condemned() const {
    first_.assert_here();
    return condemned_why_;
  }
  /// Backups whose connection was refused or broke since the last call; each once. Writes wait
  /// until such a backup answers, is listed as crashed, or is given up after `backup_silence`.
  std::vector<uint64_t> take_broken() {
    first_.assert_here();
    return std::exchange(broken_, {});
  }
  /// The fence that the coordinator must have durably before anything more is acknowledged; each
  /// once. The server tells it, however long that takes, and passes the answer to fence_answered().
  /// There is no other one before that.
  std::optional<log::ReplicationFence> take_fence_to_raise() {
    first_.assert_here();
    return std::exchange(fence_to_raise_, std::nullopt);
  }
  /// @}
  /// The coordinator's answer about take_fence_to_raise(). On the first reactor, before its turn.
  void fence_answered(FenceAnswer answer) {
    first_.assert_here();
    fence_answer_ = std::move(answer);
    due_ = true;
  }

  /// On the first reactor. Costs time for each segment that is not settled; settled ones are
  /// counted already.
  ReplicationStats stats();
  /// Compares the running counts with counts of all segments: the differences, or empty.
  /// For tests and simulation, on the first reactor.
  std::string check_counts() const;
  /// The most that was done in one turn or hold of the lock since the start; for tests.
  struct Effort {
    uint64_t segments = 0;  // looked at
    uint64_t copied = 0;    // bytes of copies sent
    uint64_t losses = 0;    // replicas given up
    void raise(const Effort& to) {
      segments = std::max(segments, to.segments);
      copied = std::max(copied, to.copied);
      losses = std::max(losses, to.losses);
    }
  };
  /// While the lock was held one time.
  Effort most_under_lock() {
    const Hold hold(*this);
    return most_under_lock_;
  }
  /// In one turn of the first reactor, the lock apart.
  Effort most_in_a_turn() const {
    first_.assert_here();
    return most_in_a_turn_;
  }
  /// Turns of the first reactor in which it looked at replicas.
  uint64_t turns_with_work() const {
    first_.assert_here();
    return turns_with_work_;
  }
  /// The backups of a segment that hold a counting replica, in slot order; for tests and status. On
  /// the first reactor.
  std::vector<uint64_t> replica_servers(uint64_t segment_id);
  /// Calls `fn` for each replica of the segments from this id on, by rising segment; for tests and
  /// simulation, on the first reactor. It must not call the manager.
  void for_each_slot(uint64_t first_segment, const std::function<void(const ReplicaSlot&)>& fn);
  /// What this log needs of backups that share a volume. On the first reactor; looks at no segment.
  BackupTable::Need need_of(std::span<const uint64_t> server_ids) const {
    first_.assert_here();
    return backups_.need_of(server_ids);
  }
  /// Which of these segments do not need the replicas that an earlier incarnation of a backup left
  /// on its volume: R other replicas count, or the segment left the log. RETRY while a server list,
  /// or a loss that it shows, is not handled yet; another error once this master was given up. On
  /// the first reactor.
  Result<std::vector<uint64_t>> unneeded(std::span<const uint64_t> segment_ids);
  /// A backup that came back may have whole replicas of these segments. Those that lack a replica
  /// are reserved for it, and it is asked to adopt them. On the first reactor.
  void offered(uint64_t backup_id, std::span<const uint64_t> segment_ids);
  /// None of these servers is expected back: what is put off for them is copied. On the first
  /// reactor.
  void expect_no_return(std::span<const uint64_t> server_ids);
  /// On the first reactor, which alone changes it.
  const EpochFence& fence() const RC_NO_THREAD_SAFETY_ANALYSIS { return fence_; }
  uint32_t min_replicas() const { return options_.min_replicas; }

 private:
  /// A replica that its backup may still hold, and that this master does not need any more.
  struct GivenUp {
    uint64_t segment_id = 0;
    uint64_t server_id = 0;
    uint32_t refusals = 0;    // answers that were errors, to the request to free it
    bool unanswered = false;  // a request to free it had no answer, and may still arrive
  };

  /// A segment that was compacted, and the one that takes its place.
  struct Compacted {
    log::Segment* before = nullptr;
    log::Segment* after = nullptr;
  };

  /// A holder's answer to RENEW_LEASE, and when it was asked.
  struct Renewal {
    uint64_t server_id = 0;
    Time sent{};  // of the lease clock
    Status status;
  };

  /// The outcome of a request to adopt a replica.
  struct AdoptionAnswer {
    uint64_t segment_id = 0;
    uint64_t server_id = 0;
    uint64_t number = 0;
    Status status;
    bool nothing_written = true;  // each failed attempt proved it
    Acked acked;                  // if OK

    /// `least`: the bytes that the replica must have.
    void note(const RpcReply& reply, uint32_t least);
  };

  /// Backups are asked to sync; all that they have reaches at least to `until`.
  struct SyncRound {
    log::LogPosition until;
    uint32_t asked = 0;   // calls without an answer yet
    bool failed = false;  // a backup failed
    Time again_at{};      // when to ask again after a failure
  };

  /// Holders of the closed head are asked to sync: close_will_last().
  struct CloseSync {
    uint64_t segment_id = 0;  // 0: none
    uint32_t asked = 0;       // calls without an answer yet
    bool on_device = false;   // of one holder at least
    bool answered = false;    // since it was looked at
    Time again_at{};          // when to ask again
  };

  /// A silent backup.
  struct CutOff {
    uint64_t left = 0;      // replicas there to look at
    bool given_up = false;  // one of them was given up
  };

  /// Holds the lock to read. Notes that other reactors leave meanwhile are handled in the next
  /// turn.
  class RC_SCOPED_CAPABILITY Hold {
   public:
    explicit Hold(ReplicaManager& manager) RC_ACQUIRE(manager.lock_) : manager_(manager) {
      manager_.lock_.enter();
    }
    ~Hold() RC_RELEASE() {
      (void)manager_.lock_.leave([this] { manager_.ask_first_reactor(); });
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    ReplicaManager& manager_;
  };

  /// The segment belongs to the first reactor alone.
  static bool needs_no_lock(const log::Segment& segment) {
    return segment.side() || segment.closed_durable();
  }

  // Any reactor.
  void ask_first_reactor();

  // Any reactor, under the lock: sends published bytes of the head, raises the durable position.
  /// The result of driving the head.
  struct Driven {
    bool worked = false;
    bool ask_first = false;  // there is work that only the first reactor may do
    void add(const Driven& more) {
      worked = worked || more.worked;
      ask_first = ask_first || more.ask_first;
    }
  };
  Driven drive_head(ReplicaLane& lane) RC_REQUIRES(lock_);
  Driven take_plain_answers(SegmentReplicas& head) RC_REQUIRES(lock_);
  bool raise_durable(const SegmentReplicas& front) RC_REQUIRES(lock_);

  // The first reactor, under the lock: heads that are not settled.
  bool drive_unsettled() RC_REQUIRES(first_, lock_);
  bool drive_unsettled_once() RC_REQUIRES(first_, lock_);
  void take_opened() RC_REQUIRES(first_, lock_);
  bool take_first_reactor_answers() RC_REQUIRES(first_, lock_);
  void take_fence_answer() RC_REQUIRES(first_, lock_);
  void apply_server_list() RC_REQUIRES(first_, lock_);
  void lose_unsettled() RC_REQUIRES(first_, lock_);
  bool may_be_fenced(const SegmentReplicas& replicas) RC_REQUIRES(first_, lock_);
  void drive_fence() RC_REQUIRES(first_, lock_);
  void raise_epoch() RC_REQUIRES(first_, lock_);
  void roll_head() RC_REQUIRES(first_, lock_);
  void report_progress() RC_REQUIRES(first_, lock_);
  bool settle_abandoned() RC_REQUIRES(first_, lock_);
  void note_lost_abandoned() RC_REQUIRES(first_, lock_);
  bool settle_front() RC_REQUIRES(first_, lock_);

  // The lease, under the lock: replica_leases.cc.
  void lease_held(const ReplicaSlot& slot) RC_REQUIRES(lock_);
  void lease_confirmed(uint64_t server_id, Time sent) RC_REQUIRES(lock_);
  void lease_released(uint64_t server_id) RC_REQUIRES(lock_);
  void lease_lost(uint64_t server_id) RC_REQUIRES(lock_);
  void take_renewals() RC_REQUIRES(first_, lock_);
  void lose_silent() RC_REQUIRES(first_, lock_);
  std::vector<SegmentReplicas*> able_to_lose(const std::set<uint64_t>& silent)
      RC_REQUIRES(first_, lock_);
  bool lose_open_on(uint64_t server_id, bool all, std::span<SegmentReplicas* const> able,
                    const std::set<uint64_t>& silent) RC_REQUIRES(first_, lock_);
  void refuse_cut_off(uint64_t server_id) RC_REQUIRES(first_);
  void give_up_silent(SegmentReplicas& replicas, ReplicaSlot& slot) RC_REQUIRES(first_);
  bool has_successor(const SegmentReplicas& replicas, const ReplicaSlot& slot,
                     const std::set<uint64_t>& silent) RC_REQUIRES(first_);
  void renew_leases() RC_REQUIRES(first_, lock_);
  Task<void> renew_lease(Locator locator, uint64_t server_id);

  // The first reactor: settled segments and side segments, without the lock.
  bool due() RC_REQUIRES(first_);
  bool was_appended() RC_REQUIRES(first_);
  bool stalled() RC_REQUIRES(first_);
  bool drive_settled() RC_REQUIRES(first_);
  bool take_settled_answers() RC_REQUIRES(first_);
  bool lose_settled() RC_REQUIRES(first_);
  bool lose_silent_copies() RC_REQUIRES(first_);
  bool holds_up_cleaning(const ReplicaSlot& slot) RC_REQUIRES(first_);
  bool may_be_elsewhere(const ReplicaSlot& slot) RC_REQUIRES(first_);
  void note_answer(uint64_t server_id, const Status& status, Time sent) RC_REQUIRES(first_);
  bool take_reported() RC_REQUIRES(first_);
  void forget(SegmentReplicas& replicas) RC_REQUIRES(first_);
  void take_compacted(const Compacted& compacted) RC_REQUIRES(first_);
  void use_compacted(SegmentReplicas& replicas) RC_REQUIRES(first_);
  bool may_copy(const SegmentReplicas& replicas) RC_REQUIRES(first_);
  bool drive_side() RC_REQUIRES(first_);
  bool settle_side(SegmentReplicas& replicas) RC_REQUIRES(first_);
  bool drive_repairs() RC_REQUIRES(first_);
  // replica_adoptions.cc
  bool drive_adoptions() RC_REQUIRES(first_);
  bool may_be_offered(uint64_t segment_id) RC_REQUIRES(first_);
  void begin_adoption(SegmentReplicas& replicas, const ListedServer& backup) RC_REQUIRES(first_);
  ReplicaSlot* slot_to_adopt(SegmentReplicas& replicas, const ListedServer& backup)
      RC_REQUIRES(first_);
  ReplicaSlot* slot_waiting_for(const AdoptionAnswer& answer) RC_REQUIRES(first_);
  Task<void> ask_to_adopt(Locator locator, wire::AdoptRequest request, AdoptionAnswer answer);
  bool take_adoptions() RC_REQUIRES(first_);
  void take_adoption(const AdoptionAnswer& answer) RC_REQUIRES(first_);
  void expect_offers() RC_REQUIRES(first_);
  void adoption_failed(ReplicaSlot& slot, const AdoptionAnswer& answer) RC_REQUIRES(first_);
  bool free_given_up() RC_REQUIRES(first_);
  bool is_needed(uint64_t segment_id) RC_REQUIRES(first_);
  bool makes_room(uint64_t segment_id) RC_REQUIRES(first_);
  void note_freed(const GivenUp& replica) RC_REQUIRES(first_);
  bool is_freed(const GivenUp& replica) RC_REQUIRES(first_);
  bool check_closed_replicas() RC_REQUIRES(first_);
  bool drive_sync() RC_REQUIRES(first_);
  bool wants_sync() const;
  bool sync_needs(const log::Segment& segment, log::LogPosition until) const;
  bool sync_lacks(const SegmentReplicas& replicas, log::LogPosition until) const;
  std::optional<std::set<uint64_t>> holders_until(log::LogPosition position) RC_REQUIRES(first_);
  Task<Status> ask_to_sync(Locator locator, uint64_t server_id);
  Task<void> sync_backup(Locator locator, uint64_t server_id);
  bool close_will_last(const SegmentReplicas& front) RC_REQUIRES(first_, lock_);
  void drive_close_sync() RC_REQUIRES(first_, lock_);
  Task<void> sync_close(Locator locator, uint64_t server_id, uint64_t segment_id);
  void check_backup(uint64_t server_id) RC_REQUIRES(first_);

  // The first reactor: one replica, under the lock unless its segment is settled.
  bool drive(SegmentReplicas& replicas) RC_REQUIRES(first_);
  bool drive_slot(SegmentReplicas& replicas, ReplicaSlot& slot) RC_REQUIRES(first_);
  bool place(SegmentReplicas& replicas, ReplicaSlot& slot) RC_REQUIRES(first_);
  void no_backup_available(const SegmentReplicas& replicas, ReplicaSlot& slot, Status why)
      RC_REQUIRES(first_);
  Status shortage_in(const SegmentReplicas& replicas) const RC_REQUIRES(first_);
  std::vector<PlacementServer> placement_servers(const SegmentReplicas& replicas) const
      RC_REQUIRES(first_);
  bool send(ReplicaSlot& slot) RC_REQUIRES(first_);
  void take_answer_of(ReplicaSlot& slot) RC_REQUIRES(first_);
  void replica_advanced(ReplicaSlot& slot, bool was_closed) RC_REQUIRES(first_);
  void replica_failed(ReplicaSlot& slot, const ReplicaSlot::Answer& answer) RC_REQUIRES(first_);
  void back_off(ReplicaSlot& slot) RC_REQUIRES(first_);
  void place_elsewhere(ReplicaSlot& slot, const Status& status) RC_REQUIRES(first_);
  void note_given_up(const ReplicaSlot& slot) RC_REQUIRES(first_);
  void lose_refused(ReplicaSlot& slot, const Status& status) RC_REQUIRES(first_);
  void lose(SegmentReplicas& replicas, ReplicaSlot& slot, const Status& why) RC_REQUIRES(first_);
  void unplace(ReplicaSlot& slot, ReplicaEvent why) RC_REQUIRES(first_);
  void note_progress(const ReplicaSlot& slot) RC_REQUIRES(first_);
  // Replicas of backups that stopped by a plan: replica_adoptions.cc.
  void expect_return(uint64_t server_id) RC_REQUIRES(first_);
  void give_up_returns() RC_REQUIRES(first_);
  bool may_put_off(const SegmentReplicas& replicas, uint64_t server_id) const RC_REQUIRES(first_);
  void repair(SegmentReplicas& replicas) RC_REQUIRES(first_);
  bool drive_awaited() RC_REQUIRES(first_);
  void recount(SegmentReplicas& replicas) RC_REQUIRES(first_);
  void forget_lost_backups(SegmentReplicas& replicas) RC_REQUIRES(first_);
  SegmentReplicas& replicas_of(const ReplicaSlot& slot) RC_REQUIRES(first_);
  void stop_serving(const Status& why) RC_REQUIRES(first_);
  void wake_at(Time when) RC_REQUIRES(first_);
  Task<void> free_replica(Locator locator, GivenUp replica);

  RpcClient& rpc_;
  Reactor& reactor_;
  ServerList& servers_;
  Options options_;
  log::Log* log_ = nullptr;
  std::vector<std::unique_ptr<ReplicaLane>> lanes_;  // empty: the first reactor sends everything
  std::atomic<bool> wanted_{false};       // there is work that only the first reactor may do
  std::atomic<bool> stopped_{false};      // set with condemned_why_, by the first
                                          // reactor
  std::atomic<uint64_t> sync_wanted_{0};  // a position
  /// Set after something was added to opened_; and the same for removed_ or compacted_.
  std::atomic<bool> has_opened_{false};
  std::atomic<bool> has_reported_{false};
  Mutex opened_mutex_;
  std::vector<log::Segment*> opened_ RC_GUARDED_BY(opened_mutex_);   // not in segments_ yet
  std::vector<log::Segment*> removed_ RC_GUARDED_BY(opened_mutex_);  // still in segments_
  std::vector<Compacted> compacted_ RC_GUARDED_BY(opened_mutex_);    // not in segments_ yet

  ReactorRole first_;
  bool due_ RC_GUARDED_BY(first_) = true;
  CallInbox first_reactor_inbox_ RC_GUARDED_BY(first_);
  bool list_changed_ RC_GUARDED_BY(first_) = false;
  std::optional<Status> condemned_why_ RC_GUARDED_BY(first_);
  std::vector<uint64_t> broken_ RC_GUARDED_BY(first_);
  std::optional<log::ReplicationFence> fence_to_raise_ RC_GUARDED_BY(first_);  // not taken yet
  std::optional<FenceAnswer> fence_answer_ RC_GUARDED_BY(first_);              // not taken yet
  std::vector<Renewal> renewals_ RC_GUARDED_BY(first_);  // answered, not taken yet
  Time next_lease_check_ RC_GUARDED_BY(first_){};
  log::LogPosition seen_head_ RC_GUARDED_BY(first_);  // in was_appended()
  log::LogPosition stalled_at_ RC_GUARDED_BY(first_);
  Time stalled_since_ RC_GUARDED_BY(first_){};
  std::map<uint64_t, SegmentReplicas> segments_ RC_GUARDED_BY(first_);  // by id
  std::deque<SegmentReplicas*> side_ RC_GUARDED_BY(first_);  // side segments that are not settled
  RepairQueue repairs_ RC_GUARDED_BY(first_);                // settled segments that lost replicas
  AwaitedBackups awaited_ RC_GUARDED_BY(first_);  // settled ones that wait for a backup to return
  Adoptions adoptions_ RC_GUARDED_BY(first_);
  std::vector<AdoptionAnswer> adoption_answers_ RC_GUARDED_BY(first_);  // not taken yet
  uint64_t newest_server_ RC_GUARDED_BY(first_);  // the highest id of a list so far, and its own
  /// No copy of a settled segment begins before: a server that has just come may offer it.
  Time copies_from_ RC_GUARDED_BY(first_){};
  SegmentCounts settled_counts_ RC_GUARDED_BY(first_);  // of all that are settled
  BackupTable backups_ RC_GUARDED_BY(first_);
  std::deque<GivenUp> given_up_ RC_GUARDED_BY(first_);  // also of removed segments; their backups
                                                        // were not told yet to free them
  /// Backups that did not answer such a request, and when they are asked again.
  std::map<uint64_t, Time> next_free_ RC_GUARDED_BY(first_);
  SyncRound sync_ RC_GUARDED_BY(first_);
  CloseSync close_sync_ RC_GUARDED_BY(first_);
  /// Of backups that do not answer the first reactor, whatever it sends, RENEW_LEASE apart. In times
  /// of Clock::lease_now().
  Silence silence_to_first_ RC_GUARDED_BY(first_);
  /// Backups that it showed, until lose_silent_copies() has looked at all their replicas.
  std::map<uint64_t, CutOff> cut_off_ RC_GUARDED_BY(first_);
  Time next_check_ RC_GUARDED_BY(first_){};
  static constexpr uint64_t kAllChecked = ~uint64_t{0};
  /// The backup at which this round of checks continues.
  uint64_t check_from_ RC_GUARDED_BY(first_) = kAllChecked;
  bool roll_wanted_ RC_GUARDED_BY(first_) = false;  // the head lost a replica
  Shortage shortage_ RC_GUARDED_BY(first_);         // while placement fails
  Time wake_ RC_GUARDED_BY(first_) = kNever;
  Timer timer_ RC_GUARDED_BY(first_);
  uint64_t lost_ RC_GUARDED_BY(first_) = 0;
  uint64_t recreated_ RC_GUARDED_BY(first_) = 0;
  uint64_t adopted_ RC_GUARDED_BY(first_) = 0;
  uint64_t messages_ RC_GUARDED_BY(first_) = 0;
  Effort effort_ RC_GUARDED_BY(first_);         // of this hold or turn
  bool put_off_ RC_GUARDED_BY(first_) = false;  // a copy was put off, because enough was sent in
                                                // this turn
  Effort most_in_a_turn_ RC_GUARDED_BY(first_);
  uint64_t turns_with_work_ RC_GUARDED_BY(first_) = 0;

  DriveLock lock_;  // also guards the slots of segments that are not settled
  /// Heads that are not closed durable, by rising id; data goes into the first, or into the second
  /// once the first is closed.
  std::deque<SegmentReplicas*> unsettled_ RC_GUARDED_BY(lock_);
  bool progress_ RC_GUARDED_BY(lock_) = false;  // report_progress() has something to say
  /// Only the first reactor changes it, so the first reactor may read it without the lock: fence().
  EpochFence fence_ RC_GUARDED_BY(lock_);
  std::optional<ReadLease> lease_ RC_GUARDED_BY(lock_);
  Silence silence_ RC_GUARDED_BY(lock_);  // in times of Clock::lease_now()
  uint64_t lane_messages_ RC_GUARDED_BY(lock_) = 0;
  Effort most_under_lock_ RC_GUARDED_BY(lock_);

  ServerList::Subscription subscription_;
  TaskScope scope_;
};

}  // namespace ramcloud
