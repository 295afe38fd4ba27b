#include "transport/tcp/tcp_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>

#include "base/random.h"
#include "transport/tcp/tcp_socket.h"
#include "wire/hello.h"

namespace ramcloud {
namespace {

struct TestCall : ClientCall {
  std::optional<Status> failure;
  std::optional<StatusCode> status;
  std::string body;
  std::function<void()> then;
  bool done() const { return failure || status; }
  void on_reply(const wire::MessageHeader& header, ByteView b) override {
    EXPECT_FALSE(done());
    status = static_cast<StatusCode>(header.status);
    body = b;
    if (then) then();
  }
  void on_failure(const Status& s) override {
    EXPECT_FALSE(done());
    failure = s;
    if (then) then();
  }
};

/// Echoes, or keeps requests for the test to answer.
struct TestServer : RequestHandler {
  explicit TestServer(Transport& t) : transport(t) {}
  void on_request(const ReplyHandle& handle, const wire::MessageHeader&, ByteView body) override {
    ++requests;
    if (keep) {
      kept.push_back({handle, std::string(body)});
    } else {
      answer(handle, body);
    }
  }
  void answer(const ReplyHandle& handle, ByteView body) {
    // In two pieces, as replies out of the log are.
    const std::array<Slice, 2> pieces{Slice(body.substr(0, body.size() / 2)),
                                      Slice(body.substr(body.size() / 2))};
    transport.reply(handle, StatusCode::kOk, pieces);
  }
  Transport& transport;
  bool keep = false;
  int requests = 0;
  std::deque<std::pair<ReplyHandle, std::string>> kept;
};

constexpr std::array<uint8_t, 16> kCluster{1, 2, 3};

class TcpTest : public ::testing::Test {
 protected:
  TcpTest() { listen(); }

  void listen() {
    const auto bound = transport->listen({"127.0.0.1", 0}, Side::kOutside, *server);
    ASSERT_TRUE(bound.has_value()) << bound.error().to_string();
    locator = {"tcp", *bound};
    transport->set_identity({kCluster, 7});
  }
  void restart(const TcpOptions& options) {
    transport = std::make_unique<TcpTransport>(reactor, source, options, &metrics);
    server = std::make_unique<TestServer>(*transport);
    listen();
  }
  std::shared_ptr<Session> connect(const PeerIdentity& expected = {}) {
    auto session = transport->connect(locator, expected);
    EXPECT_TRUE(session.has_value());
    return *session;
  }
  static void send(Session& session, TestCall& call, ByteView body) {
    const Slice slice(body);
    session.send(call, {}, {&slice, 1});
  }
  /// Turns until it holds; false after 20 seconds.
  bool wait_for(const std::function<bool()>& condition) {
    bool late = false;
    Timer limit(reactor, [&] { late = true; });
    limit.start_after(20s);
    reactor.run_until([&] { return late || condition(); });
    return !late;
  }
  bool wait_for(const TestCall& call) {
    return wait_for([&] { return call.done(); });
  }
  uint64_t counter(const char* name, MetricLabels labels = {}) {
    return metrics.counter(name, "", std::move(labels)).value();
  }
  uint64_t sends() { return counter("ramcloud_transport_sends_total"); }
  uint64_t limited(const char* limit) {
    return counter("ramcloud_transport_limited_total", {{"limit", limit}});
  }
  uint64_t protocol_errors() { return counter("ramcloud_transport_protocol_errors_total"); }

  /// A client of bare bytes.
  UniqueFd raw_client() {
    auto fd = tcp::start_connect(*numeric_address("127.0.0.1", locator.address.port));
    EXPECT_TRUE(fd.has_value());
    return std::move(*fd);
  }
  void raw_send(const UniqueFd& fd, ByteView bytes) {
    ssize_t n = -1;
    EXPECT_TRUE(wait_for([&] {
      n = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      return n >= 0;
    }));
    EXPECT_EQ(n, static_cast<ssize_t>(bytes.size()));
  }
  /// Everything the server sends until it closes.
  std::string raw_read_to_end(const UniqueFd& fd) {
    std::string got;
    EXPECT_TRUE(wait_for([&] {
      char buffer[4096];
      const ssize_t n = ::recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (n > 0) got.append(buffer, static_cast<size_t>(n));
      return n == 0 || (n < 0 && errno != EAGAIN && errno != ENOTCONN);
    }));
    return got;
  }

