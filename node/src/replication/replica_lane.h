// What one reactor needs to send to the backups what it appended: its calls and its sessions.
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

/// It has one call for each of the R replicas of a segment. It watches their deadlines, because
/// only its reactor can retract them. Everything belongs to that reactor, except what the DriveLock
/// guards.
class ReplicaLane {
 public:
  /// All arguments outlive the lane. It may be constructed on another thread before the reactor
  /// uses it.
  ReplicaLane(RpcClient& rpc, Counter& messages, uint32_t replicas, Duration write_timeout);
  ReplicaLane(const ReplicaLane&) = delete;
  ReplicaLane& operator=(const ReplicaLane&) = delete;

  /// @name For the manager
  /// @{ True if there were answers, or calls to retract, since the last call.
  bool take_news();
  Time now() const { return reactor_.now(); }
  /// Sends the next bytes of the slot, which is number `index` of its segment. Only if this lane
  /// can do so at once: its session to that backup is established, and its call is idle. Under the
  /// lock.
  bool send(size_t index, ReplicaSlot& slot);
  /// Retracts the calls that their slots dropped. Under the lock.
  void retract_dropped();
  /// Retracts all calls. On its reactor, or while that does not run.
  void stop();
  /// @}

 private:
  struct Line {
    explicit Line(CallInbox& inbox) : call(inbox) {}
    ReplicaCall call;
    uint64_t server_id = 0;  // the backup of the call's session
    Time avoided_until{};    // the backup did not answer: until then the first reactor sends
  };
  bool connected(Line& line, const ReplicaSlot& slot);
  void on_deadline();

  RpcClient& rpc_;
  Reactor& reactor_;
  Counter& messages_;
  const Duration write_timeout_;
  CallInbox inbox_;
  std::deque<Line> lines_;  // by index of the replica in its segment
  Timer timer_;             // runs at least until the first deadline
};

}  // namespace ramcloud
