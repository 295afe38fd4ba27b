// How long a recovery master may take for its part, and how long it may wait.
#include "coordinator/core/recovery_part.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "coordinator/core/testing/recovery_fixture.h"

namespace ramcloud {
namespace {

using testing::OneTablet;

TEST_F(OneTablet, ARecoveryMasterThatDoesNotMoveIsGivenUp) {
  make(4);
  recovery(others_[0]).stuck_in = wire::RecoveryPhase::kReplaying;
  recovery(others_[1]).stuck_in = wire::RecoveryPhase::kReplaying;
  kill(dead_);
  ASSERT_TRUE(cluster.run_until([&] { return recovering(wire::RecoveryPhase::kReplaying); }));
  const uint64_t stuck = recovering(wire::RecoveryPhase::kReplaying)->id;
  EXPECT_EQ(stuck, others_[0]);
  ASSERT_TRUE(cluster.run_until([&] { return !owns(dead_); }, 300s));
  EXPECT_TRUE(recovery(stuck).aborted.contains(dead_));
  EXPECT_NE(owner("t"), stuck);
}

TEST_F(OneTablet, ARecoveryMasterWhoseDisksAreSlowIsNotGivenUp) {
  ASSERT_NO_FATAL_FAILURE(die_and_stop_in(wire::RecoveryPhase::kCommitting));
  for (int i = 0; i < 10; ++i) {
    cluster.run_for(15s);
    for (const uint64_t id : others_) {
      for (auto& [key, job] : recovery(id).jobs) ++job.state.segments_durable;
    }
  }
  EXPECT_TRUE(goes_on());
  EXPECT_EQ(attempts_at(dead_).size(), 1u);
}

/// Another one would read the whole log again, to find as few backups.
TEST_F(OneTablet, ARecoveryMasterThatWaitsForBackupsIsGivenUpLate) {
  ASSERT_NO_FATAL_FAILURE(die_and_stop_in(wire::RecoveryPhase::kCommitting));
  all_wait_for(StatusCode::kUnavailable);
  cluster.run_for(9min);
  EXPECT_EQ(attempts_at(dead_).size(), 1u);
  cluster.run_for(2min);
  EXPECT_EQ(attempts_at(dead_).size(), 2u) << "it may be cut off from them";
  EXPECT_TRUE(goes_on());
}

TEST_F(OneTablet, ARecoveryMasterThatHasBackupsAtLastIsGivenTimeForThem) {
  ASSERT_NO_FATAL_FAILURE(die_and_stop_in(wire::RecoveryPhase::kCommitting));
  all_wait_for(StatusCode::kUnavailable);
  cluster.run_for(5min);
  all_wait_for(StatusCode::kOk);
  cluster.run_for(50s);
  EXPECT_EQ(attempts_at(dead_).size(), 1u) << "its disks are slow";
  cluster.run_for(20s);
  EXPECT_EQ(attempts_at(dead_).size(), 2u);
  EXPECT_TRUE(goes_on());
}

TEST_F(OneTablet, ARecoveryMasterThatFallsSilentWhileItWaitsIsGivenUp) {
  ASSERT_NO_FATAL_FAILURE(die_and_stop_in(wire::RecoveryPhase::kCommitting));
  all_wait_for(StatusCode::kUnavailable);
  cluster.run_for(30s);
  for (const uint64_t id : others_) recovery(id).tells_no_state = true;
  cluster.run_for(70s);
  EXPECT_EQ(attempts_at(dead_).size(), 2u);
  for (const uint64_t id : others_) recovery(id).tells_no_state = false;
  EXPECT_TRUE(goes_on());
}

TEST_F(OneTablet, ARecoveryMasterThatFetchesOtherPartsFirstIsNotGivenUp) {
  ASSERT_NO_FATAL_FAILURE(die_and_stop_in(wire::RecoveryPhase::kReplaying));
  all_wait_for(StatusCode::kRetry);
  cluster.run_for(5min);
  EXPECT_EQ(attempts_at(dead_).size(), 1u);
  all_wait_for(StatusCode::kOk);
  cluster.run_for(70s);
  EXPECT_EQ(attempts_at(dead_).size(), 2u) << "its turn has come";
  EXPECT_TRUE(goes_on());
}

TEST_F(OneTablet, AnOrderThatMustWaitForOtherPartsIsGivenUpLate) {
  make(4);
  for (const uint64_t id : others_) recovery(id).busy = true;
  kill(dead_);
  cluster.run_for(9min);
  EXPECT_EQ(metric("ramcloud_recoveries_attempts_total"), 1);
  EXPECT_TRUE(owns(dead_));
  cluster.run_for(3min);
  EXPECT_EQ(metric("ramcloud_recoveries_attempts_total"), 2);
  for (const uint64_t id : others_) recovery(id).busy = false;
  ASSERT_TRUE(wait_until_served());
}

}  // namespace
}  // namespace ramcloud
