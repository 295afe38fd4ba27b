// The part of the backup that reactors other than the first serve: plain writes, which only append
// bytes to a replica. Most writes are plain. Other requests are forwarded to the first reactor.
#pragma once

#include <atomic>
#include <vector>

#include "base/metrics.h"
#include "base/spin_lock.h"
#include "base/status.h"
#include "rpc/rpc.h"
#include "runtime/reactor.h"
#include "transport/transport.h"

namespace ramcloud {

class ReplicaService;

class BackupLane final : public TurnHook {
 public:
  /// All arguments outlive it. It may be constructed on another thread than the reactor's.
  BackupLane(ReplicaService& service, Reactor& reactor, Transport& transport, Counter& writes)
      : service_(service), reactor_(reactor), transport_(transport), writes_(writes) {}
  ~BackupLane() override;
  BackupLane(const BackupLane&) = delete;
  BackupLane& operator=(const BackupLane&) = delete;

  /// Serves plain writes from now on, on the lane's reactor; `rest` handles all other writes.
  void serve(ServiceRegistry& registry, ServiceRegistry::Handler rest, void* object);
  /// Queues the answer to a write whose sync ended with `status`. On the first reactor.
  void answer_later(const ReplyHandle& reply, uint32_t held, const Status& status);
  /// Sends the queued answers.
  bool on_turn() override;

  void on_write(const Request& request);

 private:
  struct Answer {
    ReplyHandle reply;
    uint32_t held = 0;
    Status status;
  };
  void reply(const ReplyHandle& handle, uint32_t held);

  ReplicaService& service_;
  Reactor& reactor_;
  Transport& transport_;
  Counter& writes_;
  ServiceRegistry::Handler rest_ = nullptr;
  void* rest_object_ = nullptr;
  SpinLock lock_;
  std::vector<Answer> answers_ RC_GUARDED_BY(lock_);
  std::atomic<bool> has_answers_{false};
  std::vector<Answer> giving_;
};

}  // namespace ramcloud
