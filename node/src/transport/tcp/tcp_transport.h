// The transport that works everywhere: TCP sockets through epoll (docs/design/wire.md).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "runtime/epoll_source.h"
#include "runtime/reactor.h"
#include "runtime/resolver.h"
#include "transport/transport.h"

namespace ramcloud {

namespace tcp {
class TcpSession;
class TcpServer;
struct TcpContext;
}  // namespace tcp

/// Limits of what peers can make a server hold (docs/design/wire.md#limits). Every limit has its
/// counter in ramcloud_transport_limited_total.
struct TcpOptions {
  /// The most connections; a further one is closed at once.
  uint32_t max_connections = 10'000;
  /// The same for one peer address; 0: no such limit. Behind NAT many clients share an address.
  uint32_t max_connections_per_peer = 0;
  /// The most connections without a hello; a further one closes the oldest of them.
  uint32_t max_silent_connections = 1'024;
  /// The most unsent output for a slow reader; above this its connection is closed.
  uint64_t max_pending_bytes = 64u << 20;
  /// The most unanswered requests of a connection; then no more are read until half are answered.
  uint32_t max_outstanding = 4'096;
  /// Memory for messages of all accepted connections: buffered input, results in progress, held
  /// replies, unsent output. Replies wait when three quarters are used; above the limit,
  /// connections with the oldest incomplete message are closed.
  uint64_t max_buffered_bytes = 256u << 20;
  /// How long a new connection may take to say hello.
  Duration hello_timeout = 10s;
  /// How long a peer may take to send the rest of a message, or to take the output that waits for
  /// it.
  Duration message_timeout = 30s;
  /// How long connecting may take: looking the name up, the connection, and the hello.
  Duration connect_timeout = 5s;
  /// The highest protocol version; tests lower it to act as an earlier version.
  uint16_t highest_version = wire::kVersionMax;
  /// Null: host names are looked up by the system. Tests replace it.
  Resolver::LookUp look_up = nullptr;
};

class TcpTransport final : public Transport {
 public:
  /// `metrics` may be null. The reactor, the source and the registry outlive the transport and its
  /// sessions.
  TcpTransport(Reactor& reactor, EpollSource& source, const TcpOptions& options = {},
               MetricsRegistry* metrics = nullptr);
  ~TcpTransport() override;

  Result<std::shared_ptr<Session>> connect(const Locator& locator,
                                           const PeerIdentity& expected) override;
  Result<HostPort> listen(const HostPort& address, Side side, RequestHandler& handler) override;
  /// Hands connections over to transports on other reactors of the same server, in rotation, and
  /// keeps a share. A connection is handed over with its first request whose opcode `anywhere`
  /// accepts; a connection without such a request stays. Call it before listen(). The others must
  /// outlive this one; their reactors may run. (SO_REUSEPORT would spread by a hash of addresses: a
  /// few clients could all meet on one reactor, and other servers' messages would arrive anywhere.)
  void spread_over(const std::vector<TcpTransport*>& others, bool (*anywhere)(uint16_t opcode));
  /// Sets the handler for requests of connections that are handed over to this transport. Call it
  /// before that happens.
  void serve_handed_over(RequestHandler& handler);
  void set_identity(const PeerIdentity& self) override;
  /// The listener is called on the reactor when the memory of large messages was freed and not
  /// needed for some seconds; the heap has it then. Call it before listen().
  void on_memory_freed(std::function<void()> listener);
  void reply(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body) override;
  void reply_owned(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body,
                   std::string&& tail) override;
  bool has_room(const ReplyHandle& handle, uint64_t bytes) const override;
  void charge(const ReplyHandle& handle, int64_t bytes) override;
  bool is_open(const ReplyHandle& handle) const override;
  uint64_t closed_connections() const override;
  void begin_replies() override;
  void end_replies() override;

 private:
  std::shared_ptr<tcp::TcpContext> context_;
  std::unique_ptr<tcp::TcpServer> server_;
};

}  // namespace ramcloud
