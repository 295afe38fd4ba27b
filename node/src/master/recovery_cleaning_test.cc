// A recovery that is given up after its commit, and a cleaning pass that has its segments: both
// remove them from the log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "master/testing/recovery_fixture.h"
#include "store/cleaning_pass.h"

namespace ramcloud::master {
namespace {

using store::CleaningPass;
using store::testing::object_entry;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::RecoveryPhase;
using Progress = log::CleaningWork::Progress;

constexpr int kObjects = 200;

class GivenUpAndCleaned : public testing::RecoveryFixture {
 protected:
  GivenUpAndCleaned() : RecoveryFixture(16, false) {}

  void recover_all(uint64_t attempt) {
    for (int i = 0; i < kObjects; ++i) {
      dead_[3].push_back(object_entry(5, std::to_string(i), std::string(1000, 'x')));
    }
    dead_[3].push_back(store::testing::tombstone_entry(5, "deleted"));
    ASSERT_EQ(recover(part(attempt)), StatusCode::kOk);
    ASSERT_TRUE(reaches_with_replicas(attempt, RecoveryPhase::kReady));
  }
  bool reaches_with_replicas(uint64_t attempt, RecoveryPhase phase) {
    return run_until([&] {
      parts_.replicator.finish_all();
      const auto now = state(attempt);
      return now && now->phase == phase;
    });
  }
  std::vector<log::Segment*> recovered() {
    std::vector<log::Segment*> found;
    for (log::Segment* segment : parts_.log.segments()) {
      if (segment->side()) found.push_back(segment);
    }
    return found;
  }
  void clean(CleaningPass& pass) {
    pass.commit_now();
    for (int i = 0; pass.step() != Progress::kDone; ++i) {
      ASSERT_LT(i, 10'000);
      parts_.replicator.finish_all();
    }
  }
  void reclaim() {
    parts_.replicator.finish_all();
    parts_.log.reclaim(parts_.log.take_retired());
  }
  /// No claim remains, and surviving entries of the part are dead; a tablet that comes back is
  /// empty.
  void expect_all_is_over(const std::vector<uint64_t>& segments) {
    ASSERT_TRUE(nothing_is_left());
    run_for(1s);
    reclaim();
    for (const uint64_t id : segments) {
      EXPECT_FALSE(store_.cleaned().being_cleaned(id)) << id;
    }
    for (const log::Segment* segment : recovered()) {
      EXPECT_LE(segment->live_bytes(), 100u) << "tombstones at most, in " << segment->id();
    }
    expect_invariants();
    dead_.clear();
    dead_[4] = {object_entry(6, "a", "1")};
    ASSERT_EQ(recover(part(8)), StatusCode::kOk);
    ASSERT_TRUE(reaches_with_replicas(8, RecoveryPhase::kReady));
    ASSERT_EQ(serve(8), StatusCode::kOk);
    EXPECT_THAT(own_log(state(8)->creation_position), ElementsAre(std::pair("a", 6)));
    EXPECT_EQ(read_status("1"), StatusCode::kNotFound);
    expect_invariants();
  }
  std::vector<uint64_t> ids_of(const std::vector<log::Segment*>& segments) {
    std::vector<uint64_t> ids;
    for (const log::Segment* segment : segments) ids.push_back(segment->id());
    return ids;
  }
};

/// How far the pass is when the recovery is given up: it scans, copies, waits for replicas, switches
/// slots, waits for a head, and is carried by one that is not open.
class AtEachStep : public GivenUpAndCleaned, public ::testing::WithParamInterface<int> {};

TEST_P(AtEachStep, ThePassTakesTheSegmentsOut) {
  ASSERT_NO_FATAL_FAILURE(recover_all(7));
  const auto victims = recovered();
  ASSERT_EQ(victims.size(), 1u);
  const auto ids = ids_of(victims);
  CleaningPass pass(store_, victims);
  for (int i = 0; i < GetParam(); ++i) {
    const bool waits = pass.step() == Progress::kWaits;
    if (waits && (i < 16 || i > 22)) parts_.replicator.finish_all();
    if (i == 18) pass.commit_now();
  }
  ASSERT_EQ(abort(7), StatusCode::kOk);
  run_for(1s);
  EXPECT_GT(side_segments(), 0u) << "it, or what it became";
  clean(pass);
  EXPECT_EQ(parts_.log.find_segment(ids[0]), nullptr);
  expect_all_is_over(ids);
}

INSTANTIATE_TEST_SUITE_P(Steps, AtEachStep, ::testing::Range(0, 26));

/// Its memory belongs to another segment when the recovery is given up.
TEST_F(GivenUpAndCleaned, ASegmentThatLeftIsNotTakenForAnother) {
  own_table(5);
  ASSERT_NO_FATAL_FAILURE(recover_all(7));
  const auto victims = recovered();
  const auto ids = ids_of(victims);
  {
    CleaningPass pass(store_, victims);
    clean(pass);
  }
  reclaim();
  uint64_t version = 0;
  log::LogPosition depends_on;
  for (int i = 0; victims[0]->id() == ids[0] || !victims[0]->closed_durable(); ++i) {
    const StatusCode status =
        store_.write(5, std::to_string(i), std::string(20'000, 'y'), {}, version, depends_on);
    parts_.replicator.finish_all();
    ASSERT_NE(status, StatusCode::kOutOfMemory) << "the memory was not used again";
  }
  const uint64_t another = victims[0]->id();
  ASSERT_NE(parts_.log.find_segment(another), nullptr);
  ASSERT_EQ(abort(7), StatusCode::kOk);
  ASSERT_TRUE(run_until([&] { return store_.tablets().size() == 1; }));
  run_for(1s);
  parts_.replicator.finish_all();
  run_for(1s);
  EXPECT_NE(parts_.log.find_segment(another), nullptr) << "it has what clients wrote";
  expect_invariants();
}

/// A pass that is given up leaves the segment where it is; the next one has it.
TEST_F(GivenUpAndCleaned, APassThatIsGivenUpLeavesItToTheNext) {
  ASSERT_NO_FATAL_FAILURE(recover_all(7));
  const auto victims = recovered();
  const auto ids = ids_of(victims);
  {
    CleaningPass pass(store_, victims);
    (void)pass.step();
    ASSERT_EQ(abort(7), StatusCode::kOk);
    ASSERT_TRUE(nothing_is_left());
    run_for(1s);
    ASSERT_TRUE(pass.abort());
  }
  ASSERT_NE(parts_.log.find_segment(ids[0]), nullptr);
  ASSERT_TRUE(store::may_clean(store_, *victims[0]));
  CleaningPass next(store_, victims);
  clean(next);
  EXPECT_EQ(next.counts().objects, 0u);
  EXPECT_EQ(next.counts().tombstones, 0u);
  expect_all_is_over(ids);
}

/// No pass takes a segment that leaves, or has left, with the recovery.
TEST_F(GivenUpAndCleaned, WhatLeavesIsNotCleaned) {
  ASSERT_NO_FATAL_FAILURE(recover_all(7));
  const auto victims = recovered();
  const auto ids = ids_of(victims);
  ASSERT_EQ(abort(7), StatusCode::kOk);
  ASSERT_TRUE(run_until([&] { return store_.cleaned().being_cleaned(ids[0]); }));
  EXPECT_FALSE(store::may_clean(store_, *victims[0]));
  CleaningPass pass(store_, victims);
  EXPECT_EQ(pass.step(), Progress::kDone) << "it has no victim";
  ASSERT_TRUE(run_until([&] {
    parts_.replicator.finish_all();
    return !store_.cleaned().being_cleaned(ids[0]);
  }));
  EXPECT_FALSE(store::claim(store_, *victims[0]))
      << "its memory is there, and it is not in the log";
  EXPECT_FALSE(store_.cleaned().being_cleaned(ids[0]));
  expect_all_is_over(ids);
}

}  // namespace
}  // namespace ramcloud::master
