// One part of an attempt: from the order to a recovery master to the hand-over of the recovered
// tablets. docs/design/recovery.md#recovery-of-one-server.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/recovery_calls.h"
#include "coordinator/core/recovery_plan.h"
#include "coordinator/core/serve_orders.h"
#include "coordinator/metadata/tablet_changes.h"

namespace ramcloud {

class RecoveryPart {
 public:
  struct Options {
    Duration timeout = 1s;  // of a call, in addition to the requested wait
    Duration poll = 1s;     // long poll: how long a recovery master may delay its answer
    Duration retry_min = 50ms;
    Duration retry_max = 500ms;
    /// A recovery master that got no further for this long is given up. Not counted: time in which it
    /// said that it waits.
    Duration patience = std::chrono::minutes(1);
    /// The most that it may wait for backups, or for other parts to end before it begins. The time in
    /// which it fetches other parts first has no limit: each of those has one.
    Duration most_waiting = std::chrono::minutes(10);
  };
  enum class Phase : uint8_t { kReplaying, kHandingOver, kDone, kFailed };

  /// `on_news` is called when the reported progress has changed.
  RecoveryPart(Reactor& reactor, ClusterState& state, TabletChanges& changes, RecoveryCalls& calls,
               ServeOrders& orders, const Options& options, PlannedPart planned,
               wire::RecoverRequest order, std::shared_ptr<const DeadLog> log,
               std::function<void()> on_news)
      : reactor_(reactor),
        state_(state),
        changes_(changes),
        calls_(calls),
        orders_(orders),
        options_(options),
        planned_(std::move(planned)),
        order_(std::move(order)),
        log_(std::move(log)),
        on_news_(std::move(on_news)) {}

  /// Hands over nothing before `not_before`. At the end the server is ordered to serve what was
  /// handed over.
  Task<void> run(Time not_before);
  /// Fails with this error soon, unless the hand-over has begun.
  void abandon(Status why) { abandoned_ = std::move(why); }
  bool abandoned() const { return !abandoned_.ok(); }

  Phase phase() const { return phase_; }
  uint64_t server_id() const { return planned_.server_id; }
  uint64_t attempt() const { return order_.attempt; }
  static std::string phase_name(Phase phase);
  /// The time when everything was recovered and on the devices of the server's backups.
  Time ready_at() const { return ready_at_; }
  /// Its server has fetched all entries, or it has failed.
  bool fetched() const {
    return phase_ != Phase::kReplaying || seen_.phase > wire::RecoveryPhase::kReplaying;
  }
  uint64_t objects() const { return seen_.objects; }
  const PlannedPart& planned() const { return planned_; }
  uint64_t bytes_fetched() const { return seen_.bytes_fetched; }
  /// What the recovery master waits for, as far as it says so.
  std::string waits_for() const { return phase_ == Phase::kReplaying ? seen_.why : ""; }
  /// The error of state kFailed.
  const Status& why() const { return why_; }
  /// It has failed, and the server must be ordered to give up what was not handed over. A former
  /// leader does not know whether the hand-over was committed: the server must not give up tablets if
  /// the metadata may name it as their owner.
  bool must_give_up() const {
    return phase_ == Phase::kFailed && why_ != StatusCode::kNotLeader &&
           why_ != StatusCode::kIndeterminate;
  }
  uint64_t bad_segment() const { return seen_.segment; }

 private:
  Task<Status> begin();
  Task<Status> recovered();
  Task<Status> hand_over();
  enum class Does : uint8_t { kNothing, kProgress, kWaits, kFetchesOthers };
  Does does(const wire::RecoveryState& now) const;
  void count(Does what);
  bool stuck() const;

  Reactor& reactor_;
  ClusterState& state_;
  TabletChanges& changes_;
  RecoveryCalls& calls_;
  ServeOrders& orders_;
  const Options& options_;
  PlannedPart planned_;
  wire::RecoverRequest order_;  // without segments
  std::shared_ptr<const DeadLog> log_;
  std::function<void()> on_news_;
  Phase phase_ = Phase::kReplaying;
  wire::RecoveryState seen_;
  // Since its last progress: how long it did nothing, and how long it waited. Counted up to counted_.
  Duration idle_{}, waited_{};
  Time counted_{};
  Time ready_at_{};
  Status abandoned_;
  Status why_;
};

}  // namespace ramcloud
