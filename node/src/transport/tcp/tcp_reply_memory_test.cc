// Memory that replies hold counts against the limits of their connection and of all, and turns that
// handle requests are bounded.
#include <gmock/gmock.h>

#include <algorithm>

#include "transport/testing/tcp_fixture.h"

namespace ramcloud {
namespace {

constexpr int64_t kMiB = 1 << 20;

/// Charges this many bytes for each request, and keeps them; a request without room is answered at
/// once.
struct Charging : RequestHandler {
  Charging(Transport& t, int64_t b) : transport(t), bytes(b) {}
  void on_request(const ReplyHandle& handle, const wire::MessageHeader&, ByteView) override {
    if (asks && !transport.has_room(handle, static_cast<uint64_t>(bytes))) {
      return transport.reply(handle, StatusCode::kRetry, {});
    }
    transport.charge(handle, bytes);
    kept.push_back(handle);
  }
  void answer_first() {
    const ReplyHandle handle = kept.front();
    kept.pop_front();
    transport.reply(handle, StatusCode::kOk, {});
    transport.charge(handle, -bytes);
  }
  Transport& transport;
  const int64_t bytes;
  bool asks = false;
  std::deque<ReplyHandle> kept;
};

class TcpReplyMemoryTest : public TcpTest {
 protected:
  /// A port whose requests are charged.
  void listen_charging(int64_t bytes) {
    charging = std::make_unique<Charging>(*transport, bytes);
    const auto bound = transport->listen({"127.0.0.1", 0}, Side::kInside, *charging);
    ASSERT_TRUE(bound.has_value());
    charged_locator = locator;
    charged_locator.address = *bound;
  }
  std::shared_ptr<Session> connect_charged() {
    return std::move(*transport->connect(charged_locator, {}));
  }
  void turn(int times) {
    for (int i = 0; i < times; ++i) reactor.turn();
  }
  /// What ramcloud_transport_buffered_bytes shows.
  double buffered() {
    const std::string text = metrics.text();
    const std::string name = "\nramcloud_transport_buffered_bytes ";
    const size_t at = text.find(name);
    EXPECT_NE(at, std::string::npos);
    return std::stod(text.substr(at + name.size()));
  }
  std::unique_ptr<Charging> charging;
  Locator charged_locator;
};

TEST_F(TcpReplyMemoryTest, AConnectionAboveItsLimitIsAskedForNoMoreAndNoneIsLost) {
  listen_charging(kMiB);
  const auto session = connect_charged();
  std::deque<TestCall> calls(100);
  for (auto& call : calls) send(*session, call, "x");
  size_t most = 0;
  ASSERT_TRUE(wait_for([&] {
    turn(20);
    most = std::max(most, charging->kept.size());
    if (!charging->kept.empty()) charging->answer_first();
    return std::ranges::all_of(calls, &TestCall::done);
  }));
  EXPECT_EQ(most, 9u) << "8 MiB, and the request that exceeds it";
  for (const auto& call : calls) EXPECT_EQ(call.status, StatusCode::kOk);
  EXPECT_GT(limited("outstanding"), 0u);
  EXPECT_LT(buffered(), kMiB);
}

TEST_F(TcpReplyMemoryTest, ManyThatHoldMuchLeaveRoomForTheNext) {
  TcpOptions options;
  options.max_buffered_bytes = 32 * kMiB;
  restart(options);
  listen_charging(kMiB / 4);
  charging->asks = true;
  std::deque<std::shared_ptr<Session>> sessions;
  std::deque<TestCall> calls;
  for (int i = 0; i < 40; ++i) {
    sessions.push_back(connect_charged());
    for (int n = 0; n < 50; ++n) send(*sessions.back(), calls.emplace_back(), "x");
  }
  ASSERT_TRUE(wait_for([&] { return buffered() > 20 * kMiB; }));
  turn(2000);
  EXPECT_LE(buffered(), 24 * kMiB) << "three quarters of the limit";
  EXPECT_EQ(limited("buffered"), 0u) << "nobody is closed";
  const auto next = connect_charged();
  TestCall call;
  const size_t before = charging->kept.size();
  send(*next, call, "x");
  ASSERT_TRUE(wait_for([&] { return call.done() || charging->kept.size() > before; }));
  const auto echo = connect();  // and what holds nothing is served as ever
  TestCall plain;
  send(*echo, plain, "x");
  ASSERT_TRUE(wait_for(plain));
  while (!std::ranges::all_of(calls, &TestCall::done) || !call.done()) {
    while (!charging->kept.empty()) charging->answer_first();
    turn(10);
  }
  for (const auto& one : calls) EXPECT_TRUE(one.status.has_value());
  EXPECT_EQ(limited("buffered"), 0u);
}

TEST_F(TcpReplyMemoryTest, WhatAClosedConnectionHoldsCountsUntilItIsGivenBack) {
  listen_charging(kMiB);
  auto session = connect_charged();
  TestCall call;
  send(*session, call, "x");
  ASSERT_TRUE(wait_for([&] { return charging->kept.size() == 1; }));
  const ReplyHandle handle = charging->kept.front();
  const uint64_t closed = transport->closed_connections();
  EXPECT_TRUE(transport->is_open(handle));
  EXPECT_TRUE(transport->has_room(handle, 7 * kMiB));
  EXPECT_FALSE(transport->has_room(handle, 8 * kMiB));
  session.reset();
  ASSERT_TRUE(wait_for([&] { return !transport->is_open(handle); }));
  EXPECT_GT(transport->closed_connections(), closed);
  EXPECT_FALSE(transport->has_room(handle, 1));
  EXPECT_GE(buffered(), kMiB);
  transport->charge(handle, -kMiB);
  EXPECT_LT(buffered(), kMiB);
}

TEST_F(TcpReplyMemoryTest, APausedConnectionThatGoesIsNoticed) {
  listen_charging(9 * kMiB);
  auto session = connect_charged();
  TestCall call, next;
  send(*session, call, "x");
  send(*session, next, "x");
  ASSERT_TRUE(wait_for([&] { return limited("outstanding") == 1; }));
  ASSERT_EQ(charging->kept.size(), 1u);
  const ReplyHandle handle = charging->kept.front();
  session.reset();
  ASSERT_TRUE(wait_for([&] { return !transport->is_open(handle); }));
}

TEST_F(TcpReplyMemoryTest, WhenMessagesThatTookMuchMemoryAreGoneTheListenerHears) {
  int heard = 0;
  transport->on_memory_freed([&] { ++heard; });
  listen_charging(20 * kMiB);
  const auto session = connect_charged();
  TestCall first, second;
  send(*session, first, "x");
  ASSERT_TRUE(wait_for([&] { return charging->kept.size() == 1; }));
  charging->answer_first();
  ASSERT_TRUE(wait_for(first));
  send(*session, second, "x");
  ASSERT_TRUE(wait_for([&] { return charging->kept.size() == 1; }));
  EXPECT_EQ(heard, 0) << "it is needed again";
  charging->answer_first();
  ASSERT_TRUE(wait_for([&] { return heard > 0; }));
  EXPECT_LT(buffered(), kMiB);
  EXPECT_EQ(heard, 1);
}

TEST_F(TcpReplyMemoryTest, OwnedResultsArriveWholeAndInOrder) {
  server->keep = true;
  const auto session = connect();
  std::deque<TestCall> calls(24);
  for (auto& call : calls) send(*session, call, "x");
  ASSERT_TRUE(wait_for([&] { return server->kept.size() == calls.size(); }));
  std::deque<std::string> expected;
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string head = "head " + std::to_string(i);
    std::string tail(i % 3 == 0 ? 1'000'000 + i : i * 10'000, static_cast<char>('a' + i));
    expected.push_back(head + tail);
    const Slice slice{ByteView(head)};
    transport->reply_owned(server->kept[i].first, StatusCode::kOk, {&slice, 1}, std::move(tail));
  }
  ASSERT_TRUE(wait_for([&] { return std::ranges::all_of(calls, &TestCall::done); }));
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_TRUE(calls[i].body == expected[i]) << i;
}

TEST_F(TcpReplyMemoryTest, ATurnHandlesAFewRequestsAndHooksComeInBetween) {
  // They are all in the socket before the first turn: a session would send them in slices.
  const UniqueFd client = raw_client();
  wire::MessageHeader request{};
  request.kind = wire::Kind::kRequest;
  raw_send(client, bytes_of(wire::make_hello({}, 0)));
  raw_send(client, bytes_of(request));
  for (int turns = 0; server->requests == 0 && turns < 100'000; ++turns) reactor.turn();
  ASSERT_EQ(server->requests, 1);
  // A large one first: then the connection reads much at a time.
  wire::MessageHeader large = request;
  large.body_length = 120'000;
  std::string many = std::string(bytes_of(large)) + std::string(large.body_length, 'x');
  for (int i = 0; i < 2000; ++i) many += bytes_of(request);
  raw_send(client, many);
  int most = 0, turns = 0;
  for (; server->requests < 2002 && turns < 100'000; ++turns) {
    const int before = server->requests;
    reactor.turn();
    most = std::max(most, server->requests - before);
  }
  EXPECT_EQ(server->requests, 2002);
  // Both phases of a turn: epoll's events, and the backlog.
  EXPECT_LE(most, (TurnBudget::kEvents + TurnBudget::kPosted) / TurnBudget::kRequest + 2);
  EXPECT_GT(turns, 10);
}

TEST_F(TcpReplyMemoryTest, RequestsOfAllConnectionsAreServedInRotation) {
  std::deque<std::shared_ptr<Session>> sessions;
  std::deque<std::deque<TestCall>> calls(20);
  for (auto& of : calls) {
    sessions.push_back(connect());
    send(*sessions.back(), of.emplace_back(), "x");
    ASSERT_TRUE(wait_for(of.back()));
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    for (int n = 0; n < 200; ++n) send(*sessions[i], calls[i].emplace_back(), "x");
  }
  int64_t widest = 0;
  for (int64_t least = 0; least < 201;) {
    reactor.turn();
    int64_t most = 0;
    least = 201;
    for (const auto& of : calls) {
      const int64_t done = std::ranges::count_if(of, &TestCall::done);
      least = std::min(least, done);
      most = std::max(most, done);
    }
    widest = std::max(widest, most - least);
  }
  EXPECT_LT(widest, 201) << "nobody waits until another is done with everything";
}

}  // namespace
}  // namespace ramcloud
