// The floor under every remote operation: messages between processes over the reactor and the TCP
// transport that servers use, and nothing else. A ping-pong (one message there and one back) is the
// floor of a read; with --replicas N it is a relay: the first process asks N others at once and
// answers when all have, the floor of a write with N replicas.
//
// It also tells what CPU time the first process used per exchange. With the sizes of a multi-write
// that is what sockets alone cost a master: no store can be cheaper.
//
// The CPUs pin the processes: the latency of two that share a core differs by a factor of two from
// that of two that do not, so a comparison must place both sides alike.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "one_client.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcloud {
namespace {

struct Options : bench::OneClientOptions {
  int64_t bytes = 130;
  int64_t copy_bytes = 0, answer_bytes = 0;  // 0: as `bytes`
  int64_t replicas = 0;
  int client_cpu = -1, server_cpu = -1;
  bool json = false;
};

constexpr int64_t kMostReplicas = 8;

struct Ping final : ClientCall {
  bool done = false;
  bool failed = false;
  void on_reply(const wire::MessageHeader&, ByteView) override { done = true; }
  void on_failure(const Status&) override { done = failed = true; }
};

std::string body_of(int64_t message_bytes) {
  return std::string(static_cast<size_t>(message_bytes) - sizeof(wire::MessageHeader), 'x');
}

/// Answers a request, after all `further` processes have answered a copy. One request is in flight
/// at a time.
class Relay final : public RequestHandler {
 public:
  explicit Relay(const Options& options)
      : copy_(body_of(options.copy_bytes)), answer_(body_of(options.answer_bytes)) {}

  void start(Transport& transport, std::span<const uint16_t> further) {
    transport_ = &transport;
    for (const uint16_t port : further) {
      sessions_.push_back(*transport.connect({"tcp", {"127.0.0.1", port}}, {}));
    }
    for (Copy& copy : copies_) copy.relay = this;
  }

  void on_request(const ReplyHandle& handle, const wire::MessageHeader&, ByteView) override {
    handle_ = handle;
    missing_ = sessions_.size();
    if (missing_ == 0) return answer();
    const Slice slice(copy_);
    for (size_t i = 0; i < sessions_.size(); ++i) sessions_[i]->send(copies_[i], {}, {&slice, 1});
  }

 private:
  struct Copy final : ClientCall {
    Relay* relay = nullptr;
    void on_reply(const wire::MessageHeader&, ByteView) override {
      if (--relay->missing_ == 0) relay->answer();
    }
    // The client sees it: it gets no answer and its connection ends with this process.
    void on_failure(const Status&) override { ::_exit(1); }
  };

  void answer() {
    const Slice slice(answer_);
    transport_->reply(handle_, StatusCode::kOk, {&slice, 1});
  }

