#include "coordinator/core/retirement.h"

#include <algorithm>

#include "base/logging.h"
#include "base/sometimes.h"

namespace ramcloud {

Retirement::Retirement(Reactor& reactor, ClusterState& state, Ledger& ledger, Changes& changes,
                       std::function<void()> on_list_changed, Options options)
    : reactor_(reactor),
      state_(state),
      ledger_(ledger),
      changes_(changes),
      on_list_changed_(std::move(on_list_changed)),
      options_(options),
      timer_(reactor, [this] { remove_unneeded(); }),
      scope_(reactor) {}

void Retirement::remove_unneeded() {
  timer_.start_after(interval());
  for (auto& [id, server] : state_.servers) {
    const bool crashed = server.record.state == wire::ServerState::kCrashed;
    if (crashed && server.crashed_since == Time{}) server.crashed_since = reactor_.now();
  }
  if (removing_ || unneeded().empty()) return;
  removing_ = true;
  scope_.spawn(remove());
}

std::vector<uint64_t> Retirement::unneeded() const {
  std::set<uint64_t> needed, volumes_back;
  for (const auto& [id, table] : state_.tables) {
    for (const auto& tablet : table.tablets) needed.insert(tablet.server_id);
  }
  uint64_t known_to_all = state_.list_version;
  bool recovers = false;
  for (const auto& [id, server] : state_.servers) {
    recovers = recovers || (!server.up() && needed.contains(id));
    if (!server.up()) continue;
    known_to_all = std::min(known_to_all, server.list_version_acked);
    volumes_back.insert(server.record.volume);
  }
  volumes_back.erase(0);
  std::vector<uint64_t> ids;
  for (const auto& [id, server] : state_.servers) {
    if (server.record.state != wire::ServerState::kCrashed || needed.contains(id)) continue;
    if (server.crashed_since == Time{} || reactor_.now() - server.crashed_since < options_.after) {
      continue;
    }
    if (std::max(server.changed, state_.first_list_version) > known_to_all) continue;
    if (recovers && !volumes_back.contains(server.record.volume)) continue;
    ids.push_back(id);
    if (ids.size() == options_.at_once) break;
  }
  return ids;
}

/// The metadata record stays as proof for backups that come back with frames of this master. An id
/// that is absent from a list proves nothing.
Task<void> Retirement::remove() {
  for (;;) {
    const AsyncMutex::Lock lock = co_await ledger_.lock();
    const std::vector<uint64_t> ids = unneeded();
    if (ids.empty()) break;
    std::vector<ServerRecord> removed;
    MetadataChange change;
    for (const uint64_t id : ids) {
      const ServerRecord& record = state_.servers.at(id).record;
      ServerRecord& small = removed.emplace_back();
      small.id = id;
      small.nonce = record.nonce;
      small.enlisted_at_ms = record.enlisted_at_ms;
      small.name = record.name;
      small.volume = record.volume;
      small.released_until_ms = record.released_until_ms;
      small.accounted = record.accounted;
      small.unknown = record.unknown;
      small.state = wire::ServerState::kRemoved;
      small.state_reason = record.state_reason;
      change.put(server_key(id), small).remove(replication_epoch_key(id));
    }
    const uint64_t revision = ledger_.next_revision();
    if (!(co_await ledger_.commit(lock, std::move(change))).ok()) break;
    RC_SOMETIMES("coordinator.removes_a_server_that_nobody_needs");
    state_.list_version = revision;
    for (ServerRecord& record : removed) {
      ServerEntry& server = state_.servers.at(record.id);
      state_.replication_epochs.erase(record.id);
      server.changed = revision;
      server.record = std::move(record);
      server.stats = {};
      changes_.server_changed(server.record.id);
    }
    log_info("membership.removed", {{"servers", removed.size()}, {"list_version", revision}});
    on_list_changed_();
  }
  removing_ = false;
}

}  // namespace ramcloud
