// Memory that cleaning frees: that of deleted objects and tombstones, over long runs, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "base/testing/sanitizer.h"
#include "store/cleaning_pass.h"
#include "store/invariants.h"
#include "store/tablet_replay.h"
#include "store/testing/cleaning_rig.h"
#include "store/testing/dead_log.h"

namespace ramcloud::store {
namespace {

using testing::CleaningRig;
using ::testing::IsEmpty;

std::string key_of(uint64_t i) {
  return "key" + std::to_string(i);
}

constexpr uint32_t kSegments = 10;

/// The smaller, the more of them: a sanitizer takes minutes.
constexpr uint32_t kSmall = ramcloud::testing::kSanitized ? 300 : 50;

/// Bytes of a value, and whether memory is cleaned in two levels.
class FullAndEmpty : public ::testing::TestWithParam<std::tuple<uint32_t, bool>> {};

/// Tombstones of small objects are as large as they: they must go, too.
TEST_P(FullAndEmpty, AllReturnsWhenAllIsDeleted) {
  const auto [bytes, two_level] = GetParam();
  log::CleanerOptions options;
  options.balancer.compaction = two_level;
  CleaningRig t(kSegments, true, options, 1 << 17);
  const std::string value(bytes, 'v');
  for (int round = 0; round < 2; ++round) {
    uint64_t keys = 0;
    StatusCode status = StatusCode::kOk;
    for (; status == StatusCode::kOk; ++keys) {
      ASSERT_LT(keys, 10'000'000u);
      status = t.write(key_of(keys), value);
    }
    --keys;
    EXPECT_EQ(status, StatusCode::kOutOfMemory);
    EXPECT_GT(keys * (bytes + 40), (kSegments - 7) * log::kSegmentBytes) << round;
    for (uint64_t i = 0; i < keys; ++i) {
      ASSERT_EQ(t.remove(key_of(i)), StatusCode::kOk)
          << i << " of " << keys << ": " << t.describe();
    }
    EXPECT_EQ(t.store.object_count(1), 0u);
    ASSERT_THAT(Invariants(t.store).check(), IsEmpty());
  }
  // An idle store does not clean, so a writer is needed.
  t.clean();
  for (int i = 0; i < 10 && t.worker.passes() > 0; ++i) {
    (void)t.parts.log.roll_head();  // which passes wait for
    t.clean();
  }
  EXPECT_GE(t.free_seglets(),
            log::cleaning_starts_below(
                {}, {.total_seglets = t.total_seglets(),
                     .reserved_seglets = t.parts.log.must_stay_free(log::MemoryPurpose::kWrites)}))
      << t.describe();
}

INSTANTIATE_TEST_SUITE_P(Sizes, FullAndEmpty,
                         ::testing::Combine(::testing::Values(kSmall, 1'000u, 100'000u),
                                            ::testing::Bool()),
                         [](const auto& about) {
                           return std::to_string(std::get<0>(about.param)) +
                                  (std::get<1>(about.param) ? "_two_level" : "_one_level");
                         });

/// Heads get their replicas, copies do not, as on backups that have no time for them.
void replicate_heads(log::FakeReplicator& replicator) {
  for (bool more = true; more;) {
    more = false;
    std::vector<log::Segment*> heads;
    for (const auto& replica : replicator.replicas()) {
      if (!replica.segment->side()) heads.push_back(replica.segment);
    }
    for (const log::Segment* head : heads) {
      if (head->closed_durable()) continue;
      if (!head->opened_durable()) {
        replicator.finish_open(head->id());
        more = true;
      }
      replicator.finish_data(head->id());
      if (head->closed()) {
        replicator.finish_close(head->id());
        more = true;
      }
    }
  }
}

/// Compaction frees memory without backups, and each new head takes a frame of some. So writers wait
/// for passes that free frames, once the disk has reached its limit.
TEST(CleaningMemory, WritersDoNotOutrunSlowCopies) {
  constexpr uint32_t kLarge = 32;
  log::CleanerOptions options;
  options.balancer.compaction = true;
  CleaningRig t(kLarge, false, options);
  const std::string value(100'000, 'v');
  const auto write = [&](uint64_t number) {
    const bool stays = number % 3 == 0 && number < 2'400;
    uint64_t version = 0;
    log::LogPosition depends;
    return t.store.write(1, key_of(stays ? 1'000 + number : number % 40), value, testing::kNoRules,
                         version, depends);
  };
  const auto limit = static_cast<uint32_t>(options.balancer.disk_expansion * kLarge);
  uint64_t written = 0;
  uint32_t most = 0;
  const auto run = [&](int steps, bool slow, uint32_t until) {
    for (int i = 0; i < steps && t.parts.log.memory().segments < until; ++i) {
      if (write(written) == StatusCode::kOk) ++written;
      (void)t.worker.step();
      slow ? replicate_heads(t.parts.replicator) : t.parts.replicator.finish_all();
      t.reclaim();
      most = std::max(most, t.parts.log.memory().segments);
    }
  };
  run(20'000, false, limit * 3 / 4);
  ASSERT_GE(most, limit * 3 / 4) << "compaction makes room for more: " << t.describe();
  const uint64_t before = written;
  run(20'000, true, ~0u);
  EXPECT_LE(most, limit + 4) << t.describe();
  EXPECT_GT(written, before) << t.describe();
  EXPECT_EQ(t.write(key_of(1), value), StatusCode::kOk) << "copies are made: " << t.describe();
  EXPECT_THAT(Invariants(t.store).check(), IsEmpty());
}

/// The same keys are written and deleted for a long time: the free memory stays the same.
TEST(CleaningMemory, PutAndDeleteOfTheSameKeysTakesNoMore) {
  constexpr uint64_t kKeys = 60'000;
  CleaningRig t(12, true, {}, 1 << 16);
  Random random(1);
  const std::string value(700, 'v');
  std::vector<bool> there(kKeys, false);
  uint64_t live = 0;
  // 90 % of what writers may have.
  const uint64_t most = 9 * uint64_t{12 - 4} * log::kSegmentBytes / 10 / (700 + 60);
  std::vector<uint64_t> runs;
  for (int round = 0; round < 4; ++round) {
    for (uint64_t i = 0; i < 3 * kKeys; ++i) {
      t.clock.advance(std::chrono::milliseconds(1));
      const uint64_t key = random.below(kKeys);
      const bool removes = there[key] && random.chance(live < most ? 0.3 : 0.7);
      if (!removes && live >= most && !there[key]) continue;
      const StatusCode status = removes ? t.remove(key_of(key)) : t.write(key_of(key), value);
      ASSERT_EQ(status, StatusCode::kOk)
          << round << " " << i << " of " << live << ": " << t.describe();
      live += removes ? -1 : there[key] ? 0 : 1;
      there[key] = !removes;
    }
    ASSERT_THAT(Invariants(t.store).check(), IsEmpty());
    uint64_t kept = 0;
    for (const log::Segment* segment : t.parts.log.segments()) kept += segment->live_bytes();
    runs.push_back(kept);
    // Objects, and tombstones that were not looked at yet: bounded by what the log has.
    EXPECT_EQ(t.store.object_count(1), live);
  }
  EXPECT_LT(static_cast<double>(runs.back()), 1.1 * static_cast<double>(runs[1]))
      << "it grows from round to round";
}

/// A tombstone is counted as live until the segment that it names has left.
TEST(SegmentJudge, TombstonesDieWithTheSegmentTheyName) {
  CleaningRig t(16);
  const std::string value(1'000, 'v');
  for (int i = 0; i < 2'000; ++i) ASSERT_EQ(t.write(key_of(i), value), StatusCode::kOk);
  ASSERT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
  log::Segment* objects = t.parts.log.segments()[0];
  for (int i = 0; i < 2'000; ++i) ASSERT_EQ(t.remove(key_of(i)), StatusCode::kOk);
  ASSERT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
  log::Segment* tombstones = t.parts.log.segments()[1];
  ASSERT_TRUE(tombstones->closed_durable());
  t.reclaim();
  const auto live = [&](const log::Segment& segment) {
    for (int i = 0; i < 4; ++i) (void)t.judge.judge(segment);
    const auto figures = t.judge.judge(segment);
    return figures ? int64_t{figures->live_bytes} : -1;
  };
  EXPECT_EQ(live(*objects), 0);
  // The groups of a survivor take a little more.
  EXPECT_GE(live(*tombstones), tombstones->live_bytes());
  EXPECT_LT(live(*tombstones), 11 * tombstones->live_bytes() / 10);
  EXPECT_GT(live(*tombstones), 2'000 * 50);
  EXPECT_EQ(t.judge.judge(*tombstones)->average_s, t.clock.unix_ms() / 1000)
      << "without objects it is not the oldest of all";
  CleaningPass pass(t.store, {objects});
  pass.commit_now();
  while (pass.step() != log::CleaningWork::Progress::kDone) {
  }
  t.reclaim();
  EXPECT_EQ(live(*tombstones), 0) << "what they name has left";
  CleaningPass next(t.store, {tombstones});
  next.commit_now();
  while (next.step() != log::CleaningWork::Progress::kDone) {
  }
  EXPECT_EQ(next.counts().tombstones_dropped, 2'000u);
  EXPECT_EQ(next.counts().tombstones, 0u);
}

/// All that they name leave, and between these there are others, which stay. An exact look finds that
/// no tombstone is needed.
TEST(SegmentJudge, TombstonesOfManySegmentsDieAmongOthersThatStay) {
  constexpr int kMany = 4 * SegmentJudge::kMostNamed;
  CleaningRig t(160);
  std::vector<log::Segment*> leave;
  for (int i = 0; i < kMany; ++i) {
    if (i % 2 == 0) leave.push_back(t.parts.log.segments().back());
    ASSERT_EQ(t.write(key_of(i), "v"), StatusCode::kOk);
    ASSERT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
  }
  for (int i = 0; i < kMany; i += 2) ASSERT_EQ(t.remove(key_of(i)), StatusCode::kOk);
  const log::Segment& tombstones = *t.parts.log.segments().back();
  ASSERT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
  t.reclaim();
  const auto live = [&](log::Look look) { return t.judge.judge(tombstones, look)->live_bytes; };
  const uint32_t before = live(log::Look::kQuick);
  EXPECT_EQ(live(log::Look::kExact), before) << "nothing has left";
  CleaningPass pass(t.store, leave);
  pass.commit_now();
  while (pass.step() != log::CleaningWork::Progress::kDone) {
  }
  t.reclaim();
  EXPECT_LT(live(log::Look::kQuick), before / 10 * 7) << "an estimate: most have left";
  EXPECT_GT(live(log::Look::kQuick), 0u);
  EXPECT_EQ(live(log::Look::kExact), 0u);
}

/// The list of segments is rebuilt only when one has left, so it may not cover those that tombstones
/// name.
TEST(SegmentJudge, TombstonesThatNameSegmentsBehindTheListStay) {
  CleaningRig t(160);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(t.write("first", "v"), StatusCode::kOk);
    ASSERT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
  }
  for (int i = 0; i < 2; ++i) (void)t.judge.judge(*t.parts.log.segments()[1]);  // makes the list
  constexpr int kMany = 2 * SegmentJudge::kMostNamed;
  for (int i = 0; i < kMany; ++i) {
    ASSERT_EQ(t.write(key_of(i), "v"), StatusCode::kOk);
    ASSERT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
  }
  for (int i = 0; i < kMany; ++i) ASSERT_EQ(t.remove(key_of(i)), StatusCode::kOk);
  const log::Segment& tombstones = *t.parts.log.segments().back();
  ASSERT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
  t.reclaim();
  (void)t.judge.judge(tombstones);
  const uint32_t before = t.judge.judge(tombstones)->live_bytes;
  CleaningPass pass(t.store, {t.parts.log.segments()[0]});
  pass.commit_now();
  while (pass.step() != log::CleaningWork::Progress::kDone) {
  }
  t.reclaim();
  EXPECT_GT(t.judge.judge(tombstones)->live_bytes, before / 10 * 9) << "one segment has left";
}

/// The copy stands in a survivor, and the tombstone names the segment of the original.
TEST(SegmentJudge, ATombstoneOfADeadCopyStays) {
  CleaningRig t(16, false);
  ASSERT_EQ(t.write("key", "v"), StatusCode::kOk);
  const auto roll = [&] {
    EXPECT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
    t.parts.replicator.finish_all();
  };
  roll();
  CleaningPass pass(t.store, {t.parts.log.segments()[0]});
  for (int i = 0; i < 10; ++i) (void)pass.step();  // copied, and on no replica
  ASSERT_EQ(t.remove("key"), StatusCode::kOk);
  roll();
  log::Segment* tombstones = t.parts.log.segments()[1];
  pass.commit_now();
  while (pass.step() != log::CleaningWork::Progress::kDone) t.parts.replicator.finish_all();
  ASSERT_EQ(pass.counts().dead_copies, 1u);
  t.reclaim();
  t.reclaim();
  ASSERT_FALSE(t.parts.log.may_be_found(1));
  (void)t.judge.judge(*tombstones);
  EXPECT_GE(t.judge.judge(*tombstones)->live_bytes, tombstones->live_bytes());
  EXPECT_GT(tombstones->live_bytes(), 0u);
}

/// Otherwise a survivor that is never cleaned would keep all tombstones that name its victims.
TEST(SegmentJudge, OtherTombstonesThatNameTheSameSegmentDie) {
  constexpr int kKeys = 500;
  CleaningRig t(16, false);
  const auto write_all = [&] {
    for (int i = 0; i < kKeys; ++i) ASSERT_EQ(t.write(key_of(i), "v"), StatusCode::kOk);
  };
  const auto roll = [&] {
    EXPECT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
    t.parts.replicator.finish_all();
  };
  const auto finish = [&](CleaningPass& pass) {
    pass.commit_now();
    while (pass.step() != log::CleaningWork::Progress::kDone) t.parts.replicator.finish_all();
    t.reclaim();
    t.reclaim();
  };
  write_all();
  constexpr int kWrites = 100;
  for (int i = 0; i < kWrites; ++i) ASSERT_EQ(t.write("key", "v"), StatusCode::kOk);
  roll();
  write_all();
  roll();
  CleaningPass pass(t.store, {t.parts.log.segments()[0]});
  for (int i = 0; i < 50; ++i) (void)pass.step();  // copied, and on no replica
  ASSERT_EQ(t.remove("key"), StatusCode::kOk);
  roll();
  log::Segment* overwrites = t.parts.log.segments()[1];
  log::Segment* of_key = t.parts.log.segments()[2];
  finish(pass);
  ASSERT_EQ(pass.counts().dead_copies, 1u);
  ASSERT_FALSE(t.parts.log.may_be_found(1));

  (void)t.judge.judge(*overwrites);
  const log::CleaningFigures figures = *t.judge.judge(*overwrites);
  EXPECT_LT(figures.tombstone_bytes, 100u) << "at most one may be needed";
  CleaningPass other(t.store, {overwrites, of_key});
  finish(other);
  EXPECT_EQ(other.counts().tombstones_dropped, uint64_t{kKeys});
  EXPECT_EQ(other.counts().tombstones, 1u);

  // The survivor also has tombstones of the key's earlier objects, which were not copied.
  const auto all = t.parts.log.segments();
  log::Segment* survivor = *std::ranges::find_if(all, [](const log::Segment* segment) {
    return segment->side() && segment->live_bytes() > 0;
  });
  CleaningPass of_survivor(t.store, {survivor});
  finish(of_survivor);
  EXPECT_EQ(of_survivor.counts().tombstones_dropped, uint64_t{kWrites - 1});
}

/// A tablet that is being recovered needs its own tombstones, and no others.
TEST(SegmentJudge, TombstonesOfOtherTabletsDieWhileOneIsRecovered) {
  CleaningRig t(16);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(t.write(key_of(i), "v"), StatusCode::kOk);
  ASSERT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
  log::Segment* objects = t.parts.log.segments()[0];
  for (int i = 0; i < 200; ++i) ASSERT_EQ(t.remove(key_of(i)), StatusCode::kOk);
  ASSERT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
  const log::Segment& tombstones = *t.parts.log.segments()[1];
  t.reclaim();
  CleaningPass pass(t.store, {objects});
  pass.commit_now();
  while (pass.step() != log::CleaningWork::Progress::kDone) {
  }
  t.reclaim();
  TabletReplay replay(t.store, 1);
  ASSERT_TRUE(replay.begin({2, 0, ~uint64_t{0}}, 0).ok());
  for (int i = 0; i < 4; ++i) (void)t.judge.judge(tombstones);
  EXPECT_EQ(t.judge.judge(tombstones)->live_bytes, 0u);
  replay.side().abort();
}

/// Those that came with a recovery are needed until it is over.
TEST(SegmentJudge, TombstonesOfAnotherLogDieWhenTheirTabletIsServed) {
  CleaningRig t(16);
  constexpr TabletReplay::Range kRecovered{2, 0, ~uint64_t{0}};
  TabletReplay replay(t.store, 1);
  ASSERT_TRUE(replay.begin(kRecovered, 0).ok());
  for (int i = 0; i < 100; ++i) {
    const std::string entry = testing::tombstone_entry(5, key_of(i), 2);
    ASSERT_EQ(replay.replay(testing::view_of(entry)), StatusCode::kOk);
  }
  replay.side().close();
  log::SegmentChange change;
  change.enter = replay.side().release();
  ASSERT_EQ(t.parts.log.commit(change, log::Roll::kNow), StatusCode::kOk);
  const log::Segment& segment = *change.enter[0];
  for (int i = 0; i < 10; ++i) (void)t.judge.judge(segment);
  EXPECT_GE(t.judge.judge(segment)->live_bytes, segment.live_bytes());
  ASSERT_TRUE(replay.serve(kRecovered));
  EXPECT_EQ(t.judge.judge(segment)->live_bytes, 0u);
}

/// Groups and padding take memory beside entries. Survivors have fewer of them than heads, and a
/// survivor that is full has as many as its own survivor would.
TEST(SegmentJudge, WhatGroupsTakeIsWonOnce) {
  CleaningRig t(16, true, {}, 1 << 16);
  for (int i = 0; i < 250'000; ++i) {
    ASSERT_EQ(t.write(key_of(i), std::string(50, 'v')), StatusCode::kOk);
  }
  ASSERT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
  std::vector<log::Segment*> heads = t.parts.log.segments();
  heads.pop_back();
  ASSERT_GE(heads.size(), 3u);
  heads.resize(2);
  const auto worth = [&](const log::Segment& segment) {
    for (int i = 0; i < 100; ++i) (void)t.judge.judge(segment);
    return t.judge.judge(segment)->worth_cleaning();
  };
  EXPECT_TRUE(worth(*heads[0]));
  CleaningPass pass(t.store, heads);
  pass.commit_now();
  while (pass.step() != log::CleaningWork::Progress::kDone) {
  }
  uint32_t full = 0;
  for (const log::Segment* segment : t.parts.log.segments()) {
    if (!segment->side() || segment->memory_bytes() != log::kSegmentBytes) continue;
    ++full;
    EXPECT_LT(segment->live_bytes(), 98 * uint64_t{segment->memory_bytes()} / 100);
    EXPECT_FALSE(worth(*segment));
  }
  EXPECT_GE(full, 1u);
}

/// Groups of a survivor take memory, too: the figure is what its survivors will take.
TEST(SegmentJudge, KnowsWhatSurvivorsOfAHeadTake) {
  // In turn. With 638, three entries and their header take a little more than a 32nd of a seglet.
  const std::pair<uint32_t, uint32_t> sizes[] = {
      {60, 60},       {150, 150},       {1'100, 1'100},
      {9'000, 9'000}, {70'000, 70'000}, {1'048'000, 1'048'000},
      {638, 638},     {3'780, 20},      {60'000, 10}};
  for (const auto& [size, other] : sizes) {
    CleaningRig t(16, true, {}, 1 << 16);
    const uint64_t objects = 3 * log::kSegmentBytes / ((size + other) + 120);
    for (uint64_t i = 0; i < objects; ++i) {
      const std::string value(i % 2 == 0 ? size : other, 'v');
      ASSERT_EQ(t.write(key_of(1'000'000 + i), value), StatusCode::kOk);
    }
    log::Segment* head = t.parts.log.segments()[0];
    for (int i = 0; i < 100; ++i) (void)t.judge.judge(*head);
    const double expected = t.judge.judge(*head)->live_bytes;
    CleaningPass pass(t.store, {head});
    pass.commit_now();
    while (pass.step() != log::CleaningWork::Progress::kDone) {
    }
    double taken = 0;
    for (const log::Segment* segment : t.parts.log.segments()) {
      if (segment->side()) taken += segment->published();
    }
    EXPECT_NEAR(expected / taken, 1, 0.005) << size << " and " << other;
  }
}

/// Ages are those of the objects, by their bytes.
TEST(SegmentJudge, KnowsHowOldObjectsAre) {
  CleaningRig t(16);
  t.clock.advance(std::chrono::seconds(1'000));
  const auto first_s = static_cast<uint32_t>(t.clock.unix_ms() / 1000);
  ASSERT_EQ(t.write("a", std::string(10'000, 'v')), StatusCode::kOk);
  t.clock.advance(std::chrono::seconds(100));
  ASSERT_EQ(t.write("b", std::string(10'000, 'v')), StatusCode::kOk);
  ASSERT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
  const auto figures = t.judge.judge(*t.parts.log.segments()[0]);
  ASSERT_TRUE(figures);
  EXPECT_NEAR(figures->average_s, first_s + 50, 1);
  EXPECT_EQ(figures->youngest_s, first_s + 100);
}

/// A large segment is read in slices, and meanwhile its tombstones count as live.
TEST(SegmentJudge, ReadsInSlices) {
  CleaningRig t(16);
  for (int i = 0; i < 40'000; ++i) ASSERT_EQ(t.write(key_of(i), "v"), StatusCode::kOk);
  ASSERT_EQ(t.parts.log.roll_head(), StatusCode::kOk);
  log::Segment* segment = t.parts.log.segments()[0];
  uint32_t slices = 0;
  (void)t.parts.log.take_changed(1'000);
  for (std::vector<uint32_t> again = {segment->number()}; !again.empty(); ++slices) {
    ASSERT_LT(slices, 1'000u);
    ASSERT_TRUE(t.judge.judge(*segment));
    again = t.parts.log.take_changed(1'000);
  }
  EXPECT_GE(slices, 40'000 / SegmentJudge::kEntriesAtOnce);
}

}  // namespace
}  // namespace ramcloud::store
