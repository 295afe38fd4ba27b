// One reactor's way to the backups: the calls in which it sends what it appended, and its sessions.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "base/metrics.h"
#include "replication/replica_call.h"
#include "replication/replica_slot.h"
#include "rpc/rpc.h"
#include "runtime/reactor.h"

namespace ramcloud {

class ReplicaManager;

/// It has one call for each of the R replicas of a segment, and sees to their deadlines, since only
/// its reactor can take them back. Everything belongs to that reactor, but for what the lock of
/// ReplicaManager is over.
class ReplicaLane final : public ReplicaCall::Owner {
 public:
  /// All outlive it. May be made on another thread than the reactor's, before that uses it.
  ReplicaLane(ReplicaManager& manager, RpcClient& rpc, Counter& messages, uint32_t replicas,
              Duration write_timeout);
  ~ReplicaLane() override;
  ReplicaLane(const ReplicaLane&) = delete;
  ReplicaLane& operator=(const ReplicaLane&) = delete;

  /// At the end of a turn, when all that it appended is published. `appended`: something was
  /// appended that replies of this reactor wait for. True if anything was done.
  bool on_turn(bool appended);

  /// @name For the manager
  /// @{
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
    explicit Line(ReplicaCall::Owner& owner) : call(owner) {}
    ReplicaCall call;
    uint64_t server_id = 0;  // of the call's session
    Time avoided_until{};    // it did not answer: the first reactor tries
  };
  void call_answered(ReplicaCall& call) override;
  void call_dropped(ReplicaCall& call) override;
  bool connected(Line& line, const ReplicaSlot& slot);
  void on_deadline();

  ReplicaManager& manager_;
  RpcClient& rpc_;
  Reactor& reactor_;
  Counter& messages_;
  const Duration write_timeout_;
  std::deque<Line> lines_;  // by place in the segment
  bool answered_ = false;
  std::atomic<bool> dropped_{false};
  Timer timer_;  // runs at least until the first deadline
};

}  // namespace ramcloud
