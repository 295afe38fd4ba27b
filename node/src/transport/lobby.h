// The front of a port whose protocol a library with threads of its own speaks (HTTP, gRPC). It
// accepts connections and keeps each until its first bytes are there and look right; only then does
// the library get it. A peer that sends nothing, garbage, or half of a request costs a descriptor
// for a while, and never a thread or memory of the library.
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

class Lobby {
 public:
  struct Options {
    std::string port = {};         // "http" or "admin": the metrics' label, and the thread's name
    uint32_t max_connections = 0;  // that wait, and that the library has, together
    size_t max_first_bytes = 8192;
    Duration first_bytes_timeout = 5s;
  };
  enum class Verdict : uint8_t { kWait, kAdmit, kRefuse };
  /// What the first bytes that have come so far mean; on the lobby's thread.
  using Judge = std::function<Verdict(ByteView first_bytes)>;
  /// Takes a connection over: non-blocking, with its first bytes still to be read. On the lobby's
  /// thread.
  using Admit = std::function<void(UniqueFd)>;

  /// `metrics` outlives it.
  Lobby(Options options, Judge judge, Admit admit, MetricsRegistry& metrics);
  /// As stop().
  ~Lobby();
  Lobby(const Lobby&) = delete;
  Lobby& operator=(const Lobby&) = delete;

  /// Begins to accept; gives the address bound (port 0 asks for any).
  Result<HostPort> start(const HostPort& address);
  /// Closes the port and what still waits; nobody is admitted any more when it returns.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ramcloud
