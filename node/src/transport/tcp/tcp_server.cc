#include "transport/tcp/tcp_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/logging.h"
#include "transport/tcp/tcp_socket.h"
#include "wire/data_messages.h"
#include "wire/hello.h"

namespace ramcloud::tcp {

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
  if (strangers_ != nullptr) context_.source.remove(strangers_->source.descriptor());
  for (const auto& slot : slots_) {
    if (slot.connection != nullptr) slot.connection->stop_watching();
  }
}

Result<HostPort> TcpServer::listen(const HostPort& address, Side side, RequestHandler& handler) {
  auto listening = start_listen(address);
  if (!listening) return fail(listening.error());
  if (strangers_ == nullptr) {
    strangers_ = std::make_unique<Strangers>();
    const Status watched =
        context_.source.add(strangers_->source.descriptor(), EPOLLIN, strangers_.get());
    if (!watched.ok()) {
      strangers_.reset();
      return fail(watched);
    }
  }
  auto& [fd, bound] = *listening;
  auto& listener =
      *listeners_.emplace_back(std::make_unique<Listener>(*this, std::move(fd), side, handler));
  const Status added = strangers_->source.add(listener.fd.get(), EPOLLIN, &listener);
  if (!added.ok()) {
    listeners_.pop_back();
    return fail(added);
  }
  return bound;
}

namespace {

HostPort peer_name(const sockaddr_storage& peer) {
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
  return {text, port};
}

}  // namespace

void TcpServer::accept_from(Listener& listener) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    UniqueFd fd(::accept4(listener.fd.get(), reinterpret_cast<sockaddr*>(&peer), &length,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      if (no_descriptors_) log_info("transport.accept_resumed");
      no_descriptors_ = false;
      add_connection(std::move(fd), listener, peer_name(peer));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The waiting connection keeps the socket ready: without a pause the loop would spin.
      if (!no_descriptors_) log_warn("transport.accept_paused", {{"error", std::strerror(errno)}});
      no_descriptors_ = true;
      context_.counters.accept_paused.add();
      listener.paused = true;
      strangers_->source.modify(listener.fd.get(), 0);
      context_.want_upkeep();
    }
    return;
  }
}

/// True above a limit of connections: counts it, and logs at most once a second.
bool TcpServer::is_refused(const std::string& address, const std::string& peer) {
  const TcpOptions& options = context_.options;
  const char* what = nullptr;
  uint32_t limit = 0;
  if (open_ + elsewhere_->load(std::memory_order_relaxed) >= options.max_connections) {
    what = "connections";
    limit = options.max_connections;
    context_.counters.limited_connections.add();
  } else if (options.max_connections_per_peer != 0) {
    const auto of_peer = per_peer_.find(address);
    if (of_peer != per_peer_.end() && of_peer->second >= options.max_connections_per_peer) {
      what = "connections_per_peer";
      limit = options.max_connections_per_peer;
      context_.counters.limited_per_peer.add();
    }
  }
  if (what == nullptr) return false;
  context_.counters.refused.add();
  const Time now = context_.reactor.now();
  if (!over_limit_was_logged_ || now - over_limit_logged_ > 1s) {
    over_limit_was_logged_ = true;
    over_limit_logged_ = now;
    log_warn("transport.connection_limit", {{"peer", peer}, {"what", what}, {"limit", limit}});
  }
  return true;
}

/// Closes the oldest silent connection to make room for a new one.
void TcpServer::drop_oldest_silent() {
  const auto is_silent = [this](const std::pair<uint32_t, uint32_t>& entry) {
    const TcpConnection* connection = find(entry.first, entry.second);
    return connection != nullptr && connection->state_ == TcpConnection::State::kHello;
  };
  while (!silent_age_.empty() && !is_silent(silent_age_.front())) silent_age_.pop_front();
  if (silent_ <= context_.options.max_silent_connections || silent_age_.empty()) return;
  const auto [slot, generation] = silent_age_.front();
  silent_age_.pop_front();
  find(slot, generation)
      ->close_for("too many connections have not sent a hello message",
                  context_.counters.limited_silent);
}

