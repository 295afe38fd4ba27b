// The coordinator's calls to backups and recovery masters, without retries
// (docs/design/recovery.md#recovery-of-one-server).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/term_claims.h"
#include "coordinator/metadata/cluster_state.h"
#include "rpc/rpc.h"
#include "runtime/async_mutex.h"
#include "wire/recovery_messages.h"

namespace ramcloud {

/// The segments of a dead master, by falling id, which all recovery masters get.
struct DeadLog {
  explicit DeadLog(std::vector<wire::RecoverySegment> by_falling_id)
      : segments(std::move(by_falling_id)), packed(wire::pack_segments(segments)) {}
  const std::vector<wire::RecoverySegment> segments;
  const std::string packed;
};

class RecoveryCalls {
 public:
  /// So many large orders to recover are in flight. Each has all segments of a dead master.
  static constexpr size_t kLargeOrdersAtOnce = 64;
  static constexpr size_t kLarge = 64u << 10;

  RecoveryCalls(RpcClient& rpc, ClusterState& state, TermClaims& term_claims)
      : rpc_(rpc),
        state_(state),
        term_claims_(term_claims),
        ordering_(rpc.reactor(), kLargeOrdersAtOnce) {}

  /// Sets the message's term. Errors: those of the server and the transport. UNAVAILABLE: the
  /// server is not UP; RETRY: it refused the term, which is being raised.
  template <typename Reply, typename Message>
  Task<Result<Reply>> call(uint64_t server_id, wire::Opcode opcode, Message message,
                           Duration timeout) {
    message.term = state_.term;
    RpcReply reply =
        co_await send(server_id, opcode, message.term, RpcClient::body_of(message), timeout);
    if (!reply.ok()) co_return fail(std::move(reply.status));
    co_return decode_message<Reply>(reply);
  }
  /// Waits until one more order with the segments of this log may be in flight. Keep the lock until
  /// it is answered.
  Task<AsyncMutex::Lock> turn_to_order(std::shared_ptr<const DeadLog> log);
  /// The same as call() for an order to recover, with the segments of `log`.
  Task<Result<wire::RecoveryState>> order(uint64_t server_id, wire::RecoverRequest order,
                                          std::shared_ptr<const DeadLog> log, Duration timeout);

 private:
  Task<RpcReply> send(uint64_t server_id, wire::Opcode opcode, uint64_t term,
                      RpcClient::BodyFor body, Duration timeout);
  RpcClient& rpc_;
  ClusterState& state_;
  TermClaims& term_claims_;
  AsyncMutex ordering_;
};

}  // namespace ramcloud
