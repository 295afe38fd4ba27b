// Asks the coordinator which of the dead masters whose replicas are here were recovered, and frees
// their frames (docs/design/recovery.md, "Freeing frames").
#pragma once

#include <vector>

#include "backup/replica_service.h"
#include "client/coordinator_link.h"
#include "rpc/rpc.h"
#include "runtime/reactor.h"

namespace ramcloud::server {

class FrameRelease {
 public:
  /// After a master died or was recovered; doubled with each question that changes nothing.
  static constexpr Duration kAskFirst = std::chrono::seconds(2);
  static constexpr Duration kAskEvery = std::chrono::seconds(60);

  /// Begins. `backup` outlives it.
  FrameRelease(RpcClient& rpc, std::vector<Locator> coordinators, ReplicaService& backup);
  FrameRelease(const FrameRelease&) = delete;
  FrameRelease& operator=(const FrameRelease&) = delete;

 private:
  Task<void> run();
  Task<void> ask(std::vector<uint64_t> masters);
  static Duration next_wait(Duration wait, bool same);

  Reactor& reactor_;
  CoordinatorLink coordinators_;
  ReplicaService& backup_;
  TaskScope tasks_;
};

}  // namespace ramcloud::server