  SystemClock clock;
  EpollSource source;
  // Never sleeps, but gives the core away: raw sockets of the tests are not watched.
  Reactor reactor{clock, source, 1, {.poll_for = -1us}};
  MetricsRegistry metrics;
  std::unique_ptr<TcpTransport> transport =
      std::make_unique<TcpTransport>(reactor, source, TcpOptions{}, &metrics);
  std::unique_ptr<TestServer> server = std::make_unique<TestServer>(*transport);
  Locator locator;
};

TEST_F(TcpTest, EchoesAndTellsThePeersServerId) {
  const auto session = connect({kCluster, 7});
  TestCall call;
  send(*session, call, "hello");
  EXPECT_TRUE(call.outstanding());
  ASSERT_TRUE(wait_for(call));
  EXPECT_EQ(call.status, StatusCode::kOk);
  EXPECT_EQ(call.body, "hello");
  EXPECT_FALSE(call.outstanding());
  EXPECT_EQ(session->peer_server_id(), 7u);
}

TEST_F(TcpTest, ManyOutstandingCallsAnsweredInAnyOrder) {
  constexpr size_t kCalls = 500;
  server->keep = true;
  const auto session = connect();
  std::deque<TestCall> calls(kCalls);
  for (size_t i = 0; i < kCalls; ++i) send(*session, calls[i], "call " + std::to_string(i));
  ASSERT_TRUE(wait_for([&] { return server->kept.size() == kCalls; }));
  Random random(3);
  while (!server->kept.empty()) {
    const size_t pick = random.below(server->kept.size());
    std::swap(server->kept[pick], server->kept.back());
    server->answer(server->kept.back().first, server->kept.back().second);
    server->kept.pop_back();
  }
  ASSERT_TRUE(wait_for([&] { return std::ranges::all_of(calls, &TestCall::done); }));
  for (size_t i = 0; i < kCalls; ++i) EXPECT_EQ(calls[i].body, "call " + std::to_string(i));
}

TEST_F(TcpTest, BodiesOfEverySizeUpToTheLimitBothWays) {
  const auto session = connect();
  std::deque<TestCall> calls;
  std::vector<std::string> bodies;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{32'720}, size_t{32'721}, size_t{100'000},
                            size_t{1'048'576}, size_t{wire::kMaxBodyBytes}}) {
    std::string& body = bodies.emplace_back(size, '\0');
    for (size_t i = 0; i < size; ++i) body[i] = static_cast<char>(i * 31 + size);
    send(*session, calls.emplace_back(), body);
  }
  ASSERT_TRUE(wait_for([&] { return std::ranges::all_of(calls, &TestCall::done); }));
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].status, StatusCode::kOk);
    EXPECT_TRUE(calls[i].body == bodies[i]) << bodies[i].size();
  }
}

