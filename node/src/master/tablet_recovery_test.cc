// A part of a dead master, from its sources into the log.
#include "master/tablet_recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "log/cleaner.h"
#include "log/replay.h"
#include "master/segment_fetch.h"
#include "master/testing/rebuilt_keys.h"
#include "master/testing/recovery_fixture.h"
#include "store/cleaning_pass.h"
#include "store/segment_judge.h"

namespace ramcloud::master {
namespace {

using store::testing::object_entry;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::HashRange;
using wire::RecoveryPhase;

using TabletRecoveryTest = testing::RecoveryFixture;

// ---- sources

TEST_F(TabletRecoveryTest, EachSourceIsTriedInTurn) {
  for (int i = 0; i < 10; ++i) dead_[3].push_back(object_entry(1, std::to_string(i), "v"));
  backups_[0]->refuses = StatusCode::kCorrupt;
  backups_[1]->damages = true;
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(state(7)->objects, 10u);
  EXPECT_EQ(backups_[0]->requests.size(), 1u);
  EXPECT_EQ(backups_[1]->requests.size(), 1u);
  EXPECT_EQ(backups_[2]->requests.size(), 4u) << "all pages from the one that has them";
}

TEST_F(TabletRecoveryTest, ASourceThatIsNotUpIsNotAsked) {
  dead_[3] = {object_entry(1, "a", "1")};
  auto request = part(7);
  request.segments[0].sources = {{77, 0}, {2, 0}};
  ASSERT_EQ(recover(request), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(state(7)->objects, 1u);
}

TEST_F(TabletRecoveryTest, ASourceMayPutAFetchOff) {
  dead_[3] = {object_entry(1, "a", "1")};
  backups_[0]->put_off = 20;
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(backups_[0]->requests.size(), 21u);
  EXPECT_THAT(backups_[1]->requests, IsEmpty()) << "putting off is no failure";
}

/// For longer than every source is tried.
TEST_F(TabletRecoveryTest, ASegmentWhoseSourcesAreBusyIsFetchedOnceTheyAreNot) {
  dead_[3] = {object_entry(1, "a", "1")};
  for (const auto& backup : backups_) backup->put_off = 1'000'000'000;
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  run_for(SegmentFetch::kMostPutOff * 4 * SegmentFetch::kRounds);
  ASSERT_EQ(state(7)->phase, RecoveryPhase::kReplaying) << state(7)->why;
  for (const auto& backup : backups_) backup->put_off = 0;
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(state(7)->objects, 1u);
}

/// Of 64 KiB a second.
class CappedRecovery : public testing::RecoveryFixture {
 protected:
  CappedRecovery() : RecoveryFixture(16, true, 0, 64 << 10) {}
};

/// Both parts share it.
TEST_F(CappedRecovery, NoMoreIsReplayedThanTheServerMay) {
  for (int i = 0; i < 64; ++i) {
    dead_[3 + i % 4].push_back(
        object_entry(1 + i % 2, std::to_string(i), std::string(10'000, 'x')));
  }
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_EQ(recover(part(8, {{2, 0, ~uint64_t{0}}})), StatusCode::kOk);
  const Time begun = sim_.now();
  const auto fetched = [&] { return state(7)->bytes_fetched + state(8)->bytes_fetched; };
  // What is asked for at the same time may come at the same time.
  constexpr uint64_t kBurst = 8 * 3 * 10'100;
  while (state(7)->phase != RecoveryPhase::kReady || state(8)->phase != RecoveryPhase::kReady) {
    run_for(100ms);
    const double seconds = std::chrono::duration<double>(sim_.now() - begun).count();
    ASSERT_LE(fetched(), kBurst + static_cast<uint64_t>(seconds * (64 << 10)));
    ASSERT_LT(seconds, 60);
  }
  EXPECT_EQ(state(7)->objects + state(8)->objects, 64u);
  EXPECT_GE(sim_.now() - begun, 6s) << "640 KB, less what comes at once";
}

TEST_F(TabletRecoveryTest, WithoutASourceThePartFailsAndNamesTheSegment) {
  dead_[3] = {object_entry(1, "a", "1")};
  dead_[4] = {object_entry(1, "b", "1")};
  auto request = part(7);
  request.segments[1].sources.clear();
  ASSERT_EQ(recover(request), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kFailed));
  EXPECT_EQ(state(7)->segment, 3u);
  EXPECT_EQ(state(7)->status, static_cast<uint16_t>(StatusCode::kNotFound));
  EXPECT_THAT(state(7)->why, HasSubstr("segment 3 of master 99"));
  EXPECT_TRUE(store_.tablets().empty()) << "it has nothing of it any more";
  EXPECT_EQ(store_.table().entries(), 0u);
  EXPECT_EQ(recover(request), StatusCode::kOk) << "the same answer again";
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kFailed);
  EXPECT_EQ(serve(7), StatusCode::kNotFound);

  for (auto& backup : backups_) backup->refuses = StatusCode::kIoError;
  ASSERT_EQ(recover(part(8)), StatusCode::kOk);
  ASSERT_TRUE(reaches(8, RecoveryPhase::kFailed));
  EXPECT_EQ(state(8)->status, static_cast<uint16_t>(StatusCode::kIoError));
  EXPECT_GT(backups_[2]->requests.size(), 1u) << "tried more than once";
  ASSERT_EQ(abort(8), StatusCode::kOk);
  EXPECT_EQ(state(8), std::nullopt);
  EXPECT_THAT(metrics_.text(), HasSubstr("ramcloud_recovery_parts_total{outcome=\"failed\"} 2"));
}

TEST_F(TabletRecoveryTest, SegmentsFromBeforeTheTabletAreNotAskedForIt) {
  constexpr HashRange kOther{2, 0, ~uint64_t{0}};
  dead_[3] = {object_entry(8, "a", "former time"), object_entry(1, "b", "b", 2)};
  dead_[4] = {object_entry(2, "b", "b", 2)};
  dead_[5] = {object_entry(1, "a", "a")};
  auto request = part(7, {testing::kWholeTable, kOther});
  request.tablets[0].creation_position = log::LogPosition(5, 0).value;
  request.tablets[1].creation_position = log::LogPosition(4, 0).value;
  ASSERT_EQ(recover(request), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_THAT(backups_[0]->segments(), ElementsAre(5, 4)) << "nobody's stands in segment 3";
  EXPECT_EQ(backups_[0]->requests[0].ranges.size(), 2u);
  ASSERT_EQ(backups_[0]->requests[1].ranges.size(), 1u);
  EXPECT_EQ(backups_[0]->requests[1].ranges[0].table_id, 2u);
  EXPECT_EQ(state(7)->segments_done, 3u);
  ASSERT_EQ(serve(7, {testing::kWholeTable}), StatusCode::kOk);
  EXPECT_EQ(read("a"), "a");
}

TEST_F(TabletRecoveryTest, SeveralFetchesAreOutAndNoMore) {
  for (uint64_t segment = 1; segment <= 30; ++segment) {
    dead_[segment] = {object_entry(segment, "a", "1")};
  }
  backups_[0]->holds = true;
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_EQ(recover(part(8, {{2, 0, 9}})), StatusCode::kOk);
  run_for(100ms);
  EXPECT_EQ(backups_[0]->most_held, RecoveryLimits().fetches) << "of all parts together";
  EXPECT_THAT(backups_[0]->segments(), ElementsAre(30, 29, 28, 27, 26, 25, 24, 23));
  EXPECT_LE(backups_[0]->requests[0].max_bytes * RecoveryLimits().fetches, 16u << 20);
  EXPECT_EQ(state(7)->status, static_cast<uint16_t>(StatusCode::kOk));
  EXPECT_EQ(state(8)->status, static_cast<uint16_t>(StatusCode::kRetry)) << "it has to wait";
  backups_[0]->holds = false;
  backups_[0]->release();
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_TRUE(reaches(8, RecoveryPhase::kReady));
}

TEST_F(TabletRecoveryTest, WhoWaitsForASilentSourceLetsOthersFetch) {
  dead_[3] = {object_entry(1, "a", "1"), object_entry(1, "b", "b", 2)};
  backups_[0]->holds = true;
  auto stuck = part(7);
  stuck.segments[0].sources = {{1, 5}};
  auto other = part(8, {{2, 0, ~uint64_t{0}}});
  other.segments[0].sources = {{2, 5}};
  ASSERT_EQ(recover(stuck), StatusCode::kOk);
  ASSERT_EQ(recover(other), StatusCode::kOk);
  ASSERT_TRUE(reaches(8, RecoveryPhase::kReady));
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kReplaying);
  backups_[0]->holds = false;
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(state(7)->objects, 1u);
  EXPECT_EQ(state(7)->segments_done, 1u);
}

/// Their first source is silent for a while, and the other one dies meanwhile. Then the first of
/// them is put off again in the turn in which it is tried.
TEST_F(TabletRecoveryTest, WhatIsPutOffTogetherIsAllFetchedLater) {
  for (uint64_t segment = 3; segment <= 6; ++segment) {
    dead_[segment] = {object_entry(segment, "key" + std::to_string(segment), "1")};
  }
  auto request = part(7);
  for (auto& segment : request.segments) segment.sources = {{1, 5}, {2, 5}};
  backups_[0]->holds = true;
  ASSERT_EQ(recover(request), StatusCode::kOk);
  run_for(1s);
  ASSERT_EQ(backups_[0]->requests.size(), 4u);
  wire::ServerList list = servers_.whole();
  ++list.version;
  list.servers[1].state = wire::ServerState::kCrashed;
  ASSERT_TRUE(servers_.apply(list).ok());
  backups_[0]->holds = false;  // it answers again, but none of the first requests
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(state(7)->segments_done, 4u);
  EXPECT_EQ(state(7)->objects, 4u);
  ASSERT_EQ(serve(7), StatusCode::kOk);
  for (uint64_t segment = 3; segment <= 6; ++segment) {
    EXPECT_EQ(read("key" + std::to_string(segment)), "1") << "of segment " << segment;
  }
}

// ---- several segments at once

class SeveralSegments : public testing::RecoveryFixture {
 protected:
  static constexpr uint64_t kSegments = 100;
  SeveralSegments() {
    for (uint64_t id = 1; id <= kSegments; ++id) {
      dead_[id] = {object_entry(id, key(id), "new"), object_entry(1, "old", "old"),
                   object_entry(id, "latest", "of " + std::to_string(id))};
    }
    for (auto& backup : backups_) backup->adds = 100;
  }
  static std::string key(uint64_t id) { return "key" + std::to_string(id); }
  void recover_all() {
    ASSERT_EQ(recover(part(7)), StatusCode::kOk);
    end();
  }
  /// Begins, until the first backup holds requests for several segments.
  void begin() {
    backups_[0]->holds = true;
    ASSERT_EQ(recover(part(7)), StatusCode::kOk);
    ASSERT_TRUE(run_until([&] { return backups_[0]->requests.size() >= 8; }));
    backups_[0]->release();  // from here on it is known that they have few entries
    ASSERT_TRUE(run_until([&] { return backups_[0]->requests.size() >= 16; }));
    ASSERT_GT(backups_[0]->requests.back().further.size(), 0u);
    backups_[0]->holds = false;
  }
  void end() {
    backups_[0]->release();
    ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
    EXPECT_EQ(state(7)->segments_done, kSegments);
    EXPECT_EQ(state(7)->objects, kSegments + 2);
    ASSERT_EQ(serve(7), StatusCode::kOk);
    for (uint64_t id = 1; id <= kSegments; ++id) EXPECT_EQ(read(key(id)), "new") << id;
    EXPECT_EQ(read("latest"), "of " + std::to_string(kSegments));
  }
  size_t requests() const {
    size_t all = 0;
    for (const auto& backup : backups_) all += backup->requests.size();
    return all;
  }
};

TEST_F(SeveralSegments, AFetchIsForManyThatHaveFewEntries) {
  recover_all();
  EXPECT_LT(requests(), 40u);
  std::set<uint64_t> fetched;
  for (const auto& request : backups_[0]->requests) {
    EXPECT_LE(request.further.size(), wire::RecoveryFetchRequest::kMostFurther);
    EXPECT_TRUE(fetched.insert(request.segment_id).second);
    for (const auto& one : request.further) EXPECT_TRUE(fetched.insert(one.segment_id).second);
  }
  EXPECT_EQ(fetched.size(), kSegments) << "each once";
}

TEST_F(SeveralSegments, WhatTheBackupDoesNotAddIsFetchedLater) {
  backups_[0]->adds = 2;
  recover_all();
  EXPECT_GT(backups_[0]->added, 50u);
  EXPECT_EQ(requests() + backups_[0]->added, kSegments);
}

TEST_F(SeveralSegments, WhatADamagedPageHadIsFetchedAgain) {
  begin();
  backups_[0]->damages = true;
  end();
  EXPECT_GT(backups_[0]->added, 20u);
  EXPECT_EQ(backups_[1]->added, 0u) << "it has only the first segment, for what the master knows";
}

/// Otherwise each of its failures would hold up all of them.
TEST_F(SeveralSegments, ABackupThatFailsIsAskedForOneAtATime) {
  begin();
  const size_t before = backups_[0]->requests.size();
  backups_[0]->refuses = StatusCode::kCorrupt;
  end();
  EXPECT_GT(backups_[0]->requests.size(), before + 10);
  for (size_t i = before; i < backups_[0]->requests.size(); ++i) {
    EXPECT_TRUE(backups_[0]->requests[i].further.empty()) << i;
  }
}

TEST_F(SeveralSegments, APageThatClaimsMoreThanWasWantedIsRefused) {
  backups_[0]->claims = 100;
  recover_all();
  EXPECT_EQ(backups_[1]->requests.size(), kSegments);
}

TEST_F(SeveralSegments, ABackupOfAnEarlierVersionIsAskedForEachSegment) {
  backups_[0]->transport->set_highest_version(wire::kPackedSegments - 1);
  recover_all();
  EXPECT_EQ(backups_[0]->requests.size(), kSegments);
}

/// Each segment has entries of other tables only in ranges that the order names for it.
TEST_F(SeveralSegments, SegmentsWithOtherRangesAreAskedForAlone) {
  constexpr HashRange kOther{2, 0, ~uint64_t{0}};
  dead_[49].push_back(object_entry(9, "former", "former time", 2));
  dead_[50].push_back(object_entry(2, "b", "b", 2));
  auto request = part(7, {testing::kWholeTable, kOther});
  request.tablets[1].creation_position = log::LogPosition(50, 0).value;
  ASSERT_EQ(recover(request), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(state(7)->segments_done, kSegments);
  EXPECT_EQ(state(7)->objects, kSegments + 3) << "without the one of a former time";
  for (const auto& one : backups_[0]->requests) {
    const size_t ranges = one.segment_id >= 50 ? 2 : 1;
    EXPECT_EQ(one.ranges.size(), ranges) << one.segment_id;
    for (const auto& further : one.further) {
      EXPECT_EQ(further.segment_id >= 50 ? 2u : 1u, ranges) << further.segment_id;
    }
  }
}

// ---- versions, the log

TEST_F(TabletRecoveryTest, AnEmptyPartRaisesTheSafeVersionToo) {
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  log::Replay replay(log::kTestCluster, log::kTestMaster);
  std::vector<std::string> images;
  images.reserve(16);
  for (const log::Segment* segment : parts_.log.segments()) {
    images.push_back(log::image_of(*segment));
    log::ReplicaImage image;
    image.segment_id = segment->id();
    image.bytes = images.back();
    replay.add(std::move(image));
  }
  ASSERT_TRUE(replay.run().ok());
  EXPECT_GE(replay.report().safe_version, testing::kDeadSafeVersion) << "the log says so itself";
  ASSERT_EQ(serve(7), StatusCode::kOk);
  EXPECT_GE(write("deleted there"), testing::kDeadSafeVersion);
}

/// Otherwise what it brings would pass for what is not owned any more.
TEST_F(TabletRecoveryTest, TheHeadThatCommitsItListsItsTablets) {
  dead_[3] = {object_entry(5, "a", "1"), object_entry(6, "b", "1")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_THAT(testing::rebuilt_keys(parts_.log, 1), ElementsAre("a", "b"));
  ASSERT_EQ(serve(7), StatusCode::kOk);
  write("c");
  EXPECT_THAT(testing::rebuilt_keys(parts_.log, 1), ElementsAre("a", "b", "c"));
}

TEST_F(TabletRecoveryTest, GivenUpAfterTheCommitItLeavesTheLog) {
  dead_[3] = {object_entry(5, "deleted elsewhere later", "1"), object_entry(5, "a", "1")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_EQ(side_segments(), 1u);
  const uint64_t groups = parts_.log.statistics().appended_groups;
  ASSERT_EQ(abort(7), StatusCode::kOk);
  ASSERT_TRUE(nothing_is_left());
  ASSERT_TRUE(run_until([&] { return side_segments() == 0; }));
  EXPECT_EQ(parts_.log.statistics().appended_groups, groups) << "no tombstones";
  EXPECT_TRUE(run_until([&] { return !parts_.log.take_retired().empty(); }));

  // The tablet was elsewhere meanwhile, and comes back.
  dead_[3] = {object_entry(5, "a", "1")};
  ASSERT_EQ(recover(part(8)), StatusCode::kOk);
  ASSERT_TRUE(reaches(8, RecoveryPhase::kReady));
  const uint64_t position = state(8)->creation_position;
  EXPECT_GT(position, 0u);
  ASSERT_EQ(serve(8), StatusCode::kOk);
  EXPECT_EQ(read("a"), "1");
  EXPECT_EQ(read_status("deleted elsewhere later"), StatusCode::kNotFound);
  EXPECT_THAT(own_log(position), ElementsAre(std::pair("a", 5)));
  EXPECT_THAT(own_log(0), ElementsAre(std::pair("a", 5)));
  expect_invariants();
}

/// Entries of it stay in the log, because other tablets of its part are served; they are below the
/// position.
TEST_F(TabletRecoveryTest, OldEntriesOfAPartThatIsServedDoNotComeBack) {
  constexpr HashRange kOther{2, 0, ~uint64_t{0}};
  dead_[3] = {object_entry(5, "deleted elsewhere later", "1"), object_entry(5, "b", "1", 2)};
  backups_[0]->page = 1;
  backups_[0]->holds = true;
  ASSERT_EQ(recover(part(7, {testing::kWholeTable, kOther})), StatusCode::kOk);
  ASSERT_TRUE(run_until([&] { return !backups_[0]->held.empty(); }));
  backups_[0]->release();
  // The first page is in a side segment, which is not part of the log yet.
  ASSERT_TRUE(run_until([&] { return store_.table().entries() == 1; }));
  dead_[4] = {object_entry(6, "a", "1")};
  EXPECT_EQ(recover(part(8)), StatusCode::kRetry);
  ASSERT_TRUE(run_until([&] { return store_.tablets().size() == 1; }));
  backups_[0]->holds = false;
  auto request = part(8);
  request.segments.pop_back();  // the dead log has only segment 4 of it now
  ASSERT_EQ(recover(request), StatusCode::kOk);
  run_for(10ms);
  backups_[0]->release();
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_TRUE(reaches(8, RecoveryPhase::kReady));
  ASSERT_EQ(serve(7, {kOther}), StatusCode::kOk);
  ASSERT_EQ(serve(8), StatusCode::kOk);
  EXPECT_THAT(own_log(state(8)->creation_position), ElementsAre(std::pair("a", 6)));
  expect_invariants();
}

class ShortOfMemory : public testing::RecoveryFixture {
 protected:
  ShortOfMemory() : RecoveryFixture(4) {}
};

TEST_F(ShortOfMemory, ThePartFailsAndTheServerServesOn) {
  own_table(5);
  for (int i = 0; i < 40; ++i) {
    dead_[3].push_back(object_entry(1, std::to_string(i), std::string(1 << 20, 'x')));
  }
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kFailed));
  EXPECT_EQ(state(7)->status, static_cast<uint16_t>(StatusCode::kOutOfMemory));
  EXPECT_EQ(state(7)->segment, 0u) << "the sources are not to blame";
  EXPECT_EQ(store_.table().entries(), 0u);
  parts_.log.reclaim(parts_.log.take_retired());
  EXPECT_EQ(parts_.log.statistics().free_segments, 3u);
  uint64_t version = 0;
  log::LogPosition depends_on;
  EXPECT_EQ(store_.write(5, "key", "value", {}, version, depends_on), StatusCode::kOk);
  expect_invariants();
}

/// The log is full of overwritten objects.
class ShortOfCleanMemory : public testing::RecoveryFixture {
 protected:
  static constexpr uint32_t kSegments = 8;
  static constexpr int kDeadObjects = 24;  // of 1 MiB: three segments
  ShortOfCleanMemory() : RecoveryFixture(kSegments, true, 1) {
    own_table(5);
    uint64_t version = 0;
    log::LogPosition depends_on;
    while (parts_.log.has_segment_for(log::MemoryPurpose::kWrites)) {
      EXPECT_EQ(store_.write(5, "key", std::string(1 << 20, 'y'), {}, version, depends_on),
                StatusCode::kOk);
    }
    for (int i = 0; i < kDeadObjects; ++i) {
      dead_[3].push_back(object_entry(1, std::to_string(i), std::string(1 << 20, 'x')));
    }
  }
  /// As the server's first reactor does it.
  void clean() {
    for (int i = 0; i < 1000 && worker_.step(); ++i) {
      parts_.log.reclaim(parts_.log.take_retired());
      (void)store_.sweep();
    }
    parts_.log.reclaim(parts_.log.take_retired());
  }

 private:
  store::SegmentJudge judge_{store_};
  log::Cleaner cleaner_{
      parts_.log,
      sim_.clock(),
      {},
      [this](const log::Segment& s, log::Look look) { return judge_.judge(s, look); },
      [this](log::CleaningKind, const std::vector<log::Segment*>& victims) {
        return std::make_unique<store::CleaningPass>(store_, victims);
      }};
  log::Cleaner::Worker worker_{cleaner_};
};

TEST_F(ShortOfCleanMemory, ThePartWaitsForCleaning) {
  parts_.log.set_cleaning_helps(true, parts_.log.segment_changes());
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  run_for(1s);
  ASSERT_EQ(state(7)->phase, RecoveryPhase::kReplaying) << "there is no room, and may be";
  for (int i = 0; i < 200 && state(7)->phase == RecoveryPhase::kReplaying; ++i) {
    clean();
    run_for(10ms);
  }
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_EQ(serve(7), StatusCode::kOk);
  for (int i = 0; i < kDeadObjects; ++i) EXPECT_TRUE(read(std::to_string(i))) << i;
  expect_invariants();
}

TEST_F(ShortOfCleanMemory, WithNothingToCleanThePartFails) {
  parts_.log.set_cleaning_helps(true, parts_.log.segment_changes());
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  run_for(1s);
  ASSERT_EQ(state(7)->phase, RecoveryPhase::kReplaying);
  parts_.log.set_cleaning_helps(false, parts_.log.segment_changes());
  ASSERT_TRUE(reaches(7, RecoveryPhase::kFailed));
  EXPECT_EQ(state(7)->status, static_cast<uint16_t>(StatusCode::kOutOfMemory));
  expect_invariants();
}

/// Passes wait, for replicas without a frame perhaps: another server may have memory for the part.
TEST_F(ShortOfCleanMemory, WhenCleaningFreesNothingThePartFails) {
  parts_.log.set_cleaning_helps(true, parts_.log.segment_changes());
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  run_for(9s);
  ASSERT_EQ(state(7)->phase, RecoveryPhase::kReplaying);
  run_for(2s);
  ASSERT_EQ(state(7)->phase, RecoveryPhase::kFailed);
  EXPECT_EQ(state(7)->status, static_cast<uint16_t>(StatusCode::kOutOfMemory));
  expect_invariants();
}

TEST_F(ShortOfCleanMemory, WhoIsGivenUpWaitsNoLonger) {
  parts_.log.set_cleaning_helps(true, parts_.log.segment_changes());
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  run_for(1s);
  ASSERT_EQ(abort(7), StatusCode::kOk);
  EXPECT_TRUE(run_until([&] { return store_.tablets().size() == 1; }));
}

/// Nothing is durable until the test makes it so.
class NotDurable : public testing::RecoveryFixture {
 protected:
  NotDurable() : RecoveryFixture(16, false) {}
};

TEST_F(NotDurable, ReadyMeansThatItIsDurableAndPartOfTheLog) {
  dead_[3] = {object_entry(1, "a", "1")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kCommitting));
  run_for(1s);
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kCommitting) << "the side segment is on no backup";
  EXPECT_EQ(serve(7), StatusCode::kRetry);
  EXPECT_EQ(read_status("a"), StatusCode::kUnknownTablet);
  const uint64_t side = parts_.log.others().front()->id();
  parts_.replicator.finish_open(side);
  parts_.replicator.finish_close(side);
  run_for(1s);
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kCommitting) << "no digest names it yet";
  EXPECT_EQ(serve(7), StatusCode::kRetry);
  parts_.replicator.finish_all();
  EXPECT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(side_segments(), 1u);
}

TEST_F(NotDurable, WithoutFramesThePartFailsAndGivesBackItsOwn) {
  dead_[3] = {object_entry(1, "a", "1")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kCommitting));
  parts_.replicator.shortage = {StatusCode::kNoSpace, "backups are full"};
  run_for(5s);
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kCommitting) << "frames may become free";
  EXPECT_EQ(state(7)->why, "1 of 1 recovered segments lack replicas: backups are full");
  ASSERT_TRUE(reaches(7, RecoveryPhase::kFailed));
  EXPECT_EQ(state(7)->status, static_cast<uint16_t>(StatusCode::kNoSpace));
  EXPECT_EQ(state(7)->segment, 0u) << "no source is to blame";
  EXPECT_THAT(state(7)->why, ::testing::HasSubstr("backups are full"));
  ASSERT_TRUE(nothing_is_left());
  ASSERT_TRUE(run_until([&] { return !parts_.log.take_retired().empty(); }));
}

