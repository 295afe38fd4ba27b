#include "replication/backup_table.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>

#include "runtime/sim/sim_scheduler.h"

namespace ramcloud {
namespace {

class BackupTableTest : public ::testing::Test {
 protected:
  ReplicaSlot& place(uint64_t server_id, bool primary = false) {
    ReplicaSlot& slot = slots_.emplace_back(inbox_, segment_, primary);
    slot.place(server_id, {"sim", {"b", 1}}, "d");
    table_.add(slot);
    return slot;
  }
  void leave(ReplicaSlot& slot) {
    table_.remove(slot);
    slot.unplace(ReplicaEvent::kLost);
  }
  PlacementServer described(uint64_t server_id, Time now = Time{},
                            BackupTable::Kind kind = BackupTable::Kind::kHead) {
    PlacementServer server;
    server.server_id = server_id;
    table_.describe(server, kind, now);
    return server;
  }

  SimScheduler scheduler_{1};
  SimNode& node_ = scheduler_.add_node("m");
  CallInbox inbox_{node_.reactor()};
  log::Segment segment_;
  std::deque<ReplicaSlot> slots_;
  BackupTable table_{{.refused_delay = 1s, .max_refused_delay = 4s, .max_no_frame_delay = 2s}};
};

TEST_F(BackupTableTest, KnowsEachReplicaByItsPlace) {
  ReplicaSlot& a = place(1, true);
  ReplicaSlot& b = place(1);
  ReplicaSlot& c = place(1);
  EXPECT_EQ(described(1).replicas, 3u);
  EXPECT_EQ(described(1).primaries, 1u);
  leave(a);
  EXPECT_TRUE(table_.knows(b));
  EXPECT_TRUE(table_.knows(c)) << "it took the place of the first";
  EXPECT_EQ(described(1).replicas, 2u);
  EXPECT_EQ(described(1).primaries, 0u);
  leave(c);
  EXPECT_EQ(table_.any_on(1), &b);
  leave(b);
  EXPECT_EQ(table_.any_on(1), nullptr);
  EXPECT_EQ(table_.replicas_on(2), 0u);
}

TEST_F(BackupTableTest, GivesItsReplicasInTurn) {
  place(1);
  place(1);
  ReplicaSlot* first = table_.next_on(1);
  ReplicaSlot* second = table_.next_on(1);
  EXPECT_NE(first, second);
  EXPECT_EQ(table_.next_on(1), first);
  EXPECT_EQ(table_.next_on(7), nullptr);
}

TEST_F(BackupTableTest, ARefusalDoublesTheTimeUntilItTakesOne) {
  Time now{};
  for (const Duration delay : {1s, 2s, 4s, 4s}) {
    table_.refused(1, now);
    EXPECT_FALSE(described(1, now + delay - 1ns).usable);
    EXPECT_TRUE(described(1, now + delay).usable);
    now += delay;
  }
  table_.accepted(1);
  table_.refused(1, now);
  EXPECT_TRUE(described(1, now + 1s).usable) << "they are counted in a row";
  EXPECT_TRUE(described(2).usable) << "nothing is known of it";
}

TEST_F(BackupTableTest, OneWithoutAFrameForCopiesStillGetsHeads) {
  const Time now{};
  table_.has_no_frame_for_copies(1, now);
  EXPECT_TRUE(described(1, now, BackupTable::Kind::kHead).usable);
  EXPECT_FALSE(described(1, now, BackupTable::Kind::kCopy).usable);
  EXPECT_TRUE(described(1, now + 1s, BackupTable::Kind::kCopy).usable);
  table_.refused(1, now);
  EXPECT_FALSE(described(1, now + 1s, BackupTable::Kind::kHead).usable);
  EXPECT_FALSE(described(1, now + 1s, BackupTable::Kind::kCopy).usable) << "two in a row";
  table_.has_no_frame_for_copies(1, now);
  EXPECT_TRUE(described(1, now + 2s, BackupTable::Kind::kCopy).usable) << "2 s at most";
}

TEST_F(BackupTableTest, ABackupThatIsBeingLostTakesNothingUntilThatEnds) {
  ReplicaSlot& slot = place(2);
  place(3);
  table_.begin_losing(2, StatusCode::kCrashed);
  table_.begin_losing(2, StatusCode::kIoError);
  table_.begin_losing(3, StatusCode::kIoError);
  EXPECT_EQ(table_.losing(), (std::deque<uint64_t>{2, 3}));
  EXPECT_EQ(table_.why_lost(2).code(), StatusCode::kCrashed) << "as the first time";
  EXPECT_FALSE(described(2).usable);
  leave(slot);
  table_.end_losing(/*forget=*/false);
  EXPECT_TRUE(described(2).usable);
  EXPECT_FALSE(table_.is_being_lost(2));
  EXPECT_TRUE(table_.is_being_lost(3));
  EXPECT_EQ(table_.first_from(3), 3u);
  leave(*table_.any_on(3));
  table_.end_losing(/*forget=*/true);
  EXPECT_FALSE(table_.first_from(3)) << "it is forgotten";
  EXPECT_EQ(table_.first_from(0), 2u);
}

TEST_F(BackupTableTest, WhatAVolumeIsNeededFor) {
  place(1);
  place(2);
  place(2);
  table_.missed(3);
  table_.missed(3);
  const std::array<uint64_t, 2> both = {2, 3};
  EXPECT_EQ(table_.need_of(both).counted, 2u);
  EXPECT_EQ(table_.need_of(both).missed, 2u);
  table_.not_missed(3);
  table_.not_missed(3);
  EXPECT_EQ(table_.need_of(both).missed, 0u);
  EXPECT_TRUE(table_.missed_by().empty());
}

}  // namespace
}  // namespace ramcloud
