#include "server/server_node.h"

#include <fmt/core.h>

#include <deque>
#include <span>
#include <string>

#include "backup/frame_store.h"
#include "backup/replica_service.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "log/arena.h"
#include "log/log.h"
#include "master/data_plane.h"
#include "master/tablet_service.h"
#include "replication/replica_manager.h"
#include "rpc/term_gate.h"
#include "runtime/epoch.h"
#include "server/control_service.h"
#include "server/enlistment.h"
#include "server/forwarder.h"
#include "server/master.h"
#include "server/peer_pings.h"
#include "server/server_statistics.h"
#include "store/object_store.h"
#include "transport/routed_replies.h"

namespace ramcloud::server {
namespace {

constexpr uint64_t kBucketBytes = 64;

}  // namespace

/// One of the server's reactors, as the first one sees it.
struct Member {
  Reactor& reactor;
  Epochs::Participant participant;
  RpcClient rpc;
  Counter& replica_messages;
  Counter& replica_writes;
  master::DataPlane plane;

  Member(Reactor& r, Transport& transport, MetricsRegistry& metrics, Epochs& epochs, size_t index)
      : reactor(r),
        participant(epochs),
        rpc(r, transport),
        replica_messages(metrics.counter("ramcloud_replication_messages_total",
                                         "Messages to backups that open or write replicas, by the "
                                         "reactor that sent them.",
                                         {{"reactor", std::to_string(index)}})),
        replica_writes(metrics.counter("ramcloud_backup_writes_total",
                                       "Writes to replicas, by the reactor that served them.",
                                       {{"reactor", std::to_string(index)}})),
        plane(r, transport, metrics) {
    reactor.set_epochs(&participant);
  }
  ~Member() { reactor.set_epochs(nullptr); }
};

struct ServerNode::Impl final : TurnHook {
  Reactor& reactor;
  RoutedReplies transport;
  Disk& disk;
  MetricsRegistry& metrics;
  ServerNodeOptions options;

  Epochs epochs;
  std::atomic<uint64_t> forwarded_bytes{0};
  std::deque<Forwarder> forwarders;              // of all members but the first
  std::vector<std::unique_ptr<Member>> members;  // one a reactor, the first one's first
  RpcClient& rpc;                                // the first one's
  ServiceRegistry& registry;
  ServerList servers;
  TermGate term_gate;
  PeerPings peers;
  master::TabletService tablets;
  std::unique_ptr<FrameStore> frames;
  std::unique_ptr<ReplicaService> backup;
  std::unique_ptr<log::Arena> arena;
  std::optional<store::HashTable::Memory> table_memory;  // until the master takes it
  std::unique_ptr<Master> master;

  ServerStatistics statistics;
  Enlistment enlistment;  // its flows end before what they use
  ControlService control;

  Impl(Reactor& r, Transport& t, Disk& d, MetricsRegistry& m, ServerNodeOptions o,
       std::function<void(Status)> fatal, const std::vector<ServerReactor>& more)
      : reactor(r),
        transport(places(r, t, more)),
        disk(d),
        metrics(m),
        options(std::move(o)),
        members(make_members(r, m, more)),
        rpc(members.front()->rpc),
        registry(members.front()->plane.registry()),
        term_gate(registry, rpc, servers, options.coordinators, m),
        peers(rpc, registry, servers, options.coordinators, m, {}),
        tablets(registry, r, members.front()->plane.replies(), servers, epochs),
        statistics(r, m, servers, epochs, statistics_parts(), options.replicas),
        enlistment(rpc, servers, options.coordinators, std::move(fatal)),
        control(registry, r, others(more), servers, enlistment, statistics, tablets) {}
  ~Impl() override { reactor.remove_hook(this); }

  // ---- several reactors -------------------------------------------------------------------------

