// The transport that works everywhere: TCP sockets through epoll (engine.md §10).
#pragma once

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

struct TcpOptions {
  /// Connections served at once; one more is closed at once.
  uint32_t max_connections = 10'000;
  /// Output that may wait for a slow reader; above, its connection is closed.
  uint64_t max_pending_bytes = 64u << 20;
  /// How long a new connection may take to say hello.
  Duration hello_timeout = 10s;
  /// How long connecting may take: looking the name up, the connection, and the hello.
  Duration connect_timeout = 5s;
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
  void set_identity(const PeerIdentity& self) override;
  void reply(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body) override;
  void begin_replies() override;
  void end_replies() override;

 private:
  std::shared_ptr<tcp::TcpContext> context_;
  std::unique_ptr<tcp::TcpServer> server_;
};

}  // namespace ramcloud
