// The admin API's gRPC server. gRPC has threads of its own; every call is posted to the
// coordinator's reactor, which alone reads the cluster's state. A standby answers UNAVAILABLE with
// the leader's addresses in the trailers.
#pragma once

#include <memory>

#include "base/text.h"
#include "coordinator/core/coordinator_node.h"

namespace ramcloud {

class AdminService {
 public:
  struct Options {
    size_t watch_backlog = 4096;  // events that a watcher may lag behind before it is closed
    size_t watchers = 1024;       // more are refused with RESOURCE_EXHAUSTED
    Duration longest_wait = 60s;  // of creating and dropping tables
    uint32_t max_connections = 256;
    Duration hello_timeout = 10s;  // for the first bytes, and for HTTP/2's settings
  };
  /// `node` and `metrics` outlive it.
  AdminService(CoordinatorNode& node, Options options, MetricsRegistry& metrics);
  /// As stop().
  ~AdminService();
  AdminService(const AdminService&) = delete;
  AdminService& operator=(const AdminService&) = delete;

  /// Starts serving; returns the bound address (port 0: any free port). On the reactor's thread, or
  /// before it runs.
  Result<HostPort> start(const HostPort& address);
  /// Ends all calls and watches (UNAVAILABLE) and waits until gRPC has released them. On the
  /// reactor's thread or after it has ended.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ramcloud
