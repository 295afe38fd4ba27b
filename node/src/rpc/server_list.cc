#include "rpc/server_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
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
  server.stopped_by_plan = entry.stopped_by_plan;
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

  if (list.base_version != 0 && list.base_version != version_) {
    RC_SOMETIMES("rpc.changes_since_another_list_are_refused");
    return {StatusCode::kWrongVersion,
            fmt::format("server list {}.{} has the changes since version {}; this server has {}",
                        list.term, list.version, list.base_version, version_)};
  }
  auto merged = merge(list);
  if (!merged) return std::move(merged.error());
  servers_ = std::move(*merged);
  term_ = list.term;
  version_ = list.version;
  notify();
  return {};
}

/// The servers of a whole list, or of our copy with the list's changes applied.
Result<std::vector<ListedServer>> ServerList::merge(const wire::ServerList& list) const {
  std::map<uint64_t, ListedServer> merged;
  if (list.base_version != 0) {
    for (const ListedServer& server : servers_) merged.emplace(server.server_id, server);
  }
  std::set<uint64_t> named;
  for (const auto& entry : list.servers) {
    const uint64_t id = entry.server_id;
    if (id == 0 || !named.insert(id).second) {
      return fail(
          StatusCode::kInvalidArgument,
          fmt::format("server list {}.{}: server id {} is {}; ids are unique and start at 1",
                      list.term, list.version, id, id == 0 ? "not allowed" : "there twice"));
    }
    merged.erase(id);
    if (entry.state == wire::ServerState::kRemoved) continue;
    ListedServer server = parse(entry);
    const ListedServer* before = find(id);
    if (before != nullptr && !before->live() && server.live()) {
      log_error("server_list.revived", {{"server", id}, {"version", list.version}});
      server.state = before->state;
    }
    merged.emplace(id, std::move(server));
  }
  std::vector<ListedServer> servers;
  servers.reserve(merged.size());
  for (auto& [id, server] : merged) servers.push_back(std::move(server));
  return servers;
}

wire::ServerList ServerList::whole() const {
  wire::ServerList list;
  list.term = term_;
  list.version = version_;
  for (const ListedServer& server : servers_) {
    list.servers.push_back({server.server_id, server.state, server.name,
                            server.locator ? server.locator->to_string() : std::string(),
                            server.failure_domain, server.disk_read_bytes_per_second,
                            server.stopped_by_plan});
  }
  return list;
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
