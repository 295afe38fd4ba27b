// /metrics, /healthz, /readyz, /trace and /log-level of a daemon.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "base/text.h"

namespace ramcloud::daemon {

/// Returns an empty string if healthy, otherwise the problem.
using HealthCheck = std::function<std::string()>;

struct HttpOptions {
  uint32_t max_connections = 64;  // above it, a connection without a request is closed
  Duration request_timeout = 5s;  // for the request, and again for the answer
};

/// Serves on its own threads, which also call the checks. A thread gets a connection when its
/// request has arrived completely; each connection serves one request.
class HttpServer {
 public:
  /// `trace` returns the time-trace as JSON.
  HttpServer(MetricsRegistry& metrics, std::function<std::string()> trace, HealthCheck healthy,
             HealthCheck ready, const HttpOptions& options = {});
  ~HttpServer();
  /// Returns the bound address (port 0: any free port).
  Result<HostPort> start(const HostPort& address);
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ramcloud::daemon
