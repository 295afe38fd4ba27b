#include "daemon/http_server.h"

#include <fmt/core.h>
#include <httplib.h>

#include <atomic>
#include <thread>

#include "base/logging.h"

namespace ramcloud::daemon {

struct HttpServer::Impl {
  httplib::Server server;
  std::thread thread;
  std::atomic<bool> ended{false};
};

namespace {

/// What `curl -d` and `echo |` send.
std::string_view without_line_end(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

/// GET tells the level of the logs, PUT with a level as its body changes it until the daemon ends.
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
    log_warn("log level changed", {{"level", log_level_name(*level)}, {"by", request.remote_addr}});
    response.set_content(std::string(log_level_name(*level)) + "\n", "text/plain");
  });
}

}  // namespace

HttpServer::HttpServer(MetricsRegistry& metrics, std::function<std::string()> trace,
                       HealthCheck healthy, HealthCheck ready)
    : impl_(std::make_unique<Impl>()) {
  auto& server = impl_->server;
  // Probes and a scraper come one at a time; more threads would only cost memory.
  server.new_task_queue = [] { return new httplib::ThreadPool(2); };
  server.set_keep_alive_max_count(100);
  server.set_read_timeout(5);
  server.set_write_timeout(5);
  server.set_payload_max_length(4096);
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
  HostPort bound = address;
  if (address.port == 0) {
    const int port = impl_->server.bind_to_any_port(address.host.c_str());
    if (port < 0) {
      return fail(StatusCode::kIoError, fmt::format("cannot listen on {}", address.to_string()));
    }
    bound.port = static_cast<uint16_t>(port);
  } else if (!impl_->server.bind_to_port(address.host.c_str(), address.port)) {
    return fail(StatusCode::kIoError,
                fmt::format("cannot listen on {} for HTTP: is another process using the port?",
                            address.to_string()));
  }
  impl_->thread = std::thread([this] {
    impl_->server.listen_after_bind();
    impl_->ended = true;
  });
  // Before the thread listens, the library's stop() does nothing, and whoever joins waits for ever.
  while (!impl_->server.is_running() && !impl_->ended) std::this_thread::yield();
  return bound;
}

void HttpServer::stop() {
  impl_->server.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace ramcloud::daemon
