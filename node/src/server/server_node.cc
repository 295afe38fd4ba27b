#include "server/server_node.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "backup/frame_store.h"
#include "backup/replica_service.h"
#include "base/logging.h"
#include "log/arena.h"
#include "log/log.h"
#include "master/recovery_orders.h"
#include "master/tablet_service.h"
#include "replication/replica_manager.h"
#include "replication/unneeded_service.h"
#include "rpc/term_gate.h"
#include "runtime/epoch.h"
#include "server/cleaning.h"
#include "server/control_service.h"
#include "server/coordinator_lease.h"
#include "server/enlistment.h"
#include "server/former_frames.h"
#include "server/frame_release.h"
#include "server/log_resize.h"
#include "server/master.h"
#include "server/peer_pings.h"
#include "server/planned_stop.h"
#include "server/server_reactor.h"
#include "server/server_statistics.h"
#include "store/object_store.h"
#include "transport/routed_replies.h"

namespace ramcloud::server {
namespace {

constexpr uint64_t kBucketBytes = 64;

}  // namespace

struct ServerNode::Impl {
  Reactor& reactor;
  RoutedReplies transport;
  Disk& disk;
  MetricsRegistry& metrics;
  ServerNodeOptions options;

  Epochs epochs;
  std::atomic<uint64_t> forwarded_bytes{0};
  std::vector<std::unique_ptr<ServerReactor>> reactors;
  ServerReactor& first;
  ServerList servers;
  TermGate term_gate;
  PeerPings peers;
  master::TabletService tablets;
  ServerStatistics statistics;
  Enlistment enlistment;
  ControlService control;
  // Set by open_volume():
  std::unique_ptr<FrameStore> frames;
  std::unique_ptr<log::Arena> arena;
  std::optional<store::HashTable::Memory> table_memory;  // moved into the master later
  // Set when the server has its id:
  std::unique_ptr<ReplicaService> backup;
  std::optional<FrameRelease> frame_release;
  std::optional<FormerFrames> former_frames;
  std::unique_ptr<Master> master;
  std::optional<UnneededService> unneeded;
  std::unique_ptr<Cleaning> cleaning;
  std::optional<LogResize> resize;
  std::unique_ptr<master::RecoveryOrders> recovery;
  std::optional<CoordinatorLease> lease;
  std::optional<PlannedStop> planned_stop;
  std::optional<TaskScope> stop_tasks;  // last member: tasks end before what they use

  Impl(Reactor& r, Transport& t, Disk& d, MetricsRegistry& m, ServerNodeOptions o,
       std::function<void(Status)> fatal, const std::vector<ReactorResources>& more)
      : reactor(r),
        transport(places(r, t, more)),
        disk(d),
        metrics(m),
        options(std::move(o)),
        reactors(make_reactors(more)),
        first(*reactors.front()),
        term_gate(first.registry(), first.rpc(), servers, options.coordinators, m),
        peers(first.rpc(), first.registry(), servers, options.coordinators, m, {}),
        tablets(first.registry(), r, first.plane().replies(), servers, epochs),
        statistics(r, m, servers, epochs, statistics_parts(), options.replicas),
        enlistment(first.rpc(), servers, options.coordinators,
                   [this, fatal = std::move(fatal)](Status why) {
                     if (master) master->lease().end();
                     fatal(std::move(why));
                   }),
        control(first.registry(), r, others(more), servers, enlistment, statistics, tablets) {}

  ~Impl() {
    for (const auto& one : reactors) one->plane().replies().drop_all();
  }

  // ---- put together -----------------------------------------------------------------------------

  static std::vector<RoutedReplies::Place> places(Reactor& r, Transport& t,
                                                  const std::vector<ReactorResources>& more) {
    std::vector<RoutedReplies::Place> all = {{&r, &t}};
    for (const auto& other : more) all.push_back({&other.reactor, &other.transport});
    return all;
  }
  static std::vector<Reactor*> others(const std::vector<ReactorResources>& more) {
    std::vector<Reactor*> all;
    for (const auto& other : more) all.push_back(&other.reactor);
    return all;
  }
  std::vector<std::unique_ptr<ServerReactor>> make_reactors(
      const std::vector<ReactorResources>& more) {
    std::vector<std::unique_ptr<ServerReactor>> all;
    all.push_back(std::make_unique<ServerReactor>(reactor, transport, metrics, epochs, 0));
    for (const auto& other : more) {
      all.push_back(std::make_unique<ServerReactor>(other.reactor, other.transport, other.metrics,
                                                    epochs, all.size()));
      all.back()->forward_to(*all.front(), forwarded_bytes);
    }
    return all;
  }
  std::vector<ServerStatistics::Part> statistics_parts() const {
    std::vector<ServerStatistics::Part> all;
    for (const auto& one : reactors) all.push_back({&one->reactor(), &one->plane().data()});
    return all;
  }

  // ---- start ------------------------------------------------------------------------------------

