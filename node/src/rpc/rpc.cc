#include "rpc/rpc.h"

#include <algorithm>

#include "base/logging.h"

namespace ramcloud {
namespace {

constexpr Duration kFirstPause = 20ms;
constexpr Duration kLongestPause = 1s;
/// If a session lived this long before it broke, a new one is created at once.
constexpr Duration kGoodLife = 2s;
constexpr Duration kUnused = 1min;

/// The session to a server to which no connection is possible, because its locator is of another
/// transport.
class DeadSession final : public Session, public std::enable_shared_from_this<DeadSession> {
 public:
  DeadSession(Reactor& reactor, Status why) : reactor_(reactor), why_(std::move(why)) {}
  void send(ClientCall& call, wire::MessageHeader, std::span<const Slice>) override {
    add_call(call, 1);
    reactor_.defer([self = shared_from_this()] { self->fail_calls(0, self->why_, self->why_); });
  }
  bool broken() const override { return true; }
  uint64_t peer_server_id() const override { return 0; }
  uint16_t version() const override { return wire::kVersionMin; }  // every call fails

 private:
  Reactor& reactor_;
  Status why_;
};

uint32_t timeout_ms(Time now, Time deadline) {
  if (deadline == kNever) return 0;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(ms, 1, ~uint32_t{0}));
}

RpcReply failed(Status status) {
  RpcReply reply;
  reply.status = std::move(status);
  return reply;
}

/// The awaiter of one call. It lives in the waiting coroutine's frame; destroying it cancels the
/// call.
class CallAwaiter final : public ClientCall, private CallWatch::Call {
 public:
  /// `body` and `body_for` outlive it. With `body_for` the body is built when the session is
  /// established.
  CallAwaiter(Reactor& reactor, std::shared_ptr<Session> session, wire::Opcode opcode,
              std::string& body, const RpcClient::BodyFor* body_for, Time deadline,
              CallWatch* watch)
      : held_(std::move(session)),
        opcode_(opcode),
        body_(body),
        body_for_(body_for),
        deadline_(deadline),
        watch_(watch),
        reactor_(reactor),
        timer_(reactor, [this] { on_timer(); }) {
    if (watch_ != nullptr) watch_->attach(this);
  }
  ~CallAwaiter() override {
    cancel();
    if (watch_ != nullptr) watch_->attach(nullptr);
  }

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    waiting_ = handle;
    start_timer();
    if (body_for_ == nullptr || held_->version() != 0) return send();
    held_->when_open(*this);
  }
  RpcReply await_resume() { return std::move(reply_); }

  void on_open() override { send(); }
  void on_reply(const wire::MessageHeader& header, ByteView body) override {
    held_->note_answered(reactor_.now());
    RpcReply reply = decode_reply(header, body);
    reply.version = held_->version();
    finish(std::move(reply));
  }
  void on_failure(const Status& status) override {
    RpcReply reply = failed(status);
    reply.absence = held_->absence();
    finish(std::move(reply));
  }

 private:
  void send() {
    sent_ = true;
    if (body_for_ != nullptr) body_ = (*body_for_)(held_->version());
    wire::MessageHeader header{};
    header.opcode = static_cast<uint16_t>(opcode_);
    header.timeout_ms = timeout_ms(reactor_.now(), deadline_);
    const Slice slice(body_);
    held_->send(*this, header, {&slice, 1});
  }
  /// One timer for the deadline and the watch.
  void start_timer() {
    const Time look = watch_ == nullptr ? kNever : reactor_.now() + watch_->next_wait();
    const Time next = std::min(deadline_, look);
    if (next != kNever) timer_.start_at(next);
  }
  void on_timer() {
    if (!given_up_.ok()) return end(std::move(given_up_));
    if (reactor_.now() >= deadline_) {
      return end({StatusCode::kDeadlineExceeded, "no answer in time"});
    }
    start_timer();
    watch_->on_silence();
  }
  void give_up(Status why) override {
    given_up_ = std::move(why);
    timer_.start_at(reactor_.now());
  }
  void end(Status why) {
    cancel();
    RpcReply late = failed(std::move(why));
    late.sent = sent_;
    finish(std::move(late));
  }
  void finish(RpcReply reply) {
    timer_.stop();
    reply_ = std::move(reply);
    waiting_.resume();  // this object may be gone afterwards
  }

  std::shared_ptr<Session> held_;
  wire::Opcode opcode_;
  std::string& body_;
  const RpcClient::BodyFor* body_for_;
  Time deadline_;
  CallWatch* watch_;  // null: none
  Status given_up_;   // not OK: why the watch ends the call
  Reactor& reactor_;
  Timer timer_;
  std::coroutine_handle<> waiting_{};
  bool sent_ = false;  // or queued in the session
  RpcReply reply_;
};

}  // namespace

// ---- RpcClient

RpcClient::RpcClient(Reactor& reactor, Transport& transport)
    : reactor_(reactor), transport_(transport) {}

RpcClient::~RpcClient() = default;

void RpcClient::set_cluster_uuid(const std::array<uint8_t, 16>& uuid) {
  cluster_uuid_ = uuid;
}

void RpcClient::forget_unused() {
  const Time now = reactor_.now();
  if (now - looked_through_ < kUnused) return;
  looked_through_ = now;
  std::erase_if(peers_, [now](const auto& entry) {
    const Peer& peer = entry.second;
    return now - peer.used >= kUnused && peer.session->broken();
  });
}

