// Sends the coordinator's decisions to servers: the server list, and tablets to take and to drop. A
// notification is repeated until it is acknowledged or the server is no longer UP. All are
// idempotent, and carry the term, so that servers refuse those of a former leader.
#pragma once

#include "coordinator/core/term_claims.h"
#include "coordinator/metadata/cluster_state.h"
#include "rpc/rpc.h"

namespace ramcloud {

class Notifier {
 public:
  struct Options {
    Duration timeout = 1s;      // of one try
    Duration retry_min = 50ms;  // between tries, with jitter, doubled up to retry_max
    Duration retry_max = 500ms;
  };
  Notifier(RpcClient& rpc, ClusterState& state, TermClaims& term_claims, Options options)
      : reactor_(rpc.reactor()),
        rpc_(rpc),
        state_(state),
        term_claims_(term_claims),
        options_(options),
        scope_(reactor_) {}

  /// Sends the current list to every server that is UP and has an older one.
  void push_list();
  /// A probe showed which version of the list this server has.
  void server_has_list(uint64_t server_id, uint64_t version);

  /// OK when acknowledged. UNAVAILABLE: the server is not UP (any more); STALE_TERM: the server
  /// knows a later decision about this table.
  Task<Result<wire::TakeTabletReply>> take_tablet(uint64_t server_id,
                                                  wire::TakeTabletRequest request);
  Task<Status> drop_tablet(uint64_t server_id, wire::DropTabletRequest request);

 private:
  template <typename Message>
  Task<RpcReply> notify(uint64_t server_id, wire::Opcode opcode, Message message);
  Task<void> push_list_to(uint64_t server_id);
  Task<RpcReply> send(uint64_t server_id, wire::Opcode opcode, RpcClient::BodyFor body);
  uint64_t base_for(const ServerEntry& server) const;
  const std::string& encoded_list(uint16_t wire_version, uint64_t base);

  Reactor& reactor_;
  RpcClient& rpc_;
  ClusterState& state_;
  TermClaims& term_claims_;
  Options options_;
  /// The encoded list of encoded_version_, by protocol version and base: encoded once for all
  /// servers.
  std::map<std::pair<uint16_t, uint64_t>, std::string> encoded_lists_;
  std::pair<uint64_t, uint64_t> encoded_version_;  // term, version
  TaskScope scope_;
};

}  // namespace ramcloud
