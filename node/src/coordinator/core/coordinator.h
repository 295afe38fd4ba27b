// The coordinator while it leads: the only place where the cluster's configuration is decided
// [Ousterhout15 §3.2, §9]. No data operation passes it. This class connects its parts and
// dispatches calls to them: membership.h, tables.h, failure_detector.h, notifier.h and ledger.h.
// coordinator_node.h decides who leads; each leadership is a new object.
#pragma once

#include <list>
#include <memory>

#include "base/metrics.h"
#include "coordinator/core/cluster_view.h"
#include "coordinator/core/failure_detector.h"
#include "coordinator/core/import_reconciliation.h"
#include "coordinator/core/membership.h"
#include "coordinator/core/recoveries.h"
#include "coordinator/core/replication_epochs.h"
#include "coordinator/core/retirement.h"
#include "coordinator/core/tables.h"
#include "coordinator/core/term_claims.h"
#include "coordinator/core/volume_release.h"

namespace ramcloud {

class Coordinator final : private ChangeListener {
 public:
  struct Options {
    std::string cluster_name;  // empty: as stored, or "ramcloud" for a new cluster
    std::string version = "dev";
    std::string admin_address;          // host:port of the admin API, as reached inside the cluster
    std::string admin_address_outside;  // and from outside; empty: the same
    FailureDetector::Options detector;
    Notifier::Options notifier;
    Retirement::Options retirement;
    ImportReconciliation::Options import_reconciliation;
    VolumeReleases::Options volume_releases;
    RecoveryOptions recoveries;
    Duration longest_wait = 60s;  // for a call without a deadline
    size_t calls_at_once = 1024;  // waiting calls of both APIs; more are answered RETRY
    size_t operations_at_once = kOperationsAtOnce;  // operations in one transaction that writes a
                                                    // table
  };

  /// Everything runs on the reactor of `rpc`; the arguments outlive the coordinator.
  Coordinator(RpcClient& rpc, ServiceRegistry& registry, MetadataStore& store,
              MetricsRegistry& metrics, Options options);
  ~Coordinator() override;
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Loads or creates the cluster, raises the term, and resumes unfinished work. Waits while the
  /// store does not answer; calls are answered RETRY meanwhile. `leadership`: from the store's
  /// campaign(). Errors: those of Ledger::open(), or INTERNAL if the stored state breaks an
  /// invariant.
  Task<Status> start(uint64_t leadership);
  /// True if it answers calls. False until start() is done, and once the leadership is lost.
  bool ready() const { return started_ && !ledger_.fenced(); }
  /// `fn` is called when a change was refused because we no longer lead.
  void on_fenced(std::function<void()> fn) { ledger_.on_fenced(std::move(fn)); }
  /// Call it before destruction: waiting calls end with `why` (NOT_LEADER), or INDETERMINATE if
  /// they must not be repeated.
  void abandon(const Status& why);
  /// The addresses may become known after construction, when the admin API has its port.
  void set_admin_addresses(std::string inside, std::string outside);

  // For the admin API and tests; on the reactor's thread. See Tables for what they wait for.
  Task<Result<wire::TableInfo>> create_table(std::string name, uint32_t span, Side side,
                                             Time deadline);
  Task<Status> drop_table(std::string name, Time deadline);
  /// Makes leaders write records of the newest format from now on. This cannot be undone: versions
  /// that know only older formats refuse to start. Returns the format in force. Errors as
  /// Ledger::commit().
  Task<Result<uint16_t>> upgrade_metadata(Time deadline);
  struct Condemnation {
    bool condemned = false;  // the server is CRASHED, by this call or before
    bool answers = false;    // the server answered the coordinator or a peer just now
    std::string effect;      // for people: what was done, or would be
  };
  /// An operator gives a server up, without waiting for failure detection. Without `confirmed` only
  /// tells what would happen. NOT_FOUND; INVALID_ARGUMENT if it answers and `force` is not given.
  Task<Result<Condemnation>> condemn(uint64_t server_id, bool force, bool confirmed,
                                     std::string reason, Time deadline);
  /// Resizes the log of a server until its process ends; 0: only reports. The answer tells the
  /// progress. Nothing is stored. NOT_FOUND; INVALID_ARGUMENT if the server is not UP or rejects
  /// the size; UNSUPPORTED if it cannot resize; errors of the call to the server.
  Task<Result<wire::ResizeLogReply>> resize_log(uint64_t server_id, uint64_t bytes, Time deadline);
  /// An operator gives up what a BLOCKED recovery lacks, as the preview showed it. The acceptance
  /// is durable before the recovery uses it. NOT_FOUND; INVALID_ARGUMENT: this server has no loss
  /// to accept, or the token is of another loss; errors of Recovery::preview_loss() and
  /// Ledger::commit().
  Task<Result<LossAnswer>> accept_loss(LossRequest wanted, Time deadline);
  /// The platform suspects that a server is dead: it is probed at once, nothing else. Unknown ids
  /// are ignored.
  void hint(uint64_t server_id) { detector_.hint(server_id, FailureDetector::Source::kPlatform); }
  /// Whether the volume of this server may be wiped. See VolumeReleases::ask().
  Task<Result<VolumeRelease>> volume_release(uint64_t server_id, Time deadline) {
    return volume_releases_.ask(server_id, deadline);
  }
  /// Counts a waiting call while this object lives.
  class WaitingCall {
   public:
    explicit WaitingCall(Coordinator& coordinator) : calls_(coordinator.calls_) { ++calls_; }
    ~WaitingCall() { --calls_; }
    WaitingCall(const WaitingCall&) = delete;
    WaitingCall& operator=(const WaitingCall&) = delete;

