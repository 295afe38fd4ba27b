// The recovery of one crashed server, until it owns no tablet: finds its log, distributes its
// tablets, hands them over and has them served; retries what failed.
// docs/design/recovery.md#recovery-of-one-server.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "coordinator/core/accepted_loss.h"
#include "coordinator/core/changes.h"
#include "coordinator/core/frame_line.h"
#include "coordinator/core/frame_room.h"
#include "coordinator/core/log_query.h"
#include "coordinator/core/recovery_part.h"
#include "rpc/back_off.h"

namespace ramcloud {

struct RecoveryOptions {
  LogQuery::Options query;
  RecoveryPart::Options part;
  ServeOrders::Options orders;
  PlanLimits plan;
  /// The pause between two attempts, doubled up to again_max.
  Duration again_min = 200ms;
  /// How long other parts wait at most until the first part has fetched its entries.
  Duration first_alone = 400ms;
  Duration again_max = 5s;
  /// The pause between two attempts once even the smallest part found no frames, unless more are free.
  Duration in_vain_min = std::chrono::minutes(1);
  Duration in_vain_max = std::chrono::minutes(10);
  /// The read lease of a master that did not report its own.
  Duration read_lease = 500ms;
  /// After this long the lease of this server has ended, even if clocks differ by 5 %.
  Duration lease_bound(const ServerRecord& dead) const {
    const Duration lease =
        dead.read_lease_ms == 0 ? read_lease : std::chrono::milliseconds(dead.read_lease_ms);
    return lease + lease / 20;
  }
};

/// What all recoveries of a leader share.
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
  /// Servers of earlier versions, which cannot recover.
  std::set<uint64_t> cannot;
  uint64_t last_attempt = 0;
  FrameLine frame_line{};
  std::optional<uint64_t> frame_room = std::nullopt;  // as last looked at
  Time frame_room_at{};

  /// A number above all that any leader recorded, and never used twice: a recovery master
  /// identifies attempts by their numbers, even for different dead masters.
  uint64_t next_attempt();
  /// Bytes of recovered segments for which frames are free, if it is known. Looked at now and then.
  std::optional<uint64_t> room_for_all();
};

/// A version above all that a master without replicas, and earlier owners of its tablets, assigned:
/// 2^16 for each millisecond since 1970, which is more than any server can assign. A server that
/// starts there stays below a later floor, as long as the clocks of two leaders differ by less than
/// the server's lifetime.
uint64_t version_floor(uint64_t unix_ms);

class Recovery {
 public:
  Recovery(RecoveryShared& shared, uint64_t master_id);
  /// Returns when the server owns no tablet, or this coordinator does not lead any more.
  Task<void> run();
  /// Servers enlisted or crashed, tables were dropped, or a loss was accepted.
  void news();
  /// The loss that an operator would have to accept. INVALID_ARGUMENT: the recovery is not BLOCKED,
  /// or accepting a loss would not help; RETRY: backups are still reading segments for the answer.
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
  Task<bool> order_parts(const FoundLog& log, bool continued);
  struct Running;
  Task<void> run_part(Running& running, Time not_before);
  bool rest_is_due() const;
  bool fetches(uint64_t server_id) const;
  Time lease_over_at(const FoundLog& log) const;
  PlanInput estimate(const FoundLog& log);
  std::vector<RecoveryMaster> masters(const FoundLog& log);
  Task<bool> split(const RecoveryPlan& plan);
  Task<bool> begin(RecoveryPlan& plan, uint64_t attempt, bool continued);
  void drop_what_is_gone(RecoveryPlan& plan) const;
  wire::RecoverRequest order_for(const PlannedPart& part, const FoundLog& log,
                                 uint64_t attempt) const;
  size_t running() const;
  bool may_have_what_is_lost(const FoundLog& log) const;
  void look_again();
  bool learn_from_parts();
  void learn_from(const Running& failed);
  // While backups lack frames.
  bool may_find_frames(uint64_t server_id) const;
  bool lacks_frames() const;
  void learn_of_frames(const Running& failed);
  void part_was_served();
  Task<bool> its_turn(const FoundLog& log);
  void had_memory(uint64_t server_id);
  std::string waits_for_frames() const;
  uint64_t bytes_left(const FoundLog& log) const;
  uint64_t bytes_in_parts(uint64_t bytes, size_t parts) const;
  size_t parts_at_most() const;
  size_t masters_by_frames(const FoundLog& log, size_t masters);
  uint64_t bytes_of(const std::vector<LostRange>& ranges) const;
  void on_part_news();
  void give_up_failed(uint64_t server_id);
  void show_parts();
  void show(Phase phase, std::string waits_for);
  // Its progress, for the status.
  void begin_to_tell();
  void reached(std::optional<uint64_t> RecoveryProgress::Timeline::* moment);
  void note_hand_overs();
  void note_parts(RecoveryProgress& progress) const;
  void end_to_tell();
  std::string failed_text() const;
  std::string parts_wait_for() const;
  Task<void> pause();

  RecoveryShared& shared_;
  ClusterState& state_;
  uint64_t master_id_;
  UnableSince unable_since_;
  std::unique_ptr<LogQuery> query_;
  struct Running {
    RecoveryPart part;
    FrameBudget::Limit limit;  // within which it was ordered
    uint64_t room = 0;         // for copies, when it was ordered
    bool over = false;
  };
  std::list<Running> parts_;                        // running and finished parts
  const RecoveryPart* first_ = nullptr;             // the first part, while it fetches
  Event others_begin_;                              // not set while a first part fetches alone
  bool held_back_ = false;                          // ranges wait until the first part has fetched
  std::set<std::pair<uint64_t, uint64_t>> failed_;  // server, attempt: not ordered to give up yet
  std::map<uint64_t, uint64_t> most_bytes_;  // by server: the bytes for which it had no memory
  std::map<uint64_t, double> weights_;       // of tables, in estimates of their bytes
  FrameBudget frames_;
  struct InVain {
    uint64_t room = 0;  // for copies, of the server that tried
    Time until{};
  };
  std::optional<InVain> in_vain_;  // the smallest part found no frames
  bool served_ = false;            // a part of this attempt
  BackOff in_vain_back_off_;
  std::set<uint64_t> avoided_;           // servers whose last parts failed
  std::map<uint64_t, Status> failures_;  // by server: why, in this attempt
  uint64_t bad_segment_ = ~uint64_t{0};  // closed replicas from here on are scanned
  bool query_again_ = false;             // a part of this attempt lacked a source
  const FoundLog* replayed_ = nullptr;   // the log of this attempt, unless it is looked for again
  double hashes_at_first_ = 0;
  Time crashed_{};  // the server's last sign of life, or the time of the verdict
  BackOff back_off_;
  Event news_;
  Event parts_moved_;  // set when a part ends, or the first part has fetched
  TaskScope scope_;
};

}  // namespace ramcloud
