// Calls between processes: sessions are created, kept and replaced here; a call has a deadline, and
// reports whether it may have been executed. Services register handlers by opcode.
#pragma once

#include <algorithm>
#include <array>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "base/status.h"
#include "runtime/reactor.h"
#include "transport/transport.h"
#include "wire/codec.h"
#include "wire/data_messages.h"

namespace ramcloud {

/// The outcome of a call: the status from the peer or the transport, and the body.
struct RpcReply {
  Status status;
  std::string body;                      // of an OK reply
  uint32_t retry_after_us = 0;           // with RETRY
  bool sent = true;                      // false: certainly not sent
  wire::ErrorDetails details;            // details of an error; defaults if the peer sent none
  uint16_t version = wire::kVersionMin;  // protocol version, which decides the body's encoding
  /// For a call that failed because its session broke before it was open.
  Absence absence = Absence::kUnknown;
  bool ok() const { return status.ok(); }
};

/// The message in an OK reply's body; PROTOCOL_ERROR if it does not decode.
template <typename Message>
Result<Message> decode_message(const RpcReply& reply) {
  Message message;
  if (wire::decode(reply.body, reply.version, message)) return message;
  return fail(StatusCode::kProtocolError, "reply does not decode");
}

/// Watches a call of RpcClient without an answer, and may end it. It outlives the call.
class CallWatch {
 public:
  /// The call, as the watch uses it.
  class Call {
   public:
    /// The call ends in a later turn with this status, unless its answer comes first.
    virtual void give_up(Status why) = 0;

   protected:
    ~Call() = default;
  };
  /// `first`: when the watch is first called for an unanswered call. It is called again after twice
  /// that time, and then after every four times that time.
  explicit CallWatch(Duration first) : wait_(first), longest_(4 * first) {}
  virtual ~CallWatch() = default;
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;
  virtual void on_silence() = 0;

  // For RpcClient.
  void attach(Call* call) { call_ = call; }
  Duration next_wait() { return std::exchange(wait_, std::min(longest_, 2 * wait_)); }

 protected:
  void give_up(Status why) {
    if (call_ != nullptr) call_->give_up(std::move(why));
  }

 private:
  Call* call_ = nullptr;  // while the call is outstanding
  Duration wait_;
  Duration longest_;
};

/// Makes calls; one object for each reactor. Sessions are shared by (locator, expected server id)
/// and replaced when broken: the first time at once, then 20 ms after the previous one was created,
/// doubling up to a second while they keep breaking. In between, calls fail with UNAVAILABLE after
/// a pause of up to 20 ms, so that a loop that retries at once does not spin, and a caller with
/// other servers to ask can continue. Unused broken sessions are removed after a minute or two,
/// because new server ids and addresses keep appearing while a process runs.
class RpcClient {
 public:
  RpcClient(Reactor& reactor, Transport& transport);
  ~RpcClient();

  Reactor& reactor() { return reactor_; }
  Transport& transport() { return transport_; }

  /// The session to a server, created if need be; never null. `server_id` 0: any server at that
  /// address. During the pause before it may be replaced, the broken session.
  std::shared_ptr<Session> session(const Locator& locator, uint64_t server_id);
  /// The server answered a call of this client after `since`, and its connection has not broken.
  bool has_answered_since(const Locator& locator, uint64_t server_id, Time since) const;
  /// The cluster that our hellos expect of the peer; zero: any.
  void set_cluster_uuid(const std::array<uint8_t, 16>& uuid);

  /// Sends one call, once. Errors: the peer's; DEADLINE_EXCEEDED (it may have been executed, or
  /// will be); UNAVAILABLE (never sent); CONNECTION_LOST (may have been executed). Destroying the
  /// task cancels the call. `watch`, if not null, is called while there is no answer. It uses the
  /// deadline's timer, so an answered call has no extra cost.
  Task<RpcReply> call(Locator locator, uint64_t server_id, wire::Opcode opcode, std::string body,
                      Time deadline, CallWatch* watch = nullptr);

  /// Builds the body for a connection of this version; called once, when the version is known.
  using BodyFor = std::function<std::string(uint16_t version)>;
  /// A body that encodes `message`, which outlives it.
  template <typename Message>
  static BodyFor body_of(const Message& message) {
    return [&message](uint16_t version) { return wire::encode(message, version); };
  }
  /// The same, with a body that depends on the version of the protocol.
  Task<RpcReply> call_with(Locator locator, uint64_t server_id, wire::Opcode opcode, BodyFor body,
                           Time deadline);

  /// The same with encoded messages (wire/control_messages.h); a reply that does not decode is
  /// PROTOCOL_ERROR.
  template <typename Reply, typename Request>
  Task<Result<Reply>> call(Locator locator, uint64_t server_id, wire::Opcode opcode,
                           Request request, Time deadline) {
    RpcReply reply =
        co_await call_with(std::move(locator), server_id, opcode, body_of(request), deadline);
    if (!reply.ok()) co_return fail(std::move(reply.status));
    co_return decode_message<Reply>(reply);
  }

