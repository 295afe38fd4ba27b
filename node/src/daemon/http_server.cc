#include "daemon/http_server.h"

#include <fmt/core.h>
#include <httplib.h>
#include <netdb.h>
#include <poll.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "base/logging.h"
#include "runtime/thread.h"
#include "transport/filtering_acceptor.h"

namespace ramcloud::daemon {

namespace {

/// A socket with one deadline for all that is read and written: so a client that sends or reads
/// byte by byte does not occupy a thread for longer than others.
class TimedStream final : public httplib::Stream {
 public:
  TimedStream(int fd, Time deadline, const Clock& clock)
      : fd_(fd), deadline_(deadline), clock_(clock) {}

  bool is_readable() const override { return ready(POLLIN); }
  bool is_writable() const override { return ready(POLLOUT); }
  ssize_t read(char* to, size_t size) override {
    return is_readable() ? ::recv(fd_, to, size, MSG_DONTWAIT) : -1;
  }
  ssize_t write(const char* from, size_t size) override {
    return is_writable() ? ::send(fd_, from, size, MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (getpeername(fd_, reinterpret_cast<sockaddr*>(&peer), &length) == 0) {
      numeric(peer, length, ip, port);
    }
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    if (getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &length) == 0) {
      numeric(own, length, ip, port);
    }
  }
  socket_t socket() const override { return fd_; }

 private:
  static void numeric(const sockaddr_storage& address, socklen_t length, std::string& ip,
                      int& port) {
    char host[NI_MAXHOST] = "", service[NI_MAXSERV] = "";
    getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof host, service,
                sizeof service, NI_NUMERICHOST | NI_NUMERICSERV);
    ip = host;
    port = std::atoi(service);
  }
  bool ready(int16_t events) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - clock_.now());
    pollfd waited{fd_, events, 0};
    return left.count() > 0 && ::poll(&waited, 1, static_cast<int>(left.count())) == 1;
  }
  int fd_;
  Time deadline_;
  const Clock& clock_;
};

/// Uses the library's routes and parser, but not its accept loop, in which every silent connection
/// occupies a thread.
class Routes final : public httplib::Server {
 public:
  void serve(UniqueFd fd, Time deadline, const Clock& clock) {
    TimedStream stream(fd.get(), deadline, clock);
    bool closed = false;
    process_request(stream, true, closed, nullptr);
    ::shutdown(fd.get(), SHUT_RDWR);
  }
};

constexpr size_t kMaxBodyBytes = 4096;

/// The value of a header field in a request's head, without blanks around it; empty if there is
/// none.
std::string_view field_of(ByteView head, std::string_view lower_case_name) {
  while (!head.empty()) {
    const size_t end = std::min(head.find("\r\n"), head.size());
    const ByteView line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    const size_t colon = line.find(':');
    if (colon != lower_case_name.size() ||
        !std::equal(lower_case_name.begin(), lower_case_name.end(), line.begin(),
                    [](char wanted, char is) { return wanted == std::tolower(is); })) {
      continue;
    }
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == ByteView::npos ? ByteView() : line.substr(begin);
  }
  return {};
}

/// The library gets only complete requests, so it never waits for a client's bytes.
FilteringAcceptor::Verdict is_whole_request(ByteView bytes) {
  // HTTP methods are in capitals: other bytes are refused at once, not after the deadline.
  if (bytes.front() < 'A' || bytes.front() > 'Z') return FilteringAcceptor::Verdict::kRefuse;
  const size_t end = bytes.find("\r\n\r\n");
  if (end == ByteView::npos) return FilteringAcceptor::Verdict::kWait;
  const ByteView head = bytes.substr(0, end);
  if (!field_of(head, "transfer-encoding").empty()) return FilteringAcceptor::Verdict::kRefuse;
  const std::string_view length = field_of(head, "content-length");
  if (length.empty()) return FilteringAcceptor::Verdict::kAdmit;
  size_t wanted = 0;
  const auto parsed = std::from_chars(length.data(), length.data() + length.size(), wanted);
  if (parsed.ec != std::errc() || wanted > kMaxBodyBytes)
    return FilteringAcceptor::Verdict::kRefuse;
  return bytes.size() - end - 4 < wanted ? FilteringAcceptor::Verdict::kWait
                                         : FilteringAcceptor::Verdict::kAdmit;
}

}  // namespace

