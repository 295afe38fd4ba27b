// A master's log with its replica manager, several backups, and a fake coordinator for the fence,
// on the simulated network and disks.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backup/replica_reader.h"
#include "backup/replica_service.h"
#include "log/arena.h"
#include "log/log.h"
#include "log/log_test_support.h"
#include "replication/replica_manager.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_transport.h"

namespace ramcloud::testing {

inline constexpr wire::Uuid kCluster{1, 2, 3, 4};
inline constexpr uint64_t kMaster = 100;

/// A further reactor of the master that drives replication, as a simulated node of its own.
struct LaneRole final : TurnHook {
  LaneRole(SimNetwork& network, SimNode& of)
      : node(of), transport(network.make_transport(of)), rpc(of.reactor(), *transport) {
    transport->set_identity({kCluster, kMaster});
    rpc.set_cluster_uuid(kCluster);
    node.reactor().add_hook(this);
  }
  ~LaneRole() override { node.reactor().remove_hook(this); }
  bool on_turn() override { return manager->drive(*lane, std::exchange(appended, false)); }

  SimNode& node;
  std::unique_ptr<SimTransport> transport;
  RpcClient rpc;
  Counter messages;
  ReplicaManager* manager = nullptr;
  ReplicaLane* lane = nullptr;
  bool appended = false;
};

struct BackupRole {
  std::unique_ptr<SimTransport> transport;
  std::unique_ptr<FrameStore> frames;
  ServerList servers;
  std::unique_ptr<ServiceRegistry> registry;
  std::unique_ptr<ReplicaService> service;
};

class ReplicationRig : private TurnHook {
 public:
  explicit ReplicationRig(uint64_t seed) : scheduler_(seed) {}
  ~ReplicationRig() override {
    if (manager_) {
      asking_.reset();
      master_->reactor().remove_hook(this);
      manager_->detach();
    }
    log_.reset();
    manager_.reset();
    lanes_.clear();
    rpc_.reset();
    transport_.reset();
    backups_.clear();
  }

  void start(uint32_t backups, uint32_t replicas, uint64_t backup_bytes = 64 << 20) {
    for (uint32_t i = 0; i < backups; ++i) {
      SimNode& node = scheduler_.add_node("b" + std::to_string(i + 1));
      nodes_.push_back(&node);
      wire::ServerListEntry entry;
      entry.server_id = i + 1;
      entry.locator = "sim:host=" + node.name() + ",port=1";
      entry.failure_domain = domains_[entry.server_id];
      list_.servers.push_back(entry);
    }
    wire::ServerListEntry self;
    self.server_id = master_id_;
    self.locator = "sim:host=m,port=1";
    list_.servers.push_back(self);
    list_.term = list_.version = 1;
    for (uint32_t i = 0; i < backups; ++i) start_backup(i, backup_bytes);

    master_ = &scheduler_.add_node("m");
    transport_ = network_.make_transport(*master_);
    transport_->set_identity({kCluster, master_id_});
    rpc_ = std::make_unique<RpcClient>(master_->reactor(), *transport_);
    rpc_->set_cluster_uuid(kCluster);
    ASSERT_TRUE(servers_.apply(list_).ok());
    ReplicaManager::Options options;
    options.master_id = master_id_;
    options.failure_domain = domains_[master_id_];
    options.replicas = replicas;
    options.lease = &lease_;
    options.backup_silence = backup_silence_;
    options.min_replicas = min_replicas_;
    options.restart_grace = restart_grace_;
    manager_ = std::make_unique<ReplicaManager>(*rpc_, servers_, options);
    for (uint32_t i = 0; reactors_ > 1 && i < reactors_; ++i) {
      SimNode& node = i == 0 ? *master_ : scheduler_.add_node("m-" + std::to_string(i));
      lanes_.push_back(std::make_unique<LaneRole>(network_, node));
      lanes_[i]->manager = manager_.get();
      lanes_[i]->lane = &manager_->add_lane(lanes_[i]->rpc, lanes_[i]->messages);
    }
    arena_ = std::make_unique<log::Arena>(
        log_bytes_, log::Arena::Options{.try_huge_pages = false, .prefault = false});
    log::LogOptions log_options;
    log_options.cluster_uuid = kCluster;
    log_options.master_id = master_id_;
    log_options.safe_version = [this] { return version_ + 1; };
    log_options.owned_tablets = owned_tablets_;
    log_ = std::make_unique<log::Log>(*arena_, *manager_, log_options);
    manager_->attach(*log_);
    asking_.emplace(master_->reactor());
    master_->reactor().add_hook(this);
    log_->start();
  }

  void start_backup(uint32_t i, uint64_t bytes) {
    auto role = std::make_unique<BackupRole>();
    SimNode& node = *nodes_[i];
    node.disk().attach(node.reactor());
    node.disk().set_direct(direct_);
    auto frames = FrameStore::open(node.disk(), "/data", bytes);
    ASSERT_TRUE(frames.has_value()) << frames.error().to_string();
    role->frames = std::move(*frames);
    ASSERT_TRUE(role->frames->adopt(kCluster, i + 1, 1, 1).ok());
    ASSERT_TRUE(role->servers.apply(list_).ok());
    role->transport = network_.make_transport(node);
    role->transport->set_identity({kCluster, i + 1});
    role->registry = std::make_unique<ServiceRegistry>(*role->transport);
    role->service = std::make_unique<ReplicaService>(node.reactor(), *role->registry, *role->frames,
                                                     role->servers, service_options_);
    ASSERT_TRUE(
        role->transport->listen({node.name(), 1}, Side::kInside, *role->registry).has_value());
    if (backups_.size() <= i) backups_.resize(i + 1);
    backups_[i] = std::move(role);
  }

