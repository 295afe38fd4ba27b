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
    /// Without master_id and lease, which are the master's own. R = 0: nothing is replicated.
    ReplicaManager::Options replication;
    /// log::Log::set_progress_listener(), and LeaseTerm's; may be null.
    std::function<void()> on_progress;
  };
  /// A reactor that sends what it appended to the backups, over sessions of its own.
  struct LaneOf {
    RpcClient* rpc;
    Counter* messages;
  };

  /// On the first reactor, which is that of `rpc`. `lanes`: of all reactors, or none if there is
  /// one. `epochs` are those of all reactors. Everything passed in outlives this.
  Master(RpcClient& rpc, ServerList& servers, Epochs& epochs, log::Arena& memory,
         store::HashTable::Memory table_memory, std::span<const LaneOf> lanes, Options options);
  Master(const Master&) = delete;
  Master& operator=(const Master&) = delete;

  log::Log& log() { return log_; }
  store::ObjectStore& store() { return store_; }
  /// What this master may tell from memory goes by it.
  LeaseTerm& lease() { return lease_; }
  /// Null with R = 0.
  ReplicaManager* replicas() { return replicas_.get(); }
  /// Null if this reactor drives no replication: there is only one, which does it in its own part
  /// of the turn, or R = 0.
  ReplicaLane* lane(size_t reactor) { return reactor < lanes_.size() ? lanes_[reactor] : nullptr; }

  /// A step of the first reactor's turn: deletes that have become durable leave the hash table, at
  /// most kSweptPerTurn of them. True if anything was done.
  bool sweep();
  static constexpr uint32_t kSweptPerTurn = 128;  // about 20 us

  /// A step of the first reactor's turn: the memory of segments that left the log is used again,
  /// after a grace period.
  void reclaim();

  /// The first thing that is wrong, or empty. Between turns.
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
  log::LogPosition swept_;  // everything up to it
  TaskScope tasks_;
  Timer reclaim_timer_;
};

}  // namespace ramcloud::server
