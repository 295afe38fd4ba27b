// Overwrites random objects with values of changing sizes, for so many seconds: of a cluster
// through its client, or of a server that speaks Redis' protocol. Either has ten groups of requests
// outstanding (multi-writes there, pipelined SETs here) and gets the same keys and sizes, which the
// seed decides. hack/bench_overwrites.py runs it.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bench/options.h"
#include "client/blocking_client.h"
#include "runtime/when_all.h"

namespace ramcloud {
namespace {

struct Options {
  std::string cluster, table;
  int64_t redis_port = 0;  // 0: a cluster
  int64_t objects = 1'000'000;
  int64_t least_bytes = 100, most_bytes = 100;
  int64_t seconds = 10;
  int64_t group = 75, at_once = 10;
  int64_t seed = 1;
  bool fill = false;  // each object once, in order, instead of random ones for a time
};

struct Write {
  std::string key;
  uint64_t value_bytes = 0;
};

/// What is to be written: groups of keys and sizes, until the time is over or all are filled.
class Load {
 public:
  explicit Load(const Options& options)
      : options_(options), random_(static_cast<uint64_t>(options.seed)) {}

  /// Empty: there is nothing more to write.
  std::vector<Write> next_group() {
    std::vector<Write> group;
    if (!options_.fill && clock_.now() >= ends_) return group;
    for (int64_t i = 0; i < options_.group; ++i) {
      if (options_.fill && filled_ == objects()) break;
      const uint64_t number = options_.fill ? filled_++ : random_.below(objects());
      const uint64_t sizes = static_cast<uint64_t>(options_.most_bytes - options_.least_bytes) + 1;
      group.push_back({fmt::format("{:016}", number),
                       static_cast<uint64_t>(options_.least_bytes) + random_.below(sizes)});
    }
    return group;
  }
  std::string_view value(uint64_t bytes) const { return std::string_view(bytes_).substr(0, bytes); }
  void count(size_t writes) { written_ += writes; }
  std::string report() const {
    return fmt::format(R"({{"writes":{},"seconds":{:.3f}}})", written_,
                       std::chrono::duration<double>(clock_.now() - begins_).count());
  }

 private:
  uint64_t objects() const { return static_cast<uint64_t>(options_.objects); }

  const Options& options_;
  const SystemClock clock_;
  const Time begins_ = clock_.now();
  const Time ends_ = begins_ + std::chrono::seconds(options_.seconds);
  const std::string bytes_ = std::string(static_cast<size_t>(options_.most_bytes), 'v');
  Random random_;
  uint64_t filled_ = 0, written_ = 0;
};

// ---- a cluster

Task<void> keep_writing(ClientCore& core, uint64_t table_id, Load& load, Status& status) {
  while (status.ok()) {
    std::vector<MultiOperation> operations;
    for (Write& write : load.next_group()) {
      operations.push_back({.table_id = table_id,
                            .key = std::move(write.key),
                            .value = std::string(load.value(write.value_bytes))});
    }
    if (operations.empty()) co_return;
    const size_t count = operations.size();
    for (const auto& version : co_await core.multi_write(std::move(operations))) {
      if (!version) status = version.error();
    }
    load.count(count);
  }
}

Task<Status> write_all(ClientCore& core, const Options& options, Load& load) {
  const auto table = co_await core.open_table(options.table);
  if (!table) co_return table.error();
  Status status;
  std::vector<Task<void>> writers;
  for (int64_t i = 0; i < options.at_once; ++i) {
    writers.push_back(keep_writing(core, table->table_id, load, status));
  }
  co_await when_all(std::move(writers));
  co_return status;
}

Status overwrite_cluster(const Options& options, Load& load) {
  auto coordinators = parse_cluster(options.cluster);
  if (!coordinators) return coordinators.error();
  BlockingClient client({.coordinators = std::move(*coordinators), .poll_for = Duration::zero()});
  return client.run(write_all(client.core(), options, load));
}

// ---- a server that speaks Redis' protocol

class RedisConnection {
 public:
  RedisConnection() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~RedisConnection() { ::close(socket_); }
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  Status connect(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      return failed("cannot connect");
    }
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return {};
  }
  /// All of it. Replies are a few bytes each, so the server never waits for us to read them.
  Status send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return failed("cannot send");
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return {};
  }
  /// Until so many further SETs were answered.
  Status await(size_t answers) {
    static constexpr std::string_view kDone = "+OK\r\n";
    while (received_.size() < answers * kDone.size()) {
      char more[16 << 10];
      const ssize_t count = ::recv(socket_, more, sizeof more, 0);
      if (count <= 0) return failed("the server closed the connection");
      received_.append(more, static_cast<size_t>(count));
    }
    for (; answers > 0; --answers, received_.erase(0, kDone.size())) {
      if (received_.starts_with(kDone)) continue;
      return {StatusCode::kInternal,
              "a SET was answered with: " + received_.substr(0, received_.find('\r'))};
    }
    return {};
  }

