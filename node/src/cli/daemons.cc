#include "cli/daemons.h"

#include <httplib.h>

namespace ramcloud::cli {
namespace {

/// The longest wait for a daemon's answer.
constexpr Duration kLongest = std::chrono::seconds(10);

template <typename Ask>
Result<std::string> ask(const std::string& address, Duration timeout, Ask ask_with) {
  auto parsed = parse_host_port(address);
  if (!parsed) return fail(std::move(parsed.error()));
  httplib::Client http(parsed->host, parsed->port);
  const Duration limit =
      timeout > Duration::zero() ? std::min<Duration>(timeout, kLongest) : kLongest;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const auto rest = std::chrono::duration_cast<std::chrono::microseconds>(limit - seconds);
  http.set_connection_timeout(seconds.count(), rest.count());
  http.set_read_timeout(seconds.count(), rest.count());
  const httplib::Result result = ask_with(http);
  if (!result) {
    return fail(StatusCode::kUnavailable,
                fmt::format("the daemon's HTTP port at {} does not answer: {}", address,
                            httplib::to_string(result.error())));
  }
  if (result->status == 200) return result->body;
  std::string said = result->body;
  while (said.ends_with('\n')) said.pop_back();
  return fail(result->status == 400 ? StatusCode::kInvalidArgument : StatusCode::kUnavailable,
              fmt::format("the daemon at {} answers {}: {}", address, result->status, said));
}

}  // namespace

Result<std::string> http_get(const std::string& address, const std::string& path,
                             Duration timeout) {
  return ask(address, timeout, [&](httplib::Client& http) { return http.Get(path); });
}

Result<std::string> http_put(const std::string& address, const std::string& path,
                             const std::string& body, Duration timeout) {
  return ask(address, timeout,
             [&](httplib::Client& http) { return http.Put(path, body, "text/plain"); });
}

Result<std::vector<ServerView>> live_servers(Session& session, const std::string& name) {
  auto servers = ask_admin(session, [](AdminClient& admin) { return admin.servers(); });
  if (!servers) return servers;
  std::vector<ServerView> live;
  std::string names;
  for (ServerView& server : *servers) {
    if (server.state != wire::ServerState::kUp) continue;
    names += (names.empty() ? "" : ", ") + server.name;
    if (name.empty() || server.name == name) live.push_back(std::move(server));
  }
  if (live.empty() && !name.empty()) {
    return fail(StatusCode::kNotFound,
                fmt::format("no server that is up is called '{}'; there are {}", name,
                            names.empty() ? "none" : names));
  }
  return live;
}

}  // namespace ramcloud::cli
