#include "coordinator/core/recovery_calls.h"

namespace ramcloud {

Task<AsyncMutex::Lock> RecoveryCalls::turn_to_order(std::shared_ptr<const DeadLog> log) {
  if (log->packed.size() < kLarge) co_return AsyncMutex::Lock();
  co_return co_await ordering_.lock();
}

Task<Result<wire::RecoveryState>> RecoveryCalls::order(uint64_t server_id,
                                                       wire::RecoverRequest order,
                                                       std::shared_ptr<const DeadLog> log,
                                                       Duration timeout) {
  order.term = state_.term;
  // A server of an earlier version does not know packed segments.
  const auto body = [&](uint16_t version) {
    wire::RecoverRequest whole = order;
    if (version >= wire::kPackedSegments) {
      whole.packed_segments = log->packed;
    } else {
      whole.segments = log->segments;
    }
    return wire::encode(whole, version);
  };
  RpcReply reply = co_await send(server_id, wire::Opcode::kRecover, order.term, body, timeout);
  if (!reply.ok()) co_return fail(std::move(reply.status));
  co_return decode_message<wire::RecoveryState>(reply);
}

Task<RpcReply> RecoveryCalls::send(uint64_t server_id, wire::Opcode opcode, uint64_t term,
                                   RpcClient::BodyFor body, Duration timeout) {
  RpcReply failed;
  const ServerEntry* server = state_.up_server(server_id);
  if (server == nullptr) {
    failed.status = {StatusCode::kUnavailable, fmt::format("server {} is not UP", server_id)};
    co_return failed;
  }
  const auto locator = parse_locator(server->record.locator);
  if (!locator) {  // checked when it enlisted
    failed.status = locator.error();
    co_return failed;
  }
  RpcReply reply = co_await rpc_.call_with(*locator, server_id, opcode, std::move(body),
                                           rpc_.reactor().now() + timeout);
  if (!reply.ok() && term_claims_.refused(server_id, term, reply)) {
    reply.status = {StatusCode::kRetry, reply.status.message()};
  }
  co_return reply;
}

}  // namespace ramcloud
