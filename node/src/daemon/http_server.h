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

/// Returns an empty string when all is well, else the problem.
using HealthCheck = std::function<std::string()>;

struct HttpOptions {
  uint32_t max_connections = 64;  // at once; beyond it, one without a request is closed
  Duration request_timeout = 5s;  // for the request, and again for the answer
};

/// Serves from a few threads of its own; the checks are called from them. A connection is given to
/// them when its request is there as a whole, and carries only that one.
class HttpServer {
 public:
  /// `trace` gives the time-trace as JSON.
  HttpServer(MetricsRegistry& metrics, std::function<std::string()> trace, HealthCheck healthy,
             HealthCheck ready, const HttpOptions& options = {});
  ~HttpServer();
  /// Gives the address actually bound (port 0 asks for any).
  Result<HostPort> start(const HostPort& address);
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ramcloud::daemon
