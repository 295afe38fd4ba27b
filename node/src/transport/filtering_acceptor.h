// Accepts connections of a port for a library with its own threads (HTTP, gRPC), and filters them.
// The library gets a connection only when its first bytes have arrived and are valid. A peer that
// sends nothing, garbage, or half a request costs a descriptor for some time, but never a thread or
// memory of the library.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "base/text.h"
#include "runtime/unique_fd.h"

namespace ramcloud {

class FilteringAcceptor {
 public:
  struct Options {
    std::string port = {};         // "http" or "admin": the metrics' label, and the thread's name
    uint32_t max_connections = 0;  // connections that wait, plus those that the library has
    size_t max_first_bytes = 8192;
    Duration first_bytes_timeout = 5s;
  };
  enum class Verdict : uint8_t { kWait, kAdmit, kRefuse };
  /// Judges the first bytes that have arrived so far; on the acceptor's thread.
  using Judge = std::function<Verdict(ByteView first_bytes)>;
  /// Gives a connection to the library: non-blocking, with its first bytes unread. On the acceptor's
  /// thread.
  using Admit = std::function<void(UniqueFd)>;

  /// `metrics` outlives it.
  FilteringAcceptor(Options options, Judge judge, Admit admit, MetricsRegistry& metrics);
  /// As stop().
  ~FilteringAcceptor();
  FilteringAcceptor(const FilteringAcceptor&) = delete;
  FilteringAcceptor& operator=(const FilteringAcceptor&) = delete;

  /// Starts accepting; returns the bound address (port 0: any free port).
  Result<HostPort> start(const HostPort& address);
  /// Closes the port and waiting connections; after it returns no connection is admitted.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ramcloud
