// A backup that stopped by a plan is expected back with its closed replicas: they are not copied
// before its grace period is over (docs/design/recovery.md#grace-period).
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>

#include "server/testing/returning_backups.h"

namespace ramcloud::server {
namespace {

class RestartGraceSim : public ::testing::Test, protected testing::ReturningBackups {
 protected:
  static constexpr Duration kGrace = 30s;
  RestartGraceSim() : ReturningBackups(7) {
    log_bytes_ = 160 << 20;
    restart_grace_ = kGrace;
  }

  /// The backups of each settled segment with a closed replica.
  std::map<uint64_t, std::set<uint32_t>> closed_on() {
    std::map<uint64_t, std::set<uint32_t>> on;
    manager_->for_each_slot(0, [&](const ReplicaSlot& slot) {
      if (!slot.segment().closed_durable()) return;
      auto& backups = on[slot.segment().id()];
      if (slot.placed() && slot.closed()) backups.insert(index_of(slot.server_id()));
    });
    return on;
  }
  size_t closed_replicas_on(uint32_t i) {
    return static_cast<size_t>(std::ranges::count_if(
        closed_on(), [i](const auto& one) { return one.second.contains(i); }));
  }
  uint64_t missing() { return manager_->stats().under_replicated; }
  /// All is replicated again so soon that nothing can have waited for the end of a grace period.
  bool is_whole_soon() { return is_whole(kGrace / 3); }
  void expect_sound() {
    expect_no_leak();
    expect_all_is_found();
  }
};

TEST_F(RestartGraceSim, ARestartCopiesNothingThatWasClosed) {
  ASSERT_NO_FATAL_FAILURE(begin(4, 3, 8));
  const size_t had = closed_replicas_on(1);
  ASSERT_GT(had, 3u);
  stop_by_plan(1);
  tell_all();
  scheduler_.run_for(kGrace - 1s);
  EXPECT_EQ(missing(), had) << "what is waited for is missing all the same";
  EXPECT_EQ(recreated(), 0u);
  come_back(1);
  tell_master();
  ASSERT_TRUE(is_whole());
  EXPECT_EQ(adopted(), had);
  EXPECT_EQ(recreated(), 0u);
  scheduler_.run_for(2 * kGrace);
  EXPECT_EQ(recreated(), 0u) << "also when the grace period is over";
  EXPECT_TRUE(no_former_frame_is_left(1));
  expect_sound();
}

/// With so little time in between that the grace period of each one ends while the next is away.
TEST_F(RestartGraceSim, ARollingRestartCopiesNothingThatWasClosed) {
  ASSERT_NO_FATAL_FAILURE(begin(5, 3, 8));
  for (uint32_t i = 0; i < 5; ++i) {
    stop_by_plan(i);
    tell_all();
    must_put(fmt::format("while {} is away", i), "value");
    ASSERT_TRUE(all_durable(1s)) << i;
    scheduler_.run_for(kGrace * 2 / 3);
    come_back(i);
    tell_master();
    ASSERT_TRUE(is_whole()) << i;
    EXPECT_EQ(recreated(), 0u) << i;
    ASSERT_TRUE(no_former_frame_is_left(i));
  }
  EXPECT_GE(adopted(), 20u);
  expect_sound();
}

TEST_F(RestartGraceSim, WhatDoesNotComeBackIsCopiedWhenTheTimeIsOver) {
  ASSERT_NO_FATAL_FAILURE(begin(5, 3, 8));
  const size_t had = closed_replicas_on(1);
  stop_by_plan(1);
  tell_all();
  const Time stopped = scheduler_.now();
  ASSERT_TRUE(scheduler_.run_until([&] { return recreated() > 0; }, 60s));
  EXPECT_GE(scheduler_.now() - stopped, kGrace);
  EXPECT_LE(scheduler_.now() - stopped, kGrace + 1s);
  ASSERT_TRUE(is_whole_soon());
  EXPECT_EQ(recreated(), had);
  expect_no_leak();
}

/// The list names the same server again and again.
TEST_F(RestartGraceSim, LaterListsDoNotProlongIt) {
  ASSERT_NO_FATAL_FAILURE(begin(5, 3, 8));
  stop_by_plan(1);
  for (int i = 0; i < 8; ++i) {
    tell_all();
    scheduler_.run_for(kGrace / 6);
    ++list_.version;
  }
  EXPECT_EQ(missing(), 0u);
  EXPECT_GT(recreated(), 0u);
  expect_no_leak();
}

TEST_F(RestartGraceSim, AfterACrashCopiesBeginAtOnce) {
  ASSERT_NO_FATAL_FAILURE(begin(5, 3, 8));
  const size_t had = closed_replicas_on(1);
  leave(1);
  tell_all();
  ASSERT_TRUE(is_whole_soon());
  EXPECT_EQ(recreated(), had);
  expect_no_leak();
}

TEST_F(RestartGraceSim, OpenReplicasAreRecreatedAtOnce) {
  ASSERT_NO_FATAL_FAILURE(begin(5, 3, 8));
  const uint64_t head = log_->head().segment_id();
  const uint32_t holder = index_of(manager_->replica_servers(head).front());
  stop_by_plan(holder);
  tell_all();
  must_put("another", "value");
  ASSERT_TRUE(all_durable(1s));
  EXPECT_EQ(manager_->replica_servers(head).size(), 3u);
  EXPECT_EQ(manager_->replica_servers(log_->head().segment_id()).size(), 3u);
  EXPECT_GT(missing(), 0u) << "the closed ones wait";
}

/// Both stopped by a plan. Nothing waits of a segment that had replicas on both.
TEST_F(RestartGraceSim, ASegmentThatLosesAnotherReplicaIsCopiedAtOnce) {
  ASSERT_NO_FATAL_FAILURE(begin(6, 3, 12));
  const auto before = closed_on();
  stop_by_plan(0);
  tell_all();
  scheduler_.run_for(1s);
  stop_by_plan(1);
  tell_all();
  scheduler_.run_for(kGrace / 3);
  size_t both = 0, one = 0;
  for (const auto& [id, backups] : before) {
    const size_t lost = backups.count(0) + backups.count(1);
    if (lost == 1) ++one;
    if (lost == 2) ++both;
    EXPECT_EQ(manager_->replica_servers(id).size(), lost == 1 ? 2u : 3u) << id;
  }
  EXPECT_GT(both, 0u);
  EXPECT_GT(one, 0u);
  EXPECT_EQ(recreated(), 2 * both);
  EXPECT_EQ(missing(), one);
  ASSERT_TRUE(is_whole());
  expect_sound();
}

TEST_F(RestartGraceSim, ACrashOfAnotherBackupEndsIt) {
  ASSERT_NO_FATAL_FAILURE(begin(6, 3, 12));
  stop_by_plan(0);
  tell_all();
  scheduler_.run_for(1s);
  leave(1);
  tell_all();
  EXPECT_TRUE(is_whole_soon());
  expect_no_leak();
}

/// One list shows both.
TEST_F(RestartGraceSim, ACrashOfAnotherBackupAtTheSameTimePreventsIt) {
  ASSERT_NO_FATAL_FAILURE(begin(6, 3, 12));
  stop_by_plan(0);
  leave(1);
  tell_all();
  EXPECT_TRUE(is_whole_soon());
  expect_no_leak();
}

TEST_F(RestartGraceSim, AVolumeThatMayBeDeletedIsNotWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(begin(5, 3, 8));
  const std::array<uint64_t, 1> stopped = {ids_[1]}, another = {ids_[2]};
  stop_by_plan(1);
  tell_all();
  scheduler_.run_for(1s);
  manager_->expect_no_return(another);
  scheduler_.run_for(1s);
  EXPECT_EQ(recreated(), 0u);
  manager_->expect_no_return(stopped);
  EXPECT_TRUE(is_whole_soon());
  expect_no_leak();
}

/// R, and with how many replicas writes continue.
struct Replicas {
  uint32_t wanted, least;
};
class WithoutReserve : public RestartGraceSim, public ::testing::WithParamInterface<Replicas> {};
INSTANTIATE_TEST_SUITE_P(Replicas, WithoutReserve,
                         ::testing::Values(Replicas{1, 1}, Replicas{3, 3}));

TEST_P(WithoutReserve, NothingWaits) {
  min_replicas_ = GetParam().least;
  ASSERT_NO_FATAL_FAILURE(begin(5, GetParam().wanted, 8));
  uint32_t one = 0;
  while (closed_replicas_on(one) == 0) ++one;
  stop_by_plan(one);
  tell_all();
  EXPECT_TRUE(is_whole_soon());
}

/// Cleaning needs it.
TEST_F(RestartGraceSim, ASyncDoesNotWait) {
  ASSERT_NO_FATAL_FAILURE(begin(5, 3, 8));
  stop_by_plan(1);
  tell_all();
  scheduler_.run_for(1s);
  ASSERT_GT(missing(), 0u);
  const log::LogPosition until = log_->durable();
  log_->want_synced(until);
  EXPECT_TRUE(scheduler_.run_until([&] { return log_->synced() >= until; }, 2s));
  EXPECT_EQ(recreated(), 0u);
}

/// It does not wait for the end of the grace period.
TEST_F(RestartGraceSim, ADamagedFrameIsCopiedWhenItIsRefused) {
  ASSERT_NO_FATAL_FAILURE(begin(6, 2, 6));
  const auto one = with_closed_ones_only();
  ASSERT_TRUE(one.has_value());
  const size_t had = replicas_on(*one);
  stop_by_plan(*one);
  tell_all();
  ASSERT_NO_FATAL_FAILURE(damage_a_frame(*one));
  scheduler_.run_for(1s);
  come_back(*one);
  tell_master();
  EXPECT_TRUE(is_whole_soon());
  expect_damaged_one_copied(*one, had);
}

/// The replica on the volume has all of the segment from before.
TEST_F(RestartGraceSim, ASegmentIsCompactedMeanwhile) {
  uint32_t holder = 0;
  ASSERT_NO_FATAL_FAILURE(begin_with_dead_segment(holder));
  stop_by_plan(holder);
  tell_all();
  scheduler_.run_for(1s);
  ASSERT_NO_FATAL_FAILURE(compact_to_nothing(1));
  scheduler_.run_for(1s);
  come_back(holder);
  tell_master();
  ASSERT_TRUE(is_whole());
  EXPECT_EQ(recreated(), 0u);
  EXPECT_EQ(manager_->replica_servers(1).size(), 2u);
  expect_sound();
}

/// Stops and crashes at random moments, beside writes.
TEST_F(RestartGraceSim, RandomStopsAndCrashesLoseAndLeakNothing) {
  Random random(23);
  backup_bytes_ = 160u << 20;
  ASSERT_NO_FATAL_FAILURE(begin(6, 3, 6));
  for (int round = 0; round < 12; ++round) {
    const auto i = static_cast<uint32_t>(random.below(6));
    if (random.chance(0.7)) {
      stop_by_plan(i);
    } else {
      leave(i);
    }
    if (random.chance(0.7)) tell_all();
    scheduler_.run_for(Duration(std::chrono::milliseconds(random.below(40'000))));
    ASSERT_EQ(manager_->check_counts(), "");
    come_back(i);
    tell_master();
    for (uint64_t n = random.below(6); n > 0; --n) {
      must_put(fmt::format("r{}", random.below(8)), std::string(600'000, 'r'));
    }
    scheduler_.run_for(Duration(std::chrono::milliseconds(random.below(400))));
    if (random.chance(0.6)) ASSERT_TRUE(is_whole());
  }
  ASSERT_TRUE(all_durable());
  ASSERT_TRUE(is_whole());
  EXPECT_GT(adopted(), 0u);
  expect_sound();
}

}  // namespace
}  // namespace ramcloud::server
