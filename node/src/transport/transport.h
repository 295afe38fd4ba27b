// Transport: message-oriented RPC between processes (docs/design/runtime.md). A client side
// connects to locators and sends calls; a server side delivers requests and sends replies. Any
// number of calls may be outstanding on a session; replies come in any order. Everything happens on
// one reactor's thread.
//
// Data path rule: neither side allocates per message in steady state.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "base/text.h"
#include "wire/message_header.h"

namespace ramcloud {

/// One outstanding call. Intrusive: the caller owns it and keeps it alive until one of the two
/// functions was called or it was cancelled (destroying an outstanding call cancels it).
class ClientCall {
 public:
  virtual ~ClientCall();
  /// The peer answered, with any status in the header. `body` is valid during the call only.
  virtual void on_reply(const wire::MessageHeader& header, ByteView body) = 0;
  /// No answer will come. UNAVAILABLE: the call was certainly never sent (no connection);
  /// CONNECTION_LOST: it may have been executed; WRONG_CLUSTER, WRONG_SERVER, UNSUPPORTED: the
  /// hello was refused, so it was not executed.
  virtual void on_failure(const Status& status) = 0;
  /// The session passed to Session::when_open() is established: the call can be sent now.
  virtual void on_open() {}

  bool outstanding() const { return session_ != nullptr; }
  void cancel();

 protected:
  ClientCall() = default;
  ClientCall(const ClientCall&) = delete;
  ClientCall& operator=(const ClientCall&) = delete;

 private:
  friend class Session;
  class Session* session_ = nullptr;
  uint64_t call_id_ = 0;
  uint64_t mark_ = 0;               // for the session: the end of the request in its byte stream
  ClientCall* previous_ = nullptr;  // the session's list of outstanding calls, in sending order
  ClientCall* next_ = nullptr;
};

/// What a broken session proves about its server.
enum class Absence : uint8_t {
  kUnknown,   // nothing: it may be alive
  kRefused,   // the connection was refused: no process listens at its address
  kStranger,  // another server listens there, as its hello shows
};

/// From the result of wire::check_answer() for the peer's hello.
inline Absence absence_by_hello(const Status& answer) {
  switch (answer.code()) {
    case StatusCode::kUnavailable:  // it has just started: not the server of before
    case StatusCode::kWrongServer:
    case StatusCode::kWrongCluster:
      return Absence::kStranger;
    default:
      return Absence::kUnknown;
  }
}

/// A connection to one server. Connecting starts at once; calls sent before it is established are
/// kept. A caller with an outstanding call holds the session: a session that is destroyed drops its
/// calls silently.
class Session {
 public:
  virtual ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  /// Sends a request. The slices' bytes may be reused when send() returns (what could not be sent
  /// at once is copied). Fills body_length, kind and call_id of the header. Failures are reported
  /// in a later turn, never from inside send(): a broken session, a body above kMaxBodyBytes
  /// (INVALID_ARGUMENT), or no room for unsent bytes (RETRY).
  virtual void send(ClientCall& call, wire::MessageHeader header, std::span<const Slice> body) = 0;
  /// A broken session stays broken: connect again for a new session.
  virtual bool broken() const = 0;
  /// The server id that the peer gave in its hello; 0 before that, or if it has none.
  virtual uint64_t peer_server_id() const = 0;
  /// The protocol version from the hello; 0 before that.
  virtual uint16_t version() const = 0;
  /// For calls whose body depends on the version: on_open() is called when the hello is answered,
  /// and on_failure() if that never happens, as for a call that was not sent. Only while version()
  /// is 0.
  virtual void when_open(ClientCall& call);
  /// For a session that broke before it was open. Failure detection uses it.
  virtual Absence absence() const { return Absence::kUnknown; }
  /// When the peer last answered a call; callers note it.
  Time answered() const { return answered_; }
  void note_answered(Time now) { answered_ = now; }

 protected:
  friend class ClientCall;
  Session();
  /// For implementations: the outstanding calls, in sending order and by id. fail_calls() decides
  /// by `mark` whether the call was sent.
  uint64_t add_call(ClientCall& call, uint64_t mark);
  ClientCall* take_call(uint64_t call_id);  // null if it was cancelled
  bool has_calls() const { return first_ != nullptr; }
  void set_mark(ClientCall& call, uint64_t mark) { call.mark_ = mark; }
  void mark_all(uint64_t mark) {
    for (ClientCall* call = first_; call != nullptr; call = call->next_) {
      if (call->mark_ < kWaitsForOpen) call->mark_ = mark;
    }
  }
  /// The hello was answered: tells the calls that waited for it. The caller keeps the session
  /// alive.
  void tell_open();
  /// The call was not sent, because it is too long, or because too much output is pending;
  /// fail_refused() reports that.
  void refuse_too_long(ClientCall& call) { call.mark_ = kTooLong; }
  void refuse_no_room(ClientCall& call) { call.mark_ = kNoRoom; }
  void fail_refused();
  /// Removes every outstanding call and fails it: with `sent` if its mark is at most `sent_up_to`,
  /// otherwise with `unsent`. The caller keeps the session alive.
  void fail_calls(uint64_t sent_up_to, const Status& sent, const Status& unsent);

