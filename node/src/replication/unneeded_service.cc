#include "replication/unneeded_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ramcloud {

UnneededService::UnneededService(ServiceRegistry& registry, const ServerList& servers,
                                 ReplicaManager& replicas)
    : transport_(registry.transport()), servers_(servers), replicas_(replicas) {
  registry.add(wire::Opcode::kGetUnneeded,
               &call_member<&UnneededService::on_get_unneeded, UnneededService>, this);
}

void UnneededService::on_get_unneeded(const Request& request) {
  wire::GetUnneededRequest asked;
  if (!request.decode(asked)) {
    return reply_error(transport_, request.reply,
                       {StatusCode::kInvalidArgument, "get unneeded: body does not decode"});
  }
  if (const Status status = check(asked); !status.ok()) {
    return reply_error(transport_, request.reply, status);
  }
  // First, whatever the answer is: from now on no copy of these begins.
  replicas_.offered(asked.backup_id, asked.adoptable_ids);
  Result<std::vector<uint64_t>> unneeded = replicas_.unneeded(asked.segment_ids);
  if (!unneeded) return reply_error(transport_, request.reply, unneeded.error());
  reply_message(transport_, request.reply, wire::Unneeded{std::move(*unneeded)});
}

/// A list that has the backup shows that its earlier incarnations are dead. A list older than the
/// backup's may not show other deaths, and this master would rely on dead servers.
Status UnneededService::check(const wire::GetUnneededRequest& asked) const {
  const size_t most = std::max(asked.segment_ids.size(), asked.adoptable_ids.size());
  if (most > wire::GetUnneededRequest::kMaxIdsAtOnce) {
    return {StatusCode::kInvalidArgument,
            fmt::format("get unneeded: {} segments; at most {} are accepted at once", most,
                        wire::GetUnneededRequest::kMaxIdsAtOnce)};
  }
  const auto list = std::pair(servers_.term(), servers_.version());
  if (list < std::pair(asked.list_term, asked.list_version)) {
    return {StatusCode::kRetry, fmt::format("get unneeded: the server list here is version {}, and "
                                            "that of the backup {}",
                                            servers_.version(), asked.list_version)};
  }
  if (!servers_.is_live(asked.backup_id)) {
    return {StatusCode::kRetry,
            fmt::format("get unneeded: server {} is not UP in the list", asked.backup_id)};
  }
  return {};
}

}  // namespace ramcloud