  Status open_volume() {
    if (Status made = disk.device_bytes(options.backup_dir) > 0
                          ? Status()
                          : disk.make_directories(options.backup_dir);
        !made.ok()) {
      return {made.code(), "--dir: " + made.message()};
    }
    if (options.read_bytes_per_second == 0) {
      options.read_bytes_per_second = disk.measure_read_speed(options.backup_dir);
      log_info(
          "backup.device_measured",
          {{"dir", options.backup_dir}, {"read_bytes_per_second", options.read_bytes_per_second}});
    }
    auto opened = FrameStore::open(disk, options.backup_dir, options.backup_bytes);
    if (!opened) return std::move(opened.error());
    frames = std::move(*opened);
    metrics.gauge("ramcloud_backup_io",
                  "1: what waits for the backup's device, and whether bytes that are acknowledged "
                  "are written past the operating system's cache.",
                  [] { return 1.0; },
                  {{"engine", disk.engine()}, {"writes", writes_direct() ? "direct" : "cached"}});
    arena = std::make_unique<log::Arena>(
        options.log_bytes, log::Arena::Options{.prefault = options.prefault,
                                               .try_lock = options.prefault,
                                               .reserved_page_bytes = options.huge_page_bytes,
                                               .most_bytes = options.log_bytes_most});
    table_memory.emplace(options.hash_table_bytes / kBucketBytes);
    return {};
  }

  bool writes_direct() const { return options.synced && UnsyncedTails::possible(*frames); }

  wire::EnlistRequest enlist_request() {
    return {.cluster_uuid = frames->cluster_uuid(),
            .former_server_id = frames->former_server_id(),
            .name = options.name,
            .version = options.version,
            .locator = options.locator.to_string(),
            .locator_outside = options.locator_outside,
            .http_address = options.http_address,
            .failure_domain = options.failure_domain,
            .log_bytes = options.log_bytes,
            .backup_bytes = options.backup_bytes,
            .disk_read_bytes_per_second = options.read_bytes_per_second,
            .replicas = options.replicas,
            .nonce = reactor.random().next(),
            .read_lease_ms = static_cast<uint32_t>(options.read_lease / 1ms)};
  }

  void enlist() {
    wire::EnlistRequest request = enlist_request();
    // Set before the first hello, so that coordinators of another cluster are recognised.
    if (request.cluster_uuid != wire::Uuid{}) first.rpc().set_cluster_uuid(request.cluster_uuid);
    enlistment.start(std::move(request),
                     [this](const wire::EnlistReply& reply) { return serve(reply); });
  }

  /// The coordinator knows us: from here on this is server `reply.server_id`.
  Status serve(const wire::EnlistReply& reply) {
    RC_RETURN_IF_ERROR(
        frames->adopt(reply.cluster_uuid, reply.server_id, reply.list.term, reply.list.version));
    transport.set_identity({reply.cluster_uuid, reply.server_id});
    for (const auto& one : reactors) one->rpc().set_cluster_uuid(reply.cluster_uuid);
    backup = std::make_unique<ReplicaService>(
        reactor, first.registry(), *frames, servers,
        ReplicaService::Options{.flush_interval = options.flush_interval,
                                .synced = options.synced,
                                .writes = &first.replica_writes(),
                                .log_bytes = options.log_bytes});
    frame_release.emplace(first.rpc(), servers, options.coordinators, *backup);
    former_frames.emplace(first.rpc(), servers, reply.server_id, *backup);
    master = std::make_unique<Master>(first.rpc(), servers, epochs, *arena,
                                      std::move(*table_memory), lanes(), master_options(reply));
    table_memory.reset();
    if (master->replicas() != nullptr) {
      unneeded.emplace(first.registry(), servers, *master->replicas());
    }
    if (options.cleaning.on()) {
      cleaning = std::make_unique<Cleaning>(reactor, epochs, *master, metrics, cleaning_options());
      cleaning->start();
    }
    first.serve(*master);
    first.make_first(*master, cleaning.get(), enlistment, peers);
    lease.emplace(
        reactor, master->lease(), options.read_lease,
        [this](Time deadline) { return enlistment.grant_lease(deadline); },
        [this](Status why) { enlistment.leave(std::move(why)); });
    for (size_t i = 1; i < reactors.size(); ++i) serve_on(*reactors[i]);
    tablets.attach(master->store());
    recovery = std::make_unique<master::RecoveryOrders>(first.registry(), first.rpc(), servers,
                                                        epochs, tablets, metrics, master->store(),
                                                        options.recovery);
    std::vector<ServerReactor*> all;
    for (const auto& one : reactors) all.push_back(one.get());
    planned_stop.emplace(*master, enlistment, std::move(all), PlannedStop::Limits{});
    stop_tasks.emplace(reactor);
    peers.start(reply.server_id);
    statistics.attach(*master, *frames, *backup, cleaning.get());
    resize.emplace(reactor, *master, *frames, options.replicas);
    control.attach(*master, *frames, *resize);
    log_info("server.enlisted", {{"server_id", reply.server_id},
                                 {"cluster", format_uuid(reply.cluster_uuid)},
                                 {"locator", options.locator.to_string()},
                                 {"quarantined_frames", frames->frames_quarantined()}});
    return {};
  }

  Task<void> announce_stop(std::function<void(Status)> done) { done(co_await planned_stop->run()); }

