// A client of any protocol whose requests and replies have a fixed size, with the wait policy of
// ours: it measures how long other stores take to answer (hack/bench_peer_latency.py).
//
//   exchange --port N --request FILE --reply-bytes N [--count N] [--poll-us N] [--warm-up-ms N]
//            [--cpu N]
//
// Sends the file's bytes to 127.0.0.1, waits for as many bytes as told, and again; one at a time.
// While it waits it looks at the socket for --poll-us, giving the core away in between, and then
// sleeps in poll(), as the reactor does.
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "transport/tcp/tcp_socket.h"

namespace ramcloud {
namespace {

struct Options {
  int64_t port = 0;
  int64_t reply_bytes = 0;
  int64_t count = 5000;
  int64_t poll_us = 50;
  int64_t warm_up_ms = 200;
  int64_t cpu = -1;  // negative: wherever the scheduler puts it
  std::string request;
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--request") {
      std::ifstream file(value, std::ios::binary);
      options.request.assign(std::istreambuf_iterator<char>(file), {});
      continue;
    }
    int64_t* target = name == "--port"          ? &options.port
                      : name == "--reply-bytes" ? &options.reply_bytes
                      : name == "--count"       ? &options.count
                      : name == "--poll-us"     ? &options.poll_us
                      : name == "--warm-up-ms"  ? &options.warm_up_ms
                      : name == "--cpu"         ? &options.cpu
                                                : nullptr;
    if (target == nullptr) return false;
    if (std::from_chars(value, value + std::strlen(value), *target).ec != std::errc()) return false;
  }
  return argc % 2 == 1 && options.port > 0 && options.port < 65536 && options.reply_bytes > 0 &&
         options.count > 0 && options.warm_up_ms >= 0 && options.cpu < CPU_SETSIZE &&
         !options.request.empty();
}

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
  if (options.cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(options.cpu), &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0) return 2;
  }
  auto connecting =
      tcp::start_connect(*numeric_address("127.0.0.1", static_cast<uint16_t>(options.port)));
  if (!connecting) return 1;
  pollfd connected{connecting->get(), POLLOUT, 0};
  ::poll(&connected, 1, 5000);
  if (const Status status = tcp::finish_connect(connecting->get()); !status.ok()) {
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
  const auto at = [&](double q) {
    const double index = q * static_cast<double>(times.size() - 1);
    return static_cast<double>(times[static_cast<size_t>(index)]) / 1e3;
  };
  fmt::print("{{\"count\":{},\"p50_us\":{:.2f},\"p99_us\":{:.2f}}}\n", times.size(), at(0.5),
             at(0.99));
  return 0;
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  ramcloud::Options options;
  if (!ramcloud::parse(argc, argv, options)) {
    fmt::print(stderr,
               "usage: exchange --port N --request FILE --reply-bytes N [--count N > 0]\n"
               "                [--poll-us N] [--warm-up-ms N] [--cpu N]\n");
    return 2;
  }
  return ramcloud::run(options);
}