  const std::string copy_, answer_;
  Transport* transport_ = nullptr;
  std::vector<std::shared_ptr<Session>> sessions_;
  Copy copies_[kMostReplicas];
  ReplyHandle handle_{};
  size_t missing_ = 0;
};

void pin(int cpu) {
  if (bench::pin(cpu)) return;
  fmt::print(stderr, "pingpong: there is no CPU {} to run on\n", cpu);
  ::_exit(2);
}

Reactor::Options reactor_options(const Options& options) {
  return {.poll_for = std::chrono::microseconds(options.poll_us)};
}

/// Serves until the other end of `life` closes; tells the port through `to_client`.
void serve(const Options& options, std::span<const uint16_t> further, int to_client, int life) {
  pin(options.server_cpu);
  SystemClock clock;
  EpollSource source;
  Reactor reactor(clock, source, 1, reactor_options(options));
  TcpTransport transport(reactor, source);
  Relay relay(options);
  relay.start(transport, further);
  const auto bound = transport.listen({"127.0.0.1", 0}, Side::kInside, relay);
  if (!bound || ::write(to_client, &bound->port, sizeof bound->port) < 0) return;
  struct Watch final : FdHandler {
    Reactor* reactor = nullptr;
    void on_ready(uint32_t) override { reactor->stop(); }
  } watch;
  watch.reactor = &reactor;
  if (!source.add(life, EPOLLIN, &watch).ok()) return;
  reactor.run();
}

struct Measured {
  std::vector<int64_t> times;  // nanoseconds
  int64_t exchanges = 0;       // with those that were not timed
  double server_cpu_us = 0;    // of the first process, an exchange
};

Measured measure(const Options& options, uint16_t port) {
  pin(options.client_cpu);
  SystemClock clock;
  EpollSource source;
  Reactor reactor(clock, source, 2, reactor_options(options));
  TcpTransport transport(reactor, source);
  const auto session = *transport.connect({"tcp", {"127.0.0.1", port}}, {});
  const std::string body = body_of(options.bytes);
  const Slice slice(body);
  Measured measured;
  std::vector<int64_t>& times = measured.times;
  times.reserve(static_cast<size_t>(options.count));
  Ping ping;
  const std::function<bool()> done = [&] { return ping.done; };
  const Time measure_from = clock.now() + std::chrono::milliseconds(options.warm_up_ms);
  while (times.size() < static_cast<size_t>(options.count)) {
    ping.done = false;
    const Time start = clock.now();
    session->send(ping, {}, {&slice, 1});
    reactor.run_until(done);
    if (ping.failed) return {};
    if (start >= measure_from) times.push_back((clock.now() - start).count());
    ++measured.exchanges;
  }
  return measured;
}

void print(const Options& options, Measured& measured) {
  std::vector<int64_t>& times = measured.times;
  std::ranges::sort(times);
  const auto at = [&](double q) { return bench::quantile_us(times, q); };
  if (options.json) {
    fmt::print(
        "{{\"replicas\":{},\"poll_us\":{},\"bytes\":{},\"count\":{},\"p50_us\":{:.2f},\"p90_us\":{:"
        ".2f},"
        "\"p99_us\":{:.2f},\"p999_us\":{:.2f},\"server_cpu_us\":{:.2f}}}\n",
        options.replicas, options.poll_us, options.bytes, times.size(), at(0.5), at(0.9), at(0.99),
        at(0.999), measured.server_cpu_us);
  } else {
    fmt::print(
        "poll-us {}: p50 {:.1f} p90 {:.1f} p99 {:.1f} p99.9 {:.1f} us, server's CPU {:.1f} us\n",
        options.poll_us, at(0.5), at(0.9), at(0.99), at(0.999), measured.server_cpu_us);
  }
}

struct Server {
  uint16_t port = 0;  // 0: it could not be started
  pid_t pid = -1;
};

Server start_server(const Options& options, std::span<const uint16_t> further,
                    const int (&life)[2]) {
  int ports[2];
  if (::pipe(ports) != 0) return {};
  Server server{.pid = ::fork()};
  if (server.pid == 0) {
    ::close(life[1]);
    serve(options, further, ports[1], life[0]);
    ::_exit(0);
  }
  ::close(ports[1]);
  if (::read(ports[0], &server.port, sizeof server.port) != sizeof server.port) server.port = 0;
  ::close(ports[0]);
  return server;
}

/// Waits for a process to end; gives the CPU time it used, in microseconds.
double cpu_us_of(pid_t pid) {
  rusage used{};
  if (::wait4(pid, nullptr, 0, &used) != pid) return 0;
  const auto us = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return us(used.ru_utime) + us(used.ru_stime);
}

int run(const Options& options) {
  int life[2];  // open for as long as this process wants the others to live
  if (::pipe(life) != 0) return 1;
  std::vector<uint16_t> replicas;
  for (int64_t i = 0; i < options.replicas; ++i)
    replicas.push_back(start_server(options, {}, life).port);
  const Server first = start_server(options, replicas, life);
  ::close(life[0]);
  Measured measured;
  if (first.port != 0 && std::ranges::find(replicas, 0) == replicas.end()) {
    measured = measure(options, first.port);
  }
  ::close(life[1]);
  const double cpu_us = cpu_us_of(first.pid);
  while (::wait(nullptr) > 0) {
  }
  if (measured.times.empty()) {
    fmt::print(stderr, "pingpong: the connection failed\n");
    return 1;
  }
  measured.server_cpu_us = cpu_us / static_cast<double>(measured.exchanges);
  print(options, measured);
  return 0;
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  using namespace ramcloud;
  Options options;
  options.count = 50'000;
  CLI::App app("Times messages between processes over the servers' reactor and TCP transport.");
  bench::add_options(app, options);
  const auto add_size = [&](const char* name, int64_t& bytes, const char* what) {
    app.add_option(name, bytes, what)
        ->check(CLI::Range(int64_t{sizeof(wire::MessageHeader)}, int64_t{wire::kMaxBodyBytes}));
  };
  add_size("--bytes", options.bytes, "of a whole message, 130 if not given");
  add_size("--copy-bytes", options.copy_bytes, "of one to a replica; as --bytes if not given");
  add_size("--answer-bytes", options.answer_bytes, "of an answer; as --bytes if not given");
  app.add_option("--replicas", options.replicas, "processes that the first asks before it answers")
      ->check(CLI::Range(int64_t{0}, kMostReplicas))
      ->capture_default_str();
  bench::add_cpu_option(app, "--client-cpu", options.client_cpu, "of the one that asks, -1: any");
  bench::add_cpu_option(app, "--server-cpu", options.server_cpu, "of all others, -1: any");
  app.add_flag("--json", options.json, "one line of JSON");
  CLI11_PARSE(app, argc, argv);
  if (options.copy_bytes == 0) options.copy_bytes = options.bytes;
  if (options.answer_bytes == 0) options.answer_bytes = options.bytes;
  return run(options);
}
