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
Counter& limited(MetricsRegistry& registry, const char* limit) {
  return registry.counter("ramcloud_transport_limited_total",
                          "Connections refused, closed or made to wait by a limit.",
                          {{"limit", limit}});
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
      sends(registry.counter("ramcloud_transport_sends_total",
                             "System calls that sent messages; one may send many.")),
      protocol_errors(registry.counter("ramcloud_transport_protocol_errors_total",
                                       "Connections closed because the peer sent malformed bytes "
                                       "or said no hello.")),
      slow_readers(registry.counter("ramcloud_transport_slow_readers_total",
                                    "Connections closed because too much output waited.")),
      limited_connections(limited(registry, "connections")),
      limited_per_peer(limited(registry, "connections_per_peer")),
      limited_silent(limited(registry, "silent_connections")),
      limited_hello_time(limited(registry, "hello_timeout")),
      limited_message_time(limited(registry, "message_timeout")),
      limited_outstanding(limited(registry, "outstanding")),
      limited_buffered(limited(registry, "buffered")),
      accept_paused(registry.counter("ramcloud_transport_accept_paused_total",
                                     "Times that no connection was accepted for a second because "
                                     "no file descriptors or memory were left.")) {}

TcpContext::TcpContext(Reactor& r, EpollSource& s, const TcpOptions& o, MetricsRegistry* metrics)
    : reactor(r),
      source(s),
      options(o),
      own_registry(metrics == nullptr ? std::make_unique<MetricsRegistry>() : nullptr),
      counters(metrics == nullptr ? *own_registry : *metrics),
      resolver(r, o.look_up),
      upkeep(r, [this] { on_upkeep(); }) {
  if (metrics == nullptr) return;
  metrics->gauge("ramcloud_transport_connections", "Accepted connections that are open.",
                 [totals = totals] { return static_cast<double>(totals->connections); });
  metrics->gauge("ramcloud_transport_buffered_bytes",
                 "Memory for messages of accepted connections: input, replies in the making or "
                 "waiting, unsent output.",
                 [totals = totals] { return static_cast<double>(totals->buffered_bytes); });
}

void TcpContext::on_upkeep() {
  bool again = upkeep_of_server && upkeep_of_server();
  for (TcpSession* session : sessions) again = session->shrink() || again;
  if (again) want_upkeep();
}

void TcpContext::log_closed(const char* why, const std::string& peer) {
  constexpr uint32_t kLinesPerSecond = 10;
  const Time now = reactor.now();
  if (now - log_second_ >= 1s) {
    if (unlogged_ > 0) log_warn("transport.closed_without_a_line", {{"not_logged", unlogged_}});
    log_second_ = now;
    logged_ = 0;
    unlogged_ = 0;
  }
  if (++logged_ > kLinesPerSecond) {
    ++unlogged_;
    return;
  }
  log_warn("transport.connection_closed", {{"peer", peer}, {"why", why}});
}

}  // namespace tcp

TcpTransport::TcpTransport(Reactor& reactor, EpollSource& source, const TcpOptions& options,
                           MetricsRegistry* metrics)
    : context_(std::make_shared<tcp::TcpContext>(reactor, source, options, metrics)),
      server_(std::make_unique<tcp::TcpServer>(*context_)) {}

TcpTransport::~TcpTransport() {
  // Breaks sessions that others still hold; each removes itself from the list.
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

void TcpTransport::on_memory_freed(std::function<void()> listener) {
  context_->memory_freed = std::move(listener);
}

void TcpTransport::set_identity(const PeerIdentity& self) {
  server_->set_identity(self);
}

void TcpTransport::reply(const ReplyHandle& handle, StatusCode status,
                         std::span<const Slice> body) {
  server_->reply(handle, status, body, nullptr);
}

void TcpTransport::reply_owned(const ReplyHandle& handle, StatusCode status,
                               std::span<const Slice> body, std::string&& tail) {
  server_->reply(handle, status, body, &tail);
}

bool TcpTransport::has_room(const ReplyHandle& handle, uint64_t bytes) const {
  return server_->has_room(handle, bytes);
}

void TcpTransport::charge(const ReplyHandle& handle, int64_t bytes) {
  server_->charge(handle, bytes);
}

bool TcpTransport::is_open(const ReplyHandle& handle) const {
  return server_->is_open(handle);
}

uint64_t TcpTransport::closed_connections() const {
  return server_->closed_connections();
}

void TcpTransport::begin_replies() {
  server_->begin_replies();
}

void TcpTransport::end_replies() {
  server_->end_replies();
}

}  // namespace ramcloud
