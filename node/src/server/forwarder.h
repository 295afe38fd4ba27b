// Requests that arrive at a reactor but belong to the first reactor
// (docs/design/runtime.md#several-reactors-in-a-server).
#pragma once

#include <atomic>
#include <cstdint>

#include "rpc/rpc.h"
#include "runtime/reactor.h"
#include "transport/transport.h"

namespace ramcloud::server {

/// True for requests that any reactor of a server can serve: a connection whose next request is
/// such a request may be handed over to any reactor.
bool any_reactor_serves(uint16_t opcode);

/// Forwards such requests of one reactor to the first, with a copy of the body. RoutedReplies
/// routes the answers back.
class Forwarder {
 public:
  /// Bytes of copies that the first reactor has not handled yet, from all reactors; above that,
  /// requests are answered RETRY. Enough for a few of the largest requests, or tens of thousands of
  /// small ones.
  static constexpr uint64_t kMaxBytes = 16u << 20;
  static constexpr uint32_t kRetryAfterUs = 10'000;

  /// `first` is the first reactor and `registry` its services; `from` is the number of the reactor
  /// that receives the requests by `transport`. `bytes` counts the copies of all reactors. All
  /// arguments outlive this, and this outlives what it has posted to the first reactor.
  Forwarder(Reactor& first, ServiceRegistry& registry, uint8_t from, Transport& transport,
            std::atomic<uint64_t>& bytes)
      : first_(first), registry_(registry), from_(from), transport_(transport), bytes_(bytes) {}
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  /// A ServiceRegistry::Handler. Runs on the reactor that received the request.
  static void forward(void* forwarder, const Request& request);

 private:
  Reactor& first_;
  ServiceRegistry& registry_;
  uint8_t from_;
  Transport& transport_;
  std::atomic<uint64_t>& bytes_;
};

}  // namespace ramcloud::server
