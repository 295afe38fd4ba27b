#include "transport/tcp/tcp_connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include "transport/tcp/tcp_server.h"
#include "wire/hello.h"

namespace ramcloud::tcp {
namespace {

/// A few more than the cache misses that a core can have in flight.
constexpr uint32_t kMostAhead = 16;

}  // namespace

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
      version_(from.version),
      expected_server_id_(from.expected_server_id),
      placed_(true),
      counted_(std::move(from.counted)),
      peer_(std::move(from.peer)) {}

void TcpConnection::on_ready(uint32_t events) {
  arrivals_.begin();
  if (paused_ && (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) return server_.close(*this);
  // At most two items of work; epoll reports the rest again.
  if ((events & EPOLLOUT) != 0) {
    flush();
    if (state_ == State::kClosed || server_.context_.reactor.budget().spent()) return;
  }
  // A connection in the backlog is not read from until its buffered requests are done.
  const bool reads = !paused_ && !backlogged_;
  if (reads && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive();
}

void TcpConnection::receive() {
  // Then other connections are handled, and epoll reports this one again.
  constexpr int kReadsPerTurn = 16;
  constexpr size_t kMostRead = 128u << 10;
  TurnBudget& budget = server_.context_.reactor.budget();
  const bool stranger = is_stranger();
  const int reads = stranger ? 1 : kReadsPerTurn;
  for (int i = 0; i < reads && state_ != State::kClosed && !(i > 0 && budget.spent()); ++i) {
    const size_t had = stream_.unread_bytes();
    const auto read = stream_.read(stranger ? ByteBuffer::kSmallBytes : kMostRead);
    budget.spend(TurnBudget::kReceive + TurnBudget::of_bytes(stream_.unread_bytes() - had));
    if (read == TcpStream::Read::kClosed) return server_.close(*this);
    if (read == TcpStream::Read::kNothing) return;
    if (state_ == State::kHello && !take_hello()) return account();
    take_requests();
    if (stream_.has_big_buffers()) server_.context_.want_upkeep();
    if (paused_ || backlogged_ || read != TcpStream::Read::kFull) return;
  }
}

void TcpConnection::take_requests() {
  TurnBudget& budget = server_.context_.reactor.budget();
  uint32_t shown = 0;
  bool first = true;  // the first request is always taken: the caller checked that it is our turn
  bool stopped = false;
  while (state_ == State::kOpen) {
    stopped = !may_take_requests();
    if (stopped) break;
    if (!first && stream_.has_unread() && budget.spent()) {
      server_.add_to_backlog(*this);
      break;
    }
    if (shown == 0) shown = show_ahead();
    if (!take_request()) break;
    if (shown > 0) --shown;
    first = false;
  }
  more_input_ = false;
  // The budget is spent, and no other connection is in the backlog: gather further replies into the
  // same send call.
  const bool goes_on = backlogged_ && server_.backlog_.size() == 1;
  if (state_ == State::kOpen && !goes_on) flush_gathered();
  // Sending the gathered replies may have freed the room that it waited for, and no event would
  // tell us.
  if (state_ == State::kOpen && !may_take_requests()) {
    pause();
  } else if (state_ == State::kOpen && stopped) {
    server_.add_to_backlog(*this);
  }
  account();
}

uint32_t TcpConnection::show_ahead() {
  std::array<Ahead, kMostAhead> ahead;
  uint32_t count = 0;
  for (size_t at = 0; count < kMostAhead; ++count) {
    Ahead& next = ahead[count];
    const auto found = stream_.peek(at, wire::Kind::kRequest, next.header, next.body);
    if (found != TcpStream::Parse::kMessage) break;
    at += sizeof next.header + next.header.body_length;
  }
  // Prefetching is useful only for several requests.
  if (count > 1) handler_.on_ahead({ahead.data(), count});
  return count;
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
  asked.version_max = std::min(asked.version_max, server_.context_.options.highest_version);
  const wire::Hello answer =
      wire::answer_hello(asked, server_.self_.cluster_uuid, server_.self_.server_id);
  const bool sent = stream_.send_hello(answer);
  if (answer.status != 0 || !sent) {
    server_.context_.counters.refused.add();
    server_.close(*this);
    return false;
  }
  peer_max_body_ = std::min(asked.max_body_bytes, wire::kMaxBodyBytes);
  version_ = answer.version_max;
  expected_server_id_ = asked.server_id;
  state_ = State::kOpen;
  --server_.silent_;
  return true;
}

/// True if there was a whole request; its handler was called.
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
  // Only without unanswered requests, because their handles would become invalid.
  if (!placed_ && outstanding_ == 0 && server_.hand_over(*this, header.opcode)) return false;
  become_known();
  if (state_ == State::kClosed) return false;
  message_began_.reset();
  arrivals_.add(header.opcode);
  ++outstanding_;
  server_.context_.reactor.budget().spend(TurnBudget::kRequest +
                                          TurnBudget::of_bytes(header.body_length));
  server_.context_.counters.requests_in.add_from_one_thread();
  server_.context_.reactor.trace_event("request received", header.call_id, header.opcode);
  // Replies to requests that arrived together are sent together, with one system call.
  more_input_ = stream_.unread_bytes() > sizeof header + header.body_length;
  ReplyHandle handle{slot_, generation_, header.call_id, header.opcode, side_};
  handle.version = version_;
  handle.timeout_s = timeout_s(header);
  handler_.on_request(handle, header, body);
  stream_.pop(header);
  return true;
}

bool TcpConnection::send(const wire::MessageHeader& header, std::span<const Slice> body,
                         std::string* tail) {
  const bool gather = more_input_ || server_.batches_ > 0;
  const auto when = gather ? TcpStream::Send::kGather : TcpStream::Send::kNow;
  TurnBudget& budget = server_.context_.reactor.budget();
  const bool waited = stream_.has_pending();
  const uint64_t before = stream_.sent_bytes();
  if (tail == nullptr ? !stream_.send(header, body, when)
                      : !stream_.send(header, body, std::move(*tail), when)) {
    return false;
  }
  const uint64_t sent = stream_.sent_bytes() - before;
  budget.spend(TurnBudget::kReply + TurnBudget::of_bytes(header.body_length));
  if (sent > 0) {
    budget.spend_on_call(TurnBudget::kSend);
  } else if (!waited) {
    budget.spend(TurnBudget::kSend);  // the first gathered reply pays for the later system call
  }
  if (stream_.blocked()) {
    watch();
    account();
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
  const uint64_t before = stream_.sent_bytes();
  if (!stream_.flush()) return server_.close(*this);
  server_.context_.reactor.budget().spend_on_call(
      TurnBudget::kSend + TurnBudget::of_bytes(stream_.sent_bytes() - before));
  if (stream_.has_big_buffers()) server_.context_.want_upkeep();
  watch();
  account();
  resume_if_due();
}

Status TcpConnection::start_watching() {
  source_ = state_ == State::kHello ? &server_.strangers_->source : &server_.context_.source;
  return source_->add(stream_.fd(), EPOLLIN, this);
}

bool TcpConnection::is_stranger() const {
  return source_ != &server_.context_.source;
}

void TcpConnection::become_known() {
  if (!is_stranger()) return;
  stop_watching();
  source_ = &server_.context_.source;
  // epoll is level-triggered: input that arrived meanwhile is reported.
  if (!source_->add(stream_.fd(), watched_, this).ok()) server_.close(*this);
}

void TcpConnection::stop_watching() {
  source_->remove(stream_.fd());
}

/// A paused connection is not read from, so its end-of-file is watched separately: its memory must
/// be freed when the peer closes.
void TcpConnection::watch() {
  const uint32_t wanted = (paused_ ? uint32_t{EPOLLRDHUP} : uint32_t{EPOLLIN}) |
                          (stream_.blocked() ? uint32_t{EPOLLOUT} : 0u);
  if (wanted == watched_) return;
  watched_ = wanted;
  source_->modify(stream_.fd(), wanted);
}

/// Backpressure for a peer that does not read its replies, long before its connection is closed.
/// The limit of one connection shrinks with the total room: N such connections leave a (N + 1)th of
/// all room for the next one.
uint64_t TcpConnection::pause_mark() const {
  return std::min({server_.context_.options.max_pending_bytes / 2,
                   uint64_t{2} * wire::kMaxBodyBytes, server_.reply_room()});
}

bool TcpConnection::has_room(uint64_t bytes) const {
  const uint64_t held = held_bytes();
  return held == 0 ? bytes <= server_.reply_room() : held + bytes <= pause_mark();
}

bool TcpConnection::may_take_requests() const {
  return outstanding_ < server_.context_.options.max_outstanding &&
         (held_bytes() == 0 || held_bytes() <= pause_mark());
}

void TcpConnection::pause() {
  if (paused_) return;
  paused_ = true;
  server_.context_.counters.limited_outstanding.add();
  watch();
}

void TcpConnection::resume_if_due() {
  if (!paused_ || resuming_ || outstanding_ > server_.context_.options.max_outstanding / 2 ||
      (held_bytes() > 0 && held_bytes() > pause_mark() / 2)) {
    return;
  }
  resuming_ = true;  // in a later turn, because a handler may be on the stack
  server_.context_.reactor.defer([&server = server_, alive = std::weak_ptr(server_.alive_),
                                  slot = slot_, generation = generation_] {
    if (alive.expired()) return;
    if (TcpConnection* self = server.find(slot, generation)) self->resume();
  });
}

void TcpConnection::resume() {
  paused_ = resuming_ = false;
  server_.add_to_backlog(*this);  // requests that are buffered already
  watch();
}

void TcpConnection::account() {
  if (state_ == State::kClosed) return;
  TcpContext& context = server_.context_;
  const Time now = context.reactor.now();
  if (paused_ || backlogged_ || !stream_.has_unread() || state_ == State::kHello) {
    message_began_.reset();  // hellos have their own timeout
  } else if (!message_began_) {
    message_began_ = now;
    context.want_upkeep();
  }
  if (!stream_.has_pending()) {
    output_began_.reset();
  } else if (!output_began_ || stream_.sent_bytes() >= output_mark_) {
    output_began_ = now;
    output_mark_ = stream_.queued_bytes();
    context.want_upkeep();
  }
  const size_t holds = stream_.buffered_bytes();
  if (holds == accounted_bytes_) return;
  const bool grew = holds > accounted_bytes_;
  server_.add_buffered(static_cast<int64_t>(holds) - static_cast<int64_t>(accounted_bytes_));
  accounted_bytes_ = holds;
  if (grew && context.totals->buffered_bytes > context.options.max_buffered_bytes)
    server_.make_room();
}

bool TcpConnection::is_late(Time now, Duration limit) const {
  return (message_began_ && now - *message_began_ >= limit) ||
         (output_began_ && now - *output_began_ >= limit);
}

void TcpConnection::close_for(const char* why, Counter& counter) {
  counter.add();
  server_.context_.log_closed(why, peer_);
  server_.close(*this);
}

}  // namespace ramcloud::tcp
