// A TCP transport over loopback with both its ends in one reactor, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/epoll_source.h"
#include "transport/tcp/tcp_socket.h"
#include "transport/tcp/tcp_transport.h"
#include "wire/hello.h"

namespace ramcloud {

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
    // In two pieces, like replies from the log.
    const std::array<Slice, 2> pieces{Slice(body.substr(0, body.size() / 2)),
                                      Slice(body.substr(body.size() / 2))};
    transport.reply(handle, StatusCode::kOk, pieces);
  }
  Transport& transport;
  bool keep = false;
  int requests = 0;
  std::deque<std::pair<ReplyHandle, std::string>> kept;
};

inline constexpr std::array<uint8_t, 16> kCluster{1, 2, 3};

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
  /// Runs turns until the condition is true; false after 20 seconds.
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

  /// A client socket for raw bytes.
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
  // Never sleeps, but yields the core, because the tests' raw sockets are not watched.
  Reactor reactor{clock, source, 1, {.poll_for = -1us}};
  MetricsRegistry metrics;
  std::unique_ptr<TcpTransport> transport =
      std::make_unique<TcpTransport>(reactor, source, TcpOptions{}, &metrics);
  std::unique_ptr<TestServer> server = std::make_unique<TestServer>(*transport);
  Locator locator;
};

}  // namespace ramcloud
