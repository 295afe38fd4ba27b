// A master with thousands of segments: how much is done at once, and under the lock that the hot
// path needs, does not grow with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/logging.h"
#include "log/arena.h"
#include "log/log.h"
#include "replication/replica_manager.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_transport.h"

namespace ramcloud {
namespace {

constexpr wire::Uuid kCluster{1, 2, 3, 4};
constexpr uint64_t kMaster = 100;
constexpr uint64_t kSegments = 2'000;

/// Accepts every message, and only counts.
class WillingBackup {
 public:
  WillingBackup(SimNetwork& network, SimNode& node, uint64_t id)
      : transport_(network.make_transport(node)), registry_(*transport_) {
    transport_->set_identity({kCluster, id});
    registry_.add(wire::Opcode::kReplicaOpen, &call_member<&WillingBackup::open, WillingBackup>,
                  this);
    registry_.add(wire::Opcode::kReplicaWrite, &call_member<&WillingBackup::write, WillingBackup>,
                  this);
    registry_.add(wire::Opcode::kSyncReplicas, &call_member<&WillingBackup::sync, WillingBackup>,
                  this);
    EXPECT_TRUE(transport_->listen({node.name(), 1}, Side::kInside, registry_).has_value());
  }
  void break_device() { broken_ = true; }

 private:
  void open(const Request& request) {
    answer(request, load<wire::ReplicaOpenRequest>(request.body.data()).length);
  }
  void write(const Request& request) {
    const auto write = load<wire::ReplicaWriteRequest>(request.body.data());
    answer(request, write.offset + write.length);
  }
  void sync(const Request& request) { reply_message(*transport_, request.reply, wire::Empty{}); }
  void answer(const Request& request, uint32_t held) {
    if (broken_) return reply_error(*transport_, request.reply, StatusCode::kIoError);
    const wire::ReplicaReply reply{held, 0};
    const Slice slice(bytes_of(reply));
    transport_->reply(request.reply, StatusCode::kOk, {&slice, 1});
  }
  std::unique_ptr<SimTransport> transport_;
  ServiceRegistry registry_;
  bool broken_ = false;
};

class ManySegments : public ::testing::Test {
 protected:
  ManySegments() {
    set_log_level(LogLevel::kError);
    SimNode& master = scheduler_.add_node("m");
    transport_ = network_.make_transport(master);
    transport_->set_identity({kCluster, kMaster});
    rpc_ = std::make_unique<RpcClient>(master.reactor(), *transport_);
    rpc_->set_cluster_uuid(kCluster);
    for (uint64_t id = 1; id <= 5; ++id) add_server(id, "b" + std::to_string(id));
    add_server(kMaster, "m");
    list_.term = list_.version = 1;
    for (size_t i = 0; i < 5; ++i) {
      SimNode& node = scheduler_.add_node("b" + std::to_string(i + 1));
      backups_.push_back(std::make_unique<WillingBackup>(network_, node, i + 1));
    }
    EXPECT_TRUE(servers_.apply(list_).ok());
    ReplicaManager::Options options;
    options.master_id = kMaster;
    options.replicas = 2;
    manager_ = std::make_unique<ReplicaManager>(*rpc_, servers_, options);
    arena_ = std::make_unique<log::Arena>(
        (kSegments + 8) * log::kSegmentBytes,
        log::Arena::Options{.try_huge_pages = false, .prefault = false});
    log::LogOptions log_options;
    log_options.cluster_uuid = kCluster;
    log_options.master_id = kMaster;
    log_options.safe_version = [this] { return version_ + 1; };
    log_ = std::make_unique<log::Log>(*arena_, *manager_, log_options);
    manager_->attach(*log_);
    log_->start();
  }
  ~ManySegments() override {
    manager_->detach();
    log_.reset();
    set_log_level(LogLevel::kInfo);
  }
  void add_server(uint64_t id, const std::string& host) {
    wire::ServerListEntry entry;
    entry.server_id = id;
    entry.locator = "sim:host=" + host + ",port=1";
    list_.servers.push_back(entry);
  }

