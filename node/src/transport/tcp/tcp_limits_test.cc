// Limits for unknown peers: connections, time, memory.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>

#include "transport/tcp/tcp_stream.h"
#include "transport/testing/tcp_fixture.h"

namespace ramcloud {
namespace {

using TcpLimitsTest = TcpTest;

TEST_F(TcpLimitsTest, AConnectionWithoutAHelloIsClosedAfterItsTime) {
  TcpOptions impatient;
  impatient.hello_timeout = 10ms;
  restart(impatient);
  const UniqueFd fd = raw_client();
  raw_send(fd, "RAMC");
  EXPECT_EQ(raw_read_to_end(fd), "");
  EXPECT_EQ(protocol_errors(), 1u);
}

TEST_F(TcpLimitsTest, OneConnectionAboveTheLimitIsClosedAndPlaceIsMadeByClosingOne) {
  TcpOptions few;
  few.max_connections = 1;
  restart(few);
  auto first = connect();
  TestCall a;
  send(*first, a, "x");
  ASSERT_TRUE(wait_for(a));
  const auto second = connect();
  TestCall b;
  send(*second, b, "x");
  ASSERT_TRUE(wait_for(b));
  EXPECT_TRUE(b.failure.has_value());
  EXPECT_EQ(counter("ramcloud_transport_connections_total", {{"event", "refused"}}), 1u);
  first.reset();
  bool served = false;
  ASSERT_TRUE(wait_for([&] {  // the server sees the close in one of its next turns
    const auto third = connect();
    TestCall c;
    send(*third, c, "x");
    while (!c.done()) reactor.turn();
    served = c.status == StatusCode::kOk;
    return served;
  }));
}

TEST_F(TcpLimitsTest, AClientThatDoesNotReadIsCutOffBeforeItsOutputGrowsWithoutBound) {
  TcpOptions small;
  small.max_pending_bytes = 8u << 20;
  restart(small);
  const UniqueFd fd = raw_client();
  raw_send(fd, bytes_of(wire::make_hello({}, 0)));
  server->keep = true;
  wire::MessageHeader header{};
  header.kind = wire::Kind::kRequest;
  raw_send(fd, bytes_of(header));
  ASSERT_TRUE(wait_for([&] { return server->kept.size() == 1; }));
  const std::string big(wire::kMaxBodyBytes, 'x');
  const auto cut = [&] { return counter("ramcloud_transport_slow_readers_total"); };
  for (int i = 0; i < 100 && cut() == 0; ++i) {
    server->answer(server->kept[0].first, big);
    reactor.turn();
  }
  EXPECT_EQ(cut(), 1u);
}

TEST_F(TcpLimitsTest, ACallWithoutRoomBehindOthersIsRefusedAndTheOthersGoOn) {
  TcpOptions small;
  small.max_pending_bytes = 8u << 20;
  restart(small);
  const auto session = connect();
  const std::string big(1u << 20, 'x');
  std::vector<TestCall> calls(40);  // more than the sockets' buffers and the room behind them hold
  for (TestCall& call : calls) send(*session, call, big);
  ASSERT_TRUE(wait_for([&] { return std::ranges::all_of(calls, &TestCall::done); }));
  const auto answered = std::ranges::count_if(calls, [](const TestCall& c) { return !c.failure; });
  EXPECT_GE(answered, 7);
  EXPECT_LT(answered, 40);
  for (const TestCall& call : calls) {
    if (call.failure) EXPECT_EQ(*call.failure, StatusCode::kRetry) << call.failure->to_string();
  }
  EXPECT_FALSE(session->broken());
  TestCall again;
  send(*session, again, big);
  ASSERT_TRUE(wait_for(again));
  EXPECT_EQ(again.status, StatusCode::kOk);
}

TEST_F(TcpLimitsTest, OfManyStrangersAFewAreServedInATurnAndWhoIsKnownComesWithThem) {
  wire::MessageHeader request{};
  request.kind = wire::Kind::kRequest;
  const UniqueFd known = raw_client();
  raw_send(known, bytes_of(wire::make_hello({}, 0)));
  raw_send(known, bytes_of(request));
  ASSERT_TRUE(wait_for([&] { return server->requests == 1; }));
  const auto accepted = [&] {
    return counter("ramcloud_transport_connections_total", {{"event", "accepted"}});
  };
  std::deque<UniqueFd> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(raw_client());
    raw_send(strangers.back(), std::string(64, 'G'));
  }
  raw_send(known, bytes_of(request));
  // A connection that the kernel was slow to make has cost a turn or two.
  const uint64_t before = accepted();
  ASSERT_LE(before, 20u);
  for (int turns = 0; server->requests == 1; ++turns) {
    ASSERT_LT(turns, 3);
    reactor.turn();
  }
  EXPECT_LE(accepted(), before + 3 * 8u);
  ASSERT_TRUE(wait_for([&] { return protocol_errors() == 100; }));
}

TEST_F(TcpLimitsTest, AStrangersFirstBytesAreNotTakenForALength) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd stranger(ends[1]);
  Counter sends;
  tcp::TcpStream stream(UniqueFd(ends[0]), 1u << 20, sends);
  const std::string bytes(sizeof(wire::MessageHeader), '\xff');  // fewer than a hello has
  ASSERT_EQ(::send(stranger.get(), bytes.data(), bytes.size(), 0), std::ssize(bytes));
  ASSERT_EQ(stream.read(), tcp::TcpStream::Read::kSome);
  ASSERT_EQ(::send(stranger.get(), "x", 1, 0), 1);
  ASSERT_EQ(stream.read(), tcp::TcpStream::Read::kSome);
  EXPECT_FALSE(stream.has_big_buffers());
}

