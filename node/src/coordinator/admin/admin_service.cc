#include "coordinator/admin/admin_service.h"

#include <grpcpp/grpcpp.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <set>

#include "admin.grpc.pb.h"
#include "base/logging.h"
#include "coordinator/admin/admin_convert.h"
#include "coordinator/core/checks.h"
#include "transport/filtering_acceptor.h"

namespace ramcloud {
namespace pb = admin::v1;
namespace {

grpc::Status to_grpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(to_grpc_code(status.code())), status.message()};
}

/// The answer of a coordinator that does not lead.
struct Redirect {
  grpc::Status status;
  std::string leader, leader_outside;
  void add_trailers(grpc::CallbackServerContext& context) const {
    if (!leader.empty()) context.AddTrailingMetadata(kLeaderTrailer, leader);
    if (!leader_outside.empty()) context.AddTrailingMetadata(kLeaderOutsideTrailer, leader_outside);
  }
};

Redirect redirect_of(const CoordinatorNode& node, const Status& why) {
  return {to_grpc(why), node.leader_admin_address(Side::kInside),
          node.leader_admin_address(Side::kOutside)};
}

const grpc::Status kStopping(grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping");

/// A call shared between gRPC's threads and the reactor: finished exactly once, by whichever is
/// first.
class PendingCall {
 public:
  PendingCall(grpc::CallbackServerContext* context, grpc::ServerUnaryReactor* reactor)
      : context_(context), reactor_(reactor), deadline_(context->deadline()) {}

  /// How long the caller still waits.
  Duration time_left() const { return deadline_ - std::chrono::system_clock::now(); }
  /// `fill` writes the response; it runs only if the call is not finished yet.
  void finish(const grpc::Status& status, const std::function<void()>& fill = nullptr) {
    const std::lock_guard guard(mutex_);
    if (reactor_ == nullptr) return;
    if (fill) fill();
    std::exchange(reactor_, nullptr)->Finish(status);
  }
  void finish(const Redirect& redirect) {
    finish(redirect.status, [&] { redirect.add_trailers(*context_); });
  }

 private:
  std::mutex mutex_;
  grpc::CallbackServerContext* context_;                  // valid until finished
  grpc::ServerUnaryReactor* reactor_;                     // guarded by mutex_; null when finished
  const std::chrono::system_clock::time_point deadline_;  // by gRPC's clock
};

/// One watcher. Events are queued by the reactor and written by gRPC; both hold the mutex. Shared,
/// because gRPC may be done with the stream while the reactor still has it in its list.
class WatchStream : public std::enable_shared_from_this<WatchStream> {
 public:
  using Event = std::shared_ptr<const pb::WatchEvent>;

  WatchStream(grpc::CallbackServerContext* context, size_t backlog)
      : context_(context), backlog_(backlog) {}

  /// The object for gRPC, which owns it until its OnDone().
  grpc::ServerWriteReactor<pb::WatchEvent>* attach() {
    writer_ = new Writer(shared_from_this());
    return writer_;
  }

  /// Queues the snapshot. It does not count towards the backlog limit.
  void push_snapshot(std::vector<Event> events) {
    const std::lock_guard guard(mutex_);
    limit_ = backlog_ + events.size();
    for (auto& event : events) queue_.push_back(std::move(event));
    write_next();
  }
  void push(Event event) {
    const std::lock_guard guard(mutex_);
    if (finished_) return;
    if (queue_.size() >= limit_) {
      finish_locked(
          {grpc::StatusCode::RESOURCE_EXHAUSTED,
           fmt::format("the watcher is more than {} events behind; watch again", backlog_)});
      return;
    }
    queue_.push_back(std::move(event));
    write_next();
  }
  void finish(const grpc::Status& status) {
    const std::lock_guard guard(mutex_);
    finish_locked(status);
  }
  void finish(const Redirect& redirect) {
    const std::lock_guard guard(mutex_);
    if (finished_) return;
    redirect.add_trailers(*context_);
    finish_locked(redirect.status);
  }
  bool finished() {
    const std::lock_guard guard(mutex_);
    return finished_;
  }

 private:
  class Writer : public grpc::ServerWriteReactor<pb::WatchEvent> {
   public:
    explicit Writer(std::shared_ptr<WatchStream> stream) : stream_(std::move(stream)) {}
    void OnWriteDone(bool ok) override { stream_->on_write_done(ok); }
    void OnCancel() override { stream_->finish({grpc::StatusCode::CANCELLED, "cancelled"}); }
    void OnDone() override {
      stream_->on_done();
      delete this;
    }

   private:
    std::shared_ptr<WatchStream> stream_;
  };

  void on_write_done(bool ok) {
    const std::lock_guard guard(mutex_);
    writing_.reset();
    limit_ = std::max(backlog_, std::min(limit_, queue_.size() + backlog_));
    if (!ok) finish_locked({grpc::StatusCode::CANCELLED, "the stream is broken"});
    write_next();
  }
  void on_done() {
    const std::lock_guard guard(mutex_);
    finished_ = true;
    writer_ = nullptr;
    queue_.clear();
  }
  // gRPC calls back from its own threads, never from inside StartWrite() or Finish().
  void write_next() {
    if (finished_ || writing_ != nullptr || queue_.empty()) return;
    writing_ = std::move(queue_.front());
    queue_.pop_front();
    writer_->StartWrite(writing_.get());
  }
  void finish_locked(const grpc::Status& status) {
    if (finished_) return;
    finished_ = true;
    queue_.clear();
    writer_->Finish(status);
  }

  std::mutex mutex_;
  grpc::CallbackServerContext* context_;  // valid until finished
  const size_t backlog_;
  // The rest is guarded by mutex_.
  size_t limit_ = 0;  // limit of queue_; larger while the snapshot is sent
  Writer* writer_ = nullptr;
  std::deque<Event> queue_;
  Event writing_;  // gRPC reads it until OnWriteDone()
  bool finished_ = false;
};

/// Executes admin calls while this coordinator leads. Only on the reactor's thread.
class LeaderCalls : public ChangeListener {
 public:
  LeaderCalls(Coordinator& coordinator, AdminService::Options options)
      : coordinator_(coordinator), options_(options), scope_(coordinator.reactor()) {
    coordinator.changes().add(this);
  }
  ~LeaderCalls() override { coordinator_.changes().remove(this); }

  pb::ClusterStatus status() const { return to_proto(coordinator_.status()); }

  /// The leadership is lost: ends all waiting calls.
  void abandon(const Redirect& redirect) {
    scope_.cancel_all();
    for (const Waiting& waiting : std::exchange(waiting_, {})) {
      if (waiting.repeatable) {
        waiting.call->finish(redirect);
      } else {
        waiting.call->finish(to_grpc({StatusCode::kIndeterminate,
                                      "the coordinator lost its leadership during this call; it "
                                      "may or may not have happened"}));
      }
    }
    for (const auto& watcher : watchers_) watcher->finish(redirect);
  }

  pb::ListServersResponse servers() const {
    pb::ListServersResponse response;
    for (const auto& [id, server] : coordinator_.state().servers) {
      if (server.record.state == wire::ServerState::kRemoved) continue;
      *response.add_servers() = to_proto(server_view(coordinator_.state(), server));
    }
    return response;
  }

  Result<pb::ListTablesResponse> tables(const std::string& name) const {
    pb::ListTablesResponse response;
    const ClusterState& state = coordinator_.state();
    for (const auto& [id, table] : state.tables) {
      if (table.state == TableState::kDropping || (!name.empty() && table.name != name)) continue;
      *response.add_tables() = to_proto(state.table_info(table, Side::kInside));
    }
    if (!name.empty() && response.tables().empty()) {
      return fail(StatusCode::kNotFound,
                  fmt::format("table {} does not exist", ramcloud::quoted(name)));
    }
    return response;
  }

  void create_table(std::shared_ptr<PendingCall> call, std::string name, uint32_t span,
                    pb::Table* response) {
    if (may_wait(*call)) scope_.spawn(create(std::move(call), std::move(name), span, response));
  }
  void drop_table(std::shared_ptr<PendingCall> call, std::string name) {
    if (may_wait(*call)) scope_.spawn(drop(std::move(call), std::move(name)));
  }
  void upgrade_metadata(std::shared_ptr<PendingCall> call, pb::UpgradeMetadataResponse* response) {
    if (may_wait(*call)) scope_.spawn(upgrade(std::move(call), response));
  }

  void condemn_server(std::shared_ptr<PendingCall> call, pb::CondemnServerRequest request,
                      pb::CondemnServerResponse* response) {
    if (may_wait(*call)) scope_.spawn(condemn(std::move(call), std::move(request), response));
  }
  void set_memory(std::shared_ptr<PendingCall> call, pb::SetServerMemoryRequest request,
                  pb::SetServerMemoryResponse* response) {
    if (may_wait(*call)) scope_.spawn(resize(std::move(call), std::move(request), response));
  }
  void release_volume(std::shared_ptr<PendingCall> call, uint64_t server_id,
                      pb::GetVolumeReleaseResponse* response) {
    if (may_wait(*call)) scope_.spawn(release(std::move(call), server_id, response));
  }
  void accept_loss(std::shared_ptr<PendingCall> call, pb::AcceptLossRequest request,
                   pb::AcceptLossResponse* response) {
    if (may_wait(*call)) scope_.spawn(accept(std::move(call), std::move(request), response));
  }
  pb::ListAcceptedLossesResponse accepted_losses() const {
    pb::ListAcceptedLossesResponse response;
    for (const auto& [id, records] : coordinator_.state().accepted_losses) {
      for (const auto& record : records) *response.add_losses() = to_proto(record);
    }
    return response;
  }
  void hint_server(uint64_t server_id) { coordinator_.hint(server_id); }

  void watch(const std::shared_ptr<WatchStream>& stream) {
    std::erase_if(watchers_, [](const auto& watcher) { return watcher->finished(); });
    if (watchers_.size() >= options_.watchers) {
      stream->finish({grpc::StatusCode::RESOURCE_EXHAUSTED,
                      fmt::format("{} watchers are accepted at once", options_.watchers)});
      return;
    }
    stream->push_snapshot(snapshot());
    watchers_.push_back(stream);
  }

 private:
  bool may_wait(PendingCall& call) const {
    const Status may = coordinator_.may_wait();
    if (!may.ok()) call.finish(to_grpc(may));
    return may.ok();
  }
  Time deadline_of(const PendingCall& call) const {
    return coordinator_.reactor().now() + std::min(options_.longest_wait, call.time_left());
  }
  Task<void> create(std::shared_ptr<PendingCall> call, std::string name, uint32_t span,
                    pb::Table* response) {
    const Coordinator::WaitingCall counted(coordinator_);
    const auto waiting = waiting_.insert(waiting_.end(), {call, true});
    const auto table = co_await coordinator_.create_table(std::move(name), span == 0 ? 1 : span,
                                                          Side::kInside, deadline_of(*call));
    waiting_.erase(waiting);
    if (table) {
      call->finish(grpc::Status::OK, [&] { *response = to_proto(*table); });
    } else {
      call->finish(to_grpc(table.error()));
    }
  }
  Task<void> upgrade(std::shared_ptr<PendingCall> call, pb::UpgradeMetadataResponse* response) {
    const Coordinator::WaitingCall counted(coordinator_);
    const auto waiting = waiting_.insert(waiting_.end(), {call, true});
    const auto format = co_await coordinator_.upgrade_metadata(deadline_of(*call));
    waiting_.erase(waiting);
    if (format) {
      call->finish(grpc::Status::OK, [&] { response->set_format(*format); });
    } else {
      call->finish(to_grpc(format.error()));
    }
  }
  Task<void> drop(std::shared_ptr<PendingCall> call, std::string name) {
    const Coordinator::WaitingCall counted(coordinator_);
    const auto waiting = waiting_.insert(waiting_.end(), {call, false});
    const Status dropped = co_await coordinator_.drop_table(std::move(name), deadline_of(*call));
    waiting_.erase(waiting);
    call->finish(to_grpc(dropped));
  }

  Task<void> condemn(std::shared_ptr<PendingCall> call, pb::CondemnServerRequest request,
                     pb::CondemnServerResponse* response) {
    const Coordinator::WaitingCall counted(coordinator_);
    const auto waiting = waiting_.insert(waiting_.end(), {call, true});
    const auto done =
        co_await coordinator_.condemn(request.server_id(), request.force(), request.confirmed(),
                                      request.reason(), deadline_of(*call));
    waiting_.erase(waiting);
    if (!done) {
      call->finish(to_grpc(done.error()));
      co_return;
    }
    call->finish(grpc::Status::OK, [&] {
      response->set_condemned(done->condemned);
      response->set_answers(done->answers);
      response->set_effect(done->effect);
    });
  }

  Task<void> resize(std::shared_ptr<PendingCall> call, pb::SetServerMemoryRequest request,
                    pb::SetServerMemoryResponse* response) {
    const Coordinator::WaitingCall counted(coordinator_);
    const auto waiting = waiting_.insert(waiting_.end(), {call, true});
    const auto done = co_await coordinator_.resize_log(request.server_id(), request.log_bytes(),
                                                       deadline_of(*call));
    waiting_.erase(waiting);
    if (!done) {
      call->finish(to_grpc(done.error()));
      co_return;
    }
    call->finish(grpc::Status::OK, [&] { *response = to_proto(*done); });
  }

  Task<void> accept(std::shared_ptr<PendingCall> call, pb::AcceptLossRequest request,
                    pb::AcceptLossResponse* response) {
    const Coordinator::WaitingCall counted(coordinator_);
    // The token makes it safe to repeat this call.
    const auto waiting = waiting_.insert(waiting_.end(), {call, true});
    const auto done = co_await coordinator_.accept_loss(
        {request.server_id(), request.confirmed(), request.token(), request.by(), request.reason()},
        deadline_of(*call));
    waiting_.erase(waiting);
    if (!done) {
      call->finish(to_grpc(done.error()));
      co_return;
    }
    call->finish(grpc::Status::OK, [&] { *response = to_proto(*done); });
  }

  Task<void> release(std::shared_ptr<PendingCall> call, uint64_t server_id,
                     pb::GetVolumeReleaseResponse* response) {
    const Coordinator::WaitingCall counted(coordinator_);
    const auto waiting = waiting_.insert(waiting_.end(), {call, true});
    const auto release = co_await coordinator_.volume_release(server_id, deadline_of(*call));
    waiting_.erase(waiting);
    if (!release) {
      call->finish(to_grpc(release.error()));
      co_return;
    }
    call->finish(grpc::Status::OK, [&] {
      response->set_releasable(release->releasable);
      response->set_reason(release->reason);
      response->set_token(release->token);
      response->set_expires_at_ms(release->expires_at_ms);
    });
  }

  std::vector<WatchStream::Event> snapshot() const {
    std::vector<WatchStream::Event> events;
    const uint64_t revision = coordinator_.changes().revision();
    const auto add = [&](auto&& set) {
      auto event = std::make_shared<pb::WatchEvent>();
      event->set_revision(revision);
      set(*event);
      events.push_back(std::move(event));
    };
    const ClusterState& state = coordinator_.state();
    for (const auto& [id, server] : state.servers) {
      if (server.record.state == wire::ServerState::kRemoved) continue;
      add([&](pb::WatchEvent& e) {
        *e.mutable_server() = to_proto(server_view(coordinator_.state(), server));
      });
    }
    for (const auto& table : state.all_tables(Side::kInside).tables) {
      add([&](pb::WatchEvent& e) { *e.mutable_table() = to_proto(table); });
    }
    add([&](pb::WatchEvent& e) { *e.mutable_status() = status(); });
    add([](pb::WatchEvent& e) { e.set_snapshot_complete(true); });
    return events;
  }

  template <typename Set>
  void broadcast(uint64_t revision, Set&& set) {
    std::erase_if(watchers_, [](const auto& watcher) { return watcher->finished(); });
    if (watchers_.empty()) return;
    auto event = std::make_shared<pb::WatchEvent>();
    event->set_revision(revision);
    set(*event);
    for (const auto& watcher : watchers_) watcher->push(event);
  }
  void on_server_changed(uint64_t revision, uint64_t id) override {
    broadcast(revision, [&](pb::WatchEvent& e) {
      *e.mutable_server() =
          to_proto(server_view(coordinator_.state(), coordinator_.state().servers.at(id)));
    });
  }
  void on_table_changed(uint64_t revision, uint64_t id) override {
    const ClusterState& state = coordinator_.state();
    broadcast(revision, [&](pb::WatchEvent& e) {
      *e.mutable_table() = to_proto(state.table_info(state.tables.at(id), Side::kInside));
    });
  }
  void on_table_dropped(uint64_t revision, const std::string& name) override {
    broadcast(revision, [&](pb::WatchEvent& e) { e.set_table_dropped(name); });
  }
  void on_status_changed(uint64_t revision) override {
    broadcast(revision, [&](pb::WatchEvent& e) { *e.mutable_status() = status(); });
  }

  Coordinator& coordinator_;
  AdminService::Options options_;
  std::vector<std::shared_ptr<WatchStream>> watchers_;
  struct Waiting {
    std::shared_ptr<PendingCall> call;
    bool repeatable;
  };
  std::list<Waiting> waiting_;  // calls whose tasks run
  TaskScope scope_;
};

/// Gives posted calls LeaderCalls while this coordinator leads, or else a redirect to the leader. Only
/// on the reactor's thread.
class LeaderAccess final : public LeadershipListener {
 public:
  LeaderAccess(CoordinatorNode& node, AdminService::Options options)
      : node_(node), options_(options) {
    if (Coordinator* coordinator = node.leading()) on_leading(*coordinator);
    node.set_listener(this);
  }
  ~LeaderAccess() override { node_.set_listener(nullptr); }
  void on_leading(Coordinator& coordinator) override { calls_.emplace(coordinator, options_); }
  void on_leadership_lost(const Status& why) override {
    if (calls_) calls_->abandon(redirect_of(node_, why));
    calls_.reset();
  }
  /// Null if this coordinator does not lead; see redirect().
  LeaderCalls* calls() { return node_.leading() != nullptr && calls_ ? &*calls_ : nullptr; }
  Redirect redirect() const { return redirect_of(node_, node_.redirect(Side::kInside)); }

 private:
  CoordinatorNode& node_;
  AdminService::Options options_;
  std::optional<LeaderCalls> calls_;
};

}  // namespace

