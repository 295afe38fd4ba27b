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
      stream_(std::move(fd), server.context_.options.max_pending_bytes),
      slot_(slot),
      generation_(generation),
      side_(side),
      peer_(std::move(peer)),
      hello_deadline_(hello_deadline) {}

TcpConnection::TcpConnection(TcpServer& server, HandedOver from, uint32_t slot, uint32_t generation,
                             RequestHandler& handler)
    : server_(server),
      handler_(handler),
      stream_(std::move(from.stream)),
      slot_(slot),
      generation_(generation),
      side_(from.side),
      state_(State::kOpen),
      peer_max_body_(from.peer_max_body),
      expected_server_id_(from.expected_server_id),
      placed_(true),
      counted_(std::move(from.counted)),
      peer_(std::move(from.peer)) {}

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
    take_requests();
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

void TcpConnection::take_requests() {
  while (state_ == State::kOpen && take_request()) {
  }
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
  // Handles of unanswered requests would be lost on the way.
  if (!placed_ && unanswered_ == 0 && server_.hand_over(*this, header.opcode)) return false;
  ++unanswered_;
  server_.context_.counters.requests_in.add();
  server_.context_.reactor.trace_event("request received", header.call_id, header.opcode);
  handler_.on_request({slot_, generation_, header.call_id, header.opcode, side_}, header, body);
  stream_.pop(header);
  return true;
}

bool TcpConnection::send(const wire::MessageHeader& header, std::span<const Slice> body) {
  if (!stream_.send(header, body)) return false;
  if (stream_.has_pending()) watch_output(true);
  return true;
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

bool TcpServer::over_limit(const std::string& peer) {
  const size_t elsewhere = elsewhere_->load(std::memory_order_relaxed);
  if (open_ + elsewhere < context_.options.max_connections) return false;
  context_.counters.refused.add();
  const Time now = context_.reactor.now();
  if (!over_limit_was_logged_ || now - over_limit_logged_ > 1s) {
    over_limit_was_logged_ = true;
    over_limit_logged_ = now;
    log_warn("connection_limit", {{"peer", peer}, {"limit", context_.options.max_connections}});
  }
  return true;
}

/// Taken only by add().
uint32_t TcpServer::free_slot() {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  return free_slots_.back();
}

/// Null, and it is closed, if it cannot be watched.
TcpConnection* TcpServer::add(std::unique_ptr<TcpConnection> connection) {
  const int fd = connection->stream_.fd();
  if (!context_.source.add(fd, EPOLLIN, connection.get()).ok()) return nullptr;
  free_slots_.pop_back();
  Slot& slot = slots_[connection->slot_];
  slot.connection = std::move(connection);
  ++open_;
  context_.want_upkeep();
  return slot.connection.get();
}

void TcpServer::add_connection(UniqueFd fd, Listener& listener, std::string peer) {
  if (over_limit(peer)) return;
  set_options(fd.get());
  const uint32_t index = free_slot();
  const auto* added = add(std::make_unique<TcpConnection>(
      *this, std::move(fd), index, slots_[index].generation, listener.side, listener.handler,
      std::move(peer), context_.reactor.now() + context_.options.hello_timeout));
  if (added != nullptr) context_.counters.accepted.add();
}

// ---- several reactors
// -----------------------------------------------------------------------------

void TcpServer::spread_over(std::vector<TcpServer*> others, bool (*anywhere)(uint16_t opcode)) {
  others_ = std::move(others);
  anywhere_ = anywhere;
}

/// True if the connection, whose next request has this opcode, is another reactor's from now on.
bool TcpServer::hand_over(TcpConnection& connection, uint16_t opcode) {
  if (others_.empty() || !anywhere_(opcode)) return false;
  connection.placed_ = true;
  // The others first: this reactor also serves the connections that stay.
  const size_t turn = handed_over_++ % (others_.size() + 1);
  if (turn == others_.size()) return false;
  TcpServer* to = others_[turn];
  context_.source.remove(connection.stream_.fd());
  elsewhere_->fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<void> counted(
      nullptr, [counter = elsewhere_](void*) { counter->fetch_sub(1, std::memory_order_relaxed); });
  auto moved = std::make_shared<HandedOver>(std::move(connection.stream_), connection.side_,
                                            connection.peer_, connection.peer_max_body_,
                                            connection.expected_server_id_, std::move(counted));
  forget(connection);
  context_.counters.handed_over.add();
  to->context_.reactor.post([to, alive = std::weak_ptr(to->alive_), moved = std::move(moved)] {
    if (!alive.expired()) to->adopt(std::move(*moved));
  });
  return true;
}

void TcpServer::adopt(HandedOver from) {
  const uint64_t expected = from.expected_server_id;
  if (handed_over_handler_ == nullptr || (expected != 0 && expected != self_.server_id)) return;
  const uint32_t index = free_slot();
  TcpConnection* connection = add(std::make_unique<TcpConnection>(
      *this, std::move(from), index, slots_[index].generation, *handed_over_handler_));
  if (connection == nullptr) return;
  connection->watch_output(connection->stream_.has_pending());
  connection->take_requests();  // those that were read already: epoll does not tell of them
}

void TcpServer::close(TcpConnection& connection) {
  if (connection.state_ == TcpConnection::State::kClosed) return;
  context_.source.remove(connection.stream_.fd());
  connection.stream_.close();
  forget(connection);
}

/// Its socket is gone, or somebody else's.
void TcpServer::forget(TcpConnection& connection) {
  connection.state_ = TcpConnection::State::kClosed;
  connection.counted_.reset();
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
  --connection.unanswered_;
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