struct HttpServer::Impl {
  /// Several threads, so that a probe does not wait for a slow scraper.
  static constexpr int kThreads = 4;

  Impl(MetricsRegistry& metrics, const HttpOptions& o)
      : options(o),
        acceptor(
            {.port = "http",
             .max_connections = o.max_connections,
             .first_bytes_timeout = o.request_timeout},
            is_whole_request, [this](UniqueFd fd) { enqueue(std::move(fd)); }, metrics) {}

  void enqueue(UniqueFd fd) {
    {
      const std::lock_guard guard(mutex);
      queue.push_back(std::move(fd));  // bounded by the acceptor's limit
    }
    changed.notify_one();
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stopping || !queue.empty(); });
      if (stopping) return;
      UniqueFd fd = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      routes.serve(std::move(fd), clock.now() + options.request_timeout, clock);
      lock.lock();
    }
  }

  const HttpOptions options;
  SystemClock clock;
  Routes routes;
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;       // guarded by mutex
  std::deque<UniqueFd> queue;  // guarded by mutex
  std::vector<Thread> threads;
  FilteringAcceptor acceptor;
};

namespace {

/// Removes the line end that `echo |` sends.
std::string_view without_line_end(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

/// GET returns the log level; PUT with a level as its body changes it until the daemon ends.
void serve_log_level(httplib::Server& server) {
  server.Get("/log-level", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(std::string(log_level_name(log_level())) + "\n", "text/plain");
  });
  server.Put("/log-level", [](const httplib::Request& request, httplib::Response& response) {
    const auto level = parse_log_level(without_line_end(request.body));
    if (!level) {
      response.status = 400;
      response.set_content(level.error().message() + "\n", "text/plain");
      return;
    }
    set_log_level(*level);
    log_warn("log.level_changed", {{"level", log_level_name(*level)}, {"by", request.remote_addr}});
    response.set_content(std::string(log_level_name(*level)) + "\n", "text/plain");
  });
}

}  // namespace

HttpServer::HttpServer(MetricsRegistry& metrics, std::function<std::string()> trace,
                       HealthCheck healthy, HealthCheck ready, const HttpOptions& options)
    : impl_(std::make_unique<Impl>(metrics, options)) {
  auto& server = impl_->routes;
  server.set_payload_max_length(kMaxBodyBytes);
  server.Get("/metrics", [&metrics](const httplib::Request&, httplib::Response& response) {
    response.set_content(metrics.text(), "text/plain; version=0.0.4");
  });
  const auto answer = [](const HealthCheck& check) {
    return [check](const httplib::Request&, httplib::Response& response) {
      const std::string problem = check();
      response.status = problem.empty() ? 200 : 503;
      response.set_content((problem.empty() ? "ok" : problem) + "\n", "text/plain");
    };
  };
  server.Get("/healthz", answer(healthy));
  server.Get("/readyz", answer(ready));
  server.Get("/trace", [trace](const httplib::Request&, httplib::Response& response) {
    response.set_content(trace(), "application/json");
  });
  serve_log_level(server);
}

HttpServer::~HttpServer() {
  stop();
}

Result<HostPort> HttpServer::start(const HostPort& address) {
  auto bound = impl_->acceptor.start(address);
  if (!bound) {
    return fail(StatusCode::kIoError, fmt::format("HTTP: {}", bound.error().message()));
  }
  for (int i = 0; i < Impl::kThreads; ++i) {
    impl_->threads.emplace_back(
        "http", [impl = impl_.get()] { impl->run(); }, Thread::Priority::kBackground);
  }
  return HostPort{address.host, bound->port};
}

void HttpServer::stop() {
  impl_->acceptor.stop();
  {
    const std::lock_guard guard(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->changed.notify_all();
  impl_->threads.clear();  // joins them
}

}  // namespace ramcloud::daemon