  static std::vector<RoutedReplies::Place> places(Reactor& r, Transport& t,
                                                  const std::vector<ServerReactor>& more) {
    std::vector<RoutedReplies::Place> all = {{&r, &t}};
    for (const auto& other : more) all.push_back({&other.reactor, &other.transport});
    return all;
  }
  static std::vector<Reactor*> others(const std::vector<ServerReactor>& more) {
    std::vector<Reactor*> all;
    for (const auto& other : more) all.push_back(&other.reactor);
    return all;
  }
  std::vector<std::unique_ptr<Member>> make_members(Reactor& r, MetricsRegistry& m,
                                                    const std::vector<ServerReactor>& more) {
    std::vector<std::unique_ptr<Member>> all;
    all.push_back(std::make_unique<Member>(r, transport, m, epochs, 0));
    for (const auto& other : more) {
      all.push_back(std::make_unique<Member>(other.reactor, other.transport, other.metrics, epochs,
                                             all.size()));
      const auto index = static_cast<uint8_t>(forwarders.size() + 1);
      forwarders.emplace_back(r, all.front()->plane.registry(), index, other.transport,
                              forwarded_bytes);
    }
    for (size_t i = 0; i < forwarders.size(); ++i) {
      all[i + 1]->plane.registry().add_rest(&Forwarder::forward, &forwarders[i]);
    }
    return all;
  }

  /// What waits for the log looks again. From whichever thread moved it.
  void on_log_progress() {
    for (const auto& member : members) member->plane.on_log_progress();
  }

  /// Every reactor serves the writes to replicas that come to it, in a turn of its own.
  void add_backup_lanes() {
    for (size_t i = 1; i < members.size(); ++i) {
      Member& member = *members[i];
      auto& registry_there = member.plane.registry();
      BackupLane& lane =
          backup->add_lane(member.reactor, registry_there.transport(), member.replica_writes);
      member.reactor.post([&lane, &registry_there, forwarder = &forwarders[i - 1]] {
        lane.serve(registry_there, &Forwarder::forward, forwarder);
      });
    }
  }

  /// The store is there: every reactor serves it, in a turn of its own.
  void attach_all() {
    members.front()->plane.attach(master->store(), replication_of(0));
    for (size_t i = 1; i < members.size(); ++i) {
      members[i]->reactor.post(
          [member = members[i].get(), store = &master->store(), replication = replication_of(i)] {
            member->plane.attach(*store, replication);
          });
    }
  }
  std::optional<master::DataPlane::Replication> replication_of(size_t i) const {
    if (master->lane(i) == nullptr) return std::nullopt;
    return master::DataPlane::Replication{master->replicas(), master->lane(i)};
  }
  /// With one reactor the replica manager needs no help.
  std::vector<Master::LaneOf> lanes() const {
    std::vector<Master::LaneOf> all;
    if (members.size() == 1) return all;
    for (const auto& member : members) all.push_back({&member->rpc, &member->replica_messages});
    return all;
  }

  std::vector<ServerStatistics::Part> statistics_parts() const {
    std::vector<ServerStatistics::Part> all;
    for (const auto& member : members) all.push_back({&member->reactor, &member->plane.data()});
    return all;
  }

  /// What replication found out in its turn.
  void heed(ReplicaManager& replicas) {
    if (replicas.condemned()) enlistment.leave(*replicas.condemned());
    for (const uint64_t backup_id : replicas.take_broken()) peers.connection_failed(backup_id);
  }

  bool on_turn() override {
    if (!master) return false;
    if (master->replicas() != nullptr) heed(*master->replicas());
    return master->sweep();
  }

  // ---- start ------------------------------------------------------------------------------------

  Status open_volume() {
    if (Status made = disk.device_bytes(options.backup_dir) > 0
                          ? Status()
                          : disk.make_directories(options.backup_dir);
        !made.ok()) {
      return made;
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
                                               .reserved_page_bytes = options.huge_page_bytes});
    table_memory.emplace(options.hash_table_bytes / kBucketBytes);
    return {};
  }

