#include "transport/sim/sim_transport.h"

#include <algorithm>

#include "wire/data_messages.h"

namespace ramcloud {
namespace {

constexpr Duration kConnectTimeout = 5s;
// Marks of calls: sent to the network, or not yet.
constexpr uint64_t kSent = 1;
constexpr uint64_t kHeld = 2;

std::string gather(std::span<const Slice> body) {
  std::string all;
  for (const Slice& slice : body) all.append(static_cast<const char*>(slice.data), slice.size);
  return all;
}

}  // namespace

// ---- SimTransport

SimTransport::SimTransport(SimNetwork& network, SimNode& node) : network_(network), node_(node) {
  network_.transports_.push_back(this);
}

SimTransport::~SimTransport() {
  std::erase(network_.transports_, this);
  for (const Listener& listener : listeners_) network_.listeners_.erase(listener.address);
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) close(slot);
  const Status why(StatusCode::kConnectionLost, "shutting down");
  for (const auto& weak : sessions_) {
    if (const auto session = weak.lock()) session->break_with(why);
  }
}

Result<std::shared_ptr<Session>> SimTransport::connect(const Locator& locator,
                                                       const PeerIdentity& expected) {
  if (locator.transport != "sim") {
    return fail(StatusCode::kInvalidArgument,
                "locator '" + locator.to_string() + "': accepted is sim:host=…,port=…");
  }
  auto session = std::make_shared<SimSession>(*this, locator.address, expected);
  std::erase_if(sessions_, [](const auto& weak) { return weak.expired(); });
  sessions_.push_back(session);
  session->start();
  return session;
}

Result<HostPort> SimTransport::listen(const HostPort& address, Side side, RequestHandler& handler) {
  // The host is always the node's name, whatever address the daemon was configured with.
  const HostPort bound{node_.name(), address.port != 0 ? address.port : next_port_++};
  if (!network_.listeners_.emplace(bound, this).second) {
    return fail(StatusCode::kUnavailable, "listen on " + bound.to_string() + ": in use");
  }
  listeners_.push_back({bound, side, &handler});
  return bound;
}

void SimTransport::accept(const HostPort& address, const std::shared_ptr<SimConnection>& connection,
                          wire::Hello asked) {
  const auto listener = std::ranges::find(listeners_, address, &Listener::address);
  if (listener == listeners_.end()) return;
  asked.version_max = std::min(asked.version_max, highest_version_);
  const wire::Hello answer = wire::answer_hello(asked, self_.cluster_uuid, self_.server_id);
  if (answer.status == 0) {
    if (free_slots_.empty()) {
      free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    connection->slot = free_slots_.back();
    free_slots_.pop_back();
    Slot& slot = slots_[connection->slot];
    slot.connection = connection;
    slot.handler = listener->handler;
    connection->generation = slot.generation;
    connection->server = alive_;
    connection->side = listener->side;
    connection->version = answer.version_max;
    connection->expected_server_id = asked.server_id;
  }
  network_.send(node_, *connection->client_node, connection->to_client, true,
                [session = connection->session, answer] {
                  if (const auto s = session.lock()) s->on_answer(answer);
                });
}

void SimTransport::receive(const SimConnection& connection, const wire::MessageHeader& header,
                           ByteView body) {
  Slot& slot = slots_[connection.slot];
  if (slot.generation != connection.generation || slot.connection == nullptr) return;
  ReplyHandle handle{connection.slot, connection.generation, header.call_id, header.opcode,
                     connection.side};
  handle.version = connection.version;
  handle.timeout_s = timeout_s(header);
  slot.handler->on_request(handle, header, body);
}

bool SimTransport::is_open(const ReplyHandle& handle) const {
  return handle.connection < slots_.size() &&
         slots_[handle.connection].generation == handle.generation;
}

void SimTransport::reply(const ReplyHandle& handle, StatusCode status,
                         std::span<const Slice> body) {
  if (handle.connection >= slots_.size()) return;
  Slot& slot = slots_[handle.connection];
  if (slot.generation != handle.generation || slot.connection == nullptr) return;
  wire::MessageHeader header{};
  header.kind = wire::Kind::kReply;
  header.opcode = handle.opcode;
  header.status = static_cast<uint16_t>(status);
  header.call_id = handle.call_id;
  std::string bytes = gather(body);
  if (bytes.size() > wire::kMaxBodyBytes) {
    header.status = static_cast<uint16_t>(StatusCode::kInternal);
    bytes = bytes_of(wire::ErrorBody{});
  }
  header.body_length = static_cast<uint32_t>(bytes.size());
  SimConnection& connection = *slot.connection;
  network_.sent(node_, *connection.client_node, header);
  network_.send(node_, *connection.client_node, connection.to_client, false,
                [session = connection.session, header, bytes = std::move(bytes)] {
                  if (const auto s = session.lock()) s->on_reply(header, bytes);
                });
}

void SimTransport::set_identity(const PeerIdentity& self) {
  self_ = self;
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].connection == nullptr) continue;
    const uint64_t expected = slots_[i].connection->expected_server_id;
    if (expected != 0 && expected != self.server_id) close(i);
  }
}