TEST_F(TcpTest, ABodyAboveTheLimitIsRefusedWithoutSendingIt) {
  const auto session = connect();
  TestCall good, bad;
  send(*session, good, "x");
  ASSERT_TRUE(wait_for(good));
  send(*session, bad, std::string(wire::kMaxBodyBytes + 1, 'x'));
  EXPECT_FALSE(bad.done());  // never from inside send()
  ASSERT_TRUE(wait_for(bad));
  EXPECT_EQ(bad.failure->code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(session->broken());
}

TEST_F(TcpTest, ACancelledCallsLateAnswerIsDropped) {
  server->keep = true;
  const auto session = connect();
  auto cancelled = std::make_unique<TestCall>();
  TestCall other;
  send(*session, *cancelled, "a");
  send(*session, other, "b");
  ASSERT_TRUE(wait_for([&] { return server->kept.size() == 2; }));
  cancelled.reset();
  for (const auto& [handle, body] : server->kept) server->answer(handle, body);
  ASSERT_TRUE(wait_for(other));
  EXPECT_EQ(other.body, "b");
}

TEST_F(TcpTest, ADyingPeerFailsSentCallsAsLostAndLaterOnesAsUnavailable) {
  EpollSource& shared = source;
  auto peer = std::make_unique<TcpTransport>(reactor, shared);
  TestServer silent(*peer);
  silent.keep = true;
  const auto bound = peer->listen({"127.0.0.1", 0}, Side::kInside, silent);
  ASSERT_TRUE(bound.has_value());
  const auto session = *transport->connect({"tcp", *bound}, {});
  TestCall sent;
  send(*session, sent, "x");
  ASSERT_TRUE(wait_for([&] { return silent.kept.size() == 1; }));
  peer.reset();
  ASSERT_TRUE(wait_for(sent));
  EXPECT_EQ(sent.failure->code(), StatusCode::kConnectionLost);
  EXPECT_TRUE(session->broken());
  TestCall late;
  send(*session, late, "y");
  EXPECT_FALSE(late.done());
  ASSERT_TRUE(wait_for(late));
  EXPECT_EQ(late.failure->code(), StatusCode::kUnavailable);
}

TEST_F(TcpTest, ConnectionRefusedFailsCallsAsUnavailable) {
  const HostPort nobody = [] {
    auto listening = tcp::start_listen({"127.0.0.1", 0});  // bound, then closed: nobody is there
    return listening->second;
  }();
  const auto session = *transport->connect({"tcp", nobody}, {});
  TestCall call;
  send(*session, call, "x");
  ASSERT_TRUE(wait_for(call));
  EXPECT_EQ(call.failure->code(), StatusCode::kUnavailable);
  EXPECT_NE(call.failure->message().find(nobody.to_string()), std::string::npos);
}

TEST_F(TcpTest, ANameIsLookedUpAndAnUnknownOneIsUnavailable) {
  const auto named = *transport->connect({"tcp", {"localhost", locator.address.port}}, {});
  TestCall call;
  send(*named, call, "x");
  ASSERT_TRUE(wait_for(call));
  EXPECT_EQ(call.body, "x");
}

TEST_F(TcpTest, ANameThatIsNotFoundIsLookedUpUntilConnectingTakesTooLong) {
  TcpOptions impatient;
  impatient.connect_timeout = 600ms;
  restart(impatient);
  const Time begun = clock.now();
  const auto unknown = *transport->connect({"tcp", {"no-such-host.invalid", 1}}, {});
  TestCall lost;
  send(*unknown, lost, "x");
  ASSERT_TRUE(wait_for(lost));
  EXPECT_EQ(lost.failure->code(), StatusCode::kUnavailable);
  EXPECT_NE(lost.failure->message().find("no-such-host.invalid"), std::string::npos)
      << lost.failure->message();
  EXPECT_GE(clock.now() - begun, impatient.connect_timeout / 2) << "not at the first look";
}

TEST_F(TcpTest, APeerThatNeverAnswersTheHelloIsUnavailable) {
  TcpOptions impatient;
  impatient.connect_timeout = 50ms;
  restart(impatient);
  const auto listening =
      tcp::start_listen({"127.0.0.1", 0});  // accepts in the kernel, says nothing
  const auto session = *transport->connect({"tcp", listening->second}, {});
  TestCall call;
  send(*session, call, "x");
  ASSERT_TRUE(wait_for(call));
  EXPECT_EQ(call.failure->code(), StatusCode::kUnavailable);
}

TEST_F(TcpTest, AnotherClusterOrServerIsRefusedWithoutExecuting) {
  const std::array<uint8_t, 16> foreign{9};
  for (const auto& [expected, code] :
       {std::pair{PeerIdentity{foreign, 0}, StatusCode::kWrongCluster},
        {PeerIdentity{kCluster, 8}, StatusCode::kWrongServer}}) {
    const auto session = connect(expected);
    TestCall call;
    send(*session, call, "x");
    ASSERT_TRUE(wait_for(call));
    EXPECT_EQ(call.failure->code(), code);
    EXPECT_TRUE(session->broken());
  }
  EXPECT_EQ(server->requests, 0);
}

TEST_F(TcpTest, ANewIdentityClosesConnectionsThatAskedForTheOldOne) {
  const auto strict = connect({kCluster, 7});
  const auto anyone = connect({kCluster, 0});
  TestCall a, b;
  send(*strict, a, "x");
  send(*anyone, b, "x");
  ASSERT_TRUE(wait_for([&] { return a.done() && b.done(); }));
  transport->set_identity({kCluster, 9});
  ASSERT_TRUE(wait_for([&] { return strict->broken(); }));
  TestCall c;
  send(*anyone, c, "still here");
  ASSERT_TRUE(wait_for(c));
  EXPECT_EQ(c.body, "still here");
}

TEST_F(TcpTest, RepliesToAConnectionThatIsGoneAreHarmless) {
  server->keep = true;
  {
    const auto session = connect();
    TestCall call;
    send(*session, call, "x");
    ASSERT_TRUE(wait_for([&] { return server->kept.size() == 1; }));
  }
  // The slot is used again: the old handle's generation keeps its answer from the new client.
  const auto session = connect();
  TestCall call;
  send(*session, call, "y");
  ASSERT_TRUE(wait_for([&] { return server->kept.size() == 2; }));
  EXPECT_EQ(server->kept[0].first.call_id, server->kept[1].first.call_id);
  server->answer(server->kept[0].first, "for the dead");
  server->answer(server->kept[1].first, "for the living");
  ASSERT_TRUE(wait_for(call));
  EXPECT_EQ(call.body, "for the living");
  server->answer({.connection = 12345}, "nobody");
}

TEST_F(TcpTest, GarbageInsteadOfAHelloClosesTheConnection) {
  const UniqueFd fd = raw_client();
  raw_send(fd, std::string(64, 'G'));
  EXPECT_EQ(raw_read_to_end(fd), "");
  EXPECT_EQ(protocol_errors(), 1u);
}

TEST_F(TcpTest, AMalformedHeaderOrLengthClosesTheConnectionWithoutAllocatingForIt) {
  wire::MessageHeader oversize{};
  oversize.kind = wire::Kind::kRequest;
  oversize.body_length = 0xffffffff;
  wire::MessageHeader wrong_kind{};
  wrong_kind.kind = wire::Kind::kReply;
  uint64_t errors = 0;
  for (const auto& header : {oversize, wrong_kind}) {
    const UniqueFd fd = raw_client();
    raw_send(fd, bytes_of(wire::make_hello({}, 0)));
    raw_send(fd, bytes_of(header));
    EXPECT_EQ(raw_read_to_end(fd).size(), sizeof(wire::Hello));
    EXPECT_EQ(protocol_errors(), ++errors);
  }
  EXPECT_EQ(server->requests, 0);
}

TEST_F(TcpTest, RandomBytesAfterAHelloNeverReachAHandlerMalformedNorCrash) {
  Random random(5);
  for (int round = 0; round < 50; ++round) {
    const UniqueFd fd = raw_client();
    std::string bytes(bytes_of(wire::make_hello({}, 0)));
    for (uint64_t n = random.below(300); n > 0; --n)
      bytes.push_back(static_cast<char>(random.next()));
    raw_send(fd, bytes);
    ::shutdown(fd.get(), SHUT_WR);
    raw_read_to_end(fd);
  }
  const auto session = connect();
  TestCall call;
  send(*session, call, "alive");
  ASSERT_TRUE(wait_for(call));
  EXPECT_EQ(call.body, "alive");
}

TEST_F(TcpTest, ARequestInSingleBytesIsPutTogether) {
  const UniqueFd fd = raw_client();
  wire::MessageHeader header{};
  header.kind = wire::Kind::kRequest;
  header.call_id = 77;
  header.body_length = 3;
  std::string bytes(bytes_of(wire::make_hello({}, 0)));
  bytes.append(bytes_of(header)).append("abc");
  for (const char c : bytes) {
    raw_send(fd, {&c, 1});
    reactor.turn();
  }
  ASSERT_TRUE(wait_for([&] { return server->requests == 1; }));
  ::shutdown(fd.get(), SHUT_WR);
  const std::string answer = raw_read_to_end(fd);
  ASSERT_EQ(answer.size(), sizeof(wire::Hello) + sizeof header + 3);
  const auto reply = load<wire::MessageHeader>(answer.data() + sizeof(wire::Hello));
  EXPECT_EQ(reply.call_id, 77u);
  EXPECT_EQ(reply.kind, wire::Kind::kReply);
  EXPECT_EQ(answer.substr(answer.size() - 3), "abc");
}

TEST_F(TcpTest, RequestsThatComeTogetherAreAnsweredTogether) {
  const UniqueFd fd = raw_client();
  raw_send(fd, bytes_of(wire::make_hello({}, 0)));
  constexpr int kRequests = 50;
  std::string bytes;
  for (int i = 0; i < kRequests; ++i) {
    wire::MessageHeader header{};
    header.kind = wire::Kind::kRequest;
    header.call_id = static_cast<uint64_t>(i);
    header.body_length = 3;
    bytes.append(bytes_of(header)).append("abc");
  }
  const uint64_t before = sends();
  raw_send(fd, bytes);
  ::shutdown(fd.get(), SHUT_WR);
  const std::string answer = raw_read_to_end(fd);
  EXPECT_EQ(answer.size(), sizeof(wire::Hello) + kRequests * (sizeof(wire::MessageHeader) + 3));
  EXPECT_EQ(server->requests, kRequests);
  EXPECT_LE(sends() - before, 4u) << "in as many pieces as they came in, hardly more than one";
}

TEST_F(TcpTest, AnswersThatComeTogetherLeadToRequestsThatGoTogether) {
  const auto session = connect();
  constexpr int kFlows = 20;
  std::deque<TestCall> first(kFlows), second(kFlows);
  server->keep = true;
  for (int i = 0; i < kFlows; ++i) {
    TestCall& next = second[static_cast<size_t>(i)];
    first[static_cast<size_t>(i)].then = [&session, &next] { send(*session, next, "again"); };
    send(*session, first[static_cast<size_t>(i)], "once");
  }
  ASSERT_TRUE(wait_for([&] { return server->kept.size() == kFlows; }));
  const uint64_t before = sends();
  {
    const ReplyBatch batch(*transport);
    for (const auto& [handle, body] : server->kept) server->answer(handle, body);
    EXPECT_EQ(sends(), before) << "nothing goes before the batch ends";
  }
  EXPECT_EQ(sends(), before + 1);
  ASSERT_TRUE(wait_for([&] { return server->kept.size() == 2 * kFlows; }));
  EXPECT_LE(sends() - before, 5u);
  for (size_t i = kFlows; i < 2 * kFlows; ++i) {
    server->answer(server->kept[i].first, server->kept[i].second);
  }
  for (TestCall& call : second) {
    ASSERT_TRUE(wait_for(call));
    EXPECT_EQ(call.body, "again");
  }
}

TEST_F(TcpTest, ABatchKeepsItsOrderAroundBigReplies) {
  const auto session = connect();
  server->keep = true;
  std::deque<TestCall> calls(9);
  std::vector<size_t> order;
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].then = [&order, i] { order.push_back(i); };
    // The middle one goes in many pieces, and what follows waits behind it.
    send(*session, calls[i], std::string(i == 4 ? wire::kMaxBodyBytes : 10, 'a' + char(i)));
  }
  ASSERT_TRUE(wait_for([&] { return server->kept.size() == calls.size(); }));
  {
    const ReplyBatch batch(*transport);
    for (const auto& [handle, body] : server->kept) server->answer(handle, body);
  }
  for (const TestCall& call : calls) ASSERT_TRUE(wait_for(call));
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_EQ(calls[4].body, std::string(wire::kMaxBodyBytes, 'e'));
  EXPECT_EQ(calls[8].body, std::string(10, 'i'));
}

