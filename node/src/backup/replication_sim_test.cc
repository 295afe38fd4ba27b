// A master's log with its replica manager, and several backups, on the simulated network and disks.
#include <gtest/gtest.h>

#include <map>

#include "backup/replica_reader.h"
#include "backup/replica_service.h"
#include "log/arena.h"
#include "log/log.h"
#include "replication/replica_manager.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_transport.h"

namespace ramcloud {
namespace {

constexpr wire::Uuid kCluster{1, 2, 3, 4};
constexpr uint64_t kMaster = 100;

struct BackupRole {
  std::unique_ptr<SimTransport> transport;
  std::unique_ptr<FrameStore> frames;
  ServerList servers;
  std::unique_ptr<ServiceRegistry> registry;
  std::unique_ptr<ReplicaService> service;
};

class ReplicationSim : public ::testing::Test {
 protected:
  void start(uint32_t backups, uint32_t replicas, uint64_t backup_bytes = 64 << 20) {
    for (uint32_t i = 0; i < backups; ++i) {
      SimNode& node = scheduler_.add_node("b" + std::to_string(i + 1));
      nodes_.push_back(&node);
      wire::ServerListEntry entry;
      entry.server_id = i + 1;
      entry.locator = "sim:host=" + node.name() + ",port=1";
      list_.servers.push_back(entry);
    }
    wire::ServerListEntry self;
    self.server_id = kMaster;
    self.locator = "sim:host=m,port=1";
    list_.servers.push_back(self);
    list_.term = list_.version = 1;
    for (uint32_t i = 0; i < backups; ++i) start_backup(i, backup_bytes);

    master_ = &scheduler_.add_node("m");
    transport_ = network_.make_transport(*master_);
    transport_->set_identity({kCluster, kMaster});
    rpc_ = std::make_unique<RpcClient>(master_->reactor(), *transport_);
    rpc_->set_cluster_uuid(kCluster);
    ASSERT_TRUE(servers_.apply(list_).ok());
    ReplicaManager::Options options;
    options.master_id = kMaster;
    options.replicas = replicas;
    options.on_condemned = [this](const Status&) { condemned_ = true; };
    manager_ = std::make_unique<ReplicaManager>(*rpc_, servers_, options);
    arena_ = std::make_unique<log::Arena>(
        48 << 20, log::Arena::Options{.try_huge_pages = false, .prefault = false});
    log::LogOptions log_options;
    log_options.cluster_uuid = kCluster;
    log_options.master_id = kMaster;
    log_options.safe_version = [this] { return version_ + 1; };
    log_ = std::make_unique<log::Log>(*arena_, *manager_, log_options);
    manager_->attach(*log_);
    log_->start();
  }

  void start_backup(uint32_t i, uint64_t bytes) {
    auto role = std::make_unique<BackupRole>();
    SimNode& node = *nodes_[i];
    node.disk().attach(node.reactor());
    auto frames = FrameStore::open(node.disk(), "/data", bytes);
    ASSERT_TRUE(frames.has_value()) << frames.error().to_string();
    role->frames = std::move(*frames);
    ASSERT_TRUE(role->frames->adopt(kCluster, i + 1, 1, 1).ok());
    ASSERT_TRUE(role->servers.apply(list_).ok());
    role->transport = network_.make_transport(node);
    role->transport->set_identity({kCluster, i + 1});
    role->registry = std::make_unique<ServiceRegistry>(*role->transport);
    role->service = std::make_unique<ReplicaService>(node.reactor(), *role->registry, *role->frames,
                                                     role->servers, ReplicaService::Options{});
    ASSERT_TRUE(
        role->transport->listen({node.name(), 1}, Side::kInside, *role->registry).has_value());
    if (backups_.size() <= i) backups_.resize(i + 1);
    backups_[i] = std::move(role);
  }

  /// Kills a backup and lets the list say so.
  void crash_backup(uint32_t i) {
    scheduler_.kill(*nodes_[i]);
    backups_[i].reset();
    list_.servers[i].state = wire::ServerState::kCrashed;
    ++list_.version;
    for (auto& role : backups_) {
      if (role) ASSERT_TRUE(role->servers.apply(list_).ok());
    }
    ASSERT_TRUE(servers_.apply(list_).ok());
  }

  StatusCode put(const std::string& key, const std::string& value) {
    log::ObjectBody body{};
    body.table_id = 1;
    body.version = ++version_;
    body.key_length = static_cast<uint16_t>(key.size());
    log::EntrySource source;
    source.type = log::EntryType::kObject;
    source.piece_count = 3;
    source.pieces[0] = Slice(bytes_of(body));
    source.pieces[1] = Slice(ByteView(key));
    source.pieces[2] = Slice(ByteView(value));
    log::Appended appended;
    const char* refs[1];
    const StatusCode code = log_->append({&source, 1}, false, appended, refs);
    if (code == StatusCode::kOk) model_[key] = value;
    return code;
  }

  /// Waits until the log takes the object.
  void must_put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(scheduler_.run_until([&] { return put(key, value) == StatusCode::kOk; }, 60s));
  }
  bool all_durable(Duration limit = 60s) {
    return scheduler_.run_until([&] { return log_->durable() >= log_->head(); }, limit);
  }

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

  SimScheduler scheduler_{42};
  SimNetwork network_{scheduler_};
  wire::ServerList list_;
  std::vector<SimNode*> nodes_;
  std::vector<std::unique_ptr<BackupRole>> backups_;
  SimNode* master_ = nullptr;
  std::unique_ptr<SimTransport> transport_;
  std::unique_ptr<RpcClient> rpc_;
  ServerList servers_;
  std::unique_ptr<log::Arena> arena_;
  std::unique_ptr<ReplicaManager> manager_;
  std::unique_ptr<log::Log> log_;
  uint64_t version_ = 0;
  bool condemned_ = false;
  std::map<std::string, std::string> model_;

