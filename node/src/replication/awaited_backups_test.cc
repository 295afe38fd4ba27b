#include "replication/awaited_backups.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "log/log_test_support.h"

namespace ramcloud {
namespace {

using namespace std::chrono_literals;

class AwaitedBackupsTest : public ::testing::Test {
 protected:
  static constexpr Time kNow{100s};

  AwaitedBackupsTest() : log_(8) {
    for (uint64_t version = 1; log_.log.head().segment_id() < replicas_.size(); ++version) {
      EXPECT_EQ(log::append_object(log_.log, 1, version, "key", "value"), StatusCode::kOk);
      EXPECT_EQ(log_.log.roll_head(), StatusCode::kOk);
    }
    size_t i = 0;
    for (const log::Segment* segment : log_.log.segments()) {
      if (i < replicas_.size()) replicas_[i++].segment = log_.log.find_segment(segment->id());
    }
  }
  SegmentReplicas& of(size_t i) { return replicas_.at(i); }
  /// The segments that are not put off for this backup any more.
  std::set<uint64_t> taken_of(uint64_t server_id) {
    std::set<uint64_t> ids;
    while (const auto put_off = awaited_.take()) {
      EXPECT_EQ(put_off->server_id, server_id);
      EXPECT_TRUE(ids.insert(put_off->segment_id).second);
    }
    return ids;
  }

  std::array<SegmentReplicas, 4> replicas_;
  log::TestLog log_;
  AwaitedBackups awaited_;
};

TEST_F(AwaitedBackupsTest, WhatIsPutOffComesBackWhenTheGracePeriodIsOver) {
  awaited_.expect(5, kNow + 30s);
  awaited_.put_off(of(0), 5);
  awaited_.put_off(of(1), 5);
  EXPECT_EQ(of(0).awaits, 5u);
  EXPECT_EQ(awaited_.next_end(), kNow + 30s);
  awaited_.end_until(kNow + 30s - 1ms);
  EXPECT_FALSE(awaited_.take().has_value());
  EXPECT_TRUE(awaited_.expects(5));
  awaited_.end_until(kNow + 30s);
  EXPECT_FALSE(awaited_.expects(5));
  EXPECT_EQ(taken_of(5), (std::set{of(0).segment->id(), of(1).segment->id()}));
  EXPECT_EQ(awaited_.next_end(), kNever);
}

TEST_F(AwaitedBackupsTest, AGracePeriodIsNotProlonged) {
  awaited_.expect(5, kNow + 30s);
  awaited_.expect(5, kNow + 60s);
  EXPECT_EQ(awaited_.next_end(), kNow + 30s);
}

TEST_F(AwaitedBackupsTest, EachBackupHasItsOwn) {
  awaited_.expect(5, kNow + 30s);
  awaited_.expect(6, kNow + 40s);
  awaited_.put_off(of(0), 5);
  awaited_.put_off(of(1), 6);
  awaited_.end_until(kNow + 30s);
  EXPECT_EQ(taken_of(5), std::set{of(0).segment->id()});
  EXPECT_TRUE(awaited_.expects(6));
  EXPECT_EQ(awaited_.next_end(), kNow + 40s);
  awaited_.give_up(6);
  EXPECT_FALSE(awaited_.expects(6));
  EXPECT_EQ(taken_of(6), std::set{of(1).segment->id()});
}

TEST_F(AwaitedBackupsTest, AllAreGivenUp) {
  awaited_.expect(5, kNow + 30s);
  awaited_.put_off(of(0), 5);
  awaited_.give_up(4);
  EXPECT_TRUE(awaited_.expects(5));
  awaited_.give_up_all();
  EXPECT_FALSE(awaited_.expects(5));
  EXPECT_EQ(taken_of(5).size(), 1u);
  EXPECT_FALSE(awaited_.expects(4));
}

}  // namespace
}  // namespace ramcloud