TEST_F(NotDurable, WithTooFewBackupsItWaitsAndSaysSo) {
  dead_[3] = {object_entry(1, "a", "1")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kCommitting));
  parts_.replicator.shortage = {StatusCode::kNoSpace, "backups are full"};
  run_for(1s);
  EXPECT_EQ(state(7)->status, static_cast<uint16_t>(StatusCode::kOk)) << "not for long";
  parts_.replicator.shortage = {StatusCode::kUnavailable, "one backup is up"};
  run_for(60s);
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kCommitting) << "an attempt elsewhere finds no more";
  EXPECT_THAT(state(7)->why, ::testing::HasSubstr("one backup is up"));
  EXPECT_EQ(state(7)->status, static_cast<uint16_t>(StatusCode::kUnavailable));
  parts_.replicator.shortage = {StatusCode::kNoSpace, "the new one is full"};
  run_for(5s);
  ASSERT_EQ(state(7)->phase, RecoveryPhase::kCommitting) << "its frames may become free";
  parts_.replicator.shortage = {};
  parts_.replicator.finish_all();
  ASSERT_TRUE(run_until([&] {
    parts_.replicator.finish_all();
    return state(7)->phase == RecoveryPhase::kReady;
  }));
  EXPECT_EQ(state(7)->why, "");
}

