// The daemons as they run on a real machine: a role with its reactor, transport, disk, threads and
// HTTP endpoint.
#pragma once

#include <memory>

#include "base/metrics.h"
#include "daemon/options.h"
#include "daemon/signals.h"

namespace ramcloud::daemon {

class HttpServer;

/// One storage server on its own reactor threads.
class ServerProcess {
 public:
  ServerProcess(ServerOptions options, StopSignals& signals);
  ~ServerProcess();
  /// Opens the volume, listens, starts the thread. Errors say what could not be opened or bound.
  Status start();
  bool ready() const;
  HostPort address() const;  // of the data RPC, as bound
  HostPort http_address() const;
  /// Announces a planned stop, so that other servers take over. Waits a few seconds at most for the
  /// coordinator. After start().
  void announce_stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One coordinator on its own reactor thread.
class CoordinatorProcess {
 public:
  CoordinatorProcess(CoordinatorOptions options, StopSignals& signals);
  ~CoordinatorProcess();
  Status start();
  bool ready() const;
  HostPort address() const;
  HostPort admin_address() const;
  HostPort http_address() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Run until asked to stop; OK if that was by a signal.
Status run_server(const ServerOptions& options, StopSignals& signals);
Status run_coordinator(const CoordinatorOptions& options, StopSignals& signals);

}  // namespace ramcloud::daemon
