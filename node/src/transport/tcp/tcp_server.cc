#include "transport/tcp/tcp_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>

#include "base/logging.h"
#include "transport/tcp/tcp_socket.h"
#include "wire/data_messages.h"
#include "wire/hello.h"

namespace ramcloud::tcp {

// ---- TcpConnection
// --------------------------------------------------------------------------------

TcpConnection::TcpConnection(TcpServer& server, UniqueFd fd, uint32_t slot, uint32_t generation,
                             Side side, RequestHandler& handler, std::string peer,
                             Time hello_deadline)
    : server_(server),
      handler_(handler),
      stream_(std::move(fd), server.context_.options.max_pending_bytes,
              server.context_.counters.sends),
      slot_(slot),
      generation_(generation),
      side_(side),
      peer_(std::move(peer)),
      hello_deadline_(hello_deadline) {}

void TcpConnection::on_ready(uint32_t events) {
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive();
  if ((events & EPOLLOUT) != 0 && state_ == State::kOpen) flush();
}

void TcpConnection::receive() {
  constexpr int kReadsPerTurn = 16;  // then others get their turn; epoll tells us again
  for (int i = 0; i < kReadsPerTurn && state_ != State::kClosed; ++i) {
    const auto read = stream_.read();
    if (read == TcpStream::Read::kClosed) return server_.close(*this);
    if (read == TcpStream::Read::kNothing) return;
    if (state_ == State::kHello && !take_hello()) return;
    while (state_ == State::kOpen && take_request()) {
    }
    more_input_ = false;
    if (state_ == State::kOpen) flush_gathered();
    if (stream_.has_big_buffers()) server_.context_.want_upkeep();
    if (read != TcpStream::Read::kFull) return;
  }
}

/// True if the connection is open now.
bool TcpConnection::take_hello() {
  wire::Hello asked;
  switch (stream_.front(asked)) {
    case TcpStream::Parse::kIncomplete:
      return false;
    case TcpStream::Parse::kMalformed:
      close_for("hello", server_.context_.counters.protocol_errors);
      return false;
    case TcpStream::Parse::kMessage:
      break;
  }
  stream_.pop_hello();
  const wire::Hello answer =
      wire::answer_hello(asked, server_.self_.cluster_uuid, server_.self_.server_id);
  const bool sent = stream_.send_hello(answer);
  if (answer.status != 0 || !sent) {
    server_.context_.counters.refused.add();
    server_.close(*this);
    return false;
  }
  peer_max_body_ = std::min(asked.max_body_bytes, wire::kMaxBodyBytes);
  expected_server_id_ = asked.server_id;
  state_ = State::kOpen;
  return true;
}

/// True if there was a whole request; its handler has seen it now.
bool TcpConnection::take_request() {
  wire::MessageHeader header;
  ByteView body;
  switch (stream_.front(wire::Kind::kRequest, header, body)) {
    case TcpStream::Parse::kIncomplete:
      return false;
    case TcpStream::Parse::kMalformed:
      close_for("request header", server_.context_.counters.protocol_errors);
      return false;
    case TcpStream::Parse::kMessage:
      break;
  }
  server_.context_.counters.requests_in.add();
  server_.context_.reactor.trace_event("request received", header.call_id, header.opcode);
  // Whoever sent several requests together gets their answers together: one system call for all.
  more_input_ = stream_.unread_bytes() > sizeof header + header.body_length;
  handler_.on_request({slot_, generation_, header.call_id, header.opcode, side_}, header, body);
  stream_.pop(header);
  return true;
}

bool TcpConnection::send(const wire::MessageHeader& header, std::span<const Slice> body) {
  const bool gather = more_input_ || server_.batches_ > 0;
  if (!stream_.send(header, body, gather ? TcpStream::Send::kGather : TcpStream::Send::kNow)) {
    return false;
  }
  if (stream_.blocked()) {
    watch_output(true);
  } else if (stream_.has_pending() && !more_input_ && !gathering_) {
    gathering_ = true;
    server_.gathering_.push_back(this);
  }
  return true;
}

void TcpConnection::flush_gathered() {
  if (stream_.has_pending() && !stream_.blocked()) flush();
}

void TcpConnection::flush() {
  if (!stream_.flush()) return server_.close(*this);
  if (stream_.has_big_buffers()) server_.context_.want_upkeep();
  watch_output(stream_.has_pending());
}

void TcpConnection::watch_output(bool wanted) {
  if (wanted == watches_output_) return;
  watches_output_ = wanted;
  server_.context_.source.modify(stream_.fd(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void TcpConnection::close_for(const char* why, Counter& counter) {
  counter.add();
  log_closed(why, peer_);
  server_.close(*this);
}

// ---- TcpServer
// ------------------------------------------------------------------------------------

struct TcpServer::Listener final : FdHandler {
  Listener(TcpServer& s, UniqueFd f, Side sd, RequestHandler& h)
      : server(s), fd(std::move(f)), side(sd), handler(h) {}
  void on_ready(uint32_t) override { server.accept_from(*this); }
  TcpServer& server;
  UniqueFd fd;
  Side side;
  RequestHandler& handler;
  bool paused = false;  // no descriptors left: until the next upkeep
};

TcpServer::TcpServer(TcpContext& context) : context_(context) {
  context_.upkeep_of_server = [this] { return upkeep(); };
}

TcpServer::~TcpServer() {
  context_.upkeep_of_server = nullptr;
  for (const auto& listener : listeners_) context_.source.remove(listener->fd.get());
  for (const auto& slot : slots_) {
    if (slot.connection != nullptr) context_.source.remove(slot.connection->stream_.fd());
  }
}

Result<HostPort> TcpServer::listen(const HostPort& address, Side side, RequestHandler& handler) {
  auto listening = start_listen(address);
  if (!listening) return fail(listening.error());
  auto& [fd, bound] = *listening;
  auto& listener =
      *listeners_.emplace_back(std::make_unique<Listener>(*this, std::move(fd), side, handler));
  const Status added = context_.source.add(listener.fd.get(), EPOLLIN, &listener);
  if (!added.ok()) {
    listeners_.pop_back();
    return fail(added);
  }
  return bound;
}

namespace {

std::string peer_name(const sockaddr_storage& peer) {
  char text[INET6_ADDRSTRLEN] = "?";
  uint16_t port = 0;
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    port = ntohs(v4.sin_port);
  } else if (peer.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    port = ntohs(v6.sin6_port);
  }
  return HostPort{text, port}.to_string();
}

}  // namespace

void TcpServer::accept_from(Listener& listener) {
  constexpr int kAcceptsPerTurn = 64;
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    UniqueFd fd(::accept4(listener.fd.get(), reinterpret_cast<sockaddr*>(&peer), &length,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      add_connection(std::move(fd), listener, peer_name(peer));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The waiting connection keeps the socket ready: without a pause we would turn for ever.
      log_warn("accept_paused", {{"error", "no file descriptors or memory left"}});
      listener.paused = true;
      context_.source.modify(listener.fd.get(), 0);
      context_.want_upkeep();
    }
    return;
  }
}

void TcpServer::add_connection(UniqueFd fd, Listener& listener, std::string peer) {
  if (open_ >= context_.options.max_connections) {
    context_.counters.refused.add();
    const Time now = context_.reactor.now();
    if (!over_limit_was_logged_ || now - over_limit_logged_ > 1s) {
      over_limit_was_logged_ = true;
      over_limit_logged_ = now;
      log_warn("connection_limit", {{"peer", peer}, {"limit", context_.options.max_connections}});
    }
    return;
  }
  set_options(fd.get());
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t index = free_slots_.back();
  Slot& slot = slots_[index];
  const int raw = fd.get();
  auto connection = std::make_unique<TcpConnection>(
      *this, std::move(fd), index, slot.generation, listener.side, listener.handler,
      std::move(peer), context_.reactor.now() + context_.options.hello_timeout);
  if (!context_.source.add(raw, EPOLLIN, connection.get()).ok()) return;
  free_slots_.pop_back();
  slot.connection = std::move(connection);
  ++open_;
  context_.counters.accepted.add();
  context_.want_upkeep();
}

void TcpServer::close(TcpConnection& connection) {
  if (connection.state_ == TcpConnection::State::kClosed) return;
  connection.state_ = TcpConnection::State::kClosed;
  if (connection.gathering_) std::erase(gathering_, &connection);
  context_.source.remove(connection.stream_.fd());
  connection.stream_.close();
  Slot& slot = slots_[connection.slot_];
  ++slot.generation;  // handles of its requests are stale from here on
  --open_;
  free_slots_.push_back(connection.slot_);
  // It may be on the stack: a handler's reply can find the connection broken.
  if (closed_.empty()) {
    context_.reactor.defer([this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) closed_.clear();
    });
  }
  closed_.push_back(std::move(slot.connection));
}

void TcpServer::set_identity(const PeerIdentity& self) {
  self_ = self;
  for (auto& slot : slots_) {
    if (slot.connection == nullptr) continue;
    const uint64_t expected = slot.connection->expected_server_id_;
    if (expected != 0 && expected != self.server_id) close(*slot.connection);
  }
}

void TcpServer::reply(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body) {
  if (handle.connection >= slots_.size()) return;
  Slot& slot = slots_[handle.connection];
  if (slot.generation != handle.generation || slot.connection == nullptr) return;
  TcpConnection& connection = *slot.connection;
  wire::MessageHeader header{};
  header.kind = wire::Kind::kReply;
  header.opcode = handle.opcode;
  header.status = static_cast<uint16_t>(status);
  header.call_id = handle.call_id;
  size_t size = 0;
  for (const Slice& slice : body) size += slice.size;
  const wire::ErrorBody too_long{};
  const Slice too_long_slice(bytes_of(too_long));
  if (size > connection.peer_max_body_) {
    header.status = static_cast<uint16_t>(StatusCode::kInternal);
    body = {&too_long_slice, 1};
    size = too_long_slice.size;
  }
  header.body_length = static_cast<uint32_t>(size);
  context_.counters.replies_out.add();
  context_.reactor.trace_event("reply sent", handle.call_id, header.opcode);
  if (connection.send(header, body)) return;
  if (connection.stream_.overflowed()) {
    connection.close_for("more output than a slow reader may leave",
                         context_.counters.slow_readers);
  } else {
    close(connection);
  }
}

void TcpServer::end_replies() {
  if (--batches_ > 0) return;
  while (!gathering_.empty()) {
    TcpConnection& connection = *gathering_.back();
    gathering_.pop_back();
    connection.gathering_ = false;
    connection.flush_gathered();
  }
}

/// True if it should come again: somebody owes a hello, has a big buffer, or is paused.
bool TcpServer::upkeep() {
  bool again = false;
  for (const auto& listener : listeners_) {
    if (!listener->paused) continue;
    listener->paused = false;
    context_.source.modify(listener->fd.get(), EPOLLIN);
  }
  for (auto& slot : slots_) {
    if (slot.connection == nullptr) continue;
    TcpConnection& connection = *slot.connection;
    if (connection.state_ == TcpConnection::State::kHello) {
      if (context_.reactor.now() >= connection.hello_deadline_) {
        connection.close_for("no hello in time", context_.counters.protocol_errors);
        continue;
      }
      again = true;
    }
    again = connection.stream_.shrink() || again;
  }
  return again;
}

}  // namespace ramcloud::tcp
