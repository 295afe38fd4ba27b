// The recovery of one crashed server, until it owns no tablet: its log is found, its tablets are
// shared out, handed over and served; what failed is tried again.
// docs/design/recovery.md, "Recovery of one server".
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/metrics.h"
#include "coordinator/core/accepted_loss.h"
#include "coordinator/core/changes.h"
#include "coordinator/core/log_query.h"
#include "coordinator/core/recovery_part.h"
#include "rpc/back_off.h"

namespace ramcloud {

struct RecoveryOptions {
  LogQuery::Options query;
  RecoveryPart::Options part;
  ServeOrders::Options orders;
  PlanLimits plan;
  /// Between two attempts, doubled up to the second.
  Duration again_min = 200ms;
  Duration again_max = 5s;
  /// So long a master answers on its own after it was last confirmed, if it did not say itself.
  Duration read_lease = 500ms;
  /// After so long the lease of this server does not hold, whosever clock is faster by 5 %.
  Duration lease_is_over(const ServerRecord& dead) const {
    const Duration lease =
        dead.read_lease_ms == 0 ? read_lease : std::chrono::milliseconds(dead.read_lease_ms);
    return lease + lease / 20;
  }
};

/// What the recoveries of a leader share.
struct RecoveryShared {
  Reactor& reactor;
  ClusterState& state;
  Ledger& ledger;
  Changes& changes;
  RecoveryCalls& calls;
  ServeOrders& orders;
  TabletChanges& tablets;
  const RecoveryOptions& options;
  Counter& attempts;
  /// Servers of former builds, which cannot recover.
  std::set<uint64_t> cannot;
  uint64_t last_attempt = 0;

  /// Above all that any leader recorded, and never given twice: a recovery master tells attempts
  /// apart by their numbers, also those for different dead masters.
  uint64_t next_attempt();
};

/// A version above all that a master without replicas assigned, and above those that were assigned
/// by earlier owners of its tablets: 2^16 for each millisecond since 1970, more than any server
/// can assign. A server that begins there stays below what this is later, as long as the clocks of
/// two leaders differ by less than such a server lives.
uint64_t version_floor(uint64_t unix_ms);

class Recovery {
 public:
  Recovery(RecoveryShared& shared, uint64_t master_id);
  /// Ends when the server owns no tablet, or we do not lead any more.
  Task<void> run();
  /// Servers came or went, tables were dropped, or a loss was accepted.
  void news();
  /// What an operator would have to give up. INVALID_ARGUMENT: it is not BLOCKED, or by something
  /// that no loss explains; RETRY: backups are read for it.
  Result<LossPreview> preview_loss() const;

 private:
  using Phase = RecoveryProgress::Phase;
  bool wanted() const;
  std::vector<LostRange> lost() const;
  std::vector<LostRange> nobody_recovers() const;
  std::string nobodys() const;
  Task<std::optional<FoundLog>> find_log();
  FoundLog empty_log() const;
  bool show_query();
  Status not_blocked() const;
  void tell(const FoundLog& log) const;
  // An attempt.
  Task<bool> attempt(const FoundLog& log);
  Task<bool> order_parts(const FoundLog& log);
  struct Running;
  Task<void> run_part(Running& running, Time not_before);
  bool runs_on(uint64_t server_id) const;
  Time lease_is_over(const FoundLog& log) const;
  LostLog estimate(const FoundLog& log);
  std::vector<RecoveryMaster> masters();
  Task<bool> split(const RecoveryPlan& plan);
  Task<bool> begin(RecoveryPlan& plan, uint64_t attempt);
  void drop_what_is_gone(RecoveryPlan& plan) const;
  wire::RecoverRequest order_for(const PlannedPart& part, const FoundLog& log,
                                 uint64_t attempt) const;
  size_t running() const;
  bool learn_from_parts();
  void learn_from(const RecoveryPart& failed);
  void show_parts();
  void show(Phase phase, std::string waits_for);
  // Its progress, for the status.
  void begin_to_tell();
  void reached(std::optional<uint64_t> RecoveryProgress::Timeline::* moment);
  void note_hand_overs();
  void note_parts(RecoveryProgress& progress) const;
  void end_to_tell();
  std::string failed_text() const;
  Task<void> pause();

  RecoveryShared& shared_;
  ClusterState& state_;
  uint64_t master_id_;
  std::unique_ptr<LogQuery> query_;
  struct Running {
    RecoveryPart part;
    bool over = false;
  };
  std::list<Running> parts_;                 // those that run, and those that are done
  std::map<uint64_t, uint64_t> most_bytes_;  // that a server had no memory for
  std::set<uint64_t> avoided_;               // servers whose last parts failed
  std::map<uint64_t, Status> failures_;      // why, in this attempt
  uint64_t bad_segment_ = ~uint64_t{0};      // closed replicas from here on are looked at
  double hashes_at_first_ = 0;
  Time crashed_{};  // the server's last sign of life, or else the verdict
  BackOff back_off_;
  Event news_;
  Event ended_;  // a part
  TaskScope scope_;
};

}  // namespace ramcloud
