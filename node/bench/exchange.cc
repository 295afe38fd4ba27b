// A client of any protocol whose requests and replies have a fixed size, with the wait policy of
// ours: it measures how long other stores take to answer (hack/bench_peer_latency.py). Sends the
// file's bytes to 127.0.0.1, waits for as many bytes as told, and again; one at a time. While it
// waits it looks at the socket for --poll-us, giving the core away in between, and then sleeps in
// poll(), as the reactor does.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "one_client.h"
#include "transport/tcp/tcp_socket.h"

namespace ramcloud {
namespace {

struct Options : bench::OneClientOptions {
  uint16_t port = 0;
  int64_t reply_bytes = 0;
  int cpu = -1;
  std::string request;
};

/// Waits until the socket can be read.
void wait_readable(int fd, const Clock& clock, Duration poll_for) {
  const Time until = clock.now() + poll_for;
  pollfd waiting{fd, POLLIN, 0};
  while (clock.now() < until) {
    if (::poll(&waiting, 1, 0) > 0) return;
    std::this_thread::yield();
  }
  ::poll(&waiting, 1, -1);
}

/// False: the connection ended.
bool exchange(int fd, const Options& options, const Clock& clock, std::string& buffer) {
  ByteView rest = options.request;
  while (!rest.empty()) {
    const ssize_t n = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN) return false;
    if (n > 0) rest.remove_prefix(static_cast<size_t>(n));
  }
  for (int64_t missing = options.reply_bytes; missing > 0;) {
    wait_readable(fd, clock, std::chrono::microseconds(options.poll_us));
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
    if (n > 0) missing -= n;
  }
  return true;
}

int run(const Options& options) {
  if (!bench::pin(options.cpu)) {
    fmt::print(stderr, "exchange: there is no CPU {} to run on\n", options.cpu);
    return 2;
  }
  auto connecting = tcp::start_connect(*numeric_address("127.0.0.1", options.port));
  if (!connecting) return 1;
  pollfd connected{connecting->get(), POLLOUT, 0};
  ::poll(&connected, 1, 5000);
  bool refused = false;
  if (const Status status = tcp::finish_connect(connecting->get(), &refused); !status.ok()) {
    fmt::print(stderr, "exchange: port {}: {}\n", options.port, status.message());
    return 1;
  }
  tcp::set_options(connecting->get());
  const SystemClock clock;
  std::string buffer(64u << 10, 0);
  std::vector<int64_t> times;
  times.reserve(static_cast<size_t>(options.count));
  const Time measure_from = clock.now() + std::chrono::milliseconds(options.warm_up_ms);
  while (times.size() < static_cast<size_t>(options.count)) {
    const Time start = clock.now();
    if (!exchange(connecting->get(), options, clock, buffer)) {
      fmt::print(stderr, "exchange: port {} closed the connection\n", options.port);
      return 1;
    }
    if (start >= measure_from) times.push_back((clock.now() - start).count());
  }
  std::ranges::sort(times);
  fmt::print("{{\"count\":{},\"p50_us\":{:.2f},\"p99_us\":{:.2f}}}\n", times.size(),
             bench::quantile_us(times, 0.5), bench::quantile_us(times, 0.99));
  return 0;
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  using namespace ramcloud;
  Options options;
  std::string file;
  CLI::App app("Times exchanges of fixed sizes with a server of any protocol on 127.0.0.1.");
  bench::add_options(app, options);
  app.add_option("--port", options.port, "the server's")->required()->check(CLI::Range(1, 65535));
  app.add_option("--request", file, "a file with the bytes of a request")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--reply-bytes", options.reply_bytes, "so many answer a request")
      ->required()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  bench::add_cpu_option(app, "--cpu", options.cpu, "to run on, -1: any");
  CLI11_PARSE(app, argc, argv);
  std::ifstream request(file, std::ios::binary);
  options.request.assign(std::istreambuf_iterator<char>(request), {});
  if (options.request.empty()) {
    fmt::print(stderr, "--request: {} is empty or cannot be read\n", file);
    return 2;
  }
  return run(options);
}
