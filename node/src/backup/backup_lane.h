// The part of the backup that reactors other than the first serve: plain writes, which only append
// bytes to a replica. Most writes are plain. Other requests are forwarded to the first reactor.
#pragma once

#include <cstdint>
#include <vector>

#include "backup/device_status.h"
#include "backup/replica_table.h"
#include "backup/sync_queue.h"
#include "base/metrics.h"
#include "rpc/rpc.h"
#include "runtime/reactor.h"
#include "transport/transport.h"

namespace ramcloud {

/// What all reactors of a backup share. The ReplicaService owns it.
struct SharedReplicas {
  ReplicaTable& table;
  SyncQueue& syncs;
  DeviceStatus& device;
};

class BackupLane final : public TurnHook {
 public:
  /// All arguments, and what `shared` names, outlive it. It may be constructed on another thread
  /// than the reactor's.
  BackupLane(const SharedReplicas& shared, Reactor& reactor, Transport& transport, Counter& writes)
      : shared_(shared),
        reactor_(reactor),
        transport_(transport),
        writes_(writes),
        answers_(reactor) {}
  ~BackupLane() override;
  BackupLane(const BackupLane&) = delete;
  BackupLane& operator=(const BackupLane&) = delete;

  /// Serves plain writes from now on, on the lane's reactor; `rest` handles all other writes.
  void serve(ServiceRegistry& registry, ServiceRegistry::Handler rest, void* object);
  /// Sends the answers to writes that were synced.
  bool on_turn() override;

  void on_write(const Request& request);

 private:
  void reply(const ReplyHandle& handle, uint32_t bytes_held);

  const SharedReplicas shared_;
  Reactor& reactor_;
  Transport& transport_;
  Counter& writes_;
  ServiceRegistry::Handler rest_ = nullptr;
  void* rest_object_ = nullptr;
  AnswerQueue answers_;
  std::vector<AnswerQueue::Answer> sending_;
};

}  // namespace ramcloud
