// A storage server without its process: master and backup over whatever reactors, transports, disk
// and clock it is given. `ramcloudd server` runs it on TCP and real files, simulation runs the same
// on virtual ones.
//
// With several reactors all of them serve data, from one store, and write to replicas; everything
// else (what decides in the backup and in replication, what the coordinator asks) belongs to the
// first, and the others forward such requests to it (docs/design/runtime.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
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

struct ServerNodeOptions {
  std::vector<Locator> coordinators;
  Locator locator;              // that others reach us by, inside the cluster
  std::string locator_outside;  // empty: not reachable from outside
  std::string http_address;     // shown to people
  std::string name;
  std::string failure_domain;
  std::string version;
  std::string backup_dir;  // of the frames file; or a block device
  uint64_t log_bytes = 256u << 20;
  uint64_t log_bytes_most = 0;   // that it may be resized to; 0: no more than log_bytes
  uint64_t huge_page_bytes = 0;  // of pages set aside, which the log is made of; 0: ordinary ones
  uint64_t hash_table_bytes = 32u << 20;
  uint64_t backup_bytes = 1u << 30;
  uint32_t replicas = 2;
  uint32_t min_replicas = 0;  // 0: max(1, replicas - 1)
  Duration flush_interval = 10ms;
  Duration read_lease = 500ms;             // the same on coordinators
  Duration backup_silence = 1s;            // 0: a master gives up no backup for its silence
  bool synced = false;                     // writes are acknowledged when they are on the device
  uint64_t read_bytes_per_second = 0;      // of the backup's device; 0: measured at start
  uint64_t recovery_bytes_per_second = 0;  // of dead servers' logs that are replayed; 0: no limit
  CleaningOptions cleaning;
  bool prefault = true;  // touch all memory at start; simulation does without
};

/// A reactor besides the first, with its transport, and where its part of the counters goes.
struct ReactorResources {
  Reactor& reactor;
  Transport& transport;
  MetricsRegistry& metrics;
};

class ServerNode {
 public:
  /// Everything passed in outlives it. `on_fatal` is called at most once, from a later turn: this
  /// server must end (it was condemned, or its volume belongs elsewhere); the status says why.
  /// Made and destroyed while no reactor turns. `more`: at most 255.
  ServerNode(Reactor& reactor, Transport& transport, Disk& disk, MetricsRegistry& metrics,
             ServerNodeOptions options, std::function<void(Status)> on_fatal,
             const std::vector<ReactorResources>& more = {});
  ~ServerNode();

  /// Opens the backup volume and begins to enlist; serves once that has succeeded. The registry
  /// must then be given to Transport::listen().
  Status start();
  ServiceRegistry& registry() { return registry(0); }
  /// What answers on each reactor: 0 is the first, then `more`.
  ServiceRegistry& registry(size_t reactor);
  /// Before shut_down(), if the server is asked to stop: others are to serve what it has, without
  /// finding out. `done` is called later, whether or not the coordinator could be told; the server
  /// answers no data operation any more. A server without replicas, or one that is not enlisted,
  /// goes on as it was. On the first reactor's thread; `done` must not destroy this.
  void announce_stop(std::function<void(Status)> done);
  /// Clean stop: what replicas hold is written down and synced, then `done` is called (later).
  void shut_down(std::function<void(Status)> done);

  /// Enlisted, and the backup volume open. Any thread.
  bool ready() const;
  /// Why clients should not be sent here: not enlisted yet, or its cluster ended; empty when they
  /// should. Any thread.
  std::string why_not_ready() const;
  /// 0 before enlisting. Any thread.
  uint64_t server_id() const;
  /// As of the last half second. Any thread.
  wire::ServerStats stats() const;
  /// What simulation looks at from outside, between turns. Of a master that is not enlisted yet
  /// `store` is null; `replicas` is null with R = 0.
  struct Parts {
    const ServerList& servers;
    const FrameStore* frames = nullptr;
    const ReplicaService* backup = nullptr;
    store::ObjectStore* store = nullptr;
    ReplicaManager* replicas = nullptr;
  };
  Parts parts() const;
  /// The state of the layers, checked by tests and simulation between turns; the first thing that
  /// is wrong, or empty.
  std::string check_invariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ramcloud::server
