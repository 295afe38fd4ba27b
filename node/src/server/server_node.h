// A storage server without its process: master and backup over the given reactors, transports, disk
// and clock. `ramcloudd server` runs it on TCP and real files; simulation runs the same code on
// virtual ones.
//
// With several reactors all of them serve data, from one store, and write to replicas; everything
// else (decisions of backup and replication, requests of the coordinator) runs on the first, and
// the others forward such requests to it (docs/design/runtime.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
#include "master/recovery_limits.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "runtime/disk.h"
#include "runtime/reactor.h"
#include "server/cleaning_options.h"
#include "transport/transport.h"
#include "wire/control_messages.h"

namespace ramcloud {
class FrameStore;
class ReplicaManager;
class ReplicaService;
namespace store {
class ObjectStore;
}
}  // namespace ramcloud

namespace ramcloud::server {

class LogResize;

struct ServerNodeOptions {
  std::vector<Locator> coordinators;
  Locator locator;              // our address for peers inside the cluster
  std::string locator_outside;  // empty: not reachable from outside
  std::string http_address;     // shown in the status
  std::string name;
  std::string failure_domain;
  std::string version;
  std::string backup_dir;  // folder of the frames file, or a block device
  uint64_t log_bytes = 256u << 20;
  uint64_t log_bytes_most = 0;   // the log may be resized up to this; 0: up to log_bytes
  uint64_t huge_page_bytes = 0;  // size of reserved huge pages for the log; 0: ordinary pages
  uint64_t hash_table_bytes = 32u << 20;
  uint64_t backup_bytes = 1u << 30;
  uint32_t replicas = 2;
  uint32_t min_replicas = 0;  // 0: max(1, replicas - 1)
  Duration flush_interval = 10ms;
  /// Sent when the server enlists: the coordinator waits for the lease of this server.
  Duration read_lease = 500ms;
  Duration backup_silence = 1s;  // 0: silence never makes a master give up a backup
  /// How long a master waits for the closed replicas of a backup that stopped by a plan.
  Duration restart_grace = 30s;
  bool synced = false;                 // writes are acknowledged when they are on the device
  uint64_t read_bytes_per_second = 0;  // speed of the backup's device; 0: measured at start
  master::RecoveryLimits recovery;
  CleaningOptions cleaning;
  bool prefault = true;  // touch all memory at start; simulation does without
};

/// A reactor besides the first, with its transport and the registry of its metrics.
struct ReactorResources {
  Reactor& reactor;
  Transport& transport;
  MetricsRegistry& metrics;
};

class ServerNode {
 public:
  /// All arguments outlive it. `on_fatal` is called at most once, in a later turn: the server must
  /// end (it was given up, or its volume belongs to another cluster); the status says why.
  /// Construct and destroy it while no reactor runs. `more`: at most 255.
  ServerNode(Reactor& reactor, Transport& transport, Disk& disk, MetricsRegistry& metrics,
             ServerNodeOptions options, std::function<void(Status)> on_fatal,
             const std::vector<ReactorResources>& more = {});
  ~ServerNode();

  /// Opens the backup volume and begins to enlist; serves once that has succeeded. The registry
  /// must then be given to Transport::listen().
  Status start();
  ServiceRegistry& registry() { return registry(0); }
  /// The services of each reactor: 0 is the first, then `more`.
  ServiceRegistry& registry(size_t reactor);
  /// Call it before shut_down() for a planned stop (planned_stop.h): other servers take over
  /// without failure detection. `done` is called later, even if the coordinator could not be told;
  /// then the server answers no data operation any more. Without replicas, or if not enlisted,
  /// nothing changes. On the first reactor's thread; `done` must not destroy this.
  void announce_stop(std::function<void(Status)> done);
  /// Clean stop: writes the lengths of replicas to their metadata and syncs, then calls `done`
  /// (later).
  void shut_down(std::function<void(Status)> done);

  /// Enlisted, and the backup volume open. Any thread.
  bool ready() const;
  /// Why the server is not ready for clients: not enlisted yet, or its cluster ended. Empty if it
  /// is ready. Any thread.
  std::string why_not_ready() const;
  /// 0 before enlisting. Any thread.
  uint64_t server_id() const;
  /// As of the last half second. Any thread.
  wire::ServerStats stats() const;
  /// Parts that simulation inspects between turns. `store` is null before enlisting; `replicas` is
  /// null with R = 0.
  struct Parts {
    const ServerList& servers;
    const FrameStore* frames = nullptr;
    const ReplicaService* backup = nullptr;
    store::ObjectStore* store = nullptr;
    ReplicaManager* replicas = nullptr;
    LogResize* resize = nullptr;
  };
  Parts parts() const;
  /// Checks the state of all layers, for tests and simulation between turns. Returns the first
  /// broken invariant, or empty.
  std::string check_invariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ramcloud::server
