#include "rpc/server_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/logging.h"
#include "base/sometimes.h"

namespace ramcloud {
namespace {

ListedServer parse(const wire::ServerListEntry& entry) {
  ListedServer server;
  server.server_id = entry.server_id;
  server.state = entry.state;
  server.name = entry.name;
  server.failure_domain = entry.failure_domain.empty() ? fmt::format("server:{}", entry.server_id)
                                                       : entry.failure_domain;
  server.disk_read_bytes_per_second = entry.disk_read_bytes_per_second;
  if (auto locator = parse_locator(entry.locator)) {
    server.locator = *locator;
  } else if (entry.state == wire::ServerState::kUp) {
    log_warn("server_list.bad_locator",
             {{"server", entry.server_id}, {"locator", entry.locator}, {"error", locator.error()}});
  }
  return server;
}

}  // namespace

Status ServerList::check_term(uint64_t term) {
  if (term < highest_term_) {
    RC_SOMETIMES("rpc.former_coordinator_is_refused");
    return {StatusCode::kStaleTerm,
            fmt::format("term {} is of a former coordinator; the present one is {}", term,
                        highest_term_)};
  }
  if (term > wire::kMaxTerm) {
    return {StatusCode::kInvalidArgument,
            fmt::format("term {}: accepted are at most {}", term, wire::kMaxTerm)};
  }
  highest_term_ = term;
  return {};
}

Status ServerList::apply(const wire::ServerList& list) {
  RC_RETURN_IF_ERROR(check_term(list.term));
  if (std::tie(list.term, list.version) < std::tie(term_, version_)) {
    return {StatusCode::kStaleTerm,
            fmt::format("server list {}.{} is older than {}.{}, which this server has", list.term,
                        list.version, term_, version_)};
  }
  if (list.term == term_ && list.version == version_) return {};

  std::vector<ListedServer> servers;
  servers.reserve(list.servers.size());
  for (const auto& entry : list.servers) servers.push_back(parse(entry));
  std::ranges::sort(servers, {}, &ListedServer::server_id);
  for (size_t i = 0; i < servers.size(); ++i) {
    const uint64_t id = servers[i].server_id;
    if (id == 0 || (i > 0 && servers[i - 1].server_id == id)) {
      return {StatusCode::kInvalidArgument,
              fmt::format("server list {}.{}: server id {} is {}; ids are unique and start at 1",
                          list.term, list.version, id, id == 0 ? "not allowed" : "there twice")};
    }
    const ListedServer* before = find(id);
    if (before != nullptr && !before->live() && servers[i].live()) {
      log_error("server_list.revived", {{"server", id}, {"version", list.version}});
      servers[i].state = before->state;
    }
  }
  term_ = list.term;
  version_ = list.version;
  servers_ = std::move(servers);
  notify();
  return {};
}

const ListedServer* ServerList::find(uint64_t server_id) const {
  const auto it = std::ranges::lower_bound(servers_, server_id, {}, &ListedServer::server_id);
  return it != servers_.end() && it->server_id == server_id ? &*it : nullptr;
}

bool ServerList::is_live(uint64_t server_id) const {
  const ListedServer* server = find(server_id);
  return server != nullptr && server->live();
}

ServerList::Subscription ServerList::subscribe(std::function<void()> fn) {
  auto shared = std::make_shared<std::function<void()>>(std::move(fn));
  subscribers_.push_back(shared);
  return Subscription(std::move(shared));
}

void ServerList::notify() {
  for (auto it = subscribers_.begin(); it != subscribers_.end();) {
    if (const auto fn = it->lock()) {
      (*fn)();
      ++it;
    } else {
      it = subscribers_.erase(it);
    }
  }
}

}  // namespace ramcloud
