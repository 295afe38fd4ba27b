// The daemons as they run on a real machine: a role with its reactor, transport, disk, threads and
// HTTP endpoint.
#pragma once

#include <memory>

#include "base/metrics.h"
#include "daemon/options.h"
#include "daemon/signals.h"

namespace ramcloud::daemon {

class HttpServer;

/// One storage server on reactor threads of its own.
class ServerProcess {
 public:
  ServerProcess(ServerOptions options, StopSignals& signals);
  ~ServerProcess();
  /// Opens the volume, listens, starts the thread. Errors say what could not be opened or bound.
  Status start();
  bool ready() const;
  HostPort address() const;  // of the data RPC, as bound
  HostPort http_address() const;
  /// Before the end, when it was asked for: others are to serve what this server has. Waits for the
  /// coordinator's word, a few seconds at most. After start().
  void announce_stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One coordinator on a reactor thread of its own.
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

/// Run until told to stop; OK when that was by a signal.
Status run_server(const ServerOptions& options, StopSignals& signals);
Status run_coordinator(const CoordinatorOptions& options, StopSignals& signals);

}  // namespace ramcloud::daemon
