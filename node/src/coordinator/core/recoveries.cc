#include "coordinator/core/recoveries.h"

#include <set>

#include "base/logging.h"
#include "base/sometimes.h"
#include "coordinator/core/volumes.h"

namespace ramcloud {

Recoveries::Recoveries(RpcClient& rpc, ClusterState& state, Ledger& ledger, TableWriter& writer,
                       TermClaims& term_claims, Changes& changes, MetricsRegistry& metrics,
                       const RecoveryOptions& options)
    : state_(state),
      reactor_(rpc.reactor()),
      options_(options),
      calls_(rpc, state, term_claims),
      orders_(rpc.reactor(), state, calls_, changes, options_.orders),
      tablets_(state, ledger, writer, [&changes](uint64_t id) { changes.table_changed(id); }),
      completed_(metrics.counter("ramcloud_recoveries_completed_total",
                                 "Crashed servers that own no tablet any more")),
      shared_{.reactor = reactor_,
              .state = state,
              .ledger = ledger,
              .changes = changes,
              .calls = calls_,
              .orders = orders_,
              .tablets = tablets_,
              .options = options_,
              .attempts = metrics.counter("ramcloud_recoveries_attempts_total",
                                          "Attempts to recover tablets of crashed servers"),
              .cannot = {},
              .last_attempt = 0},
      scope_(reactor_) {}

void Recoveries::start() {
  started_ = true;
  orders_.tell_all();
  // Above the attempts of former leaders, and below all of this one.
  orders_.give_up_former(shared_.next_attempt());
  start_needed();
}

void Recoveries::news() {
  if (!started_) return;
  start_needed();
  for (const auto& [id, recovery] : running_) recovery->news();
}

Result<LossPreview> Recoveries::preview_loss(uint64_t server_id) const {
  const auto running = running_.find(server_id);
  if (running != running_.end()) return running->second->preview_loss();
  const ServerEntry& server = state_.servers.at(server_id);
  return fail(StatusCode::kInvalidArgument,
              fmt::format("{} {}: no recovery of it is in progress; accepted is a crashed server "
                          "whose recovery is BLOCKED, see `ramcloud recovery list`",
                          server_text(state_, server_id),
                          server.up() ? "is UP" : "owns no tablet any more"));
}

std::vector<uint64_t> Recoveries::recovered(const std::vector<uint64_t>& master_ids) const {
  if (!started_) return {};
  std::vector<uint64_t> ids = state_.recovered(master_ids);
  std::erase_if(ids,
                [this](uint64_t id) { return running_.contains(id) || !orders_.all_serve(id); });
  return ids;
}

void Recoveries::start_needed() {
  std::set<uint64_t> owners;
  for (const auto& [id, table] : state_.tables) {
    if (table.state != TableState::kNormal) continue;
    for (const TabletRecord& tablet : table.tablets) owners.insert(tablet.server_id);
  }
  for (auto& [id, server] : state_.servers) {
    if (server.record.state != wire::ServerState::kCrashed) continue;
    // No lease was granted after this time, because a leader grants leases only to servers that it
    // lists as UP.
    if (server.crashed_since == Time{}) server.crashed_since = reactor_.clock().now();
    if (!owners.contains(id) || running_.contains(id)) continue;
    if (!running_.empty()) RC_SOMETIMES("coordinator.recovers_several_servers_at_once");
    running_[id] = std::make_unique<Recovery>(shared_, id);
    scope_.spawn(recover(id));
  }
}

Task<void> Recoveries::recover(uint64_t master_id) {
  co_await running_.at(master_id)->run();
  running_.erase(master_id);
  if (shared_.ledger.fenced()) co_return;
  completed_.add();
  start_needed();  // a crashed server may own tablets again: a table that was being created is
                   // NORMAL now
}

}  // namespace ramcloud