  bool writes_direct() const { return options.synced && SyncedTails::possible(*frames); }

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
            .nonce = reactor.random().next()};
  }

  void enlist() {
    wire::EnlistRequest request = enlist_request();
    // From the first hello on: coordinators of another cluster are told apart from ours.
    if (request.cluster_uuid != wire::Uuid{}) rpc.set_cluster_uuid(request.cluster_uuid);
    enlistment.start(std::move(request),
                     [this](const wire::EnlistReply& reply) { return serve(reply); });
  }

  /// The coordinator knows us: from here on this is server `reply.server_id`.
  Status serve(const wire::EnlistReply& reply) {
    RC_RETURN_IF_ERROR(
        frames->adopt(reply.cluster_uuid, reply.server_id, reply.list.term, reply.list.version));
    transport.set_identity({reply.cluster_uuid, reply.server_id});
    for (const auto& member : members) member->rpc.set_cluster_uuid(reply.cluster_uuid);
    backup = std::make_unique<ReplicaService>(
        reactor, registry, *frames, servers,
        ReplicaService::Options{.flush_interval = options.flush_interval,
                                .synced = options.synced,
                                .writes = &members.front()->replica_writes});
    add_backup_lanes();
    master = std::make_unique<Master>(rpc, servers, *arena, std::move(*table_memory), lanes(),
                                      master_options(reply));
    table_memory.reset();
    attach_all();
    reactor.add_hook(this);  // behind that of the replica manager, which moves the durable position
    tablets.attach(master->store());
    peers.start(reply.server_id);
    statistics.attach(*master, *frames, *backup);
    control.attach(*master, *frames);
    log_info("server.enlisted", {{"server_id", reply.server_id},
                                 {"cluster", format_uuid(reply.cluster_uuid)},
                                 {"locator", options.locator.to_string()},
                                 {"quarantined_frames", frames->frames_quarantined()}});
    return {};
  }

  Master::Options master_options(const wire::EnlistReply& reply) {
    Master::Options all;
    all.log.cluster_uuid = reply.cluster_uuid;
    all.log.master_id = reply.server_id;
    all.replication.failure_domain = options.failure_domain;
    all.replication.replicas = options.replicas;
    all.replication.min_replicas = options.min_replicas;
    all.replication.raise_epoch = [this](uint64_t segment, uint32_t epoch) {
      return enlistment.raise_epoch(segment, epoch);
    };
    all.replication.messages = &members.front()->replica_messages;
    if (members.size() > 1) all.on_progress = [this] { on_log_progress(); };
    return all;
  }
};

ServerNode::ServerNode(Reactor& reactor, Transport& transport, Disk& disk, MetricsRegistry& metrics,
                       ServerNodeOptions options, std::function<void(Status)> on_fatal,
                       const std::vector<ServerReactor>& more)
    : impl_(std::make_unique<Impl>(reactor, transport, disk, metrics, std::move(options),
                                   std::move(on_fatal), more)) {}

ServerNode::~ServerNode() = default;

Status ServerNode::start() {
  RC_RETURN_IF_ERROR(impl_->open_volume());
  impl_->enlist();
  return {};
}

void ServerNode::shut_down(std::function<void(Status)> done) {
  if (!impl_->backup) {
    impl_->reactor.defer([done = std::move(done)] { done({}); });
    return;
  }
  impl_->backup->shut_down(std::move(done));
}

ServiceRegistry& ServerNode::registry(size_t reactor) {
  return impl_->members.at(reactor)->plane.registry();
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
  return {impl_->servers, impl_->frames.get(), impl_->backup.get(),
          serves ? &impl_->master->store() : nullptr, serves ? impl_->master->replicas() : nullptr};
}

std::string ServerNode::check_invariants() const {
  if (!impl_->master) return {};
  return impl_->master->check_invariants();
}

}  // namespace ramcloud::server