  /// Runs in a turn of that reactor.
  void serve_on(ServerReactor& other) {
    BackupLane& lane = backup->add_lane(other.reactor(), other.transport(), other.replica_writes());
    other.reactor().post([&other, &lane, to = master.get()] {
      other.serve_replicas(lane);
      other.serve(*to);
    });
  }

  /// Empty with one reactor: the replica manager sends everything.
  std::vector<Master::LaneOf> lanes() const {
    std::vector<Master::LaneOf> all;
    if (reactors.size() == 1) return all;
    for (const auto& one : reactors) all.push_back({&one->rpc(), &one->replica_messages()});
    return all;
  }

  Cleaning::Options cleaning_options() const {
    Cleaning::Options all;
    all.threads = options.cleaning.threads;
    all.cleaner.policy = options.cleaning.policy;
    limit_disk(all.cleaner.balancer);
    all.cleaner.balancer.compaction = options.cleaning.levels == CleaningLevels::kTwo;
    return all;
  }

  /// All servers' logs share all disks. This log uses at most the space that its own disk has for
  /// one log with R replicas. Some space is kept for segments whose frames are not free yet.
  void limit_disk(log::BalancerOptions& balancer) const {
    constexpr double kUsed = 0.9, kNoDisk = 1e6;
    if (options.replicas == 0) {
      balancer.disk_expansion = kNoDisk;
      return;
    }
    const double bytes = kUsed * static_cast<double>(options.backup_bytes) / options.replicas;
    balancer.disk_segments = static_cast<uint64_t>(bytes / log::kSegmentBytes);
  }

  Master::Options master_options(const wire::EnlistReply& reply) {
    Master::Options all;
    all.log.cluster_uuid = reply.cluster_uuid;
    all.log.master_id = reply.server_id;
    if (options.cleaning.on()) {
      all.log.cleaner_segments = log::Log::segments_for_survivors(arena->total_segments());
    }
    all.replication.failure_domain = options.failure_domain;
    all.replication.replicas = options.replicas;
    all.replication.min_replicas = options.min_replicas;
    all.replication.read_lease = options.read_lease;
    all.replication.backup_silence = options.backup_silence;
    all.replication.restart_grace = options.restart_grace;
    all.replication.messages = &first.replica_messages();
    const auto recreated = [this](const char* how) {
      return &metrics.counter("ramcloud_replicas_recreated_total",
                              "Replicas of closed segments in place of lost ones: copied, or "
                              "adopted from what a backup still had.",
                              {{"how", how}});
    };
    all.replication.copied = recreated("copied");
    all.replication.adopted = recreated("adopted");
    // Wakes requests that wait for the log. Called on the thread that caused the progress.
    if (reactors.size() > 1 || options.cleaning.on()) {
      all.on_progress = [this] {
        for (const auto& one : reactors) one->on_log_progress();
        if (cleaning) cleaning->on_log_progress();
      };
    }
    return all;
  }
};

ServerNode::ServerNode(Reactor& reactor, Transport& transport, Disk& disk, MetricsRegistry& metrics,
                       ServerNodeOptions options, std::function<void(Status)> on_fatal,
                       const std::vector<ReactorResources>& more)
    : impl_(std::make_unique<Impl>(reactor, transport, disk, metrics, std::move(options),
                                   std::move(on_fatal), more)) {}

ServerNode::~ServerNode() = default;

Status ServerNode::start() {
  RC_RETURN_IF_ERROR(impl_->open_volume());
  impl_->enlist();
  return {};
}

void ServerNode::announce_stop(std::function<void(Status)> done) {
  if (!impl_->master || !impl_->enlistment.enlisted()) {
    const Status why(StatusCode::kUnsupported, "it is not enlisted");
    impl_->reactor.defer([done = std::move(done), why] { done(why); });
    return;
  }
  impl_->stop_tasks->spawn(impl_->announce_stop(std::move(done)));
}

void ServerNode::shut_down(std::function<void(Status)> done) {
  if (!impl_->backup) {
    impl_->reactor.defer([done = std::move(done)] { done({}); });
    return;
  }
  impl_->backup->shut_down(std::move(done));
}

ServiceRegistry& ServerNode::registry(size_t reactor) {
  return impl_->reactors.at(reactor)->registry();
}
bool ServerNode::ready() const {
  return impl_->enlistment.enlisted();
}
std::string ServerNode::why_not_ready() const {
  return impl_->enlistment.why_not_ready();
}
uint64_t ServerNode::server_id() const {
  return impl_->enlistment.server_id();
}
wire::ServerStats ServerNode::stats() const {
  return impl_->statistics.published();
}

ServerNode::Parts ServerNode::parts() const {
  const bool serves = impl_->master != nullptr;
  return {impl_->servers,
          impl_->frames.get(),
          impl_->backup.get(),
          serves ? &impl_->master->store() : nullptr,
          serves ? impl_->master->replicas() : nullptr,
          impl_->resize ? &*impl_->resize : nullptr};
}

std::string ServerNode::check_invariants() const {
  if (!impl_->master) return {};
  return impl_->master->check_invariants();
}

}  // namespace ramcloud::server
