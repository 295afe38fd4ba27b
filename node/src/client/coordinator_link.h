// Finds the leading coordinator among a list of addresses. They are tried in rotation; a standby
// names the leader (NOT_LEADER), which is asked next. An address may have been reused by another
// cluster, so WRONG_CLUSTER is final only if every configured address answers it.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "rpc/back_off.h"
#include "rpc/leader_hint.h"
#include "rpc/rpc.h"
#include "runtime/task.h"

namespace ramcloud {

/// Whether a call may be sent again when its reply was lost.
enum class Repeat : uint8_t {
  kSafe,        // it changes nothing
  kIdempotent,  // a repeated call gives the same answer; without an answer, it may have happened
  kUnsafe,      // a repeated call may have a further effect: a lost reply makes it INDETERMINATE
};

class CoordinatorLink {
 public:
  /// At least one address.
  CoordinatorLink(RpcClient& rpc, std::vector<Locator> coordinators);

  /// Calls the leader, and retries until the deadline. Errors: the leader's; UNAVAILABLE with the
  /// addresses if none led in time: the call changed nothing and never will; INDETERMINATE if it
  /// may have changed something: the reply was lost, and the call must not be repeated or got no
  /// other reply in time.
  template <typename Reply, typename Request>
  Task<Result<Reply>> call(wire::Opcode opcode, Request request, Repeat repeat, Time deadline) {
    RpcReply reply = co_await call_leader(opcode, RpcClient::body_of(request), repeat, deadline);
    if (!reply.ok()) co_return fail(std::move(reply.status));
    co_return decode_message<Reply>(reply);
  }

  /// One try, at target(). Afterwards target() is the leader that a standby named, otherwise the
  /// next coordinator.
  template <typename Reply, typename Request>
  Task<Result<Reply>> try_once(wire::Opcode opcode, Request request, Time deadline) {
    const RpcReply reply = co_await attempt(opcode, RpcClient::body_of(request), deadline);
    if (!reply.ok()) co_return fail(reply.status);
    co_return decode_message<Reply>(reply);
  }
  struct Patience {
    Duration attempt;  // how long one try may take
    Duration first_pause;
    Duration last_pause;  // pauses double up to this one
  };
  /// Retries without limit until there is a reply, or an error for which `is_definite` is true.
  /// Calls `not_yet` with the asked address after every other try. The request must be idempotent.
  template <typename Reply, typename Request>
  Task<Result<Reply>> call_patiently(wire::Opcode opcode, Request request, Patience patience,
                                     bool (*is_definite)(const Status&),
                                     void (*not_yet)(const Locator& asked, const Status&)) {
    BackOff back_off(patience.first_pause, patience.last_pause);
    for (;;) {
      const Locator asked = target();
      auto reply =
          co_await try_once<Reply>(opcode, request, rpc_.reactor().now() + patience.attempt);
      if (reply || is_definite(reply.error())) co_return reply;
      not_yet(asked, reply.error());
      co_await rpc_.reactor().sleep(back_off.next(rpc_.reactor().random()));
    }
  }
  /// The coordinator that is asked next.
  const Locator& target() const { return redirected_ ? *redirected_ : coordinators_[current_]; }

  /// "a:1, b:2".
  std::string addresses() const;

 private:
  Task<RpcReply> call_leader(wire::Opcode opcode, RpcClient::BodyFor body, Repeat repeat,
                             Time deadline);
  Task<RpcReply> attempt(wire::Opcode opcode, RpcClient::BodyFor body, Time until);
  void follow_redirect(const RpcReply& reply);
  void try_another();
  void judge_cluster(const Locator& asked, RpcReply& reply);

  RpcClient& rpc_;
  std::vector<Locator> coordinators_;
  std::vector<bool> strangers_;  // which of them answered WRONG_CLUSTER since the last valid answer
  size_t current_ = 0;
  std::optional<Locator> redirected_;  // named by a standby, not in our list
};

}  // namespace ramcloud