TEST_F(TcpLimitsTest, OfTooManySilentConnectionsTheOldestIsClosed) {
  TcpOptions options;
  options.max_silent_connections = 2;
  restart(options);
  const UniqueFd first = raw_client(), second = raw_client(), third = raw_client();
  EXPECT_EQ(raw_read_to_end(first), "");
  EXPECT_EQ(limited("silent_connections"), 1u);
  for (const UniqueFd* fd : {&second, &third}) {
    raw_send(*fd, bytes_of(wire::make_hello({}, 0)));
    char answer[sizeof(wire::Hello)];
    ASSERT_TRUE(wait_for([&] {
      return ::recv(fd->get(), answer, sizeof answer, MSG_DONTWAIT) == ssize_t{sizeof answer};
    }));
  }
  const auto session = connect();  // connections that said hello do not count
  TestCall call;
  send(*session, call, "x");
  ASSERT_TRUE(wait_for(call));
  EXPECT_EQ(call.body, "x");
  EXPECT_EQ(limited("silent_connections"), 1u);
}

TEST_F(TcpLimitsTest, ASilentConnectionIsClosedWhereverItStandsInTheQueue) {
  TcpOptions options;
  options.max_silent_connections = 1;
  restart(options);
  for (int i = 0; i < 20; ++i) {
    UniqueFd gone = raw_client();
    const UniqueFd stays = raw_client();
    raw_send(gone, "RA");
    gone.reset();
    const UniqueFd next = raw_client();
    EXPECT_EQ(raw_read_to_end(stays), "");
  }
}

TEST_F(TcpLimitsTest, ConnectionsOfOnePeerAreLimited) {
  TcpOptions options;
  options.max_connections_per_peer = 2;
  restart(options);
  auto first = connect();
  const auto second = connect();
  TestCall a, b, c;
  send(*first, a, "x");
  send(*second, b, "x");
  ASSERT_TRUE(wait_for([&] { return a.done() && b.done(); }));
  const auto third = connect();
  send(*third, c, "x");
  ASSERT_TRUE(wait_for(c));
  EXPECT_TRUE(c.failure.has_value());
  EXPECT_EQ(limited("connections_per_peer"), 1u);
  first.reset();
  ASSERT_TRUE(wait_for([&] {  // the server sees the close in one of its next turns
    const auto again = connect();
    TestCall d;
    send(*again, d, "x");
    while (!d.done()) reactor.turn();
    return d.status == StatusCode::kOk;
  }));
}

