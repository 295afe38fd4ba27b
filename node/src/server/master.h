// The parts of a server that exist only once it has its id: the master's log, its replication, and
// the store over it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "log/arena.h"
#include "log/log.h"
#include "replication/lease_term.h"
#include "replication/replica_manager.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "runtime/epoch.h"
#include "runtime/reactor.h"
#include "store/object_store.h"

namespace ramcloud::server {

class Master {
 public:
  struct Options {
    log::LogOptions log;  // with the server's id
    /// Master sets master_id and lease. R = 0: nothing is replicated.
    ReplicaManager::Options replication;
    /// log::Log::set_progress_listener(), and LeaseTerm's; may be null.
    std::function<void()> on_progress;
  };
  /// A reactor that sends what it appended to the backups, over its own sessions.
  struct LaneOf {
    RpcClient* rpc;
    Counter* messages;
  };

  /// On the first reactor, to which `rpc` belongs. `lanes`: one for each reactor, or empty if there
  /// is only one. `epochs`: of all reactors. All arguments outlive this.
  Master(RpcClient& rpc, ServerList& servers, Epochs& epochs, log::Arena& memory,
         store::HashTable::Memory table_memory, std::span<const LaneOf> lanes, Options options);
  Master(const Master&) = delete;
  Master& operator=(const Master&) = delete;

  log::Log& log() { return log_; }
  store::ObjectStore& store() { return store_; }
  /// Limits until when this master may answer from memory.
  LeaseTerm& lease() { return lease_; }
  /// Null with R = 0.
  ReplicaManager* replicas() { return replicas_.get(); }
  /// Null if this reactor has no lane: with one reactor (replicas() sends everything), or R = 0.
  ReplicaLane* lane(size_t reactor) { return reactor < lanes_.size() ? lanes_[reactor] : nullptr; }

  /// A step of the first reactor's turn: removes deletes that have become durable from the hash
  /// table, at most kSweptPerTurn. True if anything was done.
  bool sweep();
  static constexpr uint32_t kSweptPerTurn = 128;  // about 20 us

  /// A step of the first reactor's turn: reuses the memory of segments that left the log, after a
  /// grace period.
  void reclaim();

  /// The first broken invariant, or empty. Call it between turns.
  std::string check_invariants();

 private:
  Task<void> reclaim_retired();

  Reactor& reactor_;
  Epochs& epochs_;
  LeaseTerm lease_;
  std::unique_ptr<ReplicaManager> replicas_;
  std::vector<ReplicaLane*> lanes_;  // by reactor
  log::NullReplicator no_replicas_;
  log::Log log_;
  store::ObjectStore store_;
  log::LogPosition swept_;  // the position up to which sweep() is done
  TaskScope tasks_;
  Timer reclaim_timer_;
};

}  // namespace ramcloud::server
