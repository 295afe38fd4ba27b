#include "daemon/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <vector>

#include "runtime/unique_fd.h"
#include "transport/tcp/tcp_socket.h"

namespace ramcloud::daemon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class HttpServerTest : public testing::Test {
 protected:
  void begin(const HttpOptions& options = {}) {
    server = std::make_unique<HttpServer>(
        metrics, [this] { return trace.json(); }, [] { return std::string(); },
        [] { return std::string("not yet"); }, options);
    const auto bound = server->start({"127.0.0.1", 0});
    ASSERT_TRUE(bound.has_value()) << bound.error().to_string();
    address = *bound;
  }
  UniqueFd visitor(const std::string& says = {}) const {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{20, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const auto to = numeric_address("127.0.0.1", address.port);
    EXPECT_EQ(::connect(fd.get(), to->get(), to->length), 0);
    ::send(fd.get(), says.data(), says.size(), MSG_NOSIGNAL);
    return fd;
  }
  /// All that is answered until it closes.
  static std::string answer(const UniqueFd& fd) {
    std::string all;
    char buffer[4096];
    for (ssize_t n = 1; n > 0;) {
      n = ::recv(fd.get(), buffer, sizeof buffer, 0);
      if (n > 0) all.append(buffer, static_cast<size_t>(n));
      EXPECT_TRUE(n >= 0 || errno == ECONNRESET) << "still open";
    }
    return all;
  }
  std::string ask(const std::string& request) const { return answer(visitor(request)); }

  MetricsRegistry metrics;
  TimeTrace trace;
  std::unique_ptr<HttpServer> server;
  HostPort address;
};

TEST_F(HttpServerTest, AnswersOneRequestAConnection) {
  begin();
  EXPECT_THAT(ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("ok\n"));
  EXPECT_THAT(ask("GET /readyz HTTP/1.0\r\n\r\n"), HasSubstr("503"));
  EXPECT_THAT(ask("GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("404"));
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
              HasSubstr("ramcloud_front_connections_total{port=\"http\",event=\"admitted\"}"));
  EXPECT_THAT(ask("PUT /log-level HTTP/1.1\r\nContent-Length: 4\r\n\r\nloud"), HasSubstr("400"));
}

TEST_F(HttpServerTest, SilentAndSlowConnectionsHoldNobodyUp) {
  begin({.max_connections = 8, .request_timeout = 10min});
  std::vector<UniqueFd> strangers;
  const std::string says[] = {"", "GET /metr",
                              "PUT /log-level HTTP/1.1\r\nContent-Length: 100\r\n\r\nx"};
  for (int i = 0; i < 40; ++i) {
    strangers.push_back(visitor(says[i % 3]));
    EXPECT_THAT(ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("ok\n"));
  }
}

TEST_F(HttpServerTest, ABodyThatDoesNotComeHasLimitedTime) {
  begin({.request_timeout = 100ms});
  const UniqueFd fd = visitor("PUT /log-level HTTP/1.1\r\nContent-Length: 100\r\n\r\nx");
  answer(fd);  // ends
  EXPECT_THAT(ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("ok\n"));
}

TEST_F(HttpServerTest, TooLongHeadsAndBodiesAreRefused) {
  begin();
  EXPECT_EQ(ask("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'x')), "");
  EXPECT_EQ(ask("PUT /log-level HTTP/1.1\r\ncontent-length:99999999999\r\n\r\n"), "");
  EXPECT_EQ(ask("PUT /log-level HTTP/1.1\r\nContent-Length: 4097\r\n\r\n"), "");
  EXPECT_EQ(ask("PUT /log-level HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), "");
  EXPECT_EQ(ask("\x16\x03\x01 hello"), "");
}

TEST_F(HttpServerTest, StopsWhileSomebodyWaits) {
  begin();
  const UniqueFd silent = visitor(), half = visitor("GET /");
  server->stop();
  EXPECT_EQ(answer(silent), "");
  EXPECT_EQ(answer(half), "");
}

}  // namespace
}  // namespace ramcloud::daemon