/// A free slot; only add() takes it.
uint32_t TcpServer::free_slot() {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  return free_slots_.back();
}

/// Adds a connection. Null if epoll cannot watch it; it is closed then.
TcpConnection* TcpServer::add(std::unique_ptr<TcpConnection> connection) {
  if (!connection->start_watching().ok()) return nullptr;
  free_slots_.pop_back();
  Slot& slot = slots_[connection->slot_];
  slot.connection = std::move(connection);
  context_.totals->connections = ++open_;
  context_.want_upkeep();
  return slot.connection.get();
}

void TcpServer::add_connection(UniqueFd fd, Listener& listener, const HostPort& from) {
  std::string peer = from.to_string();
  if (is_refused(from.host, peer)) return;
  set_options(fd.get());
  const uint32_t index = free_slot();
  TcpConnection* added = add(std::make_unique<TcpConnection>(
      *this, std::move(fd), index, slots_[index].generation, listener.side, listener.handler,
      std::move(peer), context_.reactor.now() + context_.options.hello_timeout));
  if (added == nullptr) return;
  if (context_.options.max_connections_per_peer != 0) {
    added->address_ = from.host;
    ++per_peer_[from.host];
  }
  context_.counters.accepted.add();
  ++silent_;
  silent_age_.emplace_back(index, slots_[index].generation);
  drop_oldest_silent();
}

// ---- several reactors

void TcpServer::spread_over(std::vector<TcpServer*> others, bool (*anywhere)(uint16_t opcode)) {
  others_ = std::move(others);
  anywhere_ = anywhere;
}

/// Hands the connection over to another reactor if its next request has such an opcode. True if it
/// was handed over.
bool TcpServer::hand_over(TcpConnection& connection, uint16_t opcode) {
  if (others_.empty() || !anywhere_(opcode)) return false;
  connection.placed_ = true;
  // Other reactors first, because this one also has the connections that stay.
  const size_t turn = handed_over_++ % (others_.size() + 1);
  if (turn == others_.size()) return false;
  TcpServer* to = others_[turn];
  connection.stop_watching();
  elsewhere_->fetch_add(1, std::memory_order_relaxed);
  // The connection is counted here during its lifetime; only this reactor may change the counts
  // that are not shared.
  std::shared_ptr<void> counted(
      nullptr, [counter = elsewhere_, address = std::exchange(connection.address_, {}),
                server = this, &reactor = context_.reactor, alive = std::weak_ptr(alive_)](void*) {
        counter->fetch_sub(1, std::memory_order_relaxed);
        if (address.empty()) return;
        reactor.post([server, alive, address] {
          if (!alive.expired()) server->release_peer(address);
        });
      });
  auto moved = std::make_shared<HandedOver>(
      std::move(connection.stream_), connection.side_, connection.peer_, connection.peer_max_body_,
      connection.version_, connection.expected_server_id_, std::move(counted));
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
  connection->stream_.count_sends(context_.counters.sends);
  connection->watch();
  add_to_backlog(*connection);  // epoll does not report requests that are buffered already
}

void TcpServer::close(TcpConnection& connection) {
  if (connection.state_ == TcpConnection::State::kClosed) return;
  connection.stop_watching();
  connection.stream_.close();
  forget(connection);
}

/// Decrements the connections of this address, if they are counted.
void TcpServer::release_peer(const std::string& address) {
  const auto of_peer = per_peer_.find(address);
  if (of_peer != per_peer_.end() && --of_peer->second == 0) per_peer_.erase(of_peer);
}