// ---- gRPC's side

namespace {

/// A connection is passed to gRPC when its peer has sent the HTTP/2 preface.
FilteringAcceptor::Verdict is_http2_preface(ByteView bytes) {
  constexpr ByteView kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const size_t common = std::min(bytes.size(), kPreface.size());
  if (bytes.substr(0, common) != kPreface.substr(0, common))
    return FilteringAcceptor::Verdict::kRefuse;
  return common == kPreface.size() ? FilteringAcceptor::Verdict::kAdmit
                                   : FilteringAcceptor::Verdict::kWait;
}

/// Limits the memory of one connection, and of all of them, inside gRPC.
void limit(grpc::ServerBuilder& builder, const AdminService::Options& options) {
  const auto ms = [](Duration d) { return static_cast<int>(d / 1ms); };
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, ms(options.hello_timeout));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 128);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
  // Keepalive detects a peer that has vanished. An idle connection is closed; its client connects
  // again.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, ms(60s));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ms(20s));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, ms(10min));
  builder.SetResourceQuota(grpc::ResourceQuota("admin").Resize(64 << 20));
}

}  // namespace

struct AdminService::Impl final : pb::Admin::CallbackService {
  Impl(CoordinatorNode& node, Options o, MetricsRegistry& metrics)
      : reactor(node.reactor()),
        options(o),
        leader(std::make_shared<LeaderAccess>(node, o)),
        filter(
            {.port = "admin",
             .max_connections = o.max_connections,
             .first_bytes_timeout = o.hello_timeout},
            is_http2_preface, [this](UniqueFd fd) { admit(std::move(fd)); }, metrics) {}

