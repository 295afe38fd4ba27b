#include "rpc/rpc.h"

#include <gtest/gtest.h>

#include "runtime/epoll_source.h"
#include "runtime/manual_source.h"
#include "transport/tcp/tcp_socket.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/testing/silent_listener.h"
#include "wire/control_messages.h"

namespace ramcloud {
namespace {

using wire::Opcode;

class RpcTest : public ::testing::Test {
 protected:
  RpcTest() {
    registry.add(Opcode::kPing, &call_member<&RpcTest::ping, RpcTest>, this);
    registry.add(Opcode::kRead, &call_member<&RpcTest::refuse, RpcTest>, this);
    registry.add(Opcode::kWrite, &call_member<&RpcTest::keep, RpcTest>, this);
    registry.add(Opcode::kGetTable, &call_member<&RpcTest::get_table, RpcTest>, this);
    start_server();
  }
  void start_server(uint16_t port = 0, uint16_t highest_version = wire::kVersionMax) {
    server.reset();
    server = std::make_unique<TcpTransport>(reactor, source,
                                            TcpOptions{.highest_version = highest_version});
    forward.to = server.get();
    const auto bound = server->listen({"127.0.0.1", port}, Side::kInside, registry);
    ASSERT_TRUE(bound.has_value()) << bound.error().to_string();
    locator = {"tcp", *bound};
    server->set_identity({{}, 7});
  }

  void ping(const Request& request) {
    const Slice body(request.body);
    server->reply(request.reply, StatusCode::kOk, {&body, 1});
  }
  void refuse(const Request& request) {
    reply_error(forward, request.reply, {StatusCode::kRetry, "not now"}, 1500, details);
  }
  void keep(const Request& request) {
    timeout_ms = request.header.timeout_ms;
    kept.push_back(request.reply);
  }
  void get_table(const Request& request) {
    wire::GetTableRequest asked;
    ASSERT_TRUE(request.decode(asked));
    asked_in.emplace_back(request.reply.version, request.body.size());
    wire::TableInfo table;
    table.name = asked.name;
    table.table_id = 3;
    reply_message(*server, request.reply, table);
  }
  RpcReply call(Opcode opcode, std::string body, Duration timeout = 20s, uint64_t server_id = 0) {
    return run_task(reactor,
                    rpc.call(locator, server_id, opcode, std::move(body), reactor.now() + timeout));
  }

  /// The registry outlives servers that come and go.
  struct Forward final : Transport {
    Result<std::shared_ptr<Session>> connect(const Locator& l, const PeerIdentity& e) override {
      return to->connect(l, e);
    }
    Result<HostPort> listen(const HostPort& a, Side s, RequestHandler& h) override {
      return to->listen(a, s, h);
    }
    void set_identity(const PeerIdentity& s) override { to->set_identity(s); }
    void reply(const ReplyHandle& h, StatusCode s, std::span<const Slice> b) override {
      last_bytes = 0;
      for (const Slice& slice : b) last_bytes += slice.size;
      to->reply(h, s, b);
    }
    Transport* to = nullptr;
    size_t last_bytes = 0;  // of the body that was sent last
  };

