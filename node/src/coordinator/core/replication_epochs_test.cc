// Replication epochs only rise, survive the coordinator, and are final once a server is CRASHED.
#include "coordinator/core/replication_epochs.h"

#include <gtest/gtest.h>

#include "coordinator/core/testing/fake_cluster.h"

namespace ramcloud {
namespace {

using testing::FakeCluster;

class ReplicationEpochsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(cluster_.start_coordinator().ok());
    for (int i = 0; i < 2; ++i) {
      cluster_.add_server();
    }
  }
  StatusCode raise(uint64_t server, uint64_t segment, uint32_t epoch) {
    const auto done =
        cluster_.call<wire::Empty>(wire::Opcode::kRaiseReplicationEpoch,
                                   wire::RaiseReplicationEpochRequest{server, segment, epoch});
    return done ? StatusCode::kOk : done.error().code();
  }
  ReplicationEpochRecord record(uint64_t server) {
    return cluster_.coordinator->state().replication_epochs.at(server);
  }
  void TearDown() override { EXPECT_EQ(cluster_.violation, ""); }

  FakeCluster cluster_;
};

TEST_F(ReplicationEpochsTest, OnlyRiseAndSurviveTheCoordinator) {
  EXPECT_EQ(raise(1, 5, 1), StatusCode::kOk);
  EXPECT_EQ(raise(1, 5, 1), StatusCode::kOk) << "the answer may have been lost";
  EXPECT_EQ(raise(1, 4, 2), StatusCode::kStaleTerm);
  EXPECT_EQ(raise(1, 6, 0), StatusCode::kStaleTerm);
  EXPECT_EQ(raise(1, 7, 3), StatusCode::kOk);
  EXPECT_EQ(raise(2, 1, 1), StatusCode::kOk);
  cluster_.stop_coordinator();
  ASSERT_TRUE(cluster_.start_coordinator().ok());
  EXPECT_EQ(record(1).lowest_open_segment, 7u);
  EXPECT_EQ(record(1).epoch, 3u);
  EXPECT_EQ(record(2).epoch, 1u);
  EXPECT_EQ(raise(1, 7, 2), StatusCode::kStaleTerm);
}

/// A server of an earlier version lived through an import and could not report its epoch.
TEST_F(ReplicationEpochsTest, ARaisedOneIsNotThatOfAnExport) {
  EXPECT_EQ(raise(1, 5, 1), StatusCode::kOk);
  cluster_.stop_coordinator();
  cluster_.metadata.records[replication_epoch_key(1)] =
      encode_record(ReplicationEpochRecord{1, 5, 1, true}, kMetadataFormatMax);
  ASSERT_TRUE(cluster_.start_coordinator().ok());
  EXPECT_TRUE(record(1).of_export);
  EXPECT_EQ(raise(1, 6, 2), StatusCode::kOk);
  EXPECT_FALSE(record(1).of_export);
}

TEST_F(ReplicationEpochsTest, AreFinalOnceTheServerIsCrashed) {
  EXPECT_EQ(raise(1, 5, 1), StatusCode::kOk);
  EXPECT_EQ(raise(3, 5, 1), StatusCode::kCrashed) << "never enlisted";
  cluster_.kill_server(*cluster_.servers.at(0));
  ASSERT_TRUE(cluster_.run_until([&] {
    return cluster_.coordinator->state().servers.at(1).record.state == wire::ServerState::kCrashed;
  }));
  EXPECT_EQ(raise(1, 5, 2), StatusCode::kCrashed);
  EXPECT_EQ(record(1).epoch, 1u);
  EXPECT_EQ(raise(2, 5, 1), StatusCode::kOk);
}

}  // namespace
}  // namespace ramcloud
