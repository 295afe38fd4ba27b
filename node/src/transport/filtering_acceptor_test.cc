#include "transport/filtering_acceptor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "transport/tcp/tcp_socket.h"

namespace ramcloud {
namespace {

/// Admits connections that begin with "hello", and keeps them.
class FilteringAcceptorTest : public ::testing::Test {
 protected:
  void begin(FilteringAcceptor::Options options) {
    options.port = "test";
    acceptor = std::make_unique<FilteringAcceptor>(
        options,
        [](ByteView bytes) {
          constexpr ByteView kWanted = "hello";
          const size_t common = std::min(bytes.size(), kWanted.size());
          if (bytes.substr(0, common) != kWanted.substr(0, common))
            return FilteringAcceptor::Verdict::kRefuse;
          return common == kWanted.size() ? FilteringAcceptor::Verdict::kAdmit
                                          : FilteringAcceptor::Verdict::kWait;
        },
        [this](UniqueFd fd) {
          const std::lock_guard guard(mutex);
          admitted.push_back(std::move(fd));
          changed.notify_all();
        },
        metrics);
    const auto bound = acceptor->start({"127.0.0.1", 0});
    ASSERT_TRUE(bound.has_value()) << bound.error().to_string();
    address = *bound;
  }
  UniqueFd visitor(ByteView says = {}) const {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto to = numeric_address("127.0.0.1", address.port);
    EXPECT_EQ(::connect(fd.get(), to->get(), to->length), 0);
    say(fd, says);
    return fd;
  }
  static void say(const UniqueFd& fd, ByteView bytes) {
    ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// Waits until it is closed; false if it received bytes instead.
  static bool is_closed(const UniqueFd& fd) {
    const timeval limit{20, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    char byte;
    const ssize_t n = ::recv(fd.get(), &byte, 1, 0);
    return n == 0 || (n < 0 && errno == ECONNRESET);
  }
  bool wait_for_admitted(size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 20s, [&] { return admitted.size() >= count; });
  }
  uint64_t count(const char* event) {
    return metrics
        .counter("ramcloud_front_connections_total", "", {{"port", "test"}, {"event", event}})
        .value();
  }

  MetricsRegistry metrics;
  HostPort address;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<UniqueFd> admitted;
  std::unique_ptr<FilteringAcceptor> acceptor;  // last: its thread uses the others
};

TEST_F(FilteringAcceptorTest, WhoSaysTheRightBytesComesInWithThem) {
  begin({.max_connections = 4});
  const UniqueFd fd = visitor("he");
  say(fd, "llo, world");
  ASSERT_TRUE(wait_for_admitted(1));
  char bytes[16];
  EXPECT_EQ(::recv(admitted[0].get(), bytes, sizeof bytes, 0), 12);
  EXPECT_EQ(ByteView(bytes, 12), "hello, world");
}

TEST_F(FilteringAcceptorTest, GarbageAndTooManyBytesAreRefused) {
  begin({.max_connections = 4, .max_first_bytes = 4});
  EXPECT_TRUE(is_closed(visitor("GARBAGE")));
  EXPECT_TRUE(is_closed(visitor("hell")));  // would be right, but more is not looked at
  EXPECT_EQ(count("refused"), 2u);
  EXPECT_TRUE(admitted.empty());
}

TEST_F(FilteringAcceptorTest, WhoSaysNothingOrByteByByteHasLimitedTime) {
  begin({.max_connections = 4, .first_bytes_timeout = 50ms});
  const UniqueFd silent = visitor(), slow = visitor("h");
  EXPECT_TRUE(is_closed(silent));
  EXPECT_TRUE(is_closed(slow));
  EXPECT_EQ(count("timed_out"), 2u);
}

TEST_F(FilteringAcceptorTest, TheOldestThatWaitsMakesPlace) {
  begin({.max_connections = 2, .first_bytes_timeout = 10min});
  const UniqueFd first = visitor();
  const UniqueFd second = visitor("h");
  const UniqueFd third = visitor("hello");
  ASSERT_TRUE(wait_for_admitted(1));
  EXPECT_TRUE(is_closed(first));
  EXPECT_EQ(count("dropped"), 1u);
  say(second, "ello");
  EXPECT_TRUE(wait_for_admitted(2));
}

TEST_F(FilteringAcceptorTest, ThoseInsideCountUntilTheyAreClosed) {
  begin({.max_connections = 1});
  const UniqueFd first = visitor("hello");
  ASSERT_TRUE(wait_for_admitted(1));
  EXPECT_TRUE(is_closed(visitor("hello")));
  {
    const std::lock_guard guard(mutex);
    admitted.clear();
  }
  const UniqueFd second = visitor("hello");
  EXPECT_TRUE(wait_for_admitted(1));
}

TEST_F(FilteringAcceptorTest, AcceptsAgainWhenThereAreDescriptorsAgain) {
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
  GTEST_SKIP()
      << "the sanitizer looks at memory by a pipe, and takes it for invalid without descriptors";
#endif
#endif
  begin({.max_connections = 4});
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  // Ours is made before the limit, so that only accepting fails.
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit none = usual;
  none.rlim_cur = static_cast<rlim_t>(fd.get()) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto to = numeric_address("127.0.0.1", address.port);
  EXPECT_EQ(::connect(fd.get(), to->get(), to->length), 0);
  say(fd, "hello");
  while (count("accept_paused") == 0) std::this_thread::yield();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_TRUE(wait_for_admitted(1));
}

TEST_F(FilteringAcceptorTest, StoppingClosesThePortAndWhoWaits) {
  begin({.max_connections = 4});
  const UniqueFd fd = visitor("h");
  acceptor->stop();
  EXPECT_TRUE(is_closed(fd));
  UniqueFd late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto to = numeric_address("127.0.0.1", address.port);
  EXPECT_NE(::connect(late.get(), to->get(), to->length), 0);
}

}  // namespace
}  // namespace ramcloud