 private:
  static Status failed(const char* what) {
    return {StatusCode::kInternal, fmt::format("{}: {}", what, std::strerror(errno))};
  }
  const int socket_;
  std::string received_;
};

void add_set(std::string& request, const Write& write, std::string_view value) {
  fmt::format_to(std::back_inserter(request), "*3\r\n$3\r\nSET\r\n${}\r\n{}\r\n${}\r\n{}\r\n",
                 write.key.size(), write.key, value.size(), value);
}

Status overwrite_redis(const Options& options, Load& load) {
  RedisConnection connection;
  Status status = connection.connect(static_cast<uint16_t>(options.redis_port));
  std::vector<size_t> outstanding;
  std::string request;
  while (status.ok()) {
    const std::vector<Write> group = load.next_group();
    if (group.empty() && outstanding.empty()) break;
    if (!group.empty()) {
      request.clear();
      for (const Write& write : group) add_set(request, write, load.value(write.value_bytes));
      status = connection.send(request);
      outstanding.push_back(group.size());
    }
    if (status.ok() && (group.empty() || std::ssize(outstanding) == options.at_once)) {
      status = connection.await(outstanding.front());
      load.count(outstanding.front());
      outstanding.erase(outstanding.begin());
    }
  }
  return status;
}

int run(const Options& options) {
  Load load(options);
  const Status status =
      options.redis_port != 0 ? overwrite_redis(options, load) : overwrite_cluster(options, load);
  if (!status.ok()) {
    fmt::print(stderr, "error: {}\n", status.to_string());
    return 1;
  }
  fmt::print("{}\n", load.report());
  return 0;
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  using namespace ramcloud;
  Options options;
  CLI::App app("Overwrites random objects with values of changing sizes.");
  auto* cluster = app.add_option("--cluster", options.cluster, "the coordinators' addresses");
  app.add_option("--table", options.table, "of the cluster")->needs(cluster);
  bench::add_number(app, "--redis-port", options.redis_port, 1, 65'535,
                    "of a server on this machine that speaks Redis' protocol")
      ->excludes(cluster);
  bench::add_number(app, "--objects", options.objects, 1, 1'000'000'000, "that there are");
  bench::add_number(app, "--least-bytes", options.least_bytes, 0, 1 << 20, "of a value");
  bench::add_number(app, "--most-bytes", options.most_bytes, 0, 1 << 20, "of a value");
  bench::add_number(app, "--seconds", options.seconds, 1, 86'400, "how long");
  bench::add_number(app, "--group", options.group, 1, 1000, "writes of a request");
  bench::add_number(app, "--at-once", options.at_once, 1, 1000, "requests outstanding");
  bench::add_number(app, "--seed", options.seed, 0, INT64_MAX, "of keys and sizes");
  app.add_flag("--fill", options.fill, "write each object once, in order");
  CLI11_PARSE(app, argc, argv);
  if (options.cluster.empty() == (options.redis_port == 0)) {
    fmt::print(stderr, "error: one of --cluster and --redis-port is needed\n");
    return 2;
  }
  if (options.least_bytes > options.most_bytes) {
    fmt::print(stderr, "error: --least-bytes is {}; accepted is at most --most-bytes, {}\n",
               options.least_bytes, options.most_bytes);
    return 2;
  }
  return run(options);
}
