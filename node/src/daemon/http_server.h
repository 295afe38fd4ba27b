// /metrics, /healthz, /readyz, /trace and /log-level of a daemon.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/status.h"
#include "base/text.h"

namespace ramcloud::daemon {

/// Answers with an empty string when all is well, else with what is not.
using HealthCheck = std::function<std::string()>;

/// Serves from a thread of its own; the checks are called from it.
class HttpServer {
 public:
  /// `trace` gives the time-trace as JSON.
  HttpServer(MetricsRegistry& metrics, std::function<std::string()> trace, HealthCheck healthy,
             HealthCheck ready);
  ~HttpServer();
  /// Gives the address actually bound (port 0 asks for any).
  Result<HostPort> start(const HostPort& address);
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ramcloud::daemon