   private:
    size_t& calls_;
  };
  /// RETRY when the maximum of calls is waiting.
  Status may_wait() const;
  const ClusterState& state() const { return state_; }
  /// The present status, with the revision of the latest change.
  ClusterStatus status() const;
  Changes& changes() { return changes_; }
  Reactor& reactor() { return reactor_; }
  const Options& options() const { return options_; }

 private:
  struct Gauges;
  // Handlers of calls.
  void on_get_cluster_info(const Request& request);
  void on_create_table(const Request& request);
  void on_drop_table(const Request& request);
  void on_list_tables(const Request& request);
  void on_get_table(const Request& request);
  void on_enlist(const Request& request);
  void on_get_server_list(const Request& request);
  void on_raise_replication_epoch(const Request& request);
  void on_report_server(const Request& request);
  void on_grant_lease(const Request& request);
  void on_get_recovered(const Request& request);
  void on_stop_serving(const Request& request);
  template <typename Message>
  bool accept(const Request& request, Message& message);
  template <typename Message>
  bool accept_if(const Status& may, const Request& request, Message& message);
  template <typename Message>
  bool accept_to_wait(const Request& request, Message& message);
  /// Runs a task for a call that may be repeated, and answers with its result.
  template <typename Reply>
  Task<void> answer(ReplyHandle handle, Task<Result<Reply>> flow);
  Status to_tell(Status status) const;
  void refuse(const ReplyHandle& handle, const Status& status);
  Task<void> reserve_revisions();
  void begin_to_order();
  Task<void> answer_drop(ReplyHandle handle, std::string name, Time deadline);
  Time deadline_of(const Request& request) const;
  void register_handlers();
  void register_metrics(MetricsRegistry& metrics);

  void on_server_changed(uint64_t, uint64_t) override {}
  void on_table_changed(uint64_t, uint64_t) override {}
  void on_table_dropped(uint64_t, const std::string&) override { recoveries_.news(); }
  void on_status_changed(uint64_t revision) override;

  Reactor& reactor_;
  RpcClient& rpc_;
  ServiceRegistry& registry_;
  Options options_;
  ClusterState state_;
  Changes changes_;
  Ledger ledger_;
  TableWriter table_writer_;
  TermClaims term_claims_;
  Notifier notifier_;
  Membership membership_;
  Retirement retirement_;
  ReplicationEpochs replication_epochs_;
  Tables tables_;
  FailureDetector detector_;
  ImportReconciliation import_reconciliation_;
  VolumeReleases volume_releases_;
  Recoveries recoveries_;
  Counter& condemned_by_operator_;
  std::shared_ptr<Gauges> gauges_;  // shared with the metrics, which outlive us
  bool started_ = false;
  struct Waiting {
    ReplyHandle reply;
    bool repeatable;
  };
  std::list<Waiting> waiting_;  // calls whose tasks run
  size_t calls_ = 0;            // the waiting calls, including those of the admin API
  TaskScope scope_;             // last member: calls end before what they use
};

}  // namespace ramcloud
