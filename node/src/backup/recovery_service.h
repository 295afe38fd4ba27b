// The backup's side of crash recovery: describes the replicas of a dead master's log
// (docs/design/recovery.md#where-a-log-ends). The first query for a master freezes its replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "backup/frame_store.h"
#include "log/log_end.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "runtime/async_mutex.h"
#include "runtime/reactor.h"
#include "wire/recovery_messages.h"

namespace ramcloud {

/// A replica in a frame, of this incarnation of the backup or of an earlier one.
struct FrameReplica {
  uint32_t frame = 0;
  bool former = false;
  bool damaged = false;  // FormerFrame
  FrameContent content;
  uint32_t bytes_held = 0;  // bytes that were written for certain, if not damaged
};

class RecoveryService {
 public:
  /// The interface to the service that has the replicas. Everything here runs on the first reactor.
  class Replicas {
   public:
    virtual ~Replicas() = default;
    /// OK, or why no answer is possible now.
    virtual Status may_tell() const = 0;
    /// When it returns, no reactor changes the master's replicas any more.
    virtual void freeze(uint64_t master_id) = 0;
    virtual bool frozen(uint64_t master_id) const = 0;
    /// Calls `done` when everything taken before is on the device.
    virtual void sync_all(std::function<void(Status)> done) = 0;
    /// By rising frame.
    virtual std::vector<FrameReplica> replicas_of(uint64_t master_id) const = 0;
    virtual std::optional<FrameReplica> replica_in(uint32_t frame, uint64_t master_id,
                                                   uint64_t segment_id) const = 0;
  };

  /// The limits of what peers can make it hold: one segment that is scanned, and waiting queries.
  static constexpr size_t kMaxQueries = 8;
  /// The most replicas in one page of an answer.
  static constexpr size_t kMaxReplicas = 512;
  static constexpr size_t kMaxDigestBytes = 1u << 20;
  /// Bytes of replicas that are read for one page, and one replica more. Otherwise a page with many
  /// closed replicas would take longer than the coordinator waits for it.
  static constexpr uint64_t kMaxScannedBytes = 64u << 20;
  static constexpr uint32_t kRetryAfterUs = 10'000;

  /// Registers kRecoveryQuery. All arguments outlive this.
  RecoveryService(Reactor& reactor, ServiceRegistry& registry, FrameStore& frames,
                  ServerList& servers, Replicas& replicas);
  RecoveryService(const RecoveryService&) = delete;
  RecoveryService& operator=(const RecoveryService&) = delete;

  void on_query(const Request& request);

 private:
  Task<void> answer_query(ReplyHandle reply, wire::RecoveryQueryRequest query);
  Task<Status> all_synced();
  static bool must_scan(const FrameReplica& replica, uint64_t scan_closed_from);
  Task<wire::RecoveryReplica> describe(FrameReplica replica, bool scan);
  Task<bool> scan(FrameReplica replica, log::FoundReplica& found);
  log::SegmentIdentity identity(uint64_t master_id, uint64_t segment_id) const;

  Reactor& reactor_;
  Transport& transport_;
  FrameStore& frames_;
  ServerList& servers_;
  Replicas& replicas_;
  AsyncMutex scanning_;
  size_t queries_ = 0;
  TaskScope scope_;
};

}  // namespace ramcloud