  /// Kills a backup and marks it as crashed in the server list.
  void crash_backup(uint32_t i) {
    kill_backup(i);
    tell_backups();
    tell_master();
  }

  /// The end of the master's turn: tells the fake coordinator of a raised epoch.
  bool on_turn() override {
    const auto raised = manager_->take_fence_to_raise();
    if (raised) asking_->spawn(raise_fence(*raised));
    return raised.has_value();
  }
  /// The fake coordinator: it answers after some time, the change becomes durable in between, and
  /// values only rise.
  Task<void> raise_fence(log::ReplicationFence raised) {
    co_await master_->reactor().sleep(coordinator_delay_ / 2);
    if (given_up_) co_return manager_->fence_answered({raised.epoch, StatusCode::kCrashed});
    EXPECT_GE(raised.lowest_open_segment, fence_.lowest_open_segment);
    EXPECT_GE(raised.epoch, fence_.epoch);
    fence_ = raised;
    co_await master_->reactor().sleep(coordinator_delay_ / 2);
    manager_->fence_answered({raised.epoch, {}});
  }

  /// Kills a backup's process; the server list does not change yet.
  void kill_backup(uint32_t i) {
    scheduler_.kill(*nodes_[i]);
    backups_[i].reset();
    list_.servers[i].state = wire::ServerState::kCrashed;
    ++list_.version;
  }
  void tell_backups() {
    for (auto& role : backups_) {
      if (role) ASSERT_TRUE(role->servers.apply(list_).ok());
    }
  }
  void tell_master() { ASSERT_TRUE(servers_.apply(list_).ok()); }
  /// Adds a server with an empty volume to the server list.
  void add_backup(uint64_t bytes) {
    const auto i = static_cast<uint32_t>(nodes_.size());
    SimNode& node = scheduler_.add_node("b" + std::to_string(i + 1));
    nodes_.push_back(&node);
    wire::ServerListEntry entry;
    entry.server_id = i + 1;
    entry.locator = "sim:host=" + node.name() + ",port=1";
    list_.servers.insert(list_.servers.end() - 1, entry);
    ++list_.version;
    start_backup(i, bytes);
    tell_backups();
    tell_master();
  }

  StatusCode put(const std::string& key, const std::string& value) {
    const log::TestObject object(1, ++version_, key, value);
    log::Appended appended;
    const char* refs[1];
    const StatusCode code = log_->append({&object.source, 1}, false, appended, refs);
    if (code != StatusCode::kOk) return code;
    model_[key] = value;
    if (!lanes_.empty()) {
      // The end of a turn of the reactor that appended: reactors alternate, unless the test chose
      // one.
      LaneRole& by = *lanes_[appends_ ? *appends_ : version_ % lanes_.size()];
      by.appended = true;
      by.node.reactor().nudge();
    }
    return code;
  }

  /// Cuts the network between all reactors of the master and this backup.
  void cut_off(const SimNode& backup) {
    network_.partition(*master_, backup);
    for (const auto& lane : lanes_) network_.partition(lane->node, backup);
  }

  /// Waits until the log takes the object.
  void must_put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(scheduler_.run_until([&] { return put(key, value) == StatusCode::kOk; }, 60s));
  }
  bool all_durable(Duration limit = 60s) {
    return scheduler_.run_until([&] { return log_->durable() >= log_->head(); }, limit);
  }

  /// The frames file of a backup. Ends its process first.
  std::string image_of(uint32_t i) {
    scheduler_.kill(*nodes_[i]);
    backups_[i].reset();
    nodes_[i]->disk().crash();
    auto file = nodes_[i]->disk().open("/data/frames", 0);
    EXPECT_TRUE(file.has_value());
    std::string image((*file)->size(), '\0');
    EXPECT_TRUE((*file)->read(0, image.data(), image.size()).ok());
    return image;
  }

  SimScheduler scheduler_;
  SimNetwork network_{scheduler_};
  wire::ServerList list_;
  std::vector<SimNode*> nodes_;
  std::vector<std::unique_ptr<BackupRole>> backups_;
  SimNode* master_ = nullptr;
  std::unique_ptr<SimTransport> transport_;
  std::unique_ptr<RpcClient> rpc_;
  ServerList servers_;
  std::unique_ptr<log::Arena> arena_;
  LeaseTerm lease_{true};
  std::unique_ptr<ReplicaManager> manager_;
  std::unique_ptr<log::Log> log_;
  uint64_t master_id_ = kMaster;                  // before start()
  uint64_t log_bytes_ = 48 << 20;                 // before start()
  uint32_t reactors_ = 1;                         // of the master, before start()
  std::vector<std::unique_ptr<LaneRole>> lanes_;  // none with one reactor
  std::optional<size_t> appends_;                 // the reactor that appends; none: all in rotation
  uint64_t version_ = 0;
  std::function<void(log::OwnedTabletsEncoder&)> owned_tablets_;  // before start(); null: no lists
  std::map<uint64_t, std::string> domains_;   // by server, before start(); empty: one of its own
  std::map<std::string, std::string> model_;  // everything that was appended
  log::ReplicationFence fence_;               // the coordinator's fence
  std::optional<TaskScope> asking_;           // the fake coordinator
  Duration coordinator_delay_ = 2ms;
  // Of the master, before start().
  uint32_t min_replicas_ = 0;
  Duration backup_silence_{};
  Duration restart_grace_{};
  bool given_up_ = false;  // by the coordinator: the master is CRASHED there
  ReplicaService::Options service_options_;
  bool direct_ = true;  // whether synced bytes are written past the page cache
};

}  // namespace ramcloud::testing
