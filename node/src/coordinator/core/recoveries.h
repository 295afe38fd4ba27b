// Recovers the tablets of crashed servers: one recovery for each server, in parallel. Everything
// needed is in the metadata, so a new leader starts with a new query and a higher attempt.
// docs/design/recovery.md#recovery-of-one-server.
#pragma once

#include <map>
#include <memory>

#include "coordinator/core/recovery.h"

namespace ramcloud {

class Recoveries {
 public:
  Recoveries(RpcClient& rpc, ClusterState& state, Ledger& ledger, TableWriter& writer,
             TermClaims& term_claims, Changes& changes, MetricsRegistry& metrics,
             const RecoveryOptions& options);

  /// From now on servers may get orders.
  void start();
  /// Servers enlisted or crashed, tables were dropped, or a loss was accepted.
  void news();
  /// The loss that an operator would have to accept for this server. Precondition: the server
  /// exists. Errors as Recovery::preview_loss(); INVALID_ARGUMENT: it is not being recovered.
  Result<LossPreview> preview_loss(uint64_t server_id) const;
  /// Of these masters, those whose replicas nobody needs: ClusterState::recovered(), and each new
  /// owner has said that it serves what it got. Until then an import of metadata from before the
  /// hand-over finds the tablets nowhere else: no server states that it owns them.
  std::vector<uint64_t> recovered(const std::vector<uint64_t>& master_ids) const;
  /// The number of servers being recovered.
  size_t running() const { return running_.size(); }

 private:
  void start_needed();
  Task<void> recover(uint64_t master_id);

  ClusterState& state_;
  Reactor& reactor_;
  RecoveryOptions options_;
  RecoveryCalls calls_;
  ServeOrders orders_;
  TabletChanges tablets_;
  Counter& completed_;
  RecoveryShared shared_;
  bool started_ = false;
  std::map<uint64_t, std::unique_ptr<Recovery>> running_;
  TaskScope scope_;
};

}  // namespace ramcloud