 private:
  /// Finds calls by id: a small open-addressing table, so that replies in any order cost O(1).
  struct CallTable;
  static constexpr uint64_t kTooLong = ~uint64_t{0} - 1;
  static constexpr uint64_t kNoRoom = ~uint64_t{0} - 2;
  static constexpr uint64_t kWaitsForOpen = ~uint64_t{0} - 3;
  std::unique_ptr<CallTable> calls_;
  ClientCall* first_ = nullptr;
  ClientCall* last_ = nullptr;
  uint64_t last_call_id_ = 0;
  Time answered_{};
};

/// The server that is expected at the other end; zero means any.
struct PeerIdentity {
  std::array<uint8_t, 16> cluster_uuid{};
  uint64_t server_id = 0;
};

/// The side from which a client connects: the inside or outside address of the cluster
/// (docs/design/runtime.md).
enum class Side : uint8_t { kInside, kOutside };

/// Identifies a request until it is answered. A stale handle (its connection is closed) is
/// harmless. It has 24 bytes and can be copied; held replies keep nothing else of the request.
struct ReplyHandle {
  uint32_t connection = 0;  // slot
  uint32_t generation = 0;  // of the slot
  uint64_t call_id = 0;
  uint16_t opcode = 0;
  Side side = Side::kInside;
  uint8_t reactor = 0;                   // the reactor that has the connection; see RoutedReplies
  uint16_t version = wire::kVersionMin;  // of the protocol, on this connection
  uint16_t timeout_s = 0;  // the client waits this long after sending (rounded up); 0: no limit
};
static_assert(sizeof(ReplyHandle) == 24);

/// A request's timeout as a handle keeps it.
inline uint16_t timeout_s(const wire::MessageHeader& header) {
  const uint64_t seconds = (uint64_t{header.timeout_ms} + 999) / 1000;
  return seconds > 0xffff ? 0 : static_cast<uint16_t>(seconds);
}

/// A request that will be handled next.
struct Ahead {
  wire::MessageHeader header;
  ByteView body;
};

class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  /// Called with requests that arrived together, before on_request() is called for each: the
  /// receiver can prefetch the memory that they will touch. It must not execute them, because some
  /// may be handed over to another reactor.
  virtual void on_ahead(std::span<const Ahead>) {}
  /// `body` is valid during the call only. Must be answered by exactly one Transport::reply(), now
  /// or later.
  virtual void on_request(const ReplyHandle& handle, const wire::MessageHeader& header,
                          ByteView body) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// Creates a session to a locator. Fails at once only if the locator is of another transport.
  virtual Result<std::shared_ptr<Session>> connect(const Locator& locator,
                                                   const PeerIdentity& expected) = 0;
  /// Accepts connections; `handler` outlives the transport. Returns the bound address (port 0: any
  /// free port). May be called for several addresses.
  virtual Result<HostPort> listen(const HostPort& address, Side side, RequestHandler& handler) = 0;
  /// Sets our identity for hellos from now on (after enlisting). Connections that expect another id
  /// are refused.
  virtual void set_identity(const PeerIdentity& self) = 0;
  /// Answers a request. The slices' bytes may be reused when reply() returns.
  virtual void reply(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body) = 0;
  /// The same with `tail` after `body`. A transport may move it instead of copying.
  virtual void reply_owned(const ReplyHandle& handle, StatusCode status,
                           std::span<const Slice> body, std::string&& tail);

  /// @name Memory that replies hold until reply() is called: results in progress, and held replies.
  /// Like unsent output, it counts against the limits of the request's connection and of all
  /// (docs/design/wire.md#limits). No more requests are read from a connection above its limit.
  /// @{ Whether the connection may hold `bytes` more. False: answer with less, or later.
  virtual bool has_room(const ReplyHandle&, uint64_t /*bytes*/) const { return true; }
  /// Adds bytes (or subtracts, if negative) that are held for the request. The code that charged
  /// must undo it, even if the connection is closed.
  virtual void charge(const ReplyHandle&, int64_t /*bytes*/) {}
  /// False: the connection of the request is closed, so nobody waits for the answer.
  virtual bool is_open(const ReplyHandle&) const { return true; }
  /// Connections closed so far: while it does not change, neither does is_open().
  virtual uint64_t closed_connections() const { return 0; }
  /// @} See ReplyBatch: replies between the two calls may be sent together at the end.
  virtual void begin_replies() {}
  virtual void end_replies() {}
};

/// During its lifetime, small replies to one client are gathered into one system call.
class ReplyBatch {
 public:
  explicit ReplyBatch(Transport& transport) : transport_(transport) { transport_.begin_replies(); }
  ~ReplyBatch() { transport_.end_replies(); }
  ReplyBatch(const ReplyBatch&) = delete;
  ReplyBatch& operator=(const ReplyBatch&) = delete;

 private:
  Transport& transport_;
};

}  // namespace ramcloud