  void TearDown() override {
    if (manager_) manager_->detach();
    log_.reset();
    manager_.reset();
    rpc_.reset();
    transport_.reset();
    backups_.clear();
  }
};

TEST_F(ReplicationSim, DurableOnlyWithAllReplicas) {
  start(3, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  const auto holders = manager_->replica_servers(1);
  ASSERT_EQ(holders.size(), 2u);
  network_.partition(*master_, *nodes_[holders[1] - 1]);
  must_put("b", "2");
  EXPECT_FALSE(all_durable(1s));
  EXPECT_GT(manager_->stats().unreplicated_bytes, 0u);
  network_.heal_all();
  EXPECT_TRUE(all_durable());
  EXPECT_EQ(manager_->stats().fully_replicated, manager_->stats().segments);
}

TEST_F(ReplicationSim, AnyOneFolderMissingGivesExactlyTheData) {
  start(4, 2);
  const std::string value(100'000, 'v');
  for (int i = 0; i < 200; ++i) must_put("k" + std::to_string(i), value + std::to_string(i));
  ASSERT_TRUE(all_durable());
  EXPECT_GT(manager_->stats().segments, 2u);
  std::vector<std::string> images;
  for (uint32_t i = 0; i < 4; ++i) images.push_back(image_of(i));
  for (uint32_t missing = 0; missing < 4; ++missing) {
    std::vector<VolumeImage> volumes;
    for (uint32_t i = 0; i < 4; ++i) {
      if (i != missing) volumes.push_back({"b" + std::to_string(i + 1), images[i]});
    }
    std::map<std::string, std::string> found;
    const Status status = rebuild_images(volumes, [&](const log::ReplayedObject& object) {
      found[std::string(object.key)] = std::string(object.value);
    });
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(found == model_) << found.size() << " of " << model_.size();
  }
}

TEST_F(ReplicationSim, LostBackupsReplicasAreRecreated) {
  start(4, 2);
  const std::string value(100'000, 'v');
  for (int i = 0; i < 150; ++i) must_put("k" + std::to_string(i), value);
  ASSERT_TRUE(all_durable());
  crash_backup(static_cast<uint32_t>(manager_->replica_servers(1)[0] - 1));
  must_put("after", "crash");
  EXPECT_TRUE(all_durable());
  EXPECT_TRUE(scheduler_.run_until([&] { return manager_->stats().under_replicated == 0; }, 60s));
  EXPECT_GT(manager_->stats().replicas_recreated, 0u);
}

TEST_F(ReplicationSim, LossyNetworkStillReplicates) {
  start(3, 2);
  network_.options().loss = 0.05;
  for (int i = 0; i < 100; ++i) {
    must_put("k" + std::to_string(i), "v");
    ASSERT_TRUE(all_durable(300s));
  }
}

TEST_F(ReplicationSim, FullBackupsAreLeftAlone) {
  start(3, 2, 8 << 20);  // one frame each
  const std::string value(500'000, 'v');
  bool stuck = false;
  for (int i = 0; i < 60 && !stuck; ++i) {
    stuck = !scheduler_.run_until(
        [&] { return put("k" + std::to_string(i), value) == StatusCode::kOk; }, 5s);
  }
  EXPECT_TRUE(stuck);
  EXPECT_EQ(manager_->stats().waiting.code(), StatusCode::kNoSpace);
}

TEST_F(ReplicationSim, FlippedByteIsNamed) {
  start(2, 1);
  for (int i = 0; i < 4; ++i) must_put("key" + std::to_string(i), "value");
  ASSERT_TRUE(all_durable());
  const auto holder = static_cast<uint32_t>(manager_->replica_servers(1)[0] - 1);
  std::string image = image_of(holder);
  uint32_t valid = 0;
  auto clean = dump_image(image, [&](const ReplicaDump& dump) {
    valid = dump.scan.valid_bytes;
    EXPECT_EQ(dump.identity.master_id, kMaster);
    EXPECT_EQ(dump.entries.at(log::EntryType::kObject), 4u);
  });
  ASSERT_TRUE(clean.has_value());
  EXPECT_EQ(clean->problems_total, 0u);
  image.resize(frame_metadata_offset(1));  // one frame is enough, and quick
  const auto check = [&](uint64_t at) {
    image[at] = static_cast<char>(image[at] ^ 0x20);
    bool named = false;
    const auto look = [&](const std::vector<ReplicaProblem>& problems) {
      for (const auto& problem : problems) named = named || problem.flipped_byte == at;
    };
    auto dumped = dump_image(image, [&](const ReplicaDump& dump) { look(dump.problems); });
    ASSERT_TRUE(dumped.has_value()) << at;
    look(dumped->problems);
    EXPECT_TRUE(named) << "byte " << at;
    image[at] = static_cast<char>(image[at] ^ 0x20);
  };
  for (uint64_t at = 0; at < kSuperblockBytes; at += 7) check(at);
  for (uint64_t at = 0; at < kFrameMetadataBytes; at += 5) check(frame_metadata_offset(0) + at);
  for (uint64_t at = 0; at < valid; ++at) check(frame_data_offset(0) + at);
}

TEST_F(ReplicationSim, ForeignVolumeIsRefused) {
  start(1, 0);
  const Status status = backups_[0]->frames->adopt(wire::Uuid{9}, 5, 1, 1);
  EXPECT_EQ(status.code(), StatusCode::kWrongCluster);
  EXPECT_NE(status.message().find(format_uuid(kCluster)), std::string::npos);
  EXPECT_NE(status.message().find(format_uuid(wire::Uuid{9})), std::string::npos);
}

}  // namespace
}  // namespace ramcloud