  void admit(UniqueFd fd) {
    // Drop a disconnected peer here: gRPC would print a line that bypasses our log.
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer), &length) != 0) return;
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd.release();
    acceptor->HandleNewConnection(&connection);
  }

  /// Runs `work(calls, call)` on the reactor; the call is refused while the service is stopping.
  template <typename Work>
  grpc::ServerUnaryReactor* on_reactor(grpc::CallbackServerContext* context, Work work) {
    auto* unary = context->DefaultReactor();
    auto call = std::make_shared<PendingCall>(context, unary);
    if (!remember(call)) {
      call->finish(kStopping);
      return unary;
    }
    reactor.post([weak = std::weak_ptr(leader), call = std::move(call), work = std::move(work)] {
      const auto here = weak.lock();
      if (here == nullptr) {
        call->finish(kStopping);
      } else if (LeaderCalls* calls = here->calls()) {
        work(*calls, call);
      } else {
        call->finish(here->redirect());
      }
    });
    return unary;
  }

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const pb::GetStatusRequest*,
                                      pb::ClusterStatus* response) override {
    return on_reactor(context,
                      [response](LeaderCalls& calls, const std::shared_ptr<PendingCall>& call) {
                        call->finish(grpc::Status::OK, [&] { *response = calls.status(); });
                      });
  }
  grpc::ServerUnaryReactor* ListServers(grpc::CallbackServerContext* context,
                                        const pb::ListServersRequest*,
                                        pb::ListServersResponse* response) override {
    return on_reactor(context,
                      [response](LeaderCalls& calls, const std::shared_ptr<PendingCall>& call) {
                        call->finish(grpc::Status::OK, [&] { *response = calls.servers(); });
                      });
  }
  grpc::ServerUnaryReactor* ListTables(grpc::CallbackServerContext* context,
                                       const pb::ListTablesRequest* request,
                                       pb::ListTablesResponse* response) override {
    return on_reactor(context, [name = request->name(), response](
                                   LeaderCalls& calls, const std::shared_ptr<PendingCall>& call) {
      auto tables = calls.tables(name);
      if (!tables) return call->finish(to_grpc(tables.error()));
      call->finish(grpc::Status::OK, [&] { response->Swap(&*tables); });
    });
  }
  grpc::ServerUnaryReactor* CreateTable(grpc::CallbackServerContext* context,
                                        const pb::CreateTableRequest* request,
                                        pb::Table* response) override {
    return on_reactor(context, [name = request->name(), span = request->span(), response](
                                   LeaderCalls& calls, const std::shared_ptr<PendingCall>& call) {
      calls.create_table(call, name, span, response);
    });
  }
  grpc::ServerUnaryReactor* DropTable(grpc::CallbackServerContext* context,
                                      const pb::DropTableRequest* request,
                                      pb::DropTableResponse*) override {
    return on_reactor(context, [name = request->name()](LeaderCalls& calls,
                                                        const std::shared_ptr<PendingCall>& call) {
      calls.drop_table(call, name);
    });
  }
  grpc::ServerUnaryReactor* CondemnServer(grpc::CallbackServerContext* context,
                                          const pb::CondemnServerRequest* request,
                                          pb::CondemnServerResponse* response) override {
    return on_reactor(context, [request = *request, response](
                                   LeaderCalls& calls, const std::shared_ptr<PendingCall>& call) {
      calls.condemn_server(call, request, response);
    });
  }
  grpc::ServerUnaryReactor* SetServerMemory(grpc::CallbackServerContext* context,
                                            const pb::SetServerMemoryRequest* request,
                                            pb::SetServerMemoryResponse* response) override {
    return on_reactor(context, [request = *request, response](
                                   LeaderCalls& calls, const std::shared_ptr<PendingCall>& call) {
      calls.set_memory(call, request, response);
    });
  }
  grpc::ServerUnaryReactor* GetVolumeRelease(grpc::CallbackServerContext* context,
                                             const pb::GetVolumeReleaseRequest* request,
                                             pb::GetVolumeReleaseResponse* response) override {
    return on_reactor(context, [id = request->server_id(), response](
                                   LeaderCalls& calls, const std::shared_ptr<PendingCall>& call) {
      calls.release_volume(call, id, response);
    });
  }
  grpc::ServerUnaryReactor* AcceptLoss(grpc::CallbackServerContext* context,
                                       const pb::AcceptLossRequest* request,
                                       pb::AcceptLossResponse* response) override {
    return on_reactor(context, [request = *request, response](
                                   LeaderCalls& calls, const std::shared_ptr<PendingCall>& call) {
      calls.accept_loss(call, request, response);
    });
  }
  grpc::ServerUnaryReactor* ListAcceptedLosses(grpc::CallbackServerContext* context,
                                               const pb::ListAcceptedLossesRequest*,
                                               pb::ListAcceptedLossesResponse* response) override {
    return on_reactor(
        context, [response](LeaderCalls& calls, const std::shared_ptr<PendingCall>& call) {
          call->finish(grpc::Status::OK, [&] { *response = calls.accepted_losses(); });
        });
  }
  grpc::ServerUnaryReactor* HintServer(grpc::CallbackServerContext* context,
                                       const pb::HintServerRequest* request,
                                       pb::HintServerResponse*) override {
    return on_reactor(context, [id = request->server_id()](
                                   LeaderCalls& calls, const std::shared_ptr<PendingCall>& call) {
      calls.hint_server(id);
      call->finish(grpc::Status::OK);
    });
  }
  grpc::ServerUnaryReactor* UpgradeMetadata(grpc::CallbackServerContext* context,
                                            const pb::UpgradeMetadataRequest*,
                                            pb::UpgradeMetadataResponse* response) override {
    return on_reactor(context,
                      [response](LeaderCalls& calls, const std::shared_ptr<PendingCall>& call) {
                        calls.upgrade_metadata(call, response);
                      });
  }
  grpc::ServerWriteReactor<pb::WatchEvent>* Watch(grpc::CallbackServerContext* context,
                                                  const pb::WatchRequest*) override {
    auto stream = std::make_shared<WatchStream>(context, options.watch_backlog);
    auto* writer = stream->attach();
    if (!remember(stream)) {
      stream->finish(kStopping);
      return writer;
    }
    reactor.post([weak = std::weak_ptr(leader), stream = std::move(stream)] {
      const auto here = weak.lock();
      if (here == nullptr) {
        stream->finish(kStopping);
      } else if (LeaderCalls* calls = here->calls()) {
        calls->watch(stream);
      } else {
        stream->finish(here->redirect());
      }
    });
    return writer;
  }

  /// Records a call or watch that stop() must end; false if stop() has begun.
  bool remember(std::weak_ptr<PendingCall> call) {
    const std::lock_guard guard(mutex);
    if (stopping) return false;
    forget_ended(calls);
    calls.push_back(std::move(call));
    return true;
  }
  bool remember(std::weak_ptr<WatchStream> stream) {
    const std::lock_guard guard(mutex);
    if (stopping) return false;
    forget_ended(streams);
    streams.push_back(std::move(stream));
    return true;
  }
  template <typename T>
  static void forget_ended(std::vector<std::weak_ptr<T>>& list) {
    // Cleans only when the list has doubled since the last cleaning (amortized cost).
    if (list.size() < list.capacity() || list.empty()) return;
    std::erase_if(list, [](const auto& weak) { return weak.expired(); });
  }

  void stop() {
    std::vector<std::weak_ptr<PendingCall>> ending_calls;
    std::vector<std::weak_ptr<WatchStream>> ending_streams;
    {
      const std::lock_guard guard(mutex);
      stopping = true;
      ending_calls.swap(calls);
      ending_streams.swap(streams);
    }
    for (const auto& weak : ending_calls) {
      if (const auto call = weak.lock()) call->finish(kStopping);
    }
    for (const auto& weak : ending_streams) {
      if (const auto stream = weak.lock()) stream->finish(kStopping);
    }
    leader.reset();
    filter.stop();
    if (server == nullptr) return;
    // A watcher that does not read keeps its stream open, so streams are cut after a short time.
    server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    server->Wait();
    server.reset();
  }

  Reactor& reactor;
  const Options options;
  std::shared_ptr<LeaderAccess> leader;  // reset on the reactor's thread only
  FilteringAcceptor filter;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
  std::mutex mutex;
  bool stopping = false;  // guarded by mutex, as are the lists
  std::vector<std::weak_ptr<PendingCall>> calls;
  std::vector<std::weak_ptr<WatchStream>> streams;
};

AdminService::AdminService(CoordinatorNode& node, Options options, MetricsRegistry& metrics)
    : impl_(std::make_unique<Impl>(node, options, metrics)) {}

AdminService::~AdminService() {
  stop();
}

Result<HostPort> AdminService::start(const HostPort& address) {
  grpc::ServerBuilder builder;
  using External = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  impl_->acceptor = builder.experimental().AddExternalConnectionAcceptor(
      External::FROM_FD, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(64 << 10);
  limit(builder, impl_->options);
  builder.RegisterService(impl_.get());
  impl_->server = builder.BuildAndStart();
  if (impl_->server == nullptr) {
    return fail(StatusCode::kInternal, "the admin API's gRPC server does not start");
  }
  auto listening = impl_->filter.start(address);
  if (!listening) {
    return fail(StatusCode::kIoError,
                fmt::format("the admin API cannot {}", listening.error().message()));
  }
  const HostPort bound{address.host, listening->port};
  log_info("admin.listening", {{"address", bound.to_string()}});
  return bound;
}

void AdminService::stop() {
  impl_->stop();
}

}  // namespace ramcloud
