// What one reactor needs to serve data from the store that all reactors of a server share: its
// services, the replies it holds and the requests it has parked. Several of them make a server with
// several reactors (docs/design/runtime.md); nothing in here is touched by another thread, except
// as said.
#pragma once

#include <memory>
#include <optional>

#include "base/metrics.h"
#include "master/data_service.h"
#include "master/held_replies.h"
#include "master/multi_service.h"
#include "master/parked_requests.h"
#include "replication/replica_manager.h"
#include "rpc/rpc.h"

namespace ramcloud::master {

/// True for requests that any reactor of a server can serve.
inline bool is_data_opcode(uint16_t opcode) {
  return opcode >= static_cast<uint16_t>(wire::Opcode::kRead) &&
         opcode <= static_cast<uint16_t>(wire::Opcode::kMultiDelete);
}

class DataPlane final : public TurnHook {
 public:
  DataPlane(Reactor& reactor, Transport& transport, MetricsRegistry& metrics);
  ~DataPlane() override;

  ServiceRegistry& registry() { return registry_; }
  HeldReplies& replies() { return replies_; }
  const DataService& data() const { return data_; }

  /// What a reactor that replicates what it appended has for that.
  struct Replication {
    ReplicaManager* manager;
    ReplicaLane* lane;
  };
  /// From now on this store is served; on this reactor's thread. No `replication`: that is not
  /// needed (one reactor, on which the manager has a turn of its own, or no replicas).
  void attach(store::ObjectStore& store, std::optional<Replication> replication);
  /// The log's durable position rose, or a new head takes data: wakes this reactor if replies or
  /// requests wait for it. Any thread.
  void on_log_progress() {
    if (replies_.waiting() || parked_.waiting()) reactor_.nudge();
  }
  /// At the end of a turn: what was appended in it goes to the backups, and what became durable in
  /// it is answered.
  bool on_turn() override;

 private:
  Reactor& reactor_;
  std::optional<Replication> replication_;
  ServiceRegistry registry_;
  HeldReplies replies_;
  ParkedRequests parked_;
  DataService data_;
  MultiService multi_;
  log::Log* log_ = nullptr;
  log::LogPosition driven_;  // end of the log when this reactor last drove replication
};

}  // namespace ramcloud::master