/// Removes a connection whose socket was closed or handed over.
void TcpServer::forget(TcpConnection& connection) {
  if (connection.state_ == TcpConnection::State::kHello) --silent_;
  connection.state_ = TcpConnection::State::kClosed;
  if (connection.gathering_) std::erase(gathering_, &connection);
  add_buffered(-static_cast<int64_t>(connection.accounted_bytes_));
  ++closed_connections_;
  connection.counted_.reset();
  release_peer(connection.address_);
  Slot& slot = slots_[connection.slot_];
  ++slot.generation;  // handles of its requests are stale from here on
  context_.totals->connections = --open_;
  free_slots_.push_back(connection.slot_);
  // Destroyed later, because it may be on the stack: a handler's reply can find the connection
  // broken.
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

void TcpServer::reply(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body,
                      std::string* tail) {
  TcpConnection* found = find(handle.connection, handle.generation);
  if (found == nullptr) return;
  TcpConnection& connection = *found;
  wire::MessageHeader header{};
  header.kind = wire::Kind::kReply;
  header.opcode = handle.opcode;
  header.status = static_cast<uint16_t>(status);
  header.call_id = handle.call_id;
  size_t size = tail == nullptr ? 0 : tail->size();
  for (const Slice& slice : body) size += slice.size;
  const wire::ErrorBody too_long{};
  const Slice too_long_slice(bytes_of(too_long));
  if (size > connection.peer_max_body_) {
    header.status = static_cast<uint16_t>(StatusCode::kInternal);
    body = {&too_long_slice, 1};
    tail = nullptr;
    size = too_long_slice.size;
  }
  header.body_length = static_cast<uint32_t>(size);
  context_.counters.replies_out.add_from_one_thread();
  context_.reactor.trace_event("reply sent", handle.call_id, header.opcode);
  if (connection.outstanding_ > 0) --connection.outstanding_;
  if (connection.send(header, body, tail)) return connection.resume_if_due();
  if (connection.stream_.overflowed()) {
    connection.close_for("the peer reads too slowly: too much output waits for it",
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

TcpConnection* TcpServer::find(uint32_t slot, uint32_t generation) const {
  if (slot >= slots_.size() || slots_[slot].generation != generation) return nullptr;
  return slots_[slot].connection.get();
}

// ---- memory of replies

uint64_t TcpServer::reply_room() const {
  const uint64_t most = context_.options.max_buffered_bytes / 4 * 3;
  return most - std::min<uint64_t>(most, context_.totals->buffered_bytes);
}

bool TcpServer::has_room(const ReplyHandle& handle, uint64_t bytes) const {
  const TcpConnection* connection = find(handle.connection, handle.generation);
  return connection != nullptr && connection->has_room(bytes);
}

void TcpServer::add_buffered(int64_t bytes) {
  // Only one thread writes it, so no locked instruction is needed.
  auto& total = context_.totals->buffered_bytes;
  const uint64_t now = total.load(std::memory_order_relaxed) + static_cast<uint64_t>(bytes);
  total.store(now, std::memory_order_relaxed);
  most_buffered_lately_ = std::max(most_buffered_lately_, now);
  if (now >= kMuchMemory) context_.want_upkeep();
}

/// True if large memory was freed and not needed for some time. Memory that is needed again within
/// a second is kept, because getting it again costs more than freeing it saves.
bool TcpServer::look_for_freed_memory() {
  most_buffered_ = std::max(most_buffered_, most_buffered_lately_);
  const bool quiet = most_buffered_lately_ + kMuchMemory <= most_buffered_;
  most_buffered_lately_ = context_.totals->buffered_bytes;
  quiet_calls_ = quiet ? quiet_calls_ + 1 : 0;
  if (quiet_calls_ >= kQuietCalls) {
    quiet_calls_ = 0;
    most_buffered_ = most_buffered_lately_;
    if (context_.memory_freed) context_.memory_freed();
  }
  return most_buffered_ >= kMuchMemory;
}

void TcpServer::charge(const ReplyHandle& handle, int64_t bytes) {
  add_buffered(bytes);
  TcpConnection* connection = find(handle.connection, handle.generation);
  if (connection == nullptr) return;
  connection->charged_ += static_cast<uint64_t>(bytes);
  if (bytes < 0) connection->resume_if_due();
}

// ---- backlog

void TcpServer::add_to_backlog(TcpConnection& connection) {
  if (!connection.backlogged_) {
    connection.backlogged_ = true;
    backlog_.emplace_back(connection.slot_, connection.generation_);
  }
  if (std::exchange(serving_backlog_, true)) return;
  context_.reactor.defer([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) serve_backlog();
  });
}

/// Serves the connections that wait the longest first, as far as the budget allows; a connection
/// with requests left goes to the end. At least one request is handled in each turn.
void TcpServer::serve_backlog() {
  TurnBudget& budget = context_.reactor.budget();
  bool first = true;
  for (size_t left = backlog_.size(); left > 0 && (first || !budget.spent()); --left) {
    first = false;
    const auto [slot, generation] = backlog_.front();
    backlog_.pop_front();
    TcpConnection* connection = find(slot, generation);
    if (connection == nullptr) continue;
    connection->backlogged_ = false;
    connection->take_requests();
    if (connection->state_ == TcpConnection::State::kOpen) connection->watch();
  }
  serving_backlog_ = false;
  if (!backlog_.empty()) {
    serving_backlog_ = true;
    context_.reactor.defer([this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) serve_backlog();
    });
  }
}

void TcpServer::make_room() {
  if (making_room_) return;  // closing a connection may call this again
  making_room_ = true;
  const uint64_t enough = context_.options.max_buffered_bytes / 8 * 7;
  std::vector<std::pair<Time, TcpConnection*>> busy;
  for (auto& slot : slots_) {
    if (slot.connection == nullptr) continue;
    TcpConnection& connection = *slot.connection;
    connection.stream_.drop_empty_buffers();
    connection.account();
    if (!connection.message_began_ && !connection.output_began_) continue;
    const Time since = std::min(connection.message_began_.value_or(kNever),
                                connection.output_began_.value_or(kNever));
    busy.emplace_back(since, &connection);
  }
  // Close those with the oldest incomplete message first: an honest peer's message takes only a
  // moment.
  std::ranges::sort(busy, [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->slot_) < std::pair(b.first, b.second->slot_);
  });
  for (const auto& [since, connection] : busy) {
    if (context_.totals->buffered_bytes <= enough) break;
    connection->close_for("the buffers of all connections are full",
                          context_.counters.limited_buffered);
  }
  making_room_ = false;
}

/// True if it should be called again: some peer has not sent its hello or the rest of a message,
/// reads slowly, or has a big buffer.
bool TcpServer::upkeep() {
  bool again = false;
  for (const auto& listener : listeners_) {
    if (!listener->paused) continue;
    listener->paused = false;
    strangers_->source.modify(listener->fd.get(), EPOLLIN);
  }
  const Time now = context_.reactor.now();
  // Memory kept by idle connections is not available for replies.
  const bool scarce = context_.totals->buffered_bytes > context_.options.max_buffered_bytes / 2;
  for (auto& slot : slots_) {
    if (slot.connection == nullptr) continue;
    TcpConnection& connection = *slot.connection;
    if (connection.state_ == TcpConnection::State::kHello) {
      if (now >= connection.hello_deadline_) {
        context_.counters.limited_hello_time.add();
        connection.close_for("no hello in time", context_.counters.protocol_errors);
        continue;
      }
      again = true;
    }
    if (connection.is_late(now, context_.options.message_timeout)) {
      connection.close_for("a message took too long", context_.counters.limited_message_time);
      continue;
    }
    if (scarce) connection.stream_.drop_empty_buffers();
    again = connection.stream_.shrink() || again;
    connection.account();
    again = again || connection.message_began_ || connection.output_began_;
  }
  return look_for_freed_memory() || again || scarce;
}

}  // namespace ramcloud::tcp
