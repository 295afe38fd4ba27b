// The way to the coordinator: a list of addresses of which one leads. Each is tried in turn; a
// standby says who leads (NOT_LEADER), and that one is asked next.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "rpc/leader_hint.h"
#include "rpc/rpc.h"
#include "runtime/task.h"

namespace ramcloud {

/// Whether a call may be sent again when its reply was lost.
enum class Repeat : uint8_t { kSafe, kUnsafe };

class CoordinatorLink {
 public:
  /// At least one address.
  CoordinatorLink(RpcClient& rpc, std::vector<Locator> coordinators);

  /// Calls the leader, trying again until the deadline. Errors: what the leader answered;
  /// UNAVAILABLE naming the addresses when none led in time; INDETERMINATE when the reply of a call
  /// that must not be repeated was lost.
  template <typename Reply, typename Request>
  Task<Result<Reply>> call(wire::Opcode opcode, Request request, Repeat repeat, Time deadline) {
    RpcReply reply = co_await call_leader(opcode, RpcClient::body_of(request), repeat, deadline);
    if (!reply.ok()) co_return fail(std::move(reply.status));
    co_return decode_message<Reply>(reply);
  }

  /// "a:1, b:2".
  std::string addresses() const;

 private:
  Task<RpcReply> call_leader(wire::Opcode opcode, RpcClient::BodyFor body, Repeat repeat,
                             Time deadline);
  const Locator& target() const { return redirected_ ? *redirected_ : coordinators_[current_]; }
  void follow_redirect(const RpcReply& reply);
  void try_another();

  RpcClient& rpc_;
  std::vector<Locator> coordinators_;
  size_t current_ = 0;
  std::optional<Locator> redirected_;  // named by a standby, not in our list
};

}  // namespace ramcloud