void SimTransport::closed_by_client(const SimConnection& connection) {
  if (slots_[connection.slot].generation == connection.generation) close(connection.slot);
}

size_t SimTransport::close_all() {
  size_t closed = 0;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].connection == nullptr) continue;
    close(slot);
    ++closed;
  }
  return closed;
}

void SimTransport::close(uint32_t index) {
  Slot& slot = slots_[index];
  if (slot.connection == nullptr) return;
  const auto connection = std::move(slot.connection);
  ++slot.generation;
  ++closed_;
  free_slots_.push_back(index);
  // Our kernel tells the client's kernel, even when our process was killed.
  Time when = network_.scheduler_.now() + network_.options_.break_delay;
  if (network_.is_cut_somehow(node_, *connection->client_node))
    when += 10s;  // then keepalive detects it
  network_.scheduler_.deliver(
      *connection->client_node, std::max(when, connection->to_client),
      [session = connection->session] {
        if (const auto s = session.lock()) {
          s->break_with({StatusCode::kConnectionLost, "the peer closed the connection"});
        }
      });
}

// ---- SimSession

SimSession::SimSession(SimTransport& transport, const HostPort& address,
                       const PeerIdentity& expected)
    : network_(transport.network()),
      node_(transport.node()),
      reactor_(node_.reactor()),
      life_(node_.incarnation()),
      address_(address),
      hello_(wire::make_hello(expected.cluster_uuid, expected.server_id)),
      connect_timer_(reactor_, [this] {
        const auto self = shared_from_this();
        break_with({StatusCode::kUnavailable, "connecting took too long"});
      }) {
  hello_.version_max = transport.highest_version();
}

SimSession::~SimSession() {
  if (!was_open_ || broken()) return;
  network_.send(node_, *connection_->server_node, connection_->to_server, true,
                [connection = connection_] {
                  if (const auto server = connection->server.lock()) {
                    (*server)->closed_by_client(*connection);
                  }
                });
}

void SimSession::start() {
  connect_timer_.start_after(kConnectTimeout);
  connection_->client_node = &node_;
  connection_->session = weak_from_this();
  // Looked up when the message arrives: without a transport at the address the connection is
  // refused.
  network_.scheduler_.after(network_.delay(), [&network = network_, address = address_,
                                               connection = connection_, hello = hello_] {
    SimTransport* server = network.listener(address);
    SimNode& client = *connection->client_node;
    if (server == nullptr) {
      Time lane{};
      network.send(client, client, lane, true, [session = connection->session] {
        if (const auto s = session.lock()) {
          s->absence_ = Absence::kRefused;
          s->break_with({StatusCode::kUnavailable, "connection refused"});
        }
      });
      return;
    }
    if (network.is_cut_somehow(client, server->node())) return;
    connection->server_node = &server->node();
    network.scheduler_.deliver(server->node(), network.scheduler_.now(),
                               [alive = std::weak_ptr(server->alive_), address, connection, hello] {
                                 if (const auto s = alive.lock()) {
                                   (*s)->accept(address, connection, hello);
                                 }
                               });
  });
}

