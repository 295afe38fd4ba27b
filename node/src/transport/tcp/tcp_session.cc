#include "transport/tcp/tcp_session.h"

#include <fmt/format.h>

#include "transport/tcp/tcp_socket.h"
#include "wire/hello.h"

namespace ramcloud::tcp {
namespace {
constexpr uint64_t kNeverSent = ~uint64_t{0};  // a mark that no stream reaches
constexpr Duration kLookUpAgain = 250ms;
/// A lookup may take this part of the connect timeout; then the addresses of the last one are tried.
constexpr int kPartForLookUp = 5;
}  // namespace

TcpSession::TcpSession(std::shared_ptr<TcpContext> context, const HostPort& address,
                       const PeerIdentity& expected)
    : context_(std::move(context)),
      address_(address),
      hello_(wire::make_hello(expected.cluster_uuid, expected.server_id)),
      stream_(UniqueFd{}, context_->options.max_pending_bytes, context_->counters.sends),
      connect_timer_(context_->reactor,
                     [this] {
                       const auto self = shared_from_this();
                       break_with({StatusCode::kUnavailable,
                                   not_found_.empty() ? "connecting took too long" : not_found_});
                     }),
      look_up_timer_(context_->reactor, [this] { look_up(); }),
      known_timer_(context_->reactor, [this] { use_known_addresses(); }),
      silence_timer_(context_->reactor, [this] { leave_silent_address(); }) {
  hello_.version_max = context_->options.highest_version;
  context_->sessions.push_back(this);
}

TcpSession::~TcpSession() {
  std::erase(context_->sessions, this);
  if (stream_.fd() >= 0) context_->source.remove(stream_.fd());
}

void TcpSession::start() {
  connect_until_ = context_->reactor.now() + context_->options.connect_timeout;
  connect_timer_.start_at(connect_until_);
  if (auto numeric = numeric_address(address_.host, address_.port)) return connect_to({*numeric});
  known_timer_.start_after(context_->options.connect_timeout / kPartForLookUp);
  look_up();
}

/// The answer may come too late for this session. It is noted for the next one, which may have to
/// wait as long. (The context outlives its resolver's callbacks.)
void TcpSession::look_up() {
  context_->resolver.resolve(address_.host, address_.port,
                             [&known = context_->known_addresses, name = address_.to_string(),
                              weak = weak_from_this()](Result<Resolver::Addresses> found) {
                               if (found) known[name] = *found;
                               const auto self = weak.lock();
                               if (self == nullptr || self->state_ != State::kResolving) return;
                               self->on_looked_up(std::move(found));
                             });
}

/// A failed lookup does not prove that the server is absent: names of new pods appear late, and
/// name services fail. So the last known addresses are tried. Without them, the lookup is repeated
/// until the connect timeout.
void TcpSession::on_looked_up(Result<Resolver::Addresses> found) {
  if (found) return connect_to(std::move(*found));
  not_found_ = found.error().message();
  use_known_addresses();
  if (state_ == State::kResolving) look_up_timer_.start_after(kLookUpAgain);
}

/// The lookup failed, or takes long. Nothing happens if no address is known.
void TcpSession::use_known_addresses() {
  const auto known = context_->known_addresses.find(address_.to_string());
  if (known == context_->known_addresses.end()) return;
  remembered_ = true;
  connect_to(known->second);
}

void TcpSession::connect_to(Resolver::Addresses addresses) {
  look_up_timer_.stop();
  known_timer_.stop();
  addresses_ = std::move(addresses);
  std::ranges::reverse(addresses_);
  connect_to_next();
}

void TcpSession::connect_to_next() {
  Status why(StatusCode::kUnavailable, "no address");
  while (!addresses_.empty()) {
    bool refused = false;
    auto fd = start_connect(addresses_.back(), &refused);
    addresses_.pop_back();
    if (!fd) {
      note_attempt(refused);
      why = fd.error();
      continue;
    }
    stream_.attach(std::move(*fd));  // calls that wait stay in its output
    state_ = State::kConnecting;
    why = context_->source.add(stream_.fd(), EPOLLOUT, this);
    if (!why.ok()) {
      stream_.close();
      continue;
    }
    // Each of the addresses that are left has the same share of the time that is left.
    if (addresses_.empty()) return;
    const Duration left = connect_until_ - context_->reactor.now();
    return silence_timer_.start_after(left / static_cast<int64_t>(addresses_.size() + 1));
  }
  break_with(why);
}

/// Goes on with the next address, unless the hello's answer is arriving.
void TcpSession::leave_silent_address() {
  if (stream_.has_unread()) return;
  note_attempt(false);
  context_->source.remove(stream_.fd());
  stream_.close();
  connect_to_next();
}

/// The server counts as refusing only if all of its addresses refused. It may have others by now
/// than those of an earlier lookup.
void TcpSession::note_attempt(bool refused) {
  all_refused_ = all_refused_ && refused && !remembered_;
  absence_ = all_refused_ ? Absence::kRefused : Absence::kUnknown;
}

void TcpSession::on_ready(uint32_t events) {
  arrivals_.begin();
  const auto self = shared_from_this();  // a callback may drop the last other reference
  if (state_ == State::kConnecting) return on_connected();
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive();
  if ((events & EPOLLOUT) != 0 && state_ == State::kOpen) flush();
}

void TcpSession::on_connected() {
  bool refused = false;
  Status connected = finish_connect(stream_.fd(), &refused);
  if (connected.ok() && stream_.send_hello(hello_)) {
    state_ = State::kHello;
    absence_ = Absence::kUnknown;
    context_->source.modify(stream_.fd(), EPOLLIN);
    return;
  }
  note_attempt(refused);
  silence_timer_.stop();
  context_->source.remove(stream_.fd());
  stream_.close();
  if (!addresses_.empty()) return connect_to_next();
  break_with(connected.ok() ? Status(StatusCode::kUnavailable, "connection reset") : connected);
}

void TcpSession::receive() {
  constexpr int kReadsPerTurn = 16;  // then other sessions are handled; epoll reports this one
                                     // again
  for (int i = 0; i < kReadsPerTurn && !broken(); ++i) {
    const auto read = stream_.read();
    if (read == TcpStream::Read::kClosed) {
      return break_with({StatusCode::kConnectionLost, "the peer closed the connection"});
    }
    if (read == TcpStream::Read::kNothing) return;
    if (state_ == State::kHello && !take_hello()) return;
    while (state_ == State::kOpen && take_reply()) {
    }
    more_input_ = false;
    if (state_ == State::kOpen && stream_.has_pending() && !stream_.blocked()) flush();
    if (stream_.has_big_buffers()) context_->want_upkeep();
    if (read != TcpStream::Read::kFull) return;
  }
}

/// True if the session is open now.
bool TcpSession::take_hello() {
  wire::Hello answer;
  const auto parsed = stream_.front(answer);
  if (parsed == TcpStream::Parse::kIncomplete) return false;
  const Status accepted = wire::check_answer(hello_, answer);
  if (!accepted.ok()) {
    absence_ = remembered_ ? Absence::kUnknown : absence_by_hello(accepted);
    if (accepted == StatusCode::kProtocolError) {
      context_->counters.protocol_errors.add();
      context_->log_closed("hello", peer());
      break_with({StatusCode::kUnavailable, accepted.message()});
    } else if (remembered_ && accepted == StatusCode::kWrongCluster) {
      // Our peer may have another address by now, and another cluster this one.
      break_with({StatusCode::kUnavailable, "at a former address: " + accepted.message()});
    } else {
      break_with(accepted);
    }
    return false;
  }
  stream_.pop_hello();
  peer_server_id_ = answer.server_id;
  version_ = answer.version_max;
  peer_max_body_ = std::min(answer.max_body_bytes, wire::kMaxBodyBytes);
  connect_timer_.stop();
  silence_timer_.stop();
  state_ = State::kOpen;
  was_open_ = true;
  context_->counters.connected.add();
  flush();
  tell_open();  // if sending failed, later calls fail, too
  return state_ == State::kOpen;
}

/// True if there was a whole reply; it was passed to the call's owner.
bool TcpSession::take_reply() {
  wire::MessageHeader header;
  ByteView body;
  switch (stream_.front(wire::Kind::kReply, header, body)) {
    case TcpStream::Parse::kIncomplete:
      return false;
    case TcpStream::Parse::kMalformed:
      context_->counters.protocol_errors.add();
      context_->log_closed("reply header", peer());
      break_with({StatusCode::kConnectionLost, "the peer sent malformed bytes"});
      return false;
    case TcpStream::Parse::kMessage:
      break;
  }
  arrivals_.add(header.opcode);
  context_->counters.replies_in.add_from_one_thread();
  context_->reactor.trace_event("reply received", header.call_id, header.opcode);
  // Requests caused by answers that arrived together are sent together, with one system call.
  more_input_ = stream_.unread_bytes() > sizeof header + header.body_length;
  // Null if the call was cancelled.
  if (ClientCall* call = take_call(header.call_id)) call->on_reply(header, body);
  stream_.pop(header);
  return true;
}

void TcpSession::when_open(ClientCall& call) {
  Session::when_open(call);
  if (broken()) fail_later();
}

void TcpSession::send(ClientCall& call, wire::MessageHeader header, std::span<const Slice> body) {
  size_t size = 0;
  for (const Slice& slice : body) size += slice.size;
  header.kind = wire::Kind::kRequest;
  header.call_id = add_call(call, kNeverSent);
  if (broken()) return fail_later();
  if (size > peer_max_body_) {
    refuse_too_long(call);
    return fail_later();
  }
  // Backpressure: too much unsent output on a working connection. The caller must retry.
  if (stream_.pending_bytes() + sizeof header + size > context_->options.max_pending_bytes) {
    refuse_no_room(call);
    return fail_later();
  }
  header.body_length = static_cast<uint32_t>(size);
  set_mark(call, stream_.queued_bytes() + sizeof header + size);
  context_->counters.requests_out.add_from_one_thread();
  context_->reactor.trace_event("request sent", header.call_id, header.opcode);
  const auto when = state_ != State::kOpen ? TcpStream::Send::kHold
                    : more_input_          ? TcpStream::Send::kGather
                                           : TcpStream::Send::kNow;
  if (!stream_.send(header, body, when)) {
    return break_with({StatusCode::kConnectionLost, "sending failed"});
  }
  if (stream_.blocked() && state_ == State::kOpen) watch_output(true);
}

void TcpSession::flush() {
  if (!stream_.flush()) return break_with({StatusCode::kConnectionLost, "sending failed"});
  if (stream_.has_big_buffers()) context_->want_upkeep();
  watch_output(stream_.has_pending());
}

void TcpSession::watch_output(bool wanted) {
  if (wanted == watches_output_) return;
  watches_output_ = wanted;
  context_->source.modify(stream_.fd(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void TcpSession::break_with(Status why) {
  if (broken()) return;
  state_ = State::kBroken;
  why_ = Status(why.code(), peer() + ": " + why.message());
  connect_timer_.stop();
  look_up_timer_.stop();
  known_timer_.stop();
  silence_timer_.stop();
  std::erase(context_->sessions, this);
  if (stream_.fd() >= 0) {
    context_->source.remove(stream_.fd());
    stream_.close();
  }
  fail_later();
}

void TcpSession::fail_later() {
  if (failing_scheduled_) return;
  failing_scheduled_ = true;
  context_->reactor.defer([self = shared_from_this()] {
    self->failing_scheduled_ = false;
    self->fail_refused();
    if (!self->broken()) return;
    // Before the hello was answered nothing was sent, so every call fails as not sent.
    const Status unsent = self->was_open_ || self->why_ == StatusCode::kConnectionLost
                              ? Status(StatusCode::kUnavailable,
                                       self->why_.message() + " (before this call was sent)")
                              : self->why_;
    const Status sent(StatusCode::kConnectionLost, self->why_.message());
    self->fail_calls(self->was_open_ ? self->stream_.sent_bytes() : 0, sent, unsent);
  });
}

}  // namespace ramcloud::tcp
