// One of a server's reactors: what it serves and calls with, and on_turn(), the list of what each
// of its turns does (docs/design/runtime.md#turns). A server has one or several; the first does
// what the others leave to it.
//
// Threads: made and destroyed while no reactor turns. After that everything is its own reactor's,
// except functions that are marked "any thread".
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "backup/backup_lane.h"
#include "base/metrics.h"
#include "master/data_plane.h"
#include "replication/reactor_role.h"
#include "replication/replica_manager.h"
#include "rpc/rpc.h"
#include "runtime/epoch.h"
#include "runtime/reactor.h"
#include "server/cleaning.h"
#include "server/enlistment.h"
#include "server/forwarder.h"
#include "server/master.h"
#include "server/peer_pings.h"
#include "transport/transport.h"

namespace ramcloud::server {

class ServerReactor final : public TurnHook {
 public:
  /// `index`: 0 is the first. Everything passed in outlives this.
  ServerReactor(Reactor& reactor, Transport& transport, MetricsRegistry& metrics, Epochs& epochs,
                size_t index);
  ~ServerReactor() override;
  ServerReactor(const ServerReactor&) = delete;
  ServerReactor& operator=(const ServerReactor&) = delete;

  /// Before it turns: requests that it does not serve go to the first reactor. `bytes` counts the
  /// copies of all reactors.
  void forward_to(ServerReactor& first, std::atomic<uint64_t>& bytes);
  /// Writes to replicas are served by `lane` from now on, other requests by the first reactor.
  /// After forward_to().
  void serve_replicas(BackupLane& lane);
  /// The server has its id: its store is served from now on.
  void serve(Master& master);
  /// This is the first reactor, which decides what becomes of replicas, and sweeps. After serve().
  /// `cleaning`: null if nobody cleans.
  void lead(Master& master, Cleaning* cleaning, Enlistment& enlistment, PeerPings& peers);

  /// Its turn, in order. Reactor::turn() has received before: each whole request that the transport
  /// read went to its handler, and what backups answered is noted in the calls.
  bool on_turn() override;

  /// Any thread: the log moved, see master::DataPlane.
  void on_log_progress() { plane_.on_log_progress(); }

  Reactor& reactor() { return reactor_; }
  Transport& transport() { return plane_.registry().transport(); }
  RpcClient& rpc() { return rpc_; }
  ServiceRegistry& registry() { return plane_.registry(); }
  master::DataPlane& plane() { return plane_; }
  Counter& replica_messages() { return replica_messages_; }
  Counter& replica_writes() { return replica_writes_; }

 private:
  bool replicate() RC_REQUIRES(here_);
  bool settle() RC_REQUIRES(here_);
  bool acknowledge_replicas() RC_REQUIRES(here_);
  void report() RC_REQUIRES(here_);
  void reclaim() RC_REQUIRES(here_);
  bool sweep() RC_REQUIRES(here_);
  bool clean() RC_REQUIRES(here_);

  /// What a reactor needs that sends to the backups itself what it appended.
  struct Replication {
    ReplicaManager* manager;
    ReplicaLane* lane;
  };
  /// What the first reactor alone does.
  struct Lead {
    Master* master;
    Cleaning* cleaning;
    Enlistment* enlistment;
    PeerPings* peers;
  };

  Reactor& reactor_;
  size_t index_;
  Epochs::Participant participant_;
  RpcClient rpc_;
  Counter& replica_messages_;
  Counter& replica_writes_;
  master::DataPlane plane_;
  std::optional<Forwarder> forwarder_;  // not of the first
  ReactorRole here_;
  std::optional<Replication> replication_ RC_GUARDED_BY(here_);
  BackupLane* backup_lane_ RC_GUARDED_BY(here_) = nullptr;
  std::optional<Lead> lead_ RC_GUARDED_BY(here_);
};

}  // namespace ramcloud::server