void SimSession::on_answer(const wire::Hello& answer) {
  if (state_ != State::kConnecting) return;
  connect_timer_.stop();
  Status accepted = wire::check_answer(hello_, answer);
  absence_ = absence_by_hello(accepted);
  if (!accepted.ok()) return break_with(std::move(accepted));
  state_ = State::kOpen;
  was_open_ = true;
  peer_server_id_ = answer.server_id;
  version_ = answer.version_max;
  mark_all(kSent);
  for (auto& held : std::exchange(held_, {})) transmit(held.header, std::move(held.body));
  const auto self = shared_from_this();
  tell_open();
}

void SimSession::when_open(ClientCall& call) {
  Session::when_open(call);
  if (broken()) fail_later();
}

void SimSession::on_reply(const wire::MessageHeader& header, ByteView body) {
  if (broken()) return;
  if (ClientCall* call = take_call(header.call_id)) call->on_reply(header, body);
}

void SimSession::send(ClientCall& call, wire::MessageHeader header, std::span<const Slice> body) {
  std::string bytes = gather(body);
  header.kind = wire::Kind::kRequest;
  header.body_length = static_cast<uint32_t>(bytes.size());
  header.call_id = add_call(call, state_ == State::kOpen ? kSent : kHeld);
  if (broken()) return fail_later();
  if (bytes.size() > wire::kMaxBodyBytes) {
    refuse_too_long(call);
    return fail_later();
  }
  if (state_ == State::kConnecting) {
    held_.push_back({header, std::move(bytes)});
  } else {
    transmit(header, std::move(bytes));
  }
}

/// Delivers the request once more over a separate connection to the same process, if it is alive
/// then and accepts the hello; the answer is dropped.
void SimSession::repeat(const wire::MessageHeader& header, const std::string& body,
                        Duration after) {
  auto ghost = std::make_shared<SimConnection>();
  ghost->client_node = &node_;
  ghost->server_node = connection_->server_node;
  network_.scheduler_.deliver(
      *ghost->server_node, network_.scheduler_.now() + after,
      [&network = network_, address = address_, hello = hello_, ghost, header, body] {
        SimTransport* server = network.listener(address);
        if (server == nullptr) return;
        server->accept(address, ghost, hello);
        if (ghost->server.expired()) return;  // the hello was refused
        network.scheduler_.note(Fault::kCallRepeated);
        server->receive(*ghost, header, body);
        server->closed_by_client(*ghost);
      });
}

void SimSession::transmit(const wire::MessageHeader& header, std::string body) {
  network_.sent(node_, *connection_->server_node, header);
  if (const auto after = network_.repeat_of(header)) repeat(header, body, *after);
  network_.send(node_, *connection_->server_node, connection_->to_server, false,
                [connection = connection_, header, body = std::move(body)] {
                  if (const auto server = connection->server.lock()) {
                    (*server)->receive(*connection, header, body);
                  }
                });
}

void SimSession::break_with(Status why) {
  if (broken()) return;
  state_ = State::kBroken;
  why_ = Status(why.code(), address_.to_string() + ": " + why.message());
  connect_timer_.stop();
  held_.clear();
  fail_later();
}

void SimSession::fail_later() {
  // After a kill no code of the node runs any more, and its reactor may be destroyed.
  if (failing_scheduled_ || node_.incarnation() != life_) return;
  failing_scheduled_ = true;
  reactor_.defer([self = shared_from_this()] {
    self->failing_scheduled_ = false;
    self->fail_refused();
    if (!self->broken()) return;
    const Status unsent = self->was_open_ || self->why_ == StatusCode::kConnectionLost
                              ? Status(StatusCode::kUnavailable, self->why_.message())
                              : self->why_;
    self->fail_calls(self->was_open_ ? kSent : 0,
                     Status(StatusCode::kConnectionLost, self->why_.message()), unsent);
  });
}

}  // namespace ramcloud
