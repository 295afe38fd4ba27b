// One probe of a server's address, for failure detection: coordinators and servers probe in the
// same way (docs/design/coordinator.md, "Failure detection").
#pragma once

#include <string>

#include "rpc/rpc.h"
#include "wire/control_messages.h"

namespace ramcloud {

/// Notices when this process does not run when it should. What it measured of others meanwhile says
/// nothing about them.
class Punctuality {
 public:
  /// Ticks at `interval`; late is a tick that comes more than `lateness` after its time. `on_tick`
  /// may be null. It is given by how much the tick was late: zero if it was punctual.
  Punctuality(Reactor& reactor, Duration interval, Duration lateness,
              std::function<void(Duration late)> on_tick);

  /// Rises with each late tick, and is another while one is overdue: what was measured from one
  /// epoch to another does not count.
  uint64_t epoch() const { return late() ? epoch_ + 1 : epoch_; }

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

/// Sends `opcode` to the server until `deadline`, which ends the call as well. A connection that
/// breaks is made once more, so that a process that ended shows as kRefused. kBroken is what also
/// the second did.
Task<ProbeResult> probe_peer(RpcClient& rpc, Locator locator, uint64_t server_id,
                             wire::Opcode opcode, RpcClient::BodyFor body, Time deadline);

/// The same with a ping.
Task<ProbeResult> ping(RpcClient& rpc, Locator locator, uint64_t server_id, Time deadline);

}  // namespace ramcloud
