// The floor under every remote operation: one message there and one back between two processes,
// over the reactor and the TCP transport that servers use, and nothing else.
//
//   pingpong [--poll-us N] [--count N] [--bytes N] [--json]
//
// --poll-us as for servers (0 sleeps at once, negative never sleeps); --bytes of a whole message.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <vector>

#include "transport/tcp/tcp_transport.h"

namespace ramcloud {
namespace {

struct Options {
  int64_t poll_us = 50;
  int64_t count = 50'000;
  int64_t bytes = 130;
  bool json = false;
};

struct Echo final : RequestHandler {
  void on_request(const ReplyHandle& handle, const wire::MessageHeader&, ByteView body) override {
    const Slice slice(body);
    transport->reply(handle, StatusCode::kOk, {&slice, 1});
  }
  Transport* transport = nullptr;
};

struct Ping final : ClientCall {
  bool done = false;
  bool failed = false;
  void on_reply(const wire::MessageHeader&, ByteView) override { done = true; }
  void on_failure(const Status&) override { done = failed = true; }
};

Reactor::Options reactor_options(const Options& options) {
  return {.poll_for = std::chrono::microseconds(options.poll_us)};
}

/// Serves until the other end of `life` closes; tells the port through `to_client`.
void serve(const Options& options, int to_client, int life) {
  SystemClock clock;
  EpollSource source;
  Reactor reactor(clock, source, 1, reactor_options(options));
  TcpTransport transport(reactor, source);
  Echo echo;
  echo.transport = &transport;
  const auto bound = transport.listen({"127.0.0.1", 0}, Side::kInside, echo);
  if (!bound || ::write(to_client, &bound->port, sizeof bound->port) < 0) return;
  struct Watch final : FdHandler {
    Reactor* reactor = nullptr;
    void on_ready(uint32_t) override { reactor->stop(); }
  } watch;
  watch.reactor = &reactor;
  if (!source.add(life, EPOLLIN, &watch).ok()) return;
  reactor.run();
}

std::vector<int64_t> measure(const Options& options, uint16_t port) {
  SystemClock clock;
  EpollSource source;
  Reactor reactor(clock, source, 2, reactor_options(options));
  TcpTransport transport(reactor, source);
  const auto session = *transport.connect({"tcp", {"127.0.0.1", port}}, {});
  const std::string body(static_cast<size_t>(options.bytes) - sizeof(wire::MessageHeader), 'x');
  const Slice slice(body);
  std::vector<int64_t> times;
  times.reserve(static_cast<size_t>(options.count));
  Ping ping;
  const std::function<bool()> done = [&] { return ping.done; };
  for (int64_t i = -options.count / 10; i < options.count; ++i) {  // the first tenth warms up
    ping.done = false;
    const Time start = clock.now();
    session->send(ping, {}, {&slice, 1});
    reactor.run_until(done);
    if (ping.failed) return {};
    if (i >= 0) times.push_back((clock.now() - start).count());
  }
  return times;
}

void print(const Options& options, std::vector<int64_t>& times) {
  std::ranges::sort(times);
  const auto at = [&](double q) {
    return static_cast<double>(
               times[static_cast<size_t>(q * static_cast<double>(times.size() - 1))]) /
           1e3;
  };
  if (options.json) {
    fmt::print(
        "{{\"poll_us\":{},\"bytes\":{},\"count\":{},\"p50_us\":{:.2f},\"p90_us\":{:.2f},"
        "\"p99_us\":{:.2f},\"p999_us\":{:.2f}}}\n",
        options.poll_us, options.bytes, times.size(), at(0.5), at(0.9), at(0.99), at(0.999));
  } else {
    fmt::print("poll-us {}: p50 {:.1f} p90 {:.1f} p99 {:.1f} p99.9 {:.1f} us\n", options.poll_us,
               at(0.5), at(0.9), at(0.99), at(0.999));
  }
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--json") {
      options.json = true;
      continue;
    }
    int64_t* target = name == "--poll-us" ? &options.poll_us
                      : name == "--count" ? &options.count
                      : name == "--bytes" ? &options.bytes
                                          : nullptr;
    if (target == nullptr || i + 1 == argc) return false;
    const char* value = argv[++i];
    if (std::from_chars(value, value + std::strlen(value), *target).ec != std::errc()) return false;
  }
  return options.count > 0 && options.bytes >= static_cast<int64_t>(sizeof(wire::MessageHeader)) &&
         options.bytes <= int64_t{wire::kMaxBodyBytes};
}

int run(const Options& options) {
  int ports[2], life[2];
  if (::pipe(ports) != 0 || ::pipe(life) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(life[1]);
    serve(options, ports[1], life[0]);
    ::_exit(0);
  }
  ::close(life[0]);
  ::close(ports[1]);
  uint16_t port = 0;
  std::vector<int64_t> times;
  if (::read(ports[0], &port, sizeof port) == sizeof port) times = measure(options, port);
  ::close(life[1]);
  ::waitpid(child, nullptr, 0);
  if (times.empty()) {
    fmt::print(stderr, "pingpong: the connection failed\n");
    return 1;
  }
  print(options, times);
  return 0;
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  ramcloud::Options options;
  if (!ramcloud::parse(argc, argv, options)) {
    fmt::print(stderr,
               "usage: pingpong [--poll-us N] [--count N > 0] [--bytes 48..4194304] [--json]\n");
    return 2;
  }
  return ramcloud::run(options);
}
