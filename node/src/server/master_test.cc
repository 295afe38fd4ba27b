#include "server/master.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "log/log_test_support.h"
#include "log/side_log.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_transport.h"

namespace ramcloud::server {
namespace {

constexpr wire::Uuid kCluster{1, 2, 3};

class MasterTest : public ::testing::Test {
 protected:
  Master::Options options(uint32_t replicas) {
    Master::Options all;
    all.log.cluster_uuid = kCluster;
    all.log.master_id = 7;
    all.replication.replicas = replicas;
    return all;
  }
  std::unique_ptr<Master> make(uint32_t replicas, std::span<const Master::LaneOf> lanes = {}) {
    return std::make_unique<Master>(rpc_, servers_, epochs_, arena_,
                                    store::HashTable::Memory(1 << 10), lanes, options(replicas));
  }

  SimScheduler sim_{1};
  SimNetwork network_{sim_};
  SimNode& node_ = sim_.add_node("m");
  std::unique_ptr<SimTransport> transport_ = network_.make_transport(node_);
  RpcClient rpc_{node_.reactor(), *transport_};
  ServerList servers_;
  Epochs epochs_;
  log::Arena arena_{uint64_t{6} * log::kSegmentBytes, {.try_huge_pages = false, .prefault = false}};
  Counter messages_;
};

TEST_F(MasterTest, WithoutReplicasItServesAtOnce) {
  const auto master = make(0);
  EXPECT_EQ(master->replicas(), nullptr);
  EXPECT_EQ(master->lane(0), nullptr);
  ASSERT_TRUE(master->store().take_tablet(1, 0, ~uint64_t{0}).ok());
  uint64_t version = 0;
  log::LogPosition depends_on;
  ASSERT_EQ(master->store().write(1, "key", "value", {}, version, depends_on), StatusCode::kOk);
  EXPECT_LE(depends_on, master->log().durable());
  EXPECT_EQ(master->check_invariants(), "");
}

TEST_F(MasterTest, WithReplicasNothingIsDurableBeforeABackupHasIt) {
  const auto master = make(1);
  ASSERT_NE(master->replicas(), nullptr);
  node_.reactor().turn();
  EXPECT_FALSE(master->log().takes_data()) << "there is no backup";
  EXPECT_EQ(master->log().options().master_id, 7u);
}

TEST_F(MasterTest, LanesAreThoseOfTheReactorsThatAreNamed) {
  const Master::LaneOf lanes[] = {{&rpc_, &messages_}, {&rpc_, &messages_}};
  const auto master = make(1, lanes);
  ASSERT_NE(master->lane(0), nullptr);
  ASSERT_NE(master->lane(1), nullptr);
  EXPECT_NE(master->lane(0), master->lane(1));
  EXPECT_EQ(master->lane(2), nullptr);
  EXPECT_EQ(make(0, lanes)->lane(0), nullptr) << "there is nothing to send";
}

TEST_F(MasterTest, DeletesAreSweptAFewATurnUntilNoneIsLeft) {
  const auto master = make(0);
  store::ObjectStore& store = master->store();
  ASSERT_TRUE(store.take_tablet(1, 0, ~uint64_t{0}).ok());
  constexpr uint32_t kDeletes = 2 * Master::kSweptPerTurn + 1;
  uint64_t version = 0;
  log::LogPosition depends_on;
  for (uint32_t i = 0; i < kDeletes; ++i) {
    const std::string key = "key " + std::to_string(i);
    ASSERT_EQ(store.write(1, key, "value", {}, version, depends_on), StatusCode::kOk);
    ASSERT_EQ(store.remove(1, key, {}, version, depends_on), StatusCode::kOk);
  }
  ASSERT_EQ(store.pending_deletes(), kDeletes);
  for (uint32_t left = kDeletes; left > 0;) {
    ASSERT_TRUE(master->sweep());
    left -= std::min(left, Master::kSweptPerTurn);
    EXPECT_EQ(store.pending_deletes(), left);
  }
  EXPECT_FALSE(master->sweep()) << "nothing became durable since";
}

TEST_F(MasterTest, SegmentsThatLeftAreUsedAgainWhenNobodyCanReadThem) {
  const auto master = make(0);
  Epochs::Participant reader{epochs_};
  const uint32_t free = master->log().statistics().free_segments;
  log::SideLog side(master->log());
  const log::TestObject object(1, 1, "key", "value");
  const char* refs[1];
  ASSERT_EQ(side.append({&object.source, 1}, refs), StatusCode::kOk);
  side.abort();
  EXPECT_EQ(master->log().statistics().free_segments, free - 1);
  master->reclaim();
  sim_.run_for(1s);
  EXPECT_FALSE(master->log().has_retired()) << "it was taken";
  EXPECT_EQ(master->log().statistics().free_segments, free - 1) << "somebody may read it";
  reader.pass();
  sim_.run_for(1s);
  EXPECT_EQ(master->log().statistics().free_segments, free);
}

TEST_F(MasterTest, APinnedSegmentIsLookedAtAgain) {
  const auto master = make(0);
  log::SideLog side(master->log());
  const log::TestObject object(1, 1, "key", "value");
  const char* refs[1];
  ASSERT_EQ(side.append({&object.source, 1}, refs), StatusCode::kOk);
  log::Pin pin = master->log().pin(master->log().entry(refs[0]));
  const uint32_t free = master->log().statistics().free_segments;
  side.abort();
  for (int i = 0; i < 3; ++i) {
    master->reclaim();
    sim_.run_for(100ms);
  }
  EXPECT_EQ(master->log().statistics().free_segments, free);
  pin.release();
  master->reclaim();
  sim_.run_for(100ms);
  EXPECT_EQ(master->log().statistics().free_segments, free + 1);
}

}  // namespace
}  // namespace ramcloud::server
