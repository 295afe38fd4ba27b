// Servers that are asked to stop, in whole clusters (docs/design/recovery.md, "Planned stop").
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/crowd.h"
#include "sim/scenario.h"
#include "sim/testing/recovery_cluster.h"

namespace ramcloud::sim {
namespace {

class PlannedStopSim : public DurabilityTest {
 protected:
  /// Some segments of each server are closed.
  void start_with_closed_segments(uint64_t seed) {
    start({.seed = seed, .servers = 5, .replicas = 3, .log_bytes = 96u << 20}, 5);
    fill("t", 0, 150, 500'000);
  }
  /// Closed replicas that running servers copied, or had adopted, in place of lost ones.
  uint64_t sum(uint64_t ReplicationStats::* of) {
    uint64_t all = 0;
    for (size_t i = 0; i < cluster().servers(); ++i) {
      if (cluster().server_runs(i)) all += cluster().server(i).parts().replicas->stats().*of;
    }
    return all;
  }
  uint64_t copied() { return sum(&ReplicationStats::replicas_recreated); }
};
INSTANTIATE_TEST_SUITE_P(Durability, PlannedStopSim, durabilities(), durability);

/// Each server is away for seconds, and the others could copy what it had (R + 2 servers).
TEST_P(PlannedStopSim, ARollingRestartCopiesNoClosedSegment) {
  const uint64_t count = synced() ? 1 : 2;  // a seed takes seconds
  for (const uint64_t seed : seeds(count)) {
    SCOPED_TRACE(seed);
    start_with_closed_segments(seed);
    uint64_t adopted = 0;
    for (size_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(cluster().stop_server(i)) << "server " << i;
      ASSERT_TRUE(until_served()) << "server " << i << ": " << waits_for();
      cluster().scheduler().run_for(10s);
      EXPECT_GT(leading().status().replication.segments_under_replicated, 0u);
      EXPECT_EQ(leading().status().survives_servers, 0u);
      EXPECT_EQ(leading().status().health, "DEGRADED");
      cluster().restart_server(i);
      ASSERT_TRUE(until([&] { return whole(); }));
      EXPECT_EQ(copied(), 0u) << "server " << i;
      adopted = std::max(adopted, sum(&ReplicationStats::replicas_adopted));
    }
    EXPECT_GT(adopted, 0u);
    expect_filled("t", 0, 150);
    expect_sound();
  }
}

TEST_P(PlannedStopSim, WhatDoesNotComeBackIsCopiedAfterTheGracePeriod) {
  constexpr Duration kGrace = 30s;  // the default of --restart-grace
  start_with_closed_segments(1);
  const Time asked = cluster().scheduler().now();
  ASSERT_TRUE(cluster().stop_server(1));
  ASSERT_TRUE(until_served()) << waits_for();
  ASSERT_TRUE(until([&] { return copied() > 0; }, 2 * kGrace));
  EXPECT_GE(cluster().scheduler().now() - asked, kGrace);
  expect_filled("t", 0, 150);
  expect_sound();
}

TEST_P(PlannedStopSim, AfterACrashClosedSegmentsAreCopiedAtOnce) {
  for (const uint64_t seed : seeds(2)) {
    SCOPED_TRACE(seed);
    start_with_closed_segments(seed);
    cluster().kill_server(seed % 5);
    const auto replicated = [&] {
      const ClusterStatus status = leading().status();
      return status.servers_up == 4 && served() && sum(&ReplicationStats::under_replicated) == 0;
    };
    ASSERT_TRUE(until(replicated, 15s)) << waits_for();
    EXPECT_GT(copied(), 0u);
    expect_filled("t", 0, 150);
    expect_sound();
  }
}

TEST_P(PlannedStopSim, ARollingRestartFailsNoOperation) {
  for (const uint64_t seed : seeds(4)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 5, .reactors = seed % 2 == 0 ? 3u : 1u}, 5);
    fill("t", 0, 50, 1'000);
    begin_writers("t", 3, 500);
    for (size_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(cluster().stop_server(i)) << "server " << i;
      ASSERT_TRUE(until_served());
      cluster().restart_server(i);
      ASSERT_TRUE(until([&] { return whole(); }));
    }
    const auto acknowledged = stop_writers();
    ASSERT_TRUE(until([&] { return cluster().running_tasks() == 0; }));
    EXPECT_EQ(failed_writes(), 0u);
    EXPECT_LE(longest_write(), 1s);
    EXPECT_GT(acknowledged.size(), 100u);
    for (const auto& [name, at] : acknowledged) {
      ASSERT_TRUE(cluster().run(0, client().read(id("t"), name)).has_value()) << name;
    }
    expect_filled("t", 0, 50);
    expect_sound();
  }
}

/// Reads, conditions and increments of several clients see one order of everything.
TEST_P(PlannedStopSim, WhatClientsSeeIsLinearizable) {
  for (const uint64_t seed : seeds(4)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 5, .clients = 3}, 1);
    Random random(seed);
    Outcome outcome;
    outcome.clients = 4;
    outcome.operations_of_each = 400;
    Crowd crowd(cluster(), random, outcome);
    ASSERT_TRUE(crowd.make_tables(5));
    crowd.begin(3'000);
    for (size_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(cluster().stop_server(i));
      cluster().restart_server(i);
      ASSERT_TRUE(until([&] { return whole(); }));
    }
    ASSERT_TRUE(until([&] { return cluster().running_tasks() == 0; }));
    crowd.judge();
    EXPECT_EQ(outcome.wrong, "");
    expect_sound();
  }
}

/// The data that the last servers took over is on disks, like everything else.
TEST_P(PlannedStopSim, AClusterThatWasStoppedAsAWholeStartsAgain) {
  for (const uint64_t seed : seeds(4)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 5}, 5);
    fill("t", 0, 100, 10'000);
    cluster().stop_all_servers();
    cluster().scheduler().run_for(seed * 3s);
    for (size_t i = 0; i < 5; ++i) cluster().restart_server(i);
    ASSERT_TRUE(until_served()) << waits_for();
    expect_filled("t", 0, 100);
    expect_sound();
  }
}

TEST_P(PlannedStopSim, AServerWithoutReplicasStopsAsItDid) {
  start({.seed = 1, .servers = 3, .replicas = 0}, 1);
  EXPECT_FALSE(cluster().stop_server(0));
}

TEST_P(PlannedStopSim, WithoutACoordinatorAServerStopsAllTheSame) {
  start({.seed = 1, .servers = 4}, 4);
  fill("t", 0, 20, 100);
  cluster().kill_coordinator();
  const Time before = cluster().scheduler().now();
  EXPECT_FALSE(cluster().stop_server(0));
  EXPECT_LT(cluster().scheduler().now() - before, 6s);
  cluster().restart_coordinator();
  ASSERT_TRUE(until([&] { return cluster().coordinator() != nullptr; }));
  ASSERT_TRUE(until_served()) << waits_for();
  expect_filled("t", 0, 20);
  expect_sound();
}

}  // namespace
}  // namespace ramcloud::sim
