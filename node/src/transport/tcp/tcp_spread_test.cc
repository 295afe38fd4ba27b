// Connections that other reactors serve.
#include <algorithm>

#include "transport/testing/tcp_fixture.h"

namespace ramcloud {
namespace {

/// Two more transports beside the one that listens, all turned by the test.
class SpreadTest : public TcpTest {
 protected:
  static constexpr uint16_t kAnywhere = 16;
  struct Lane {
    EpollSource source;
    Reactor reactor;
    TcpTransport transport;
    TestServer server{transport};
    explicit Lane(Clock& clock)
        : reactor(clock, source, 1, {}), transport(reactor, source, TcpOptions{}, nullptr) {}
  };
  SpreadTest() {
    for (auto& lane : lanes) {
      lane = std::make_unique<Lane>(clock);
      lane->transport.serve_handed_over(lane->server);
      lane->transport.set_identity({kCluster, 7});
    }
    spread({});
  }
  void spread(const TcpOptions& options) {
    transport = std::make_unique<TcpTransport>(reactor, source, options, &metrics);
    server = std::make_unique<TestServer>(*transport);
    transport->spread_over({&lanes[0]->transport, &lanes[1]->transport},
                           [](uint16_t opcode) { return opcode == kAnywhere; });
    listen();
  }
  static void send_as(Session& session, TestCall& call, uint16_t opcode, ByteView body) {
    wire::MessageHeader header{};
    header.opcode = opcode;
    const Slice slice(body);
    session.send(call, header, {&slice, 1});
  }
  bool turn_until(const std::function<bool()>& condition) {
    return wait_for([&] {
      for (auto& lane : lanes) lane->reactor.turn();
      return condition();
    });
  }
  uint64_t handed_over() {
    return counter("ramcloud_transport_connections_total", {{"event", "handed_over"}});
  }

  std::array<std::unique_ptr<Lane>, 2> lanes;
};

TEST_F(SpreadTest, ConnectionsGoInRotationWithTheirFirstRequestThatMay) {
  std::vector<std::shared_ptr<Session>> sessions;
  std::deque<TestCall> calls;
  for (int i = 0; i < 6; ++i) {
    sessions.push_back(connect({kCluster, 7}));
    send_as(*sessions.back(), calls.emplace_back(), kAnywhere, "body " + std::to_string(i));
    ASSERT_TRUE(turn_until([&] { return calls.back().done(); }));
    EXPECT_EQ(calls.back().body, "body " + std::to_string(i));
  }
  EXPECT_EQ(lanes[0]->server.requests, 2);
  EXPECT_EQ(lanes[1]->server.requests, 2);
  EXPECT_EQ(server->requests, 2) << "this reactor keeps a share";
  EXPECT_EQ(handed_over(), 4u);
  // A connection stays where it went.
  for (auto& session : sessions) {
    send_as(*session, calls.emplace_back(), kAnywhere, "again");
    send_as(*session, calls.emplace_back(), 1, "something else");
  }
  ASSERT_TRUE(turn_until([&] { return std::ranges::all_of(calls, &TestCall::done); }));
  EXPECT_EQ(server->requests, 6);
  EXPECT_EQ(lanes[0]->server.requests, 6);
  EXPECT_EQ(lanes[1]->server.requests, 6);
  EXPECT_EQ(handed_over(), 4u);
}

TEST_F(SpreadTest, RequestsThatBelongHereStay) {
  const auto session = connect();
  std::deque<TestCall> calls(3);
  for (auto& call : calls) send_as(*session, call, 128, "x");
  ASSERT_TRUE(turn_until([&] { return std::ranges::all_of(calls, &TestCall::done); }));
  EXPECT_EQ(server->requests, 3);
  EXPECT_EQ(handed_over(), 0u);
}

TEST_F(SpreadTest, NothingOfAStreamIsLostOnTheWay) {
  const auto session = connect();
  constexpr size_t kCalls = 300;
  std::deque<TestCall> calls(kCalls);
  const std::string big(50'000, 'b');
  // All at once: most of it was read, or is half read, when the connection goes.
  for (size_t i = 0; i < kCalls; ++i) {
    send_as(*session, calls[i], kAnywhere, std::to_string(i) + (i % 3 == 0 ? big : ""));
  }
  ASSERT_TRUE(turn_until([&] { return std::ranges::all_of(calls, &TestCall::done); }));
  for (size_t i = 0; i < kCalls; ++i) {
    ASSERT_EQ(calls[i].status, StatusCode::kOk);
    ASSERT_EQ(calls[i].body, std::to_string(i) + (i % 3 == 0 ? big : ""));
  }
  EXPECT_EQ(lanes[0]->server.requests, static_cast<int>(kCalls));
}

TEST_F(SpreadTest, AConnectionWithUnansweredRequestsWaitsForThem) {
  server->keep = true;
  const auto session = connect();
  TestCall first, second, third;
  send_as(*session, first, 1, "first");
  send_as(*session, second, kAnywhere, "second");
  ASSERT_TRUE(turn_until([&] { return server->kept.size() == 2; }));
  EXPECT_EQ(handed_over(), 0u) << "their handles name this transport";
  while (!server->kept.empty()) {
    server->answer(server->kept.front().first, server->kept.front().second);
    server->kept.pop_front();
  }
  ASSERT_TRUE(turn_until([&] { return first.done() && second.done(); }));
  EXPECT_EQ(first.body, "first");
  send_as(*session, third, kAnywhere, "third");
  ASSERT_TRUE(turn_until([&] { return third.done(); }));
  EXPECT_EQ(handed_over(), 1u);
  EXPECT_EQ(lanes[0]->server.requests, 1);
}

TEST_F(SpreadTest, AClientOfAnotherServerIsNotServedAfterTheIdChanged) {
  const auto session = connect({kCluster, 7});
  lanes[0]->transport.set_identity({kCluster, 8});
  TestCall call;
  send_as(*session, call, kAnywhere, "x");
  ASSERT_TRUE(turn_until([&] { return call.done(); }));
  EXPECT_TRUE(call.failure.has_value());
  EXPECT_EQ(lanes[0]->server.requests, 0);
}

TEST_F(SpreadTest, TheLimitCountsConnectionsEverywhere) {
  spread({.max_connections = 2});
  std::vector<std::shared_ptr<Session>> sessions;
  for (int i = 0; i < 2; ++i) {
    TestCall call;
    sessions.push_back(connect());
    send_as(*sessions.back(), call, kAnywhere, "x");
    ASSERT_TRUE(turn_until([&] { return call.done(); }));
    ASSERT_EQ(call.status, StatusCode::kOk);
  }
  EXPECT_EQ(handed_over(), 2u);
  TestCall refused;
  const auto third = connect();
  send_as(*third, refused, kAnywhere, "x");
  ASSERT_TRUE(turn_until([&] { return refused.done(); }));
  EXPECT_TRUE(refused.failure.has_value());
  // One that goes makes room for another.
  sessions.pop_back();
  std::shared_ptr<Session> fourth;
  ASSERT_TRUE(turn_until([&] {
    TestCall call;
    fourth = connect();
    send_as(*fourth, call, kAnywhere, "x");
    EXPECT_TRUE(turn_until([&] { return call.done(); }));
    return call.status == StatusCode::kOk;
  }));
}

}  // namespace
}  // namespace ramcloud
