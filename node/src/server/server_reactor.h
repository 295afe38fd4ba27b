// One of a server's reactors: its services, its RPC client, and on_turn(), the list of steps of
// each turn (docs/design/runtime.md#turns). A server has one or several reactors; some steps run
// only on the first.
//
// Threads: construct and destroy it while no reactor runs. In between, everything runs on its own
// reactor, except functions that are marked "any thread".
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
  /// `index`: 0 is the first. All arguments outlive this.
  ServerReactor(Reactor& reactor, Transport& transport, MetricsRegistry& metrics, Epochs& epochs,
                size_t index);
  ~ServerReactor() override;
  ServerReactor(const ServerReactor&) = delete;
  ServerReactor& operator=(const ServerReactor&) = delete;

  /// Call it before the reactor runs. Requests that this reactor does not serve go to the first
  /// reactor. `bytes` counts the copies of all reactors.
  void forward_to(ServerReactor& first, std::atomic<uint64_t>& bytes);
  /// Writes to replicas are served by `lane` from now on, other requests by the first reactor.
  /// After forward_to().
  void serve_replicas(BackupLane& lane);
  /// Called when the server has its id: serves its store from now on.
  void serve(Master& master);
  /// Makes this the first reactor, which decides about replicas and runs the steps of `FirstSteps`.
  /// After serve(). `cleaning`: null if cleaning is off.
  void make_first(Master& master, Cleaning* cleaning, Enlistment& enlistment, PeerPings& peers);

  /// The steps of a turn, in order. Before that, Reactor::turn() has received: each complete
  /// request went to its handler, and the backups' answers are stored in their calls.
  bool on_turn() override;

  /// Any thread: the log made progress, see master::DataPlane.
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
  bool manage_replicas() RC_REQUIRES(here_);
  bool acknowledge_replicas() RC_REQUIRES(here_);
  void report() RC_REQUIRES(here_);
  void reclaim() RC_REQUIRES(here_);
  bool sweep() RC_REQUIRES(here_);
  bool clean() RC_REQUIRES(here_);

  /// What a reactor needs to send what it appended to the backups.
  struct Replication {
    ReplicaManager* manager;
    ReplicaLane* lane;
  };
  /// What only the first reactor needs.
  struct FirstSteps {
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
  std::optional<Forwarder> forwarder_;  // not on the first reactor
  ReactorRole here_;
  std::optional<Replication> replication_ RC_GUARDED_BY(here_);
  BackupLane* backup_lane_ RC_GUARDED_BY(here_) = nullptr;
  std::optional<FirstSteps> first_steps_ RC_GUARDED_BY(here_);
};

}  // namespace ramcloud::server
