#include "transport/tcp/tcp_transport.h"

#include "base/logging.h"
#include "transport/tcp/tcp_context.h"
#include "transport/tcp/tcp_server.h"
#include "transport/tcp/tcp_session.h"

namespace ramcloud {
namespace tcp {

namespace {
Counter& messages(MetricsRegistry& registry, const char* kind, const char* direction) {
  return registry.counter("ramcloud_transport_messages_total", "Messages, by kind and direction.",
                          {{"kind", kind}, {"direction", direction}});
}
Counter& connections(MetricsRegistry& registry, const char* event) {
  return registry.counter("ramcloud_transport_connections_total",
                          "Connections accepted from clients, opened to servers, refused, or "
                          "handed over to another reactor.",
                          {{"event", event}});
}
}  // namespace

TcpCounters::TcpCounters(MetricsRegistry& registry)
    : accepted(connections(registry, "accepted")),
      connected(connections(registry, "connected")),
      refused(connections(registry, "refused")),
      handed_over(connections(registry, "handed_over")),
      requests_in(messages(registry, "request", "in")),
      replies_out(messages(registry, "reply", "out")),
      requests_out(messages(registry, "request", "out")),
      replies_in(messages(registry, "reply", "in")),
      protocol_errors(registry.counter("ramcloud_transport_protocol_errors_total",
                                       "Connections closed because the peer sent malformed bytes "
                                       "or said no hello.")),
      slow_readers(registry.counter("ramcloud_transport_slow_readers_total",
                                    "Connections closed because too much output waited.")) {}

TcpContext::TcpContext(Reactor& r, EpollSource& s, const TcpOptions& o, MetricsRegistry* metrics)
    : reactor(r),
      source(s),
      options(o),
      own_registry(metrics == nullptr ? std::make_unique<MetricsRegistry>() : nullptr),
      counters(metrics == nullptr ? *own_registry : *metrics),
      resolver(r),
      upkeep(r, [this] { on_upkeep(); }) {}

void TcpContext::on_upkeep() {
  bool again = upkeep_of_server && upkeep_of_server();
  for (TcpSession* session : sessions) again = session->shrink() || again;
  if (again) want_upkeep();
}

void log_closed(const char* why, const std::string& peer) {
  log_warn("connection_closed", {{"peer", peer}, {"why", why}});
}

}  // namespace tcp

TcpTransport::TcpTransport(Reactor& reactor, EpollSource& source, const TcpOptions& options,
                           MetricsRegistry* metrics)
    : context_(std::make_shared<tcp::TcpContext>(reactor, source, options, metrics)),
      server_(std::make_unique<tcp::TcpServer>(*context_)) {}

TcpTransport::~TcpTransport() {
  // Sessions that others still hold break; each takes itself off the list.
  while (!context_->sessions.empty()) {
    context_->sessions.back()->shut_down({StatusCode::kConnectionLost, "shutting down"});
  }
}

Result<std::shared_ptr<Session>> TcpTransport::connect(const Locator& locator,
                                                       const PeerIdentity& expected) {
  if (locator.transport != "tcp") {
    return fail(StatusCode::kInvalidArgument,
                "locator '" + locator.to_string() + "': accepted is tcp:host=…,port=…");
  }
  auto session = std::make_shared<tcp::TcpSession>(context_, locator.address, expected);
  session->start();
  return session;
}

Result<HostPort> TcpTransport::listen(const HostPort& address, Side side, RequestHandler& handler) {
  return server_->listen(address, side, handler);
}

void TcpTransport::spread_over(const std::vector<TcpTransport*>& others,
                               bool (*anywhere)(uint16_t opcode)) {
  std::vector<tcp::TcpServer*> servers;
  for (const TcpTransport* other : others) servers.push_back(other->server_.get());
  server_->spread_over(std::move(servers), anywhere);
}

void TcpTransport::serve_handed_over(RequestHandler& handler) {
  server_->serve_handed_over(handler);
}

void TcpTransport::set_identity(const PeerIdentity& self) {
  server_->set_identity(self);
}

void TcpTransport::reply(const ReplyHandle& handle, StatusCode status,
                         std::span<const Slice> body) {
  server_->reply(handle, status, body);
}

}  // namespace ramcloud
