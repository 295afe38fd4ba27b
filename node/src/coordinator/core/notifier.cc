#include "coordinator/core/notifier.h"

#include <algorithm>

#include "base/failpoint.h"
#include "base/logging.h"
#include "rpc/back_off.h"

namespace ramcloud {

void Notifier::push_list() {
  if (state_.restate) return;  // the list is pushed after servers have reported what they own
  for (auto& [id, server] : state_.servers) {
    if (!server.up() || server.pushing || server.list_version_acked >= state_.list_version)
      continue;
    server.pushing = true;
    scope_.spawn(push_list_to(id));
  }
}

void Notifier::server_has_list(uint64_t server_id, uint64_t version) {
  ServerEntry* server = state_.up_server(server_id);
  if (server == nullptr || server->pushing) return;
  server->list_version_acked = version;
  if (version < state_.list_version) push_list();
}

Task<void> Notifier::push_list_to(uint64_t server_id) {
  BackOff back_off(options_.retry_min, options_.retry_max);
  for (;;) {
    ServerEntry* server = state_.up_server(server_id);
    if (server == nullptr || server->list_version_acked >= state_.list_version) break;
    const uint64_t version = state_.list_version;
    const uint64_t term = state_.term;
    RC_FAILPOINT("coordinator.list.before_push");
    const RpcReply sent = co_await send(
        server_id, wire::Opcode::kUpdateServerList,
        [this, base = base_for(*server)](uint16_t wire_version) {
          return encoded_list(wire_version, wire_version < wire::kExtensible ? 0 : base);
        });
    server = state_.up_server(server_id);
    if (server != nullptr && sent.ok()) {
      server->list_version_acked = std::max(server->list_version_acked, version);
      server->needs_whole_list = false;
      back_off.reset();
    } else if (server != nullptr && sent.status == StatusCode::kWrongVersion &&
               !server->needs_whole_list) {
      server->needs_whole_list = true;  // its version is not the one that we assumed
    } else if (server != nullptr) {
      log_debug("notifier.list_not_acknowledged", {{"server", server_id}, {"error", sent.status}});
      term_claims_.refused(server_id, term, sent);
      co_await reactor_.sleep(back_off.next(reactor_.random()));
    }
  }
  state_.servers.at(server_id).pushing = false;
}

Task<Result<wire::TakeTabletReply>> Notifier::take_tablet(uint64_t server_id,
                                                          wire::TakeTabletRequest request) {
  RpcReply sent = co_await notify(server_id, wire::Opcode::kTakeTablet, request);
  if (!sent.ok()) co_return fail(std::move(sent.status));
  if (sent.body.empty()) co_return wire::TakeTabletReply();  // from a server of an earlier version
  co_return decode_message<wire::TakeTabletReply>(sent);
}

Task<Status> Notifier::drop_tablet(uint64_t server_id, wire::DropTabletRequest request) {
  RpcReply sent = co_await notify(server_id, wire::Opcode::kDropTablet, request);
  co_return std::move(sent.status);
}

template <typename Message>
Task<RpcReply> Notifier::notify(uint64_t server_id, wire::Opcode opcode, Message message) {
  BackOff back_off(options_.retry_min, options_.retry_max);
  while (state_.up_server(server_id) != nullptr) {
    message.term = state_.term;  // the term rises while a server refuses it
    RpcReply sent = co_await send(server_id, opcode, RpcClient::body_of(message));
    const bool of_the_term = term_claims_.refused(server_id, message.term, sent);
    if (sent.ok() || (sent.status == StatusCode::kStaleTerm && !of_the_term)) {
      co_return sent;
    }
    log_debug(
        "notifier.not_acknowledged",
        {{"server", server_id}, {"opcode", static_cast<int>(opcode)}, {"error", sent.status}});
    co_await reactor_.sleep(back_off.next(reactor_.random()));
  }
  RpcReply failed;
  failed.status = {StatusCode::kUnavailable, fmt::format("server {} is not UP", server_id)};
  co_return failed;
}

Task<RpcReply> Notifier::send(uint64_t server_id, wire::Opcode opcode, RpcClient::BodyFor body) {
  const auto locator = parse_locator(state_.servers.at(server_id).record.locator);
  if (!locator) {  // checked when it enlisted
    RpcReply failed;
    failed.status = locator.error();
    co_return failed;
  }
  co_return co_await rpc_.call_with(*locator, server_id, opcode, std::move(body),
                                    reactor_.now() + options_.timeout);
}

/// The version that the server has, if the changes since that version are known; otherwise 0.
uint64_t Notifier::base_for(const ServerEntry& server) const {
  const uint64_t acked = server.list_version_acked;
  return server.needs_whole_list || acked < state_.first_list_version ? 0 : acked;
}

const std::string& Notifier::encoded_list(uint16_t wire_version, uint64_t base) {
  const std::pair now{state_.term, state_.list_version};
  if (std::exchange(encoded_version_, now) != now) encoded_lists_.clear();
  std::string& list = encoded_lists_[{wire_version, base}];
  if (list.empty()) list = wire::encode(state_.server_list(base), wire_version);
  return list;
}

}  // namespace ramcloud
