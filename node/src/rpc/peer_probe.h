// One probe of a server's address, for failure detection: coordinators and servers probe in the
// same way (docs/design/coordinator.md#failure-detection).
#pragma once

#include <string>

#include "rpc/rpc.h"
#include "wire/control_messages.h"

namespace ramcloud {

/// Detects when this process was suspended or late. Measurements of peers during that time do not
/// count.
class Punctuality {
 public:
  /// Ticks at `interval`; a tick is late if it comes more than `lateness` after its time. `on_tick`
  /// may be null. Its argument is how late the tick was; zero if it was punctual.
  Punctuality(Reactor& reactor, Duration interval, Duration lateness,
              std::function<void(Duration late)> on_tick);

  /// Rises with each late tick, and already while a tick is overdue. A measurement that began in
  /// another epoch does not count.
  uint64_t epoch() const { return late() ? epoch_ + 1 : epoch_; }
  /// The time of the next tick; in the past if that is overdue.
  Time due() const { return due_; }

 private:
  bool late() const { return reactor_.now() - due_ > lateness_; }
  void tick();
  Reactor& reactor_;
  const Duration interval_, lateness_;
  std::function<void(Duration)> on_tick_;
  uint64_t epoch_ = 0;
  Time due_;
  Timer timer_;
};

struct ProbeResult {
  wire::PeerState state = wire::PeerState::kVoid;
  RpcReply reply;  // the last one
};

/// Sends `opcode` to the server until `deadline`, which ends the call as well. If the connection
/// breaks, it connects once more, so that an ended process is reported as kRefused. kBroken: the
/// second connection broke, too.
Task<ProbeResult> probe_peer(RpcClient& rpc, Locator locator, uint64_t server_id,
                             wire::Opcode opcode, RpcClient::BodyFor body, Time deadline);

/// The same with a ping.
Task<ProbeResult> ping(RpcClient& rpc, Locator locator, uint64_t server_id, Time deadline);

}  // namespace ramcloud
