// What tests of a coordinator with servers begin and end with.
#pragma once

#include <gtest/gtest.h>

#include "coordinator/core/testing/fake_cluster.h"

namespace ramcloud::testing {

class CoordinatorFixture : public ::testing::Test {
 protected:
  /// A coordinator that leads, and servers that it knows.
  void start(size_t servers) {
    ASSERT_TRUE(cluster.start_coordinator().ok());
    for (size_t i = 0; i < servers; ++i) cluster.add_server();
  }
  /// The same, and a second in which they get to know each other.
  void start_and_settle(size_t servers) {
    start(servers);
    cluster.run_for(std::chrono::seconds(1));
  }
  void restart() {
    cluster.stop_coordinator();
    ASSERT_TRUE(cluster.start_coordinator().ok());
  }
  /// Whatever the test does, nobody may have seen a rule broken.
  void TearDown() override {
    EXPECT_EQ(cluster.violation, "");
    for (const auto& server : cluster.servers) {
      if (server) EXPECT_EQ(server->violation, "");
      if (server) EXPECT_EQ(server->recovery.violation, "");
    }
  }
  const ClusterState& state() { return cluster.coordinator->state(); }

  FakeCluster cluster;
};

}  // namespace ramcloud::testing
