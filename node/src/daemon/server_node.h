// A storage server without its process: master and backup on one reactor, over whatever transport,
// disk and clock it is given. `ramcloudd server` runs it on TCP and real files, simulation runs the
// same on virtual ones.
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
#include "transport/transport.h"
#include "wire/control_messages.h"

namespace ramcloud::daemon {

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
  uint64_t huge_page_bytes = 0;  // of pages set aside, which the log is made of; 0: ordinary ones
  uint64_t hash_table_bytes = 32u << 20;
  uint64_t backup_bytes = 1u << 30;
  uint32_t replicas = 2;
  uint32_t min_replicas = 0;  // 0: max(1, replicas - 1)
  Duration flush_interval = 10ms;
  bool synced = false;                 // writes are acknowledged when they are on the device
  uint64_t read_bytes_per_second = 0;  // of the backup's device; 0: measured at start
  bool prefault = true;                // touch all memory at start; simulation does without
};

class ServerNode {
 public:
  /// Everything passed in outlives it. `on_fatal` is called at most once, from a later turn: this
  /// server must end (it was condemned, or its volume belongs elsewhere); the status says why.
  ServerNode(Reactor& reactor, Transport& transport, Disk& disk, MetricsRegistry& metrics,
             ServerNodeOptions options, std::function<void(Status)> on_fatal);
  ~ServerNode();

  /// Opens the backup volume and begins to enlist; serves once that has succeeded. The registry
  /// must then be given to Transport::listen().
  Status start();
  ServiceRegistry& registry();
  /// Clean stop: what replicas hold is written down and synced, then `done` is called (later).
  void shut_down(std::function<void(Status)> done);

  /// Enlisted, and the backup volume open. Any thread.
  bool ready() const;
  /// 0 before enlisting. Any thread.
  uint64_t server_id() const;
  /// As of the last half second. Any thread.
  wire::ServerStats stats() const;
  /// The state of the layers, checked by tests and simulation between turns; the first thing that
  /// is wrong, or empty.
  std::string check_invariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ramcloud::daemon
