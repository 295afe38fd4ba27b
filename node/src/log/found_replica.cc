#include "log/found_replica.h"

#include <utility>

#include "log/digest.h"

namespace ramcloud::log {

std::optional<FoundReplica> found_replica(const wire::RecoveryReplica& replica) {
  FoundReplica found;
  found.server_id = replica.backup_id;
  found.segment_id = replica.segment_id;
  found.epoch = replica.epoch;
  found.length = replica.length;
  found.header_length = replica.header_length;
  found.durable_up_to = replica.durable_up_to;
  found.safe_version = replica.safe_version;
  found.holders = replica.holders;
  for_each_flag(found, [&replica](bool& is, wire::RecoveryReplica::Flag flag) {
    is = (replica.flags & flag) != 0;
  });
  if (replica.digest.empty()) return found;
  auto digest = decode_digest(replica.digest);
  if (!digest) return std::nullopt;
  found.digest = std::move(*digest);
  return found;
}

}  // namespace ramcloud::log