RpcClient::Peer& RpcClient::peer(const Locator& locator, uint64_t server_id) {
  forget_unused();
  auto found = peers_.find(PeerRef{locator, server_id});
  if (found == peers_.end()) found = peers_.try_emplace(PeerKey{locator, server_id}).first;
  Peer& peer = found->second;
  const Time now = reactor_.now();
  peer.used = now;
  if (peer.session != nullptr) {
    if (!peer.session->broken() || now < peer.made + peer.pause) return peer;
    peer.pause =
        now - peer.made >= kGoodLife ? kFirstPause : std::min(kLongestPause, peer.pause * 2);
  } else {
    peer.pause = kFirstPause;
  }
  auto session =
      transport_.connect(locator, {.cluster_uuid = cluster_uuid_, .server_id = server_id});
  peer.session = session ? std::move(*session)
                         : std::make_shared<DeadSession>(reactor_, std::move(session.error()));
  peer.made = now;
  return peer;
}

std::shared_ptr<Session> RpcClient::session(const Locator& locator, uint64_t server_id) {
  return peer(locator, server_id).session;
}

bool RpcClient::has_answered_since(const Locator& locator, uint64_t server_id, Time since) const {
  const auto found = peers_.find(PeerRef{locator, server_id});
  if (found == peers_.end()) return false;
  const auto& session = found->second.session;
  return session != nullptr && !session->broken() && session->answered() > since;
}

Task<RpcReply> RpcClient::call(Locator locator, uint64_t server_id, wire::Opcode opcode,
                               std::string body, Time deadline, CallWatch* watch) {
  return make_call(std::move(locator), server_id, opcode, std::move(body), nullptr, deadline,
                   watch);
}

Task<RpcReply> RpcClient::call_with(Locator locator, uint64_t server_id, wire::Opcode opcode,
                                    BodyFor body, Time deadline) {
  return make_call(std::move(locator), server_id, opcode, {}, std::move(body), deadline, nullptr);
}

Task<RpcReply> RpcClient::make_call(Locator locator, uint64_t server_id, wire::Opcode opcode,
                                    std::string body, BodyFor body_for, Time deadline,
                                    CallWatch* watch) {
  if (deadline <= reactor_.now()) {
    RpcReply late = failed({StatusCode::kDeadlineExceeded, "the deadline had passed already"});
    late.sent = false;
    co_return late;
  }
  const Peer& target = peer(locator, server_id);
  std::shared_ptr<Session> session = target.session;
  if (session->broken()) {
    const Duration pause = std::min(
        {kFirstPause, deadline - reactor_.now(), target.made + target.pause - reactor_.now()});
    co_await reactor_.sleep(std::max(pause, Duration(1us)));
  }
  // A broken session fails the call with the reason why it broke.
  co_return co_await CallAwaiter(reactor_, std::move(session), opcode, body,
                                 body_for ? &body_for : nullptr, deadline, watch);
}

// ---- replies

namespace {

/// `in`: the bytes after an error's text. Missing or additional fields are accepted.
wire::ErrorDetails decode_details(ByteView in) {
  wire::ErrorDetails details;
  wire::Decoder(in, wire::kExtensible).get(details);
  return details;
}

}  // namespace

RpcReply decode_reply(const wire::MessageHeader& header, ByteView body) {
  RpcReply reply;
  if (header.status == 0) {
    reply.body = body;
    return reply;
  }
  std::string text;
  if (body.size() >= sizeof(wire::ErrorBody)) {
    const auto error = load<wire::ErrorBody>(body.data());
    reply.retry_after_us = error.retry_after_us;
    text = body.substr(sizeof error, error.message_length);
    reply.details = decode_details(body.substr(sizeof error + text.size()));
  }
  reply.status = Status(static_cast<StatusCode>(header.status), std::move(text));
  return reply;
}

void reply_error(Transport& transport, const ReplyHandle& handle, const Status& status,
                 uint32_t retry_after_us, const wire::ErrorDetails& details) {
  constexpr size_t kMaxText = 1024;  // for people; the rest would not be read
  const ByteView text = ByteView(status.message()).substr(0, kMaxText);
  const wire::ErrorBody error{.retry_after_us = retry_after_us,
                              .message_length = static_cast<uint16_t>(text.size())};
  // Go clients before version 2 cannot read the text of an error with details.
  std::string behind;
  if (details != wire::ErrorDetails{} && handle.version >= wire::kExtensible) {
    wire::encode(details, wire::kExtensible, behind);
  }
  const std::array<Slice, 3> body{Slice(bytes_of(error)), Slice(text), Slice(behind)};
  // An error with status OK is a bug here; the peer must not take it for a successful answer.
  transport.reply(handle, status.ok() ? StatusCode::kInternal : status.code(), body);
}

// ---- ServiceRegistry

void ServiceRegistry::add(wire::Opcode opcode, Handler handler, void* object) {
  const auto index = static_cast<size_t>(opcode);
  if (index >= entries_.size() || entries_[index].handler != nullptr) {
    fatal("service_registered_twice", {{"opcode", index}});
  }
  entries_[index] = {handler, object};
}

void ServiceRegistry::on_request(const ReplyHandle& handle, const wire::MessageHeader& header,
                                 ByteView body) {
  Entry entry = header.opcode < entries_.size() ? entries_[header.opcode] : Entry{};
  if (entry.handler == nullptr) entry = rest_;
  if (entry.handler == nullptr) {
    return reply_error(transport_, handle,
                       Status(StatusCode::kUnsupported,
                              "opcode " + std::to_string(header.opcode) + " is not served here"));
  }
  const Request request{handle, header, body};
  if (header.opcode >= guarded_first_ && header.opcode <= guarded_last_ &&
      guard_(guard_object_, request)) {
    return;
  }
  if (gate_ != nullptr && gate_(gate_object_, request)) return;
  entry.handler(entry.object, request);
}

}  // namespace ramcloud