TEST_F(TcpLimitsTest, AMessageThatDoesNotEndIsClosedAfterItsTime) {
  TcpOptions options;
  options.message_timeout = 50ms;
  restart(options);
  const UniqueFd fd = raw_client();
  raw_send(fd, bytes_of(wire::make_hello({}, 0)));
  wire::MessageHeader header{};
  header.kind = wire::Kind::kRequest;
  header.body_length = wire::kMaxBodyBytes;
  raw_send(fd, bytes_of(header));
  // A byte now and then does not help: the test waits until the server has closed it.
  ASSERT_TRUE(wait_for([&] {
    ::send(fd.get(), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    return limited("message_timeout") == 1;
  }));
  EXPECT_EQ(server->requests, 0);
}

TEST_F(TcpLimitsTest, WholeMessagesMayBeAnyTimeApart) {
  TcpOptions options;
  options.message_timeout = 10ms;
  restart(options);
  const auto session = connect();
  const UniqueFd quiet = raw_client();
  raw_send(quiet, bytes_of(wire::make_hello({}, 0)));
  for (int i = 0; i < 3; ++i) {
    TestCall call;
    send(*session, call, "x");
    ASSERT_TRUE(wait_for(call));
    EXPECT_EQ(call.status, StatusCode::kOk);
    const Time later = clock.now() + 600ms;  // past an upkeep
    ASSERT_TRUE(wait_for([&] { return clock.now() > later; }));
  }
  EXPECT_EQ(limited("message_timeout"), 0u);
}

TEST_F(TcpLimitsTest, AReaderThatStopsIsClosedAfterItsTime) {
  TcpOptions options;
  options.message_timeout = 50ms;
  restart(options);
  const UniqueFd fd = raw_client();
  raw_send(fd, bytes_of(wire::make_hello({}, 0)));
  server->keep = true;
  wire::MessageHeader header{};
  header.kind = wire::Kind::kRequest;
  for (int i = 0; i < 4; ++i) raw_send(fd, bytes_of(header));
  ASSERT_TRUE(wait_for([&] { return server->kept.size() == 4; }));
  const std::string big(wire::kMaxBodyBytes, 'x');
  for (const auto& [handle, body] : server->kept) server->answer(handle, big);
  ASSERT_TRUE(wait_for([&] { return limited("message_timeout") == 1; }));
}

TEST_F(TcpLimitsTest, UnansweredRequestsOfOneConnectionAreLimitedAndNoneIsLost) {
  TcpOptions options;
  options.max_outstanding = 4;
  restart(options);
  server->keep = true;
  const auto session = connect();
  std::deque<TestCall> calls(50);
  for (auto& call : calls) send(*session, call, "x");
  size_t most = 0;
  ASSERT_TRUE(wait_for([&] {
    most = std::max(most, server->kept.size());
    // Only bytes that were there for some turns: more would have come by then.
    for (int i = 0; i < 20; ++i) reactor.turn();
    most = std::max(most, server->kept.size());
    if (!server->kept.empty()) {
      server->answer(server->kept.front().first, "y");
      server->kept.pop_front();
    }
    return std::ranges::all_of(calls, &TestCall::done);
  }));
  EXPECT_EQ(most, 4u);
  for (const auto& call : calls) EXPECT_EQ(call.body, "y");
  EXPECT_GT(limited("outstanding"), 0u);
}

TEST_F(TcpLimitsTest, ForAReaderThatStopsNoMoreRepliesAreMade) {
  TcpOptions options;
  options.message_timeout = 10min;
  restart(options);
  const UniqueFd fd = raw_client();
  raw_send(fd, bytes_of(wire::make_hello({}, 0)));
  wire::MessageHeader header{};
  header.kind = wire::Kind::kRequest;
  header.body_length = 64 << 10;
  const std::string body(header.body_length, 'x');
  // Until its own socket takes no more: the server has stopped to read.
  for (int full = 0; full < 200;) {
    std::string bytes(bytes_of(header));
    bytes += body;
    for (size_t at = 0; at < bytes.size() && full < 200;) {
      const ssize_t n =
          ::send(fd.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) at += static_cast<size_t>(n);
      full = n > 0 ? 0 : full + 1;
      reactor.turn();
    }
  }
  EXPECT_GT(limited("outstanding"), 0u);
  EXPECT_EQ(counter("ramcloud_transport_slow_readers_total"), 0u);
  const auto echoed = static_cast<size_t>(server->requests) * (sizeof header + body.size());
  EXPECT_LT(echoed, size_t{24} << 20) << "8 MiB waiting, and what sockets hold";
  const auto session = connect();  // others are served
  TestCall call;
  send(*session, call, "x");
  ASSERT_TRUE(wait_for(call));
}

TEST_F(TcpLimitsTest, WhenAllBuffersAreFullTheOldestMessagesGo) {
  TcpOptions options;
  options.max_buffered_bytes = 256 << 10;
  restart(options);
  const auto good = connect();
  TestCall before;
  send(*good, before, "x");
  ASSERT_TRUE(wait_for(before));
  wire::MessageHeader header{};
  header.kind = wire::Kind::kRequest;
  header.body_length = 1 << 20;
  std::deque<UniqueFd> attackers;
  const std::string part(30 << 10, 'x');
  for (int i = 0; i < 40; ++i) {
    attackers.push_back(raw_client());
    raw_send(attackers.back(), bytes_of(wire::make_hello({}, 0)));
    raw_send(attackers.back(), bytes_of(header));
    raw_send(attackers.back(), part);
    TestCall call;
    send(*good, call, part);
    ASSERT_TRUE(wait_for(call));
    EXPECT_EQ(call.body, part);
  }
  EXPECT_FALSE(good->broken());
  EXPECT_GT(limited("buffered"), 20u);
  EXPECT_THAT(metrics.text(), ::testing::HasSubstr("ramcloud_transport_buffered_bytes"));
  EXPECT_EQ(raw_read_to_end(attackers.front()).size(), sizeof(wire::Hello));
}

TEST_F(TcpLimitsTest, WithoutDescriptorsAcceptingPausesAndGoesOn) {
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
  GTEST_SKIP()
      << "the sanitizer looks at memory by a pipe, and takes it for invalid without descriptors";
#endif
#endif
  const auto good = connect();
  TestCall first;
  send(*good, first, "x");
  ASSERT_TRUE(wait_for(first));
  const auto session = connect();  // its socket is made already
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  rlimit none = usual;
  none.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  TestCall call, meanwhile;
  send(*session, call, "x");
  const bool paused =
      wait_for([&] { return counter("ramcloud_transport_accept_paused_total") > 0; });
  send(*good, meanwhile, "y");
  const bool served = wait_for(meanwhile);
  setrlimit(RLIMIT_NOFILE, &usual);
  EXPECT_TRUE(paused);
  EXPECT_TRUE(served);
  ASSERT_TRUE(wait_for(call));
  EXPECT_EQ(call.body, "x");
}

}  // namespace
}  // namespace ramcloud