TEST_F(TcpTest, AConnectionMayCloseWhileABatchHoldsItsReplies) {
  const auto session = connect({kCluster, 7});
  server->keep = true;
  TestCall call;
  send(*session, call, "x");
  ASSERT_TRUE(wait_for([&] { return server->kept.size() == 1; }));
  {
    const ReplyBatch batch(*transport);
    server->answer(server->kept[0].first, "x");
    transport->set_identity({kCluster, 8});
  }
  ASSERT_TRUE(wait_for(call));
  EXPECT_EQ(call.failure->code(), StatusCode::kConnectionLost);
}

TEST_F(TcpTest, AConnectionWithoutAHelloIsClosedAfterItsTime) {
  TcpOptions impatient;
  impatient.hello_timeout = 10ms;
  restart(impatient);
  const UniqueFd fd = raw_client();
  raw_send(fd, "RAMC");
  EXPECT_EQ(raw_read_to_end(fd), "");
  EXPECT_EQ(protocol_errors(), 1u);
}

TEST_F(TcpTest, OneConnectionAboveTheLimitIsClosedAndPlaceIsMadeByClosingOne) {
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

TEST_F(TcpTest, AClientThatDoesNotReadIsCutOffBeforeItsOutputGrowsWithoutBound) {
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

// ---- limits -----------------------------------------------------------------------------------

TEST_F(TcpTest, OfTooManySilentConnectionsTheOldestIsClosed) {
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
  const auto session = connect();  // those who said hello do not count
  TestCall call;
  send(*session, call, "x");
  ASSERT_TRUE(wait_for(call));
  EXPECT_EQ(call.body, "x");
  EXPECT_EQ(limited("silent_connections"), 1u);
}

TEST_F(TcpTest, ASilentConnectionIsClosedWhereverItStandsInTheQueue) {
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

TEST_F(TcpTest, ConnectionsOfOnePeerAreLimited) {
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

TEST_F(TcpTest, AMessageThatDoesNotEndIsClosedAfterItsTime) {
  TcpOptions options;
  options.message_timeout = 50ms;
  restart(options);
  const UniqueFd fd = raw_client();
  raw_send(fd, bytes_of(wire::make_hello({}, 0)));
  wire::MessageHeader header{};
  header.kind = wire::Kind::kRequest;
  header.body_length = wire::kMaxBodyBytes;
  raw_send(fd, bytes_of(header));
  // A byte now and then does not help; that it was closed meanwhile is what is waited for.
  ASSERT_TRUE(wait_for([&] {
    ::send(fd.get(), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    return limited("message_timeout") == 1;
  }));
  EXPECT_EQ(server->requests, 0);
}

TEST_F(TcpTest, WholeMessagesMayBeAnyTimeApart) {
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

TEST_F(TcpTest, AReaderThatStopsIsClosedAfterItsTime) {
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

TEST_F(TcpTest, UnansweredRequestsOfOneConnectionAreLimitedAndNoneIsLost) {
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
    // Only what was there for some turns: more would have come by then.
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

TEST_F(TcpTest, ForAReaderThatStopsNoMoreRepliesAreMade) {
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

TEST_F(TcpTest, WhenAllBuffersAreFullTheOldestMessagesGo) {
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

TEST_F(TcpTest, WithoutDescriptorsAcceptingPausesAndGoesOn) {
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

TEST_F(TcpTest, ACallbackMayDropTheSessionAndSendNewCalls) {
  auto session = connect();
  TestCall first, second;
  std::shared_ptr<Session> other = connect();
  first.then = [&] {
    session.reset();
    send(*other, second, "next");
  };
  send(*session, first, "x");
  ASSERT_TRUE(wait_for(second));
  EXPECT_EQ(second.body, "next");
}

TEST_F(TcpTest, SessionsMayOutliveTheTransport) {
  const auto session = connect();
  TestCall call, late;
  send(*session, call, "x");
  transport.reset();
  EXPECT_TRUE(session->broken());
  send(*session, late, "x");
  ASSERT_TRUE(wait_for([&] { return call.done() && late.done(); }));
  EXPECT_TRUE(call.failure.has_value());
}

TEST_F(TcpTest, OnlyItsOwnLocatorsAreAccepted) {
  const auto session = transport->connect({"sim", {"a", 1}}, {});
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().code(), StatusCode::kInvalidArgument);
}

TEST_F(TcpTest, AnAddressInUseIsNamed) {
  const auto again = transport->listen(locator.address, Side::kInside, *server);
  ASSERT_FALSE(again.has_value());
  EXPECT_NE(again.error().message().find(locator.address.to_string()), std::string::npos);
}

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
