// Recovers what crashed servers owned: one recovery for each of them, side by side. All of it can be
// found again from the metadata, so a new leader begins with a new query and a higher attempt.
// docs/design/recovery.md, "Recovery of one server".
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

  /// Servers may be told what to do.
  void start();
  /// Servers came or went, tables were dropped, or a loss was accepted.
  void news();
  /// What an operator would have to give up of the log of this server, which is known. What
  /// Recovery::preview_loss() says; INVALID_ARGUMENT: it is not being recovered.
  Result<LossPreview> preview_loss(uint64_t server_id) const;
  /// Servers that are being recovered.
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
