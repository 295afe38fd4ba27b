// The coordinator while it leads: the one place where the cluster's configuration is decided
// [Ousterhout15 §3.2, §9]. It is in no data operation's way. This class puts its parts together
// and answers their calls; what they do is in membership.h, tables.h, failure_detector.h,
// notifier.h and ledger.h. Who leads is decided in coordinator_node.h; a new leadership is a new
// object.
#pragma once

#include <list>
#include <memory>

#include "base/metrics.h"
#include "coordinator/core/cluster_view.h"
#include "coordinator/core/failure_detector.h"
#include "coordinator/core/membership.h"
#include "coordinator/core/recoveries.h"
#include "coordinator/core/replication_epochs.h"
#include "coordinator/core/restating.h"
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
    Restating::Options restating;
    VolumeReleases::Options volume_releases;
    RecoveryOptions recoveries;
    Duration longest_wait = 60s;  // of a call whose sender sets no deadline
    size_t calls_at_once = 1024;  // that wait, by whatever door; more are told to RETRY
    size_t operations_at_once = kOperationsAtOnce;  // of a transaction that writes a table
  };

  /// Everything runs on the reactor of `rpc`; the arguments outlive the coordinator.
  Coordinator(RpcClient& rpc, ServiceRegistry& registry, MetadataStore& store,
              MetricsRegistry& metrics, Options options);
  ~Coordinator() override;
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Loads or creates the cluster, raises the term, and resumes unfinished work. Waits
  /// while the store does not answer; calls that come in meanwhile are told to RETRY. `leadership`
  /// is what the store's campaign() gave. Fails with what Ledger::open() says, or INTERNAL if the
  /// stored state breaks an invariant.
  Task<Status> start(uint64_t leadership);
  /// Answers calls. False before start() is done and once the leadership is lost.
  bool ready() const { return started_ && !ledger_.fenced(); }
  /// `fn` is called when a change was refused because we no longer lead.
  void on_fenced(std::function<void()> fn) { ledger_.on_fenced(std::move(fn)); }
  /// Before it is destroyed: calls that still wait end with `why` (NOT_LEADER), or INDETERMINATE if
  /// they must not be repeated.
  void abandon(const Status& why);
  /// May become known after construction, when the admin API has been given a port.
  void set_admin_addresses(std::string inside, std::string outside);

  // For the admin API and tests; on the reactor's thread. See Tables for what they wait for.
  Task<Result<wire::TableInfo>> create_table(std::string name, uint32_t span, Side side,
                                             Time deadline);
  Task<Status> drop_table(std::string name, Time deadline);
  /// From now on leaders write records of the newest format, which builds that know only older ones
  /// refuse to start from: there is no way back. The format that holds. What Ledger::commit() says.
  Task<Result<uint16_t>> upgrade_metadata(Time deadline);
  struct Condemnation {
    bool condemned = false;  // it is CRASHED now, or was before
    bool answers = false;    // it answered just now, the coordinator or a peer
    std::string effect;      // for people: what was done, or would be
  };
  /// An operator gives a server up, whatever failure detection waits for. Without `confirmed` only
  /// says what would happen. NOT_FOUND; INVALID_ARGUMENT if it answers and `force` is not given.
  Task<Result<Condemnation>> condemn(uint64_t server_id, bool force, bool confirmed,
                                     std::string reason, Time deadline);
  /// The log of a server is to have so much memory, until its process ends; 0: nothing is changed,
  /// only told. The answer says how far it is. Nothing is stored. NOT_FOUND; INVALID_ARGUMENT if the
  /// server is not UP, or does not accept the size, UNSUPPORTED if it cannot; what the call meets.
  Task<Result<wire::ResizeLogReply>> resize_log(uint64_t server_id, uint64_t bytes, Time deadline);
  /// An operator gives up what a BLOCKED recovery lacks, as it was shown. The answer is durable
  /// before anything is recovered by it. NOT_FOUND; INVALID_ARGUMENT: nothing of this server can be
  /// accepted, or not with this token; what Recovery::preview_loss() and Ledger::commit() say.
  Task<Result<LossAnswer>> accept_loss(LossRequest wanted, Time deadline);
  /// The platform thinks that a server may be dead: it is probed at once, and nothing else. Unknown
  /// ids are nothing to it.
  void hint(uint64_t server_id) { detector_.hint(server_id, FailureDetector::Source::kPlatform); }
  /// Whether the volume of this server may be wiped. What VolumeReleases::ask() says.
  Task<Result<VolumeRelease>> volume_release(uint64_t server_id, Time deadline) {
    return volume_releases_.ask(server_id, deadline);
  }
  /// A call that waits, for as long as this lives.
  class Waits {
   public:
    explicit Waits(Coordinator& coordinator) : calls_(coordinator.calls_) { ++calls_; }
    ~Waits() { --calls_; }
    Waits(const Waits&) = delete;
    Waits& operator=(const Waits&) = delete;

   private:
    size_t& calls_;
  };
  /// RETRY when as many calls wait as may.
  Status may_wait() const;
  const ClusterState& state() const { return state_; }
  /// As of now, with the revision of the latest change.
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
  /// Runs a flow that may safely be asked for again, and answers with its result.
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
  Restating restating_;
  VolumeReleases volume_releases_;
  Recoveries recoveries_;
  Counter& condemned_by_operator_;
  std::shared_ptr<Gauges> gauges_;  // shared with the metrics, which outlive us
  bool started_ = false;
  struct Waiting {
    ReplyHandle reply;
    bool repeatable;
  };
  std::list<Waiting> waiting_;  // calls whose flows run
  size_t calls_ = 0;            // these and the admin API's
  TaskScope scope_;             // last: calls end before what they use
};

}  // namespace ramcloud
