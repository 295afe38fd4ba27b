// The backup's side of adoption: a frame that an earlier incarnation left becomes a closed replica
// of this one, if the bytes in it are a whole segment that its master lacks a replica of
// (docs/design/recovery.md#adopting-former-frames).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backup/frame_store.h"
#include "backup/replica_table.h"
#include "rpc/rpc.h"
#include "runtime/async_mutex.h"
#include "runtime/reactor.h"
#include "wire/volume_messages.h"

namespace ramcloud {

class AdoptionService {
 public:
  /// The interface to the service that has the replicas. Everything here runs on the first reactor.
  class Replicas {
   public:
    virtual ~Replicas() = default;
    /// OK, or why the master's replicas may not be changed now.
    virtual Status may_change(uint64_t master_id, uint64_t list_version,
                              uint32_t& retry_after_us) const = 0;
    /// A replica of this incarnation.
    struct Here {
      bool whole = false;  // closed, and not an incomplete copy
      uint32_t length = 0;
      uint32_t epoch = 0;
    };
    virtual std::optional<Here> here(const ReplicaKey& key) const = 0;
    /// Makes the frame a closed replica of `length` bytes; `former` is gone then. After an error it
    /// is as before. Precondition: may_change(), not here(), and its bytes are on the device.
    virtual Status take_over(const FormerFrame& former, const wire::AdoptRequest& request,
                             uint32_t length) = 0;
    /// Writes segment bytes to a former frame. Notes it if the device failed.
    virtual Status write_former(uint32_t frame, uint32_t offset, ByteView bytes) = 0;
    /// Calls `done` when everything that was written to frames is on the device. Bytes that wait in
    /// UnsyncedTails are not included.
    virtual void sync_frames(std::function<void(Status)> done) = 0;
    /// The same for the metadata of a replica. NOT_FOUND: it was freed meanwhile.
    virtual void when_durable(const ReplicaKey& key, std::function<void(Status)> done) = 0;
  };

  /// One frame is read and verified at a time; so many requests wait for it at most.
  static constexpr size_t kMaxRequests = 8;
  static constexpr uint32_t kRetryAfterUs = 20'000;

  /// Registers kReplicaAdopt. All arguments outlive this.
  AdoptionService(Reactor& reactor, ServiceRegistry& registry, FrameStore& frames,
                  Replicas& replicas);
  AdoptionService(const AdoptionService&) = delete;
  AdoptionService& operator=(const AdoptionService&) = delete;

  void on_adopt(const Request& request);
  /// The master does not need a replica of the segment here: an adoption in progress ends without
  /// effect, and a request that comes late finds nothing.
  void forget(const ReplicaKey& key);

  /// Notes a former frame, so that its master may be told of it. Only frames that were noted are
  /// adopted.
  void note(const FormerFrame& former);
  /// Whether this backup has a former frame of the segment that may be whole.
  bool offers(const ReplicaKey& key) const { return offered_.contains(key); }
  uint64_t adopted() const { return adopted_; }

 private:
  Task<void> adopt(ReplyHandle reply, wire::AdoptRequest request, uint64_t number);
  Task<Status> adopt_any(const wire::AdoptRequest& request, uint64_t number);
  Task<Status> adopt_frame(const wire::AdoptRequest& request, uint64_t number, uint32_t frame);
  Task<Result<uint32_t>> verify(FormerFrame former, const wire::AdoptRequest& request);
  Task<Status> write_back(const FormerFrame& former, ByteView bytes);
  Task<Status> synced();
  const FormerFrame* still_former(const ReplicaKey& key, uint32_t frame) const;
  void drop(const ReplicaKey& key, uint32_t frame);
  void answer_when_durable(const ReplyHandle& reply, const ReplicaKey& key);
  void refuse(const ReplyHandle& reply, const ReplicaKey& key, const Status& status,
              uint32_t retry_after_us = 0);

  Reactor& reactor_;
  Transport& transport_;
  FrameStore& frames_;
  Replicas& replicas_;
  AsyncMutex verifying_;
  /// Former frames by segment; some of them may have been freed since.
  std::unordered_map<ReplicaKey, std::vector<uint32_t>, ReplicaTable::KeyHash> offered_;
  std::unordered_set<uint32_t> unfit_;  // frames that are not offered again
  /// By replica: the number of the request that is adopting it.
  std::unordered_map<ReplicaKey, uint64_t, ReplicaTable::KeyHash> in_progress_;
  uint64_t last_number_ = 0;
  size_t requests_ = 0;
  uint64_t adopted_ = 0;
  TaskScope scope_;
};

}  // namespace ramcloud