 private:
  struct Peer {
    std::shared_ptr<Session> session;
    Time made{};
    Duration pause{};  // time until it may be replaced
    Time used{};
  };
  /// The key of a peer; compared field by field, so that a lookup does not allocate.
  struct PeerRef {
    const Locator& locator;
    uint64_t server_id;
    auto key() const {
      return std::tie(locator.address.port, server_id, locator.address.host, locator.transport);
    }
  };
  struct PeerKey {
    Locator locator;
    uint64_t server_id;
    operator PeerRef() const { return {locator, server_id}; }
  };
  struct ByPeer {
    using is_transparent = void;
    bool operator()(PeerRef a, PeerRef b) const { return a.key() < b.key(); }
  };
  Peer& peer(const Locator& locator, uint64_t server_id);
  Task<RpcReply> make_call(Locator locator, uint64_t server_id, wire::Opcode opcode,
                           std::string body, BodyFor body_for, Time deadline, CallWatch* watch);
  void forget_unused();
  Reactor& reactor_;
  Transport& transport_;
  std::array<uint8_t, 16> cluster_uuid_{};
  std::map<PeerKey, Peer, ByPeer> peers_;
  Time looked_through_{};
};

/// Reads an error reply's body (wire::ErrorBody, wire::ErrorDetails); accepts any bytes. If the
/// details are cut off, the fields that are there are used.
RpcReply decode_reply(const wire::MessageHeader& header, ByteView body);

/// Answers with an error and its text, and the details if they are not empty.
void reply_error(Transport& transport, const ReplyHandle& handle, const Status& status,
                 uint32_t retry_after_us = 0, const wire::ErrorDetails& details = {});
/// Answers OK with a control message.
template <typename Reply>
void reply_message(Transport& transport, const ReplyHandle& handle, const Reply& reply) {
  const std::string body = wire::encode(reply, handle.version);
  const Slice slice(body);
  transport.reply(handle, StatusCode::kOk, {&slice, 1});
}

/// A request for a handler; valid only during the call of the handler, except `reply`, which can be
/// copied.
struct Request {
  ReplyHandle reply;
  const wire::MessageHeader& header;
  ByteView body;
  /// False if the body does not decode as this message.
  template <typename Message>
  [[nodiscard]] bool decode(Message& message) const {
    return wire::decode(body, reply.version, message);
  }
};

/// The table of handlers of one process: opcode -> function. Unknown opcodes are answered
/// UNSUPPORTED.
class ServiceRegistry final : public RequestHandler {
 public:
  explicit ServiceRegistry(Transport& transport) : transport_(transport) {}
  Transport& transport() { return transport_; }

  /// `handler` is a plain function pointer with its object: no allocation and no further
  /// indirection.
  using Handler = void (*)(void* object, const Request& request);
  void add(wire::Opcode opcode, Handler handler, void* object);
  /// This handler gets all requests without a handler here; without it they are answered
  /// UNSUPPORTED.
  void add_rest(Handler handler, void* object) { rest_ = {handler, object}; }
  /// Called for every request before its handler; true: the gate took the request and will answer
  /// it.
  using Gate = bool (*)(void* object, const Request& request);
  void set_gate(Gate gate, void* object) {
    gate_ = gate;
    gate_object_ = object;
  }
  /// Called like the gate, but before it, and only for these opcodes.
  void set_guard(wire::Opcode first, wire::Opcode last, Gate guard, void* object) {
    guarded_first_ = static_cast<uint16_t>(first);
    guarded_last_ = static_cast<uint16_t>(last);
    guard_ = guard;
    guard_object_ = object;
  }
  /// Called with requests that arrived together, before they are handled
  /// (RequestHandler::on_ahead).
  using AheadHandler = void (*)(void* object, std::span<const Ahead> requests);
  void set_ahead(AheadHandler handler, void* object) {
    ahead_ = handler;
    ahead_object_ = object;
  }
  void on_ahead(std::span<const Ahead> requests) override {
    if (ahead_ != nullptr) ahead_(ahead_object_, requests);
  }
  void on_request(const ReplyHandle& handle, const wire::MessageHeader& header,
                  ByteView body) override;

 private:
  struct Entry {
    Handler handler = nullptr;
    void* object = nullptr;
  };
  Transport& transport_;
  std::array<Entry, 256> entries_{};
  Entry rest_;
  Gate gate_ = nullptr;
  void* gate_object_ = nullptr;
  uint16_t guarded_first_ = 1, guarded_last_ = 0;  // none
  Gate guard_ = nullptr;
  void* guard_object_ = nullptr;
  AheadHandler ahead_ = nullptr;
  void* ahead_object_ = nullptr;
};

/// registry.add(op, handler_of<&Master::read>, this) for a member `void read(const Request&)`.
template <auto Member, typename Object>
void call_member(void* object, const Request& request) {
  (static_cast<Object*>(object)->*Member)(request);
}

}  // namespace ramcloud
