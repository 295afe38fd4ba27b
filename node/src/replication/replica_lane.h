// One reactor's way to the backups: the calls in which it sends what it appended, and its sessions.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "base/metrics.h"
#include "replication/replica_call.h"
#include "replication/replica_slot.h"
#include "rpc/rpc.h"
#include "runtime/reactor.h"

namespace ramcloud {

/// It has one call for each of the R replicas of a segment, and sees to their deadlines, since only
/// its reactor can take them back. Everything belongs to that reactor, but for what the lock of
/// ReplicaManager is over.
class ReplicaLane {
 public:
  /// All outlive it. May be made on another thread than the reactor's, before that uses it.
  ReplicaLane(RpcClient& rpc, Counter& messages, uint32_t replicas, Duration write_timeout);
  ReplicaLane(const ReplicaLane&) = delete;
  ReplicaLane& operator=(const ReplicaLane&) = delete;

  /// @name For the manager
  /// @{
  /// Something came for it since the last time: answers, or calls to be taken back.
  bool take_news();
  Time now() const { return reactor_.now(); }
  /// Sends what the slot, the segment's `index`th, wants to send, if this lane can do so at once:
  /// its session to that backup stands, and its call is idle. Under the lock.
  bool send(size_t index, ReplicaSlot& slot);
  /// Takes back the calls that nobody waits for any more. Under the lock.
  void retract_dropped();
  /// Takes back all; while its reactor does not turn, or on it.
  void stop();
  /// @}

 private:
  struct Line {
    explicit Line(CallInbox& inbox) : call(inbox) {}
    ReplicaCall call;
    uint64_t server_id = 0;  // of the call's session
    Time avoided_until{};    // it did not answer: the first reactor tries
  };
  bool connected(Line& line, const ReplicaSlot& slot);
  void on_deadline();

  RpcClient& rpc_;
  Reactor& reactor_;
  Counter& messages_;
  const Duration write_timeout_;
  CallInbox inbox_;
  std::deque<Line> lines_;  // by place in the segment
  Timer timer_;             // runs at least until the first deadline
};

}  // namespace ramcloud
