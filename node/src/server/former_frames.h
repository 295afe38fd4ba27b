// Asks masters that are UP which replicas in frames of this backup's earlier incarnations are not
// needed, and frees those frames (docs/design/recovery.md#former-frames-of-masters-that-live).
#pragma once

#include <cstdint>
#include <vector>

#include "backup/replica_service.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "runtime/reactor.h"

namespace ramcloud::server {

class FormerFrames {
 public:
  /// How soon all masters are asked after a change of the server list: soon, because until then they
  /// copy what could be adopted. Then they are asked less and less often, because they may have to
  /// copy segments first.
  static constexpr Duration kAskFirst = std::chrono::milliseconds(20);
  static constexpr Duration kAskEvery = std::chrono::seconds(20);

  /// Starts asking. `own_id`: of this incarnation. `servers` and `backup` outlive it.
  FormerFrames(RpcClient& rpc, ServerList& servers, uint64_t own_id, ReplicaService& backup);
  FormerFrames(const FormerFrames&) = delete;
  FormerFrames& operator=(const FormerFrames&) = delete;

 private:
  Task<void> run();
  Task<void> ask(uint64_t master_id, std::vector<uint64_t> segment_ids);

  RpcClient& rpc_;
  Reactor& reactor_;
  const ServerList& servers_;
  uint64_t own_id_;
  ReplicaService& backup_;
  Event list_changed_;
  ServerList::Subscription list_changes_;
  TaskScope tasks_;  // last: flows end before what they use
};

}  // namespace ramcloud::server
