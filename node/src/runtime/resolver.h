// Host names to addresses without blocking a reactor: getaddrinfo on a thread of its own.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/reactor.h"

namespace ramcloud {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// An address given in numbers, IPv4 or IPv6; INVALID_ARGUMENT for a name.
Result<SocketAddress> numeric_address(const std::string& host, uint16_t port);

/// Looks names up, each on a thread, so that a slow one does not delay the others. Threads are
/// started as they are needed, and stay. Destroying the resolver drops lookups in flight: their
/// callbacks are not called, and a hanging lookup does not block the owner.
class Resolver {
 public:
  using Addresses = std::vector<SocketAddress>;
  using Callback = std::function<void(Result<Addresses>)>;
  /// Blocks. Runs on the resolver's threads, for several names at the same time.
  using LookUp = std::function<Result<Addresses>(const std::string& host, uint16_t port)>;

  /// Without `look_up` (tests replace it) it asks the system.
  explicit Resolver(Reactor& reactor, LookUp look_up = nullptr);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// So many lookups run at the same time; more wait in their order.
  static constexpr size_t kMaxThreads = 8;
  /// Calls `done` on the reactor, in a later turn. UNAVAILABLE names the host that was not found. A
  /// name whose lookup waits or runs is not looked up again: both get its result.
  void resolve(const std::string& host, uint16_t port, Callback done);

 private:
  struct State;
  static void serve(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;
};

}  // namespace ramcloud
