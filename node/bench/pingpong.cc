// The floor under every remote operation: messages between processes over the reactor and the TCP
// transport that servers use, and nothing else. A ping-pong (one message there and one back) is the
// floor of a read; with --replicas N it is a relay: the first process asks N others at once and
// answers when all have, the floor of a write with N replicas.
//
// The CPUs pin the processes: the latency of two that share a core differs by a factor of two from
// that of two that do not, so a comparison must place both sides alike.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "one_client.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcloud {
namespace {

struct Options : bench::OneClientOptions {
  int64_t bytes = 130;
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

/// Answers a request with what it holds, after all `further` processes have answered it too. One
/// request is under way at a time.
class Relay final : public RequestHandler {
 public:
  void start(Transport& transport, std::span<const uint16_t> further) {
    transport_ = &transport;
    for (const uint16_t port : further) {
      sessions_.push_back(*transport.connect({"tcp", {"127.0.0.1", port}}, {}));
    }
    for (Copy& copy : copies_) copy.relay = this;
  }

  void on_request(const ReplyHandle& handle, const wire::MessageHeader&, ByteView body) override {
    const Slice slice(body);
    if (sessions_.empty()) {
      transport_->reply(handle, StatusCode::kOk, {&slice, 1});
      return;
    }
    handle_ = handle;
    missing_ = sessions_.size();
    for (size_t i = 0; i < sessions_.size(); ++i) sessions_[i]->send(copies_[i], {}, {&slice, 1});
  }

 private:
  struct Copy final : ClientCall {
    Relay* relay = nullptr;
    void on_reply(const wire::MessageHeader&, ByteView body) override { relay->answered(body); }
    // The client sees it: it gets no answer and its connection ends with this process.
    void on_failure(const Status&) override { ::_exit(1); }
  };

  void answered(ByteView body) {
    if (--missing_ > 0) return;
    const Slice slice(body);
    transport_->reply(handle_, StatusCode::kOk, {&slice, 1});
  }

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
  Relay relay;
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

std::vector<int64_t> measure(const Options& options, uint16_t port) {
  pin(options.client_cpu);
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
  const Time measure_from = clock.now() + std::chrono::milliseconds(options.warm_up_ms);
  while (times.size() < static_cast<size_t>(options.count)) {
    ping.done = false;
    const Time start = clock.now();
    session->send(ping, {}, {&slice, 1});
    reactor.run_until(done);
    if (ping.failed) return {};
    if (start >= measure_from) times.push_back((clock.now() - start).count());
  }
  return times;
}

void print(const Options& options, std::vector<int64_t>& times) {
  std::ranges::sort(times);
  const auto at = [&](double q) { return bench::quantile_us(times, q); };
  if (options.json) {
    fmt::print(
        "{{\"replicas\":{},\"poll_us\":{},\"bytes\":{},\"count\":{},\"p50_us\":{:.2f},\"p90_us\":{:"
        ".2f},"
        "\"p99_us\":{:.2f},\"p999_us\":{:.2f}}}\n",
        options.replicas, options.poll_us, options.bytes, times.size(), at(0.5), at(0.9), at(0.99),
        at(0.999));
  } else {
    fmt::print("poll-us {}: p50 {:.1f} p90 {:.1f} p99 {:.1f} p99.9 {:.1f} us\n", options.poll_us,
               at(0.5), at(0.9), at(0.99), at(0.999));
  }
}

/// Starts a process that serves, and returns its port, or 0.
uint16_t start_server(const Options& options, std::span<const uint16_t> further,
                      const int (&life)[2]) {
  int ports[2];
  if (::pipe(ports) != 0) return 0;
  if (::fork() == 0) {
    ::close(life[1]);
    serve(options, further, ports[1], life[0]);
    ::_exit(0);
  }
  ::close(ports[1]);
  uint16_t port = 0;
  if (::read(ports[0], &port, sizeof port) != sizeof port) port = 0;
  ::close(ports[0]);
  return port;
}

int run(const Options& options) {
  int life[2];  // open for as long as this process wants the others to live
  if (::pipe(life) != 0) return 1;
  std::vector<uint16_t> replicas;
  for (int64_t i = 0; i < options.replicas; ++i)
    replicas.push_back(start_server(options, {}, life));
  const uint16_t port = start_server(options, replicas, life);
  ::close(life[0]);
  std::vector<int64_t> times;
  if (port != 0 && std::ranges::find(replicas, 0) == replicas.end()) times = measure(options, port);
  ::close(life[1]);
  while (::wait(nullptr) > 0) {
  }
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
  using namespace ramcloud;
  Options options;
  options.count = 50'000;
  CLI::App app("Times messages between processes over the servers' reactor and TCP transport.");
  bench::add_options(app, options);
  app.add_option("--bytes", options.bytes, "of a whole message")
      ->check(CLI::Range(int64_t{sizeof(wire::MessageHeader)}, int64_t{wire::kMaxBodyBytes}))
      ->capture_default_str();
  app.add_option("--replicas", options.replicas, "processes that the first asks before it answers")
      ->check(CLI::Range(int64_t{0}, kMostReplicas))
      ->capture_default_str();
  bench::add_cpu_option(app, "--client-cpu", options.client_cpu, "of the one that asks, -1: any");
  bench::add_cpu_option(app, "--server-cpu", options.server_cpu, "of all others, -1: any");
  app.add_flag("--json", options.json, "one line of JSON");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
