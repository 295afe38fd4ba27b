#include "transport/tcp/tcp_transport.h"

#include <algorithm>
#include <atomic>
#include <future>

#include "base/random.h"
#include "transport/tcp/tcp_context.h"
#include "transport/testing/tcp_fixture.h"

namespace ramcloud {
namespace {

/// Looks names up as a test says. `answer` is called with the number of the lookup, on the resolver's
/// thread.
TcpOptions with_names(std::function<Result<Resolver::Addresses>(int number)> answer) {
  TcpOptions options;
  options.connect_timeout = 500ms;
  options.look_up = [answer = std::move(answer), lookups = std::make_shared<std::atomic<int>>(0)](
                        const std::string&, uint16_t) { return answer((*lookups)++); };
  return options;
}

HostPort where_nobody_listens() {
  auto listening = tcp::start_listen({"127.0.0.1", 0});  // bound, then closed
  return listening->second;
}

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
  EXPECT_EQ(session->absence(), Absence::kUnknown) << "it was there, and may be there again";
}

TEST_F(TcpTest, ConnectionRefusedFailsCallsAsUnavailable) {
  const HostPort nobody = where_nobody_listens();
  const auto session = *transport->connect({"tcp", nobody}, {});
  TestCall call;
  send(*session, call, "x");
  ASSERT_TRUE(wait_for(call));
  EXPECT_EQ(call.failure->code(), StatusCode::kUnavailable);
  EXPECT_NE(call.failure->message().find(nobody.to_string()), std::string::npos);
  EXPECT_EQ(session->absence(), Absence::kRefused);
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

/// As with two name servers of which the first is dead: each lookup takes longer than a session may
/// take to connect.
TEST_F(TcpTest, WhatASlowNameServiceSaysIsOfUseToTheNextSession) {
  std::promise<void> first_failed, done;
  const auto port = std::make_shared<std::atomic<uint16_t>>(0);
  restart(with_names([port, first = first_failed.get_future().share(),
                      later = done.get_future().share()](int number) {
    (number == 0 ? first : later).wait();
    return Result<Resolver::Addresses>({*numeric_address("127.0.0.1", *port)});
  }));
  *port = locator.address.port;
  const Locator named{"tcp", {"server.test", 1}};
  const auto slow = *transport->connect(named, {});
  TestCall lost;
  send(*slow, lost, "x");
  ASSERT_TRUE(wait_for(lost));
  EXPECT_EQ(lost.failure->code(), StatusCode::kUnavailable);

  first_failed.set_value();
  // A session that is made before the answer is there would wait for the same lookup, and note it.
  const auto answered = std::chrono::steady_clock::now() + 200ms;
  ASSERT_TRUE(wait_for([&] { return std::chrono::steady_clock::now() >= answered; }));
  std::shared_ptr<Session> session;
  std::unique_ptr<TestCall> call;
  EXPECT_TRUE(wait_for([&] {
    if (call != nullptr && !call->done()) return false;
    if (call != nullptr && call->status) return true;
    session = *transport->connect(named, {});
    call = std::make_unique<TestCall>();
    send(*session, *call, "y");
    return false;
  })) << "no session connects, although the address is known by now";
  done.set_value();
}

/// Its server may have another address by now.
TEST_F(TcpTest, ARefusalAtAnAddressThatIsOnlyRememberedProvesNothing) {
  const uint16_t nobody = where_nobody_listens().port;
  restart(with_names([nobody](int number) -> Result<Resolver::Addresses> {
    if (number > 0) return fail(StatusCode::kUnavailable, "the name service does not answer");
    return Resolver::Addresses{*numeric_address("127.0.0.1", nobody)};
  }));
  for (const Absence expected : {Absence::kRefused, Absence::kUnknown}) {
    const auto session = *transport->connect({"tcp", {"server.test", 1}}, {});
    TestCall call;
    send(*session, call, "x");
    ASSERT_TRUE(wait_for(call));
    EXPECT_EQ(call.failure->code(), StatusCode::kUnavailable);
    EXPECT_EQ(session->absence(), expected);
  }
}

/// Its address may be that of another cluster's server by now.
TEST_F(TcpTest, AnotherClusterAtAnAddressThatIsOnlyRememberedProvesNothing) {
  const auto port = std::make_shared<std::atomic<uint16_t>>(0);
  restart(with_names([port](int number) -> Result<Resolver::Addresses> {
    if (number > 0) return fail(StatusCode::kUnavailable, "the name service does not answer");
    return Resolver::Addresses{*numeric_address("127.0.0.1", *port)};
  }));
  *port = locator.address.port;
  const std::array<uint8_t, 16> foreign{9};
  for (const StatusCode expected : {StatusCode::kWrongCluster, StatusCode::kUnavailable}) {
    const auto session = *transport->connect({"tcp", {"server.test", 1}}, {foreign, 0});
    TestCall call;
    send(*session, call, "x");
    ASSERT_TRUE(wait_for(call));
    EXPECT_EQ(call.failure->code(), expected) << call.failure->message();
  }
}

/// As with a name that has addresses of two families, of which one leads nowhere.
TEST_F(TcpTest, AnAddressThatIsSilentLeavesTimeForTheNext) {
  const auto silent = tcp::start_listen({"127.0.0.1", 0});
  const auto port = std::make_shared<std::atomic<uint16_t>>(0);
  restart(with_names([port, first = silent->second.port](int) {
    return Result<Resolver::Addresses>(
        {*numeric_address("127.0.0.1", first), *numeric_address("127.0.0.1", *port)});
  }));
  *port = locator.address.port;
  const auto session = *transport->connect({"tcp", {"server.test", 1}}, {});
  TestCall call;
  send(*session, call, "x");
  ASSERT_TRUE(wait_for(call));
  EXPECT_EQ(call.body, "x");
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
  EXPECT_EQ(session->absence(), Absence::kUnknown) << "a process that is stopped looks like this";
}

/// A limit, or a flood of connections, is no sign that the server is dead.
TEST_F(TcpTest, APeerThatClosesBeforeItsHelloIsNotAbsent) {
  auto listening = tcp::start_listen({"127.0.0.1", 0});
  const auto session = *transport->connect({"tcp", listening->second}, {});
  TestCall call;
  send(*session, call, "x");
  UniqueFd accepted;
  ASSERT_TRUE(wait_for([&] {
    accepted = UniqueFd(::accept4(listening->first.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return accepted.valid();
  }));
  accepted = UniqueFd();
  ASSERT_TRUE(wait_for(call));
  EXPECT_EQ(session->absence(), Absence::kUnknown);
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
    EXPECT_EQ(session->absence(), Absence::kStranger);
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
    // The middle one goes in many pieces, and later ones wait behind it.
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

TEST(Arrivals, OneMessageAmongHeartbeatsIsEnough) {
  tcp::Arrivals arrivals;
  EXPECT_FALSE(arrivals.only_heartbeats()) << "nothing, or a part of a message";
  const auto add = [&](wire::Opcode opcode) { arrivals.add(static_cast<uint16_t>(opcode)); };
  add(wire::Opcode::kPing);
  EXPECT_TRUE(arrivals.only_heartbeats());
  add(wire::Opcode::kWrite);
  add(wire::Opcode::kPing);
  EXPECT_FALSE(arrivals.only_heartbeats());
  arrivals.begin();
  add(wire::Opcode::kRenewLease);
  EXPECT_TRUE(arrivals.only_heartbeats());
}

/// The reactor polls for the next message after what this says is none.
TEST_F(TcpTest, HeartbeatsAreToldFromOtherMessages) {
  const auto session = connect();
  TestCall first;
  send(*session, first, "x");
  ASSERT_TRUE(wait_for(first));
  const auto only_heartbeats = [&](std::initializer_list<wire::Opcode> opcodes) {
    std::deque<TestCall> calls;
    for (const wire::Opcode opcode : opcodes) {
      wire::MessageHeader header{};
      header.opcode = static_cast<uint16_t>(opcode);
      session->send(calls.emplace_back(), header, {});
    }
    // What the poll says that makes the condition true.
    const auto until = [&](const std::function<bool()>& condition) {
      const auto late = std::chrono::steady_clock::now() + 20s;
      while (!condition() && std::chrono::steady_clock::now() < late) {
        source.wait(reactor.now(), reactor.now() + 1ms);
        source.poll();
      }
      EXPECT_TRUE(condition());
      return source.only_heartbeats();
    };
    const int before = server->requests;
    const bool requests =
        until([&] { return server->requests == before + static_cast<int>(opcodes.size()); });
    const bool replies = until([&] { return calls.back().done(); });
    EXPECT_EQ(requests, replies);
    return requests && replies;
  };
  using enum wire::Opcode;
  EXPECT_TRUE(only_heartbeats({kPing}));
  EXPECT_TRUE(only_heartbeats({kRenewLease}));
  EXPECT_TRUE(only_heartbeats({kGetServerStats}));
  EXPECT_TRUE(only_heartbeats({kGrantLease}));
  EXPECT_FALSE(only_heartbeats({kRead}));
  EXPECT_FALSE(only_heartbeats({kReplicaWrite}));
}

}  // namespace
}  // namespace ramcloud