TEST_F(NotDurable, FramesThatComeInTimeAreUsed) {
  for (int i = 0; i < 30; ++i) {
    dead_[3].push_back(object_entry(5, std::to_string(i), std::string(500'000, 'x')));
  }
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kCommitting));
  parts_.replicator.shortage = {StatusCode::kNoSpace, "backups are full"};
  const auto side = parts_.log.others();
  ASSERT_GE(side.size(), 2u);
  for (const log::Segment* segment : side) {
    run_for(8s);
    ASSERT_EQ(state(7)->phase, RecoveryPhase::kCommitting);
    parts_.replicator.finish_open(segment->id());
    parts_.replicator.finish_close(segment->id());
  }
  parts_.replicator.shortage = {};
  EXPECT_TRUE(run_until([&] {
    parts_.replicator.finish_all();
    return state(7)->phase == RecoveryPhase::kReady;
  }));
}

TEST_F(NotDurable, GivenUpWhileItWaitsItIsNeverPartOfTheLog) {
  dead_[3] = {object_entry(1, "a", "1")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kCommitting));
  ASSERT_EQ(abort(7), StatusCode::kOk);
  ASSERT_TRUE(nothing_is_left());
  ASSERT_TRUE(run_until([&] { return !parts_.log.take_retired().empty(); }));
  parts_.replicator.finish_all();
  EXPECT_EQ(side_segments(), 0u);
}

TEST_F(NotDurable, GivenUpWhileADigestHasItItLeavesAfterwards) {
  dead_[3] = {object_entry(1, "a", "1")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kCommitting));
  const uint64_t side = parts_.log.others().front()->id();
  parts_.replicator.finish_open(side);
  parts_.replicator.finish_close(side);
  ASSERT_TRUE(run_until([&] { return side_segments() == 1; })) << "a digest names it";
  ASSERT_EQ(abort(7), StatusCode::kOk);
  ASSERT_TRUE(nothing_is_left());
  run_for(1s);
  EXPECT_EQ(side_segments(), 1u) << "a crash may have it already";
  EXPECT_TRUE(run_until([&] {
    parts_.replicator.finish_all();
    return side_segments() == 0;
  }));
  expect_invariants();
}

}  // namespace
}  // namespace ramcloud::master