  bool put(size_t bytes) {
    log::ObjectBody body{};
    body.table_id = 1;
    body.version = ++version_;
    body.key_length = 1;
    const std::string value(bytes, 'v');
    log::EntrySource source;
    source.type = log::EntryType::kObject;
    source.piece_count = 3;
    source.pieces[0] = Slice(bytes_of(body));
    source.pieces[1] = Slice(ByteView("k"));
    source.pieces[2] = Slice(ByteView(value));
    log::Appended appended;
    const char* refs[1];
    return log_->append({&source, 1}, false, appended, refs) == StatusCode::kOk;
  }
  /// Nearly empty ones, but for the newest: copies of these are worth more than one message, and
  /// begin in one turn, because the newest are dealt with first.
  void make_segments() {
    for (uint64_t i = 0; i < kSegments; ++i) {
      const bool large = i + 20 >= kSegments;
      for (int n = large ? 20 : 1; n > 0; --n) {
        ASSERT_TRUE(scheduler_.run_until([&] { return put(large ? 100'000 : 10); }, 10s));
      }
      ASSERT_EQ(log_->roll_head(), StatusCode::kOk);
      ASSERT_TRUE(scheduler_.run_until([&] { return log_->head().segment_id() == i + 2; }, 10s));
    }
    ASSERT_TRUE(settled());
  }
  /// And the counts are right after every step.
  bool settled() {
    std::string wrong;
    uint64_t steps = 0;
    const bool reached = scheduler_.run_until(
        [&] {
          if (++steps % 64 == 0 && wrong.empty()) wrong = manager_->check_counts();
          return manager_->stats().under_replicated == 0 && manager_->check_counts().empty() &&
                 log_->durable() >= log_->head();
        },
        60s);
    EXPECT_EQ(wrong, "");
    return reached;
  }
  void expect_little_at_one_go() {
    const auto& locked = manager_->most_under_lock();
    const auto& turn = manager_->most_in_a_turn();
    EXPECT_LE(locked.segments, 4u);
    EXPECT_LE(locked.losses, 4u);
    EXPECT_LE(locked.copied, 512u << 10);
    EXPECT_LE(turn.segments, 8u);
    EXPECT_LE(turn.losses, 64u);
    EXPECT_LE(turn.copied, 512u << 10);
  }

  SimScheduler scheduler_{3};
  SimNetwork network_{scheduler_};
  wire::ServerList list_;
  ServerList servers_;
  std::vector<std::unique_ptr<WillingBackup>> backups_;
  std::unique_ptr<SimTransport> transport_;
  std::unique_ptr<RpcClient> rpc_;
  std::unique_ptr<log::Arena> arena_;
  std::unique_ptr<ReplicaManager> manager_;
  std::unique_ptr<log::Log> log_;
  uint64_t version_ = 0;
};

TEST_F(ManySegments, ACrashedServerIsDealtWithInSlices) {
  make_segments();
  const auto before = manager_->stats();
  EXPECT_EQ(before.segments, kSegments + 1);
  list_.servers[0].state = wire::ServerState::kCrashed;
  ++list_.version;
  ASSERT_TRUE(servers_.apply(list_).ok());
  ASSERT_TRUE(scheduler_.run_until([&] { return manager_->stats().under_replicated > 64; }, 1s));
  ASSERT_TRUE(settled());
  const auto after = manager_->stats();
  EXPECT_GT(after.replicas_lost - before.replicas_lost, kSegments / 4);
  EXPECT_GE(after.replicas_recreated - before.replicas_recreated + 2,
            after.replicas_lost - before.replicas_lost);
  expect_little_at_one_go();
}

TEST_F(ManySegments, ABrokenDeviceIsDealtWithInSlices) {
  make_segments();
  backups_[1]->break_device();
  ASSERT_TRUE(scheduler_.run_until([&] { return manager_->stats().under_replicated > 0; }, 60s))
      << "it is asked for what is closed there";
  ASSERT_TRUE(settled());
  EXPECT_GT(manager_->stats().replicas_lost, kSegments / 4);
  expect_little_at_one_go();
}

/// Before the first sync all segments are to be synced. They are looked at when none lacks replicas.
TEST_F(ManySegments, ASyncThatWaitsForCopiesLooksAtFew) {
  make_segments();
  list_.servers[0].state = wire::ServerState::kCrashed;
  ++list_.version;
  ASSERT_TRUE(servers_.apply(list_).ok());
  ASSERT_TRUE(scheduler_.run_until([&] { return manager_->stats().under_replicated > 64; }, 1s));
  const log::LogPosition end = log_->durable();
  log_->want_synced(end);
  ASSERT_TRUE(scheduler_.run_until([&] { return manager_->stats().under_replicated < 16; }, 60s));
  EXPECT_LT(log_->synced(), end);
  expect_little_at_one_go();
  EXPECT_TRUE(scheduler_.run_until([&] { return log_->synced() >= end; }, 60s));
}

TEST_F(ManySegments, WithoutALossNothingButTheHeadIsLookedAt) {
  make_segments();
  scheduler_.run_for(30s);
  EXPECT_EQ(manager_->stats().segments, kSegments + 1);
  expect_little_at_one_go();
  EXPECT_EQ(manager_->most_in_a_turn().segments, 0u);
}

/// Nobody says again that the rest is there.
TEST_F(ManySegments, OfSegmentsThatAreRemovedTogetherAllAreReleased) {
  make_segments();
  std::vector<log::Segment*> removed = log_->segments();
  std::erase_if(removed, [](const log::Segment* segment) { return !segment->closed_durable(); });
  removed.resize(100);
  for (log::Segment* segment : removed) manager_->segment_removed(*segment);
  const auto released = [](const log::Segment* segment) { return segment->released(); };
  EXPECT_TRUE(scheduler_.run_until([&] { return std::ranges::all_of(removed, released); }, 10s));
  EXPECT_EQ(manager_->stats().segments, kSegments + 1 - removed.size());
}

}  // namespace
}  // namespace ramcloud