  SystemClock clock;
  EpollSource source;
  Reactor reactor{clock, source, 1, {}};
  Forward forward;
  ServiceRegistry registry{forward};
  std::unique_ptr<TcpTransport> server;
  TcpTransport client{reactor, source};
  RpcClient rpc{reactor, client};
  Locator locator;
  std::vector<ReplyHandle> kept;
  uint32_t timeout_ms = 0;
  wire::ErrorDetails details;                         // of refusals
  std::vector<std::pair<uint16_t, size_t>> asked_in;  // version, bytes of the body
};

TEST_F(RpcTest, ACallGetsItsReplyAndSessionsAreShared) {
  const RpcReply reply = call(Opcode::kPing, "abc");
  ASSERT_TRUE(reply.ok()) << reply.status.to_string();
  EXPECT_EQ(reply.body, "abc");
  EXPECT_EQ(rpc.session(locator, 0), rpc.session(locator, 0));
  EXPECT_NE(rpc.session(locator, 0), rpc.session(locator, 7));
}

TEST_F(RpcTest, ErrorsCarryCodeTextAndRetryTime) {
  const RpcReply reply = call(Opcode::kRead, "");
  EXPECT_EQ(reply.status.code(), StatusCode::kRetry);
  EXPECT_EQ(reply.status.message(), "not now");
  EXPECT_EQ(reply.retry_after_us, 1500u);
  EXPECT_EQ(call(Opcode::kEnlist, "").status.code(), StatusCode::kUnsupported);
}

/// Also the first call of a connection, which is made before its version is known.
TEST_F(RpcTest, MessagesAreInTheVersionThatBothSidesSpeak) {
  const wire::GetTableRequest asked{"t", 0};
  for (const uint16_t theirs : {1, 2}) {
    for (const uint16_t ours : {1, 2}) {
      start_server(0, theirs);
      TcpTransport transport(reactor, source, {.highest_version = ours});
      RpcClient from(reactor, transport);
      asked_in.clear();
      for (int i = 0; i < 2; ++i) {
        const auto table = run_task(
            reactor,
            from.call<wire::TableInfo>(locator, 0, Opcode::kGetTable, asked, reactor.now() + 20s));
        ASSERT_TRUE(table.has_value()) << table.error().to_string();
        EXPECT_EQ(table->name, "t");
      }
      const uint16_t common = std::min(ours, theirs);
      EXPECT_EQ(from.session(locator, 0)->version(), common);
      const std::pair<uint16_t, size_t> expected{common, wire::encode(asked, common).size()};
      EXPECT_EQ(asked_in, (std::vector{expected, expected})) << ours << " to " << theirs;
    }
  }
}

TEST_F(RpcTest, ACallThatWaitsForTheHelloFailsAsOneThatWasNotSent) {
  const auto get = [&](uint64_t id, Duration timeout) {
    return run_task(reactor, rpc.call<wire::TableInfo>(locator, id, Opcode::kGetTable,
                                                       wire::GetTableRequest{"t", 0},
                                                       reactor.now() + timeout))
        .error()
        .code();
  };
  EXPECT_EQ(get(8, 20s), StatusCode::kWrongServer);
  EXPECT_TRUE(asked_in.empty());
  server.reset();
  EXPECT_EQ(get(9, 20s), StatusCode::kUnavailable);
}

/// The other end accepts the connection and sends no hello: so no request was sent to it.
TEST_F(RpcTest, ACallThatWasNeverSentSaysSo) {
  const SilentListener silent;
  const wire::Empty nothing;
  const RpcReply unsent =
      run_task(reactor, rpc.call_with(silent.locator(), 0, Opcode::kGetClusterInfo,
                                      RpcClient::body_of(nothing), reactor.now() + 50ms));
  EXPECT_EQ(unsent.status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(unsent.sent);
  const RpcReply sent = call(Opcode::kWrite, "kept", 50ms);
  EXPECT_EQ(sent.status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(sent.sent);
}

TEST_F(RpcTest, ControlMessagesAreEncodedAndDecoded) {
  const auto table = run_task(
      reactor, rpc.call<wire::TableInfo>(locator, 0, Opcode::kGetTable,
                                         wire::GetTableRequest{"t", 0}, reactor.now() + 20s));
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(table->name, "t");
  EXPECT_EQ(table->table_id, 3u);
  const auto wrong = run_task(
      reactor,
      rpc.call<wire::TableInfo>(locator, 0, Opcode::kPing, wire::Empty{}, reactor.now() + 20s));
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().code(), StatusCode::kProtocolError);
}

TEST_F(RpcTest, TheDeadlineEndsACallAndTravelsWithIt) {
  const RpcReply reply = call(Opcode::kWrite, "", 30ms);
  EXPECT_EQ(reply.status.code(), StatusCode::kDeadlineExceeded);
  if (!kept.empty()) EXPECT_LE(timeout_ms, 30u);
  EXPECT_EQ(call(Opcode::kPing, "", 0s).status.code(), StatusCode::kDeadlineExceeded);
  // The late answer is dropped; the session goes on.
  for (const auto& handle : kept) server->reply(handle, StatusCode::kOk, {});
  EXPECT_TRUE(call(Opcode::kPing, "").ok());
}

TEST_F(RpcTest, DestroyingTheTaskCancelsTheCall) {
  {
    Task<RpcReply> task = rpc.call(locator, 0, Opcode::kWrite, "", reactor.now() + 20s);
    task.resume();
    reactor.run_until([&] { return !kept.empty(); });
  }
  server->reply(kept[0], StatusCode::kOk, {});
  EXPECT_TRUE(call(Opcode::kPing, "").ok());
}

TEST_F(RpcTest, LostAfterSendingAndNeverSentAreToldApart) {
  Task<RpcReply> task = rpc.call(locator, 0, Opcode::kWrite, "", reactor.now() + 20s);
  task.resume();
  reactor.run_until([&] { return !kept.empty(); });
  const uint16_t port = locator.address.port;
  server.reset();
  reactor.run_until([&] { return task.done(); });
  EXPECT_EQ(task.take().status.code(), StatusCode::kConnectionLost);
  EXPECT_EQ(call(Opcode::kPing, "").status.code(), StatusCode::kUnavailable);
  start_server(port);
  const Time limit = reactor.now() + 20s;
  RpcReply reply;
  do reply = call(Opcode::kPing, "back");
  while (reply.status == StatusCode::kUnavailable && reactor.now() < limit);
  EXPECT_EQ(reply.body, "back");
}

TEST_F(RpcTest, ALoopThatRetriesAtOnceDoesNotConnectNorSpinWithoutPause) {
  server.reset();
  const Time until = reactor.now() + 200ms;
  int calls = 0;
  while (reactor.now() < until) {
    EXPECT_EQ(call(Opcode::kPing, "").status.code(), StatusCode::kUnavailable);
    ++calls;
  }
  EXPECT_LE(calls, 20);
}

TEST_F(RpcTest, AnotherServerIdIsRefusedAndALocatorOfAnotherTransportNamed) {
  EXPECT_EQ(call(Opcode::kPing, "", 20s, 8).status.code(), StatusCode::kWrongServer);
  EXPECT_TRUE(call(Opcode::kPing, "", 20s, 7).ok());
  locator.transport = "carrier-pigeon";
  EXPECT_EQ(call(Opcode::kPing, "").status.code(), StatusCode::kInvalidArgument);
}

/// Sessions that break when they are told to.
class BreakingTransport final : public Transport {
 public:
  struct Broken final : Session {
    void send(ClientCall&, wire::MessageHeader, std::span<const Slice>) override {}
    bool broken() const override { return is_broken; }
    uint64_t peer_server_id() const override { return 0; }
    uint16_t version() const override { return wire::kVersionMax; }
    bool is_broken = false;
  };
  Result<std::shared_ptr<Session>> connect(const Locator&, const PeerIdentity&) override {
    auto session = std::make_shared<Broken>();
    made.push_back(session);
    return session;
  }
  Result<HostPort> listen(const HostPort& a, Side, RequestHandler&) override { return a; }
  void set_identity(const PeerIdentity&) override {}
  void reply(const ReplyHandle&, StatusCode, std::span<const Slice>) override {}
  std::vector<std::weak_ptr<Broken>> made;
};

TEST(RpcSessions, BrokenOnesThatNobodyAsksForAreForgotten) {
  VirtualClock clock;
  ManualSource source;
  Reactor reactor(clock, source, 1, {});
  BreakingTransport transport;
  RpcClient rpc(reactor, transport);
  const Locator to{"tcp", {"10.0.0.1", 1}};
  const auto pass = [&](Duration d) {
    clock.advance(d);
    reactor.turn();
  };
  const auto held = rpc.session(to, 1);
  for (uint64_t id = 2; id <= 4; ++id) (void)rpc.session(to, id);
  for (const size_t i : {0, 1, 3}) transport.made[i].lock()->is_broken = true;
  for (int second = 0; second < 120; ++second) {
    pass(1s);
    const auto asked_for = rpc.session(to, 4);
    transport.made.back().lock()->is_broken = true;
  }
  (void)rpc.session(to, 9);
  EXPECT_TRUE(transport.made[1].expired());
  EXPECT_FALSE(transport.made[2].expired()) << "it is not broken";
  EXPECT_FALSE(transport.made[0].expired()) << "somebody holds it";
  EXPECT_TRUE(held->broken());
  // The requested peer's pause before its next session was kept.
  const size_t before = transport.made.size();
  (void)rpc.session(to, 4);
  EXPECT_EQ(transport.made.size(), before);
}

TEST_F(RpcTest, ErrorRepliesOfAnyBytesDecode) {
  wire::MessageHeader header{};
  header.status = static_cast<uint16_t>(StatusCode::kRetry);
  EXPECT_EQ(decode_reply(header, "").status.code(), StatusCode::kRetry);
  EXPECT_EQ(decode_reply(header, "abc").status.message(), "");
  EXPECT_EQ(decode_reply(header, std::string("\x01\0\0\0\xff\xffshort", 11)).status.message(),
            "short");
}

wire::ErrorDetails some_details() {
  wire::ErrorDetails details;
  details.flags = wire::ErrorDetails::kNothingWritten;
  details.leader = "tcp:host=a,port=1";
  details.leader_outside = "tcp:host=b,port=2";
  details.term = 7;
  details.retry_after_us = 2500;
  return details;
}

/// An error's body with these bytes as the encoded details.
std::string error_body(ByteView details) {
  const wire::ErrorBody error{.retry_after_us = 5, .message_length = 7};
  const auto length = static_cast<uint32_t>(details.size());
  return std::string(bytes_of(error)) + "not now" + std::string(bytes_of(length)) +
         std::string(details);
}

TEST_F(RpcTest, ErrorsCarryDetails) {
  details = some_details();
  const RpcReply reply = call(Opcode::kRead, "");
  EXPECT_EQ(reply.status.message(), "not now");
  EXPECT_EQ(reply.details, details);
}

TEST_F(RpcTest, ErrorsWithoutDetailsHaveTheBytesOfFormerVersions) {
  const RpcReply reply = call(Opcode::kRead, "");
  EXPECT_EQ(reply.details, wire::ErrorDetails{});
  EXPECT_EQ(forward.last_bytes, sizeof(wire::ErrorBody) + 7);
}

TEST_F(RpcTest, DetailsOfOtherVersionsDecode) {
  wire::MessageHeader header{};
  header.status = static_cast<uint16_t>(StatusCode::kRetry);
  std::string encoded = wire::encode(some_details(), 2);
  encoded.erase(0, sizeof(uint32_t));
  const std::string whole = error_body(encoded);
  EXPECT_EQ(decode_reply(header, whole).details, some_details());
  for (size_t n = sizeof(wire::ErrorBody) + 7; n < whole.size(); ++n) {
    const RpcReply cut = decode_reply(header, whole.substr(0, n));
    EXPECT_EQ(cut.status.message(), "not now");
    EXPECT_EQ(cut.retry_after_us, 5u);
    EXPECT_EQ(cut.details, wire::ErrorDetails{}) << n << " bytes";
  }
  EXPECT_EQ(decode_reply(header, error_body(encoded + "later")).details, some_details());
  const RpcReply former = decode_reply(header, error_body(encoded.substr(0, sizeof(uint64_t))));
  EXPECT_EQ(former.details.flags, wire::ErrorDetails::kNothingWritten);
  EXPECT_EQ(former.details.leader, "");
  EXPECT_EQ(former.details.term, 0u);
}

}  // namespace
}  // namespace ramcloud
