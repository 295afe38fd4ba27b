// The backup side of replication: takes replicas of other masters' segments into frames
// [Ousterhout15 §4.2].
//
// Durability "buffered": a write is in the page cache when it is acknowledged, so it survives the
// death of this process. It is on the device at most a flush interval and one sync later. "synced":
// a write is on the device when it is acknowledged; one sync serves all writes that came before it
// began. In both modes an open is acknowledged only when it is on the device. With "synced", bytes
// are written past the page cache if frames allow that (unsynced_tails.h); metadata never is.
//
// Threads: everything runs on the first reactor, except plain writes, which only append bytes. The
// reactor that receives a plain write serves it (BackupLane), under the lock of the master's shard
// (replica_table.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backup/adoption_service.h"
#include "backup/backup_lane.h"
#include "backup/device_status.h"
#include "backup/fetch_service.h"
#include "backup/frame_store.h"
#include "backup/lease_service.h"
#include "backup/recovery_service.h"
#include "backup/replica_table.h"
#include "backup/sync_queue.h"
#include "backup/unsynced_tails.h"
#include "base/metrics.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "runtime/reactor.h"
#include "wire/control_messages.h"
#include "wire/replica_messages.h"

namespace ramcloud {

class ReplicaService final : private ReplicaTable::Bytes,
                             private RecoveryService::Replicas,
                             private AdoptionService::Replicas,
                             private TurnHook {
 public:
  struct Options {
    Duration flush_interval = std::chrono::milliseconds(10);
    bool synced = false;
    /// Counts the writes that the first reactor serves. May be null; outlives the service.
    Counter* writes = nullptr;
    /// Of this server's log; decides how many segments of dead masters are kept in memory.
    uint64_t log_bytes = 0;
  };
  static constexpr uint32_t kRetryAfterUs = ReplicaTable::kRetryAfterUs;
  struct Counters {
    uint64_t opens = 0, writes = 0, written_bytes = 0, closes = 0, frees = 0, refused = 0,
             syncs = 0;
  };

  /// Registers kReplicaOpen, kReplicaWrite and kReplicaFree, and those of RecoveryService,
  /// FetchService, LeaseService and AdoptionService. Precondition: `frames` was adopted. All
  /// arguments outlive this.
  ReplicaService(Reactor& reactor, ServiceRegistry& registry, FrameStore& frames,
                 ServerList& servers, Options options);
  ~ReplicaService() override;
  ReplicaService(const ReplicaService&) = delete;
  ReplicaService& operator=(const ReplicaService&) = delete;

  /// Adds the lane of another reactor that serves writes. On the first reactor, not during a
  /// request. `writes` counts those that the lane serves. The service owns the lane.
  BackupLane& add_lane(Reactor& reactor, Transport& transport, Counter& writes);

  /// Clean shutdown: writes the length of each open replica, syncs, then calls `done`. Later
  /// requests are answered RETRY.
  void shut_down(std::function<void(Status)> done);

  /// Masters that have replicas here and are not UP, by rising id. Works in slices, one in each
  /// turn, like free_frames_of().
  Task<std::vector<uint64_t>> dead_masters();
  /// Frees all frames of a master that was recovered, as the coordinator said
  /// (docs/design/recovery.md#freeing-frames), except those with damaged metadata. Returns how
  /// many. Frees nothing of a master that is UP.
  Task<uint32_t> free_frames_of(uint64_t master_id);

  /// Masters that are UP, with their segments in frames that an earlier incarnation of this backup
  /// left. Only frames with intact metadata. Works in slices, one in each turn, like
  /// free_frames_of().
  Task<std::map<uint64_t, std::vector<uint64_t>>> former_segments_of_up_masters();
  /// Frees such frames of these segments, which their master does not need any more, as it said
  /// (docs/design/recovery.md#former-frames-of-masters-that-live). Returns how many. Frees nothing
  /// of a master that is not UP, or that is being recovered.
  Task<uint32_t> free_former(uint64_t master_id, std::vector<uint64_t> segment_ids);

  /// Called when an open finds no free frame. The function frees frames that are known not to be
  /// needed, and calls `try_again` once. It must do so soon, because the open's sender waits. Null:
  /// such an open is refused at once.
  using NoFrameIsFree = std::function<void(std::function<void()> try_again)>;
  void when_no_frame_is_free(NoFrameIsFree call) { no_frame_is_free_ = std::move(call); }

  const Counters& counters() const { return counters_; }
  const FrameStore& frames() const { return frames_; }
  /// An error once the device has failed. Every request is then refused with it, so that masters
  /// place their replicas elsewhere.
  Status device_status() const { return device_status_.status(); }
  /// For status and placement.
  wire::BackupDevice device() const {
    using wire::BackupDevice;
    if (device_status_.failed()) return BackupDevice::kFailed;
    return full_for_ && !frames_.has_room(*full_for_) ? BackupDevice::kFull : BackupDevice::kGood;
  }

  /// The state of one replica; and counts of replicas and of frames being prepared. For tests and
  /// simulation.
  struct Held {
    uint32_t frame = 0;
    uint32_t epoch = 0;
    uint32_t bytes = 0;
    bool incomplete = false;
    bool closed = false;
    wire::Holders holders;
  };
  std::optional<Held> find(uint64_t master_id, uint64_t segment_id) const;
  size_t replicas() const { return replicas_; }
  uint32_t frames_preparing() const { return preparing_; }
  const RecoveryService& recovery() const { return recovery_; }
  const FetchService& fetches() const { return fetch_; }
  /// Whether the former frames that the last former_segments_of_up_masters() named can be adopted.
  const AdoptionService& adoptions() const { return adoptions_; }

  void on_open(const Request& request);
  void on_write(const Request& request);
  void on_free(const Request& request);
  void on_sync(const Request& request);

 private:
  using Key = ReplicaKey;
  using Shard = ReplicaTable::Shard;
  /// What must happen before a write that was applied is answered.
  enum class Next : uint8_t { kAcknowledge, kWhenSynced, kMakeVisible };

  void list_changed();
  static Status frozen_status(uint64_t master_id);
  Status check_master(uint64_t master_id, uint64_t list_version, uint32_t& retry_after_us) const;
  Status check_open(const wire::ReplicaOpenRequest& open, ByteView segment_bytes) const;
  /// The open of a new replica.
  struct Opening {
    wire::ReplicaOpenRequest open;
    wire::Holders holders;
    std::string segment_bytes;
    ReplyHandle reply;
    uint64_t number = 0;
    Key key() const { return {open.master_id, open.segment_id}; }
  };
  enum class WhenFull : uint8_t { kAskForFrames, kRefuse };
  void take_frame(const wire::ReplicaOpenRequest& open, const wire::Holders& holders,
                  ByteView segment_bytes, const ReplyHandle& reply);
  void allocate_for(std::shared_ptr<const Opening> opening, WhenFull when_full);
  void fill_frame(const Opening& opening, const Result<uint32_t>& frame);
  Status begin(const wire::ReplicaOpenRequest& open, const wire::Holders& holders,
               ByteView segment_bytes, uint32_t frame);
  Status reopen(Replica& replica, const wire::ReplicaOpenRequest& open,
                const wire::Holders& holders);
  Status append(Replica& replica, uint32_t offset, ByteView bytes);
  Status append(uint32_t frame, uint32_t offset, ByteView bytes) override;
  bool write_plain(const wire::ReplicaWriteRequest& write, ByteView bytes,
                   const ReplyHandle& reply);
  Status change(Replica& replica, const wire::ReplicaWriteRequest& write,
                const wire::Holders& holders, ByteView bytes, Next& next);
  Status note(Replica& replica, uint32_t epoch, const wire::Holders& holders);
  FrameContent content_of(const Replica& replica, bool length_known) const;
  Status describe(const Replica& replica);
  Status write_metadata(Replica& replica);
  void drop(Shard& shard, ReplicaTable::Replicas::iterator it) RC_REQUIRES(shard.lock);
  bool release_former(uint32_t frame);
  void answer_when_synced(const ReplyHandle& reply, const Key& key);
  bool note_metadata_durable(const Key& key, uint64_t change);
  void acknowledge(const ReplyHandle& handle, uint32_t bytes_held);
  void when_bytes_synced(std::function<void(Status)> done);
  void when_all_synced(std::function<void(Status)> done);
  void flushed(const Status& status, const std::vector<Key>& closed);
  void answer_waiting(const Status& status);
  bool on_turn() override;
  Status may_tell() const override;
  void freeze(uint64_t master_id) override { table_.freeze(master_id); }
  bool frozen(uint64_t master_id) const override { return table_.frozen(master_id); }
  void sync_all(std::function<void(Status)> done) override;
  std::vector<FrameReplica> replicas_of(uint64_t master_id) const override;
  std::optional<FrameReplica> replica_in(uint32_t frame, uint64_t master_id,
                                         uint64_t segment_id) const override;
  FrameReplica frame_replica(const Replica& replica) const;
  Status may_change(uint64_t master_id, uint64_t list_version,
                    uint32_t& retry_after_us) const override {
    return check_master(master_id, list_version, retry_after_us);
  }
  std::optional<Here> here(const Key& key) const override;
  Status take_over(const FormerFrame& former, const wire::AdoptRequest& request,
                   uint32_t length) override;
  Status write_former(uint32_t frame, uint32_t offset, ByteView bytes) override;
  void sync_frames(std::function<void(Status)> done) override;
  void when_durable(const Key& key, std::function<void(Status)> done) override;
  void make_visible(const Key& key, uint32_t bytes_held, bool whole, const ReplyHandle& reply);
  Status show(const Key& key, bool whole, uint64_t& change);
  void answer(const ReplyHandle& handle, uint32_t bytes_held);
  void refuse(const ReplyHandle& reply, const Status& status, uint32_t retry_after_us = 0,
              const wire::ErrorDetails& details = {});
  void refuse_open(const ReplyHandle& reply, const Key& key, const Status& status,
                   uint32_t retry_after_us = 0);
  void write_failed(const Status& status);
  void mark_dirty();
  void start_flush_timer();
  void metadata_changed();
  void on_flush_timer();
  void sync_metadata();
  void flush();
  void write_closed_lengths(const std::vector<Key>& keys);

  Reactor& reactor_;
  Transport& transport_;
  FrameStore& frames_;
  const ServerList& servers_;
  Options options_;
  Counters counters_;
  DeviceStatus device_status_;
  SyncQueue syncs_;
  std::unique_ptr<UnsyncedTails> tails_;  // null: bytes are written into the page cache
  ReplicaTable table_;
  size_t replicas_ = 0;  // replicas in table_
  ServerList::Subscription list_changes_;
  std::vector<std::unique_ptr<BackupLane>> lanes_;
  // Frames being allocated, by replica: the number of the open that asked for the frame.
  std::unordered_map<Key, uint64_t, ReplicaTable::KeyHash> opening_;
  NoFrameIsFree no_frame_is_free_;
  uint64_t last_opening_ = 0;
  uint64_t last_metadata_change_ = 0;
  uint32_t preparing_ = 0;                 // frames being allocated
  std::vector<Key> just_closed_;           // since the last sync began
  std::vector<SyncQueue::Write> syncing_;  // are answered when the sync in flight has ended
  Timer flush_timer_;
  bool flushing_ = false;
  // Used with tails_; otherwise metadata is flushed with the bytes.
  bool metadata_dirty_ = false;
  bool syncing_metadata_ = false;
  bool stopping_ = false;
  std::optional<FrameClass> full_for_;  // there was no frame for the last open, which was of this
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  RecoveryService recovery_;
  FetchService fetch_;
  LeaseService leases_;
  AdoptionService adoptions_;
};

}  // namespace ramcloud
