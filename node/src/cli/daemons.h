// Calls to the coordinator's admin API and to the daemons' HTTP ports.
#pragma once

#include <fmt/core.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "cli/session.h"
#include "coordinator/admin/admin_client.h"

namespace ramcloud::cli {

/// Gets the admin address from the coordinator's data port, and calls `ask` there.
template <typename Ask>
auto ask_admin(Session& session, Ask ask) -> decltype(ask(std::declval<AdminClient&>())) {
  auto info = session.client().run(session.core().cluster_info());
  if (!info) return fail(std::move(info.error()));
  auto address = parse_host_port(info->admin_address);
  if (!address) {
    return fail(StatusCode::kUnavailable,
                fmt::format("the coordinator gives no admin address that can be used ('{}')",
                            info->admin_address));
  }
  constexpr Duration kForEver = std::chrono::hours(24);
  const Duration timeout = session.timeout_duration();
  AdminClient admin(*address, timeout > Duration::zero() ? timeout : kForEver);
  return ask(admin);
}

/// A daemon's answer to GET `path`. UNAVAILABLE names the address and the problem.
Result<std::string> http_get(const std::string& address, const std::string& path, Duration timeout);
/// The same for PUT of a short text. INVALID_ARGUMENT has the daemon's message.
Result<std::string> http_put(const std::string& address, const std::string& path,
                             const std::string& body, Duration timeout);

/// The servers that are up, by id; with a name, only that server (NOT_FOUND lists the others).
Result<std::vector<ServerView>> live_servers(Session& session, const std::string& name = {});

}  // namespace ramcloud::cli
