#include "coordinator/core/coordinator.h"

#include <algorithm>
#include <atomic>

#include "base/logging.h"
#include "base/text.h"
#include "coordinator/core/checks.h"
#include "coordinator/metadata/invariants.h"

namespace ramcloud {
namespace {
constexpr uint32_t kRetryAfterUs = 50'000;

/// A crashed server stays in the list as long as recoveries may wait for its volume.
Retirement::Options keep_expected(Retirement::Options options, Duration returning) {
  options.after = std::max(options.after, returning);
  return options;
}
}  // namespace

/// Read by the thread that serves metrics.
struct Coordinator::Gauges {
  std::atomic<uint64_t> servers_up{0}, servers_crashed{0}, servers_suspected{0};
  std::atomic<uint64_t> tables{0}, tablets{0}, tablets_unavailable{0};
  std::atomic<uint64_t> term{0}, list_version{0};
  std::atomic<uint64_t> suspect{0}, accounted{0}, expected{0};
  std::atomic<uint64_t> recoveries{0}, recoveries_blocked{0};
  std::vector<std::atomic<uint64_t>*> all() {
    return {&servers_up,
            &servers_crashed,
            &servers_suspected,
            &tables,
            &tablets,
            &tablets_unavailable,
            &term,
            &list_version,
            &suspect,
            &accounted,
            &expected,
            &recoveries,
            &recoveries_blocked};
  }
};

Coordinator::Coordinator(RpcClient& rpc, ServiceRegistry& registry, MetadataStore& store,
                         MetricsRegistry& metrics, Options options)
    : reactor_(rpc.reactor()),
      rpc_(rpc),
      registry_(registry),
      options_(std::move(options)),
      changes_(reactor_),
      ledger_(reactor_, store),
      table_writer_(state_, ledger_, options_.operations_at_once),
      term_claims_(reactor_, state_, ledger_, changes_),
      notifier_(rpc, state_, term_claims_, options_.notifier),
      membership_(reactor_, state_, ledger_, changes_,
                  [this] {
                    notifier_.push_list();
                    detector_.watch_all();
                    tables_.membership_changed();
                    recoveries_.news();
                  }),
      retirement_(
          reactor_, state_, ledger_, changes_, [this] { notifier_.push_list(); },
          keep_expected(options_.retirement, options_.recoveries.query.returning)),
      replication_epochs_(state_, ledger_),
      tables_(reactor_, state_, ledger_, table_writer_, notifier_, changes_),
      detector_(rpc, state_, ledger_, term_claims_, membership_, notifier_, changes_, metrics,
                options_.detector),
      import_reconciliation_(
          rpc, state_, ledger_, table_writer_, term_claims_, notifier_, changes_,
          [this] { detector_.watch_all(); }, [this] { begin_to_order(); },
          options_.import_reconciliation),
      volume_releases_(rpc, state_, ledger_, options_.volume_releases),
      recoveries_(rpc, state_, ledger_, table_writer_, term_claims_, changes_, metrics,
                  options_.recoveries),
      condemned_by_operator_(metrics.counter("ramcloud_coordinator_verdicts_total",
                                             "Servers declared crashed, by the evidence",
                                             {{"evidence", "operator"}})),
      gauges_(std::make_shared<Gauges>()),
      scope_(reactor_) {
  membership_.set_examine([this](uint64_t id) { return detector_.examine(id); });
  changes_.add(this);
  register_metrics(metrics);
  register_handlers();
}

Coordinator::~Coordinator() {
  changes_.remove(this);
  for (auto* gauge : gauges_->all()) *gauge = 0;  // only the next leader's gauges count
}

Task<Status> Coordinator::start(uint64_t leadership) {
  auto opened = co_await ledger_.open(options_.cluster_name, leadership);
  if (!opened) co_return opened.error();
  if (Status sound = Invariants().check(*opened); !sound.ok()) co_return sound;
  state_ = std::move(*opened);
  changes_.begin(state_.first_revision, state_.revisions.next,
                 [this] { scope_.spawn(reserve_revisions()); });
  rpc_.set_cluster_uuid(state_.uuid);
  registry_.transport().set_identity({state_.uuid, 0});
  started_ = true;
  log_info("coordinator.leading", {{"cluster", state_.name},
                                   {"uuid", format_uuid(state_.uuid)},
                                   {"term", state_.term},
                                   {"servers", state_.servers.size()},
                                   {"tables", state_.tables.size()}});
  const bool imported = import_reconciliation_.start();
  detector_.watch_all();
  if (!imported) begin_to_order();
  changes_.status_changed();
  co_return StatusCode::kOk;
}

/// From here on servers get orders.
void Coordinator::begin_to_order() {
  notifier_.push_list();
  tables_.resume();
  retirement_.start();
  recoveries_.start();
}

Task<void> Coordinator::reserve_revisions() {
  const AsyncMutex::Lock lock = co_await ledger_.lock();
  RevisionsRecord record = state_.revisions;
  record.next += Changes::kReserve;
  MetadataChange change;
  change.put(kRevisionsKey, record);
  if (!(co_await ledger_.commit(lock, std::move(change))).ok()) co_return;
  state_.revisions = record;
  changes_.reserve(record.next);
}

void Coordinator::set_admin_addresses(std::string inside, std::string outside) {
  options_.admin_address = std::move(inside);
  options_.admin_address_outside = std::move(outside);
}

Task<Result<wire::TableInfo>> Coordinator::create_table(std::string name, uint32_t span, Side side,
                                                        Time deadline) {
  if (Status may = import_reconciliation_.check(); !may.ok()) co_return fail(std::move(may));
  const auto id = co_await tables_.create(std::move(name), span, deadline);
  if (!id) co_return fail(id.error());
  co_return state_.table_info(state_.tables.at(*id), side);
}

Task<Status> Coordinator::drop_table(std::string name, Time deadline) {
  if (Status may = import_reconciliation_.check(); !may.ok()) co_return may;
  co_return co_await tables_.drop(std::move(name), deadline);
}

ClusterStatus Coordinator::status() const {
  ClusterStatus status = cluster_status(state_, options_.version);
  status.revision = changes_.revision();
  return status;
}

// ---- calls

void Coordinator::register_handlers() {
  using wire::Opcode;
  const auto add = [this]<auto Member>(Opcode opcode) {
    registry_.add(opcode, &call_member<Member, Coordinator>, this);
  };
  add.operator()<&Coordinator::on_get_cluster_info>(Opcode::kGetClusterInfo);
  add.operator()<&Coordinator::on_create_table>(Opcode::kCreateTable);
  add.operator()<&Coordinator::on_drop_table>(Opcode::kDropTable);
  add.operator()<&Coordinator::on_list_tables>(Opcode::kListTables);
  add.operator()<&Coordinator::on_get_table>(Opcode::kGetTable);
  add.operator()<&Coordinator::on_enlist>(Opcode::kEnlist);
  add.operator()<&Coordinator::on_get_server_list>(Opcode::kGetServerList);
  add.operator()<&Coordinator::on_raise_replication_epoch>(Opcode::kRaiseReplicationEpoch);
  add.operator()<&Coordinator::on_report_server>(Opcode::kReportServer);
  add.operator()<&Coordinator::on_grant_lease>(Opcode::kGrantLease);
  add.operator()<&Coordinator::on_get_recovered>(Opcode::kGetRecovered);
  add.operator()<&Coordinator::on_stop_serving>(Opcode::kStopServing);
}

/// Answers with an error, with the term and when to retry.
void Coordinator::refuse(const ReplyHandle& handle, const Status& status) {
  wire::ErrorDetails details;
  details.term = state_.term;
  if (status == StatusCode::kRetry) details.retry_after_us = kRetryAfterUs;
  reply_error(registry_.transport(), handle, status, details.retry_after_us, details);
}

/// Parses a request. False: it was answered with an error, because it is malformed or cannot be
/// served now.
template <typename Message>
bool Coordinator::accept(const Request& request, Message& message) {
  if (!started_) {
    refuse(request.reply, {StatusCode::kRetry, "the coordinator is starting"});
    return false;
  }
  if (ledger_.fenced()) {
    refuse(request.reply, {StatusCode::kNotLeader, "another coordinator has taken over"});
    return false;
  }
  if (!request.decode(message)) {
    refuse(request.reply, {StatusCode::kInvalidArgument,
                           fmt::format("body of operation {} ({} bytes) does not decode",
                                       request.header.opcode, request.body.size())});
    return false;
  }
  return true;
}

/// The same for calls that are answered RETRY while `may` is not OK.
template <typename Message>
bool Coordinator::accept_if(const Status& may, const Request& request, Message& message) {
  if (!accept(request, message)) return false;
  if (!may.ok()) refuse(request.reply, may);
  return may.ok();
}

/// The same for calls that are answered later.
template <typename Message>
bool Coordinator::accept_to_wait(const Request& request, Message& message) {
  return accept_if(may_wait(), request, message);
}

Status Coordinator::may_wait() const {
  if (calls_ < options_.calls_at_once) return {};
  return {StatusCode::kRetry, "too many calls are waiting at the coordinator"};
}

template <typename Reply>
Task<void> Coordinator::answer(ReplyHandle handle, Task<Result<Reply>> flow) {
  const WaitingCall counted(*this);
  const auto waiting = waiting_.insert(waiting_.end(), {handle, true});
  const Result<Reply> result = co_await std::move(flow);
  waiting_.erase(waiting);
  if (result) {
    reply_message(registry_.transport(), handle, *result);
  } else {
    refuse(handle, to_tell(result.error()));
  }
}

/// For calls that may be repeated at the next leader even if they took effect.
Status Coordinator::to_tell(Status status) const {
  if (status == StatusCode::kIndeterminate && ledger_.fenced()) {
    return {StatusCode::kNotLeader, status.message()};
  }
  return status;
}

void Coordinator::abandon(const Status& why) {
  scope_.cancel_all();
  for (const Waiting& call : std::exchange(waiting_, {})) {
    const Status unsure(
        StatusCode::kIndeterminate,
        "the coordinator lost its leadership during this call; it may or may not have happened");
    refuse(call.reply, call.repeatable ? why : unsure);
  }
}

Time Coordinator::deadline_of(const Request& request) const {
  const auto asked = std::chrono::milliseconds(request.header.timeout_ms);
  const bool given = request.header.timeout_ms != 0 && asked < options_.longest_wait;
  return reactor_.now() + (given ? Duration(asked) : options_.longest_wait);
}

void Coordinator::on_get_cluster_info(const Request& request) {
  wire::Empty message;
  if (!accept(request, message)) return;
  const bool outside =
      request.reply.side == Side::kOutside && !options_.admin_address_outside.empty();
  wire::ClusterInfo info;
  info.cluster_uuid = state_.uuid;
  info.cluster_name = state_.name;
  info.version = options_.version;
  info.admin_address = outside ? options_.admin_address_outside : options_.admin_address;
  info.term = state_.term;
  info.metadata_revision = ledger_.revision();
  reply_message(registry_.transport(), request.reply, info);
}

void Coordinator::on_create_table(const Request& request) {
  wire::CreateTableRequest message;
  if (!accept_to_wait(request, message)) return;
  scope_.spawn(answer(request.reply, create_table(std::move(message.name), message.span,
                                                  request.reply.side, deadline_of(request))));
}

void Coordinator::on_drop_table(const Request& request) {
  wire::DropTableRequest message;
  if (!accept_to_wait(request, message)) return;
  scope_.spawn(answer_drop(request.reply, std::move(message.name), deadline_of(request)));
}

Task<void> Coordinator::answer_drop(ReplyHandle handle, std::string name, Time deadline) {
  const WaitingCall counted(*this);
  const auto waiting = waiting_.insert(waiting_.end(), {handle, false});
  const Status dropped = co_await drop_table(std::move(name), deadline);
  waiting_.erase(waiting);
  if (dropped.ok()) {
    reply_message(registry_.transport(), handle, wire::Empty());
  } else {
    refuse(handle, dropped);
  }
}

void Coordinator::on_list_tables(const Request& request) {
  wire::ListTablesRequest message;
  if (!accept_if(import_reconciliation_.check(), request, message)) return;
  reply_message(registry_.transport(), request.reply,
                state_.list_tables(message, request.reply.side));
}

void Coordinator::on_get_table(const Request& request) {
  wire::GetTableRequest message;
  if (!accept_if(import_reconciliation_.check(), request, message)) return;
  const TableRecord* table = nullptr;
  if (!message.name.empty()) {
    table = state_.find_table(message.name);
  } else if (const auto found = state_.tables.find(message.table_id);
             found != state_.tables.end() && found->second.state != TableState::kDropping) {
    table = &found->second;
  }
  if (table != nullptr) {
    reply_message(registry_.transport(), request.reply,
                  state_.table_info(*table, request.reply.side));
    return;
  }
  const std::string asked =
      message.name.empty() ? fmt::format("{}", message.table_id) : quoted(message.name);
  refuse(request.reply, {StatusCode::kNotFound, fmt::format("table {} does not exist", asked)});
}

void Coordinator::on_enlist(const Request& request) {
  wire::EnlistRequest message;
  if (!accept_if(import_reconciliation_.check_enlisting(), request, message)) return;
  if (!accept_to_wait(request, message)) return;
  scope_.spawn(answer(request.reply, membership_.enlist(std::move(message), deadline_of(request))));
}

void Coordinator::on_get_server_list(const Request& request) {
  wire::GetServerListRequest message;
  if (!accept(request, message)) return;
  import_reconciliation_.note(message.server_id, message.locator);
  if (!accept_if(import_reconciliation_.check(), request, message)) return;
  reply_message(registry_.transport(), request.reply, state_.server_list());
}

void Coordinator::on_raise_replication_epoch(const Request& request) {
  wire::RaiseReplicationEpochRequest message;
  if (!accept_if(import_reconciliation_.check(), request, message)) return;
  if (!accept_to_wait(request, message)) return;
  scope_.spawn(answer(request.reply, replication_epochs_.raise(message, deadline_of(request))));
}

void Coordinator::on_get_recovered(const Request& request) {
  wire::GetRecoveredRequest message;
  if (!accept_if(import_reconciliation_.check(), request, message)) return;
  if (message.master_ids.size() > wire::GetRecoveredRequest::kMaxIdsAtOnce) {
    return refuse(request.reply, {StatusCode::kInvalidArgument,
                                  fmt::format("master_ids has {} ids; at most {} are accepted",
                                              message.master_ids.size(),
                                              wire::GetRecoveredRequest::kMaxIdsAtOnce)});
  }
  reply_message(registry_.transport(), request.reply,
                wire::Recovered{recoveries_.recovered(message.master_ids)});
}

void Coordinator::on_stop_serving(const Request& request) {
  wire::StopServingRequest message;
  if (!accept_if(import_reconciliation_.check(), request, message)) return;
  if (!accept_to_wait(request, message)) return;
  scope_.spawn(answer(request.reply, membership_.stop_serving(message, deadline_of(request))));
}

/// A report causes at most one probe, from any sender.
void Coordinator::on_report_server(const Request& request) {
  wire::ReportServerRequest message;
  if (!accept(request, message)) return;
  log_debug("detection.server_reported", {{"server", message.server_id},
                                          {"by", message.reporter_id},
                                          {"state", static_cast<int>(message.state)}});
  detector_.hint(message.server_id, FailureDetector::Source::kServer);
  reply_message(registry_.transport(), request.reply, wire::Empty());
}

/// For a master whose lease no backup can confirm. Our own clock proves that we lead at this
/// moment, so no other coordinator can have condemned the server.
void Coordinator::on_grant_lease(const Request& request) {
  wire::GrantLeaseRequest message;
  if (!accept_if(import_reconciliation_.check(), request, message)) return;
  if (state_.up_server(message.server_id) == nullptr) {
    return refuse(request.reply,
                  {StatusCode::kCrashed,
                   fmt::format("server {} is not UP: it gets no lease", message.server_id)});
  }
  reply_message(registry_.transport(), request.reply, wire::Empty());
}

// ---- metrics

void Coordinator::register_metrics(MetricsRegistry& metrics) {
  const auto gauge = [&](const char* name, const char* help, std::atomic<uint64_t> Gauges::* member,
                         MetricLabels labels = {}) {
    metrics.gauge(
        name, help,
        [gauges = gauges_, member] {
          return static_cast<double>((*gauges.*member).load(std::memory_order_relaxed));
        },
        std::move(labels));
  };
  const char* const servers = "ramcloud_coordinator_servers";
  gauge(servers, "Servers by state", &Gauges::servers_up, {{"state", "up"}});
  gauge(servers, "Servers by state", &Gauges::servers_crashed, {{"state", "crashed"}});
  gauge("ramcloud_coordinator_servers_suspected", "Servers that do not answer, without a verdict",
        &Gauges::servers_suspected);
  gauge("ramcloud_coordinator_detection_suspect",
        "1 while silence condemns no server, because too little is heard of the cluster or its "
        "metadata cannot be written",
        &Gauges::suspect);
  gauge("ramcloud_coordinator_detection_accounted",
        "Servers that are accounted for: they answer, or are known to be dead", &Gauges::accounted);
  gauge("ramcloud_coordinator_detection_expected",
        "Servers that failure detection watches; of these half must be accounted for",
        &Gauges::expected);
  gauge("ramcloud_recoveries_running", "Crashed servers whose tablets are being recovered",
        &Gauges::recoveries);
  gauge("ramcloud_recoveries_blocked",
        "Crashed servers whose recovery waits for what nobody can be expected to bring",
        &Gauges::recoveries_blocked);
  gauge("ramcloud_coordinator_tables", "Tables", &Gauges::tables);
  gauge("ramcloud_coordinator_tablets", "Tablets of all tables", &Gauges::tablets);
  gauge("ramcloud_coordinator_tablets_unavailable", "Tablets whose server is crashed",
        &Gauges::tablets_unavailable);
  gauge("ramcloud_coordinator_term", "Leader term", &Gauges::term);
  gauge("ramcloud_coordinator_server_list_version", "Version of the server list",
        &Gauges::list_version);
}

void Coordinator::on_status_changed(uint64_t) {
  const ClusterStatus now = cluster_status(state_, options_.version);
  gauges_->servers_up = now.servers_up;
  gauges_->servers_crashed = now.servers_crashed;
  gauges_->servers_suspected = static_cast<uint64_t>(std::ranges::count_if(
      state_.servers, [](const auto& entry) { return entry.second.suspected; }));
  gauges_->tables = now.tables;
  gauges_->tablets = now.tablets;
  gauges_->tablets_unavailable = now.tablets_unavailable;
  gauges_->term = state_.term;
  gauges_->list_version = state_.list_version;
  gauges_->suspect = state_.detection.suspect ? 1 : 0;
  gauges_->accounted = state_.detection.accounted;
  gauges_->expected = state_.detection.expected;
  gauges_->recoveries = state_.recoveries.size();
  gauges_->recoveries_blocked =
      static_cast<uint64_t>(std::ranges::count_if(state_.recoveries, [](const auto& entry) {
        return entry.second.phase == RecoveryProgress::Phase::kBlocked;
      }));
}

}  // namespace ramcloud
