// The transport that works everywhere: TCP sockets through epoll (docs/design/wire.md).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "runtime/epoll_source.h"
#include "runtime/reactor.h"
#include "transport/transport.h"

namespace ramcloud {

namespace tcp {
class TcpSession;
class TcpServer;
struct TcpContext;
}  // namespace tcp

/// What a server lets its peers hold (docs/design/wire.md, "Limits"). Every limit has its counter
/// in ramcloud_transport_limited_total.
struct TcpOptions {
  /// Connections served at once; one more is closed at once.
  uint32_t max_connections = 10'000;
  /// The same for one peer address; 0: no limit of its own. Behind a translation of addresses many
  /// clients have one.
  uint32_t max_connections_per_peer = 0;
  /// Connections that have not said hello; one more closes the oldest of them.
  uint32_t max_silent_connections = 1'024;
  /// Output that may wait for a slow reader; above, its connection is closed.
  uint64_t max_pending_bytes = 64u << 20;
  /// Requests of one connection that are not answered yet; more are not read from it until half
  /// are.
  uint32_t max_outstanding = 4'096;
  /// Memory for messages of all accepted connections: input that is buffered, replies in the
  /// making, replies that wait, unsent output. Replies wait when three quarters are taken; above
  /// the limit the connections whose message is in flight the longest are closed.
  uint64_t max_buffered_bytes = 256u << 20;
  /// How long a new connection may take to say hello.
  Duration hello_timeout = 10s;
  /// How long a peer may take to send the rest of a message, or to take the output that waits for
  /// it.
  Duration message_timeout = 30s;
  /// How long connecting may take: looking the name up, the connection, and the hello.
  Duration connect_timeout = 5s;
  /// Of the protocol; lower ones stand for former builds, in tests.
  uint16_t highest_version = wire::kVersionMax;
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
  /// keeps a share. A connection goes with its first request whose opcode may be served `anywhere`;
  /// one that never makes such a request stays. Call it before listen(). The others must outlive
  /// this one; their reactors may run. (SO_REUSEPORT would spread by a hash of addresses: a few
  /// clients could all meet on one reactor, and other servers' messages would arrive anywhere.)
  void spread_over(const std::vector<TcpTransport*>& others, bool (*anywhere)(uint16_t opcode));
  /// What answers requests of connections that another transport gives to this one. Before that.
  void serve_handed_over(RequestHandler& handler);
  void set_identity(const PeerIdentity& self) override;
  /// Called on the reactor when large messages were freed, and for some seconds no others needed
  /// their memory: the heap has it now. Call it before listen().
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
