// ReplicaManager, syncs to devices: `buffered` acknowledges bytes in page caches, and cleaning must
// not replace synced entries by copies that are not synced (docs/design/log.md#cleaning).
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/logging.h"
#include "base/sometimes.h"
#include "replication/replica_manager.h"
#include "wire/control_messages.h"
#include "wire/recovery_messages.h"

namespace ramcloud {

void ReplicaManager::sync_wanted(log::LogPosition position) {
  uint64_t before = sync_wanted_.load(std::memory_order_relaxed);
  while (before < position.value &&
         !sync_wanted_.compare_exchange_weak(before, position.value, std::memory_order_relaxed)) {
  }
  if (before < position.value) ask_first_reactor();
}

/// One round at a time. All backups that hold durable bytes are asked to sync them. When all have
/// answered, the log is synced up to `until`. A replica that moved to another backup meanwhile is a
/// copy, and a copy counts only when its device has all that was published.
bool ReplicaManager::drive_sync() {
  if (sync_.asked > 0 || !wants_sync()) return false;
  if (reactor_.now() < sync_.again_at) {
    wake_at(sync_.again_at);
    return false;
  }
  sync_ = {.until = log_->durable(), .again_at = reactor_.now() + options_.retry_delay};
  const auto holders = holders_until(sync_.until);
  if (!holders) {
    wake_at(sync_.again_at);
    return false;
  }
  for (const uint64_t server_id : *holders) {
    const ListedServer* server = servers_.find(server_id);
    if (server == nullptr || !server->locator) {
      sync_.failed = true;  // the backup left the list: its replicas are lost, or soon will be
      continue;
    }
    ++sync_.asked;
    scope_.spawn(sync_backup(*server->locator, server_id));
  }
  if (sync_.asked > 0) return true;
  if (!sync_.failed) log_->set_synced(sync_.until);
  wake_at(sync_.again_at);
  return !sync_.failed;
}

bool ReplicaManager::wants_sync() const {
  return log_->synced().value < sync_wanted_.load(std::memory_order_relaxed);
}

/// Side segments are left out, because they are synced before they are closed.
bool ReplicaManager::sync_needs(const log::Segment& segment, log::LogPosition until) const {
  return !segment.side() && !segment.abandoned() && segment.id() <= until.segment_id() &&
         segment.id() >= log_->synced().segment_id();
}

/// Too few replicas count. A compacted segment that lost replicas gets new ones only after this
/// sync (may_copy()), so the replicas that it has are enough, even if there are none: otherwise
/// both would wait for ever. So are those of a segment whose copy is put off: all but one.
bool ReplicaManager::sync_lacks(const SegmentReplicas& replicas, log::LogPosition until) const {
  if (!sync_needs(*replicas.segment, until)) return false;
  const bool waits = replicas.segment->judged() > log_->synced();
  const auto counts = [](const ReplicaSlot& slot) { return slot.counts(); };
  return !waits && replicas.awaits == 0 && !replicas.on_enough(options_.min_replicas, counts);
}

/// The backups of all heads up to the position; none if too few replicas count. Settled heads that
/// lack replicas are copied first, so that cleaning does not wait for the copies of all that a lost
/// backup had. All of these are in the queue of repairs, so only that is looked through until they
/// are copied: before the first sync all segments are to be looked at.
std::optional<std::set<uint64_t>> ReplicaManager::holders_until(log::LogPosition position) {
  const auto lacks = [&](const SegmentReplicas& replicas) {
    return sync_lacks(replicas, position);
  };
  if (repairs_.hurry(lacks)) return std::nullopt;
  std::set<uint64_t> holders;
  bool enough = true;
  const auto note = [&](const SegmentReplicas& replicas) {
    if (!sync_needs(*replicas.segment, position)) return;
    for (const auto& slot : replicas.slots) {
      if (slot->counts()) holders.insert(slot->server_id());
    }
    enough = enough && !lacks(replicas);
  };
  for (auto at = segments_.lower_bound(log_->synced().segment_id()); at != segments_.end(); ++at) {
    ++effort_.segments;
    if (needs_no_lock(*at->second.segment)) note(at->second);
  }
  {
    const Hold hold(*this);
    for (const SegmentReplicas* replicas : unsettled_) note(*replicas);
  }
  if (!enough) return std::nullopt;
  return holders;
}

Task<Status> ReplicaManager::ask_to_sync(Locator locator, uint64_t server_id) {
  const Time sent = reactor_.clock().lease_now();
  const auto reply = co_await rpc_.call<wire::Empty>(
      locator, server_id, wire::Opcode::kSyncReplicas,
      wire::SyncReplicasRequest{options_.master_id}, reactor_.now() + options_.open_timeout);
  first_.assert_here();
  const Status status = reply ? Status() : reply.error();
  note_answer(server_id, status, sent);
  if (!status.ok()) {
    RC_SOMETIMES("replication.backup_does_not_sync");
    log_debug("replication.not_synced", {{"server", server_id}, {"why", status}});
  }
  due_ = true;
  timer_.start_at(reactor_.now());
  co_return status;
}

Task<void> ReplicaManager::sync_backup(Locator locator, uint64_t server_id) {
  const Status status = co_await ask_to_sync(locator, server_id);
  first_.assert_here();
  if (!status.ok()) sync_.failed = true;
  if (--sync_.asked == 0 && !sync_.failed && log_ != nullptr) log_->set_synced(sync_.until);
}

// ---- the close of a head

/// This head is closed on its replicas, and the next one may take data unless this is false. If the
/// power takes the close from all holders, recovery relies on a later head to show that the log went
/// on, and on as many servers having it as this one names holders (LogEnd). If fewer have it, the
/// close must be on a device first: one is enough, because a log does not end at a head that is closed
/// somewhere, nor while one of its holders is missing
/// (docs/design/replication.md#fewer-servers-than-replicas).
bool ReplicaManager::close_will_last(const SegmentReplicas& front) {
  uint32_t fewest = front.holders_named();
  bool follows = false;
  for (const SegmentReplicas* later : unsettled_) {
    if (later == &front || later->segment->abandoned()) continue;
    fewest = std::min(fewest, later->counting());
    follows = true;
  }
  if (follows && fewest == front.holders_named()) return true;
  const uint64_t id = front.segment->id();
  if (close_sync_.segment_id != id) close_sync_ = {.segment_id = id};
  if (!close_sync_.on_device) RC_SOMETIMES("replication.close_waits_for_a_device");
  return close_sync_.on_device;
}

void ReplicaManager::drive_close_sync() {
  CloseSync& sync = close_sync_;
  if (sync.segment_id == 0 || sync.on_device || sync.asked > 0 || unsettled_.empty()) return;
  const SegmentReplicas& front = *unsettled_.front();
  if (front.segment->id() != sync.segment_id) return;
  if (reactor_.now() < sync.again_at) return wake_at(sync.again_at);
  sync.again_at = reactor_.now() + options_.retry_delay;
  wake_at(sync.again_at);
  for (const auto& slot : front.slots) {
    const ListedServer* server = slot->closed() ? servers_.find(slot->server_id()) : nullptr;
    if (server == nullptr || !server->locator) continue;
    ++sync.asked;
    scope_.spawn(sync_close(*server->locator, slot->server_id(), sync.segment_id));
  }
}

Task<void> ReplicaManager::sync_close(Locator locator, uint64_t server_id, uint64_t segment_id) {
  const Status status = co_await ask_to_sync(locator, server_id);
  first_.assert_here();
  if (close_sync_.segment_id != segment_id) co_return;
  --close_sync_.asked;
  if (!status.ok()) co_return;
  close_sync_.on_device = close_sync_.answered = true;
}

}  // namespace ramcloud
