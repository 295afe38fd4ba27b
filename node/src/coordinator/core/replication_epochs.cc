#include "coordinator/core/replication_epochs.h"

#include "base/failpoint.h"
#include "base/logging.h"

namespace ramcloud {

Status ReplicationEpochs::check(const wire::RaiseReplicationEpochRequest& request) const {
  const auto server = state_.servers.find(request.server_id);
  if (server == state_.servers.end() || !server->second.up()) {
    return {StatusCode::kCrashed,
            fmt::format("server {} is {}: its replication epoch stays as it is", request.server_id,
                        server == state_.servers.end() ? "not known" : "listed as crashed")};
  }
  const auto known = state_.replication_epochs.find(request.server_id);
  if (known == state_.replication_epochs.end()) return {};
  const ReplicationEpochRecord& record = known->second;
  if (request.lowest_open_segment >= record.lowest_open_segment && request.epoch >= record.epoch) {
    return {};
  }
  return {StatusCode::kStaleTerm,
          fmt::format("segment {}, epoch {} of server {}: segment {}, epoch {} hold already",
                      request.lowest_open_segment, request.epoch, request.server_id,
                      record.lowest_open_segment, record.epoch)};
}

Task<Result<wire::Empty>> ReplicationEpochs::raise(wire::RaiseReplicationEpochRequest request,
                                                   Time deadline) {
  const AsyncMutex::Lock lock = co_await ledger_.lock(deadline);
  if (!lock.held()) co_return fail(Ledger::too_late());
  if (Status checked = check(request); !checked.ok()) co_return fail(std::move(checked));
  ReplicationEpochRecord record;
  if (const auto known = state_.replication_epochs.find(request.server_id);
      known != state_.replication_epochs.end()) {
    record = known->second;
  }
  record.server_id = request.server_id;
  record.lowest_open_segment = request.lowest_open_segment;
  record.epoch = request.epoch;
  record.of_export = false;
  MetadataChange change;
  change.put(replication_epoch_key(record.server_id), record);
  Status done = co_await ledger_.commit(lock, std::move(change), ledger_.until(deadline));
  if (!done.ok()) co_return fail(std::move(done));
  state_.replication_epochs[record.server_id] = record;
  RC_FAILPOINT("coordinator.epoch.recorded");
  log_info("replication_epoch.raised", {{"server", record.server_id},
                                        {"lowest_open_segment", record.lowest_open_segment},
                                        {"epoch", record.epoch}});
  co_return wire::Empty();
}

}  // namespace ramcloud
