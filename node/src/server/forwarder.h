// Requests that a reactor of a server received and does not serve: they are the first reactor's
// (docs/design/runtime.md#several-reactors-in-a-server).
#pragma once

#include <atomic>
#include <cstdint>

#include "rpc/rpc.h"
#include "runtime/reactor.h"
#include "transport/transport.h"

namespace ramcloud::server {

/// True for requests that any reactor of a server can serve: a connection whose next request is one
/// may be handed over to any.
bool any_reactor_serves(uint16_t opcode);

/// Of one reactor: gives such requests to the first one, with a copy of their body. Answers find
/// their way back through RoutedReplies.
class Forwarder {
 public:
  /// Copies that the first reactor did not come to yet, from all reactors; what comes above that is
  /// answered RETRY. A few of the largest requests, or tens of thousands of small ones.
  static constexpr uint64_t kMaxBytes = 16u << 20;
  static constexpr uint32_t kRetryAfterUs = 10'000;

  /// `first` is the first reactor and `registry` its services; `from` the number of the reactor
  /// that the requests came to by `transport`. `bytes` counts the copies of all reactors. All of
  /// them outlive this, and this what it has posted to the first reactor.
  Forwarder(Reactor& first, ServiceRegistry& registry, uint8_t from, Transport& transport,
            std::atomic<uint64_t>& bytes)
      : first_(first), registry_(registry), from_(from), transport_(transport), bytes_(bytes) {}
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  /// A ServiceRegistry::Handler. On the reactor that the request came to.
  static void forward(void* forwarder, const Request& request);

 private:
  Reactor& first_;
  ServiceRegistry& registry_;
  uint8_t from_;
  Transport& transport_;
  std::atomic<uint64_t>& bytes_;
};

}  // namespace ramcloud::server
