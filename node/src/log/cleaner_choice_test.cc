// Which segments the cleaner chooses when the best cannot be cleaned, or not now.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "log/cleaner_test_support.h"
#include "log/invariants.h"

namespace ramcloud::log {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

/// When a recovered tablet is served, its tombstones die: no segment is marked, and no memory
/// becomes free.
TEST(Cleaner, TriesAgainWhenMoreCanBeWon) {
  TestLog parts(40, true, 1, true, 2);
  VirtualClock clock;
  Keys keys(parts.log);
  const uint64_t small = parts.log.head().segment_id();
  uint64_t dies = 0;
  const auto judge_by = [&](const Segment& segment, Look) {
    auto figures = judge(segment);
    figures->live_bytes = segment.memory_bytes();
    if (segment.id() == small) figures->live_bytes -= segment.memory_bytes() / 20;
    if (segment.id() == dies) figures->live_bytes = 0;
    return figures;
  };
  std::vector<uint64_t> cleaned;
  Cleaner cleaner(parts.log, clock, {}, judge_by,
                  [&](CleaningKind, const std::vector<Segment*>& victims) {
                    for (const Segment* victim : victims) cleaned.push_back(victim->id());
                    return std::make_unique<Done>();
                  });
  Cleaner::Worker worker(cleaner);
  uint64_t key = 0;
  while (key < 5) ASSERT_EQ(keys.write(key++, value_for(1, 1)), StatusCode::kOk);
  ASSERT_EQ(parts.log.roll_head(), StatusCode::kOk);
  while (keys.write(key, value_for(1, 1)) == StatusCode::kOk) ++key;
  while (worker.step()) {
  }
  ASSERT_THAT(cleaned, IsEmpty()) << "a pass would not win a seglet";
  ASSERT_FALSE(parts.log.cleaning_helps());
  dies = small + 5;
  // In each step some segments are looked at in turn.
  for (int i = 0; i < 100 && cleaned.empty(); ++i) worker.step();
  EXPECT_THAT(cleaned, testing::Contains(dies)) << cleaner.state().why;
}

/// Takes memory for survivors, and fails.
struct Failing final : CleaningWork {
  explicit Failing(Log& log) : side(log, MemoryPurpose::kSurvivors) {}
  Progress step() override {
    const TestObject object(1, 1, "key", "v");
    const char* ref = nullptr;
    EXPECT_EQ(side.append(std::span(&object.source, 1), &ref), StatusCode::kOk);
    side.abort();
    return Progress::kFailed;
  }
  void commit_now() override {}
  Result result() const override { return {}; }
  SideLog side;
};

/// A full log in which passes with some segments fail, whatever memory is free.
struct WithFailures {
  /// `live`: the live percent of some segments; all of the others is live.
  WithFailures(std::map<uint64_t, uint32_t> live, uint64_t fails, uint32_t victims)
      : live_percent(std::move(live)),
        cleaner(
            parts.log, clock, {.balancer = {}, .victims = victims},
            [this, fails](const Segment& segment, Look) {
              looked_at = looked_at || segment.id() == fails;
              auto figures = judge(segment);
              figures->live_bytes = segment.memory_bytes();
              if (const auto at = live_percent.find(segment.id()); at != live_percent.end()) {
                figures->live_bytes = segment.memory_bytes() / 100 * at->second;
              }
              return figures;
            },
            [this, fails](CleaningKind,
                          const std::vector<Segment*>& victims) -> std::unique_ptr<CleaningWork> {
              for (const Segment* victim : victims) {
                if (victim->id() == fails) return ++failed, std::make_unique<Failing>(parts.log);
              }
              for (const Segment* victim : victims) live_percent.erase(victim->id());
              ++done;
              return std::make_unique<Done>();
            }),
        worker(cleaner) {
    Keys keys(parts.log);
    for (uint64_t key = 0; keys.write(key, value_for(1, 1)) == StatusCode::kOk;) ++key;
    for (int i = 0; i < 1'000; ++i) {
      worker.step();
      parts.log.reclaim(parts.log.take_retired());
    }
  }
  TestLog parts{40, true, 1, true, 2};
  VirtualClock clock;
  std::map<uint64_t, uint32_t> live_percent;
  bool looked_at = false;  // the segment with which passes fail
  int failed = 0, done = 0;
  Cleaner cleaner;
  Cleaner::Worker worker;
};

/// The memory that it had taken comes back: it would fail with that again, for ever.
TEST(Cleaner, APassThatFailedDoesNotBeginAgainWithTheMemoryThatItGaveBack) {
  WithFailures t({{3, 30}}, 3, 8);
  EXPECT_EQ(t.failed, 1);
  EXPECT_EQ(t.done, 0);
  EXPECT_FALSE(t.parts.log.cleaning_helps());
}

/// Its survivors have as many seglets as its victims had.
struct FreesNothing final : CleaningWork {
  explicit FreesNothing(const std::vector<Segment*>& victims) {
    for (const Segment* victim : victims) seglets += victim->memory_bytes() / kSegletBytes;
  }
  Progress step() override { return Progress::kDone; }
  void commit_now() override {}
  Result result() const override { return {.seglets = seglets}; }
  uint64_t seglets = 0;
};

/// A seglet seemed to be dead in two segments. Passes with their survivors would follow each other
/// for ever, and writers would be told to try again.
TEST(Cleaner, APassThatFreedNothingIsNotFollowedByOneThatShouldFreeNoMore) {
  TestLog parts{40, true, 1, true, 2};
  VirtualClock clock;
  uint32_t dead_seglets = 1;
  int begun = 0;
  Cleaner cleaner(
      parts.log, clock, {.balancer = {}, .victims = 2},
      [&](const Segment& segment, Look) {
        auto figures = judge(segment);
        figures->live_bytes = segment.memory_bytes();
        if (segment.id() == 3) figures->live_bytes -= dead_seglets * kSegletBytes;
        return figures;
      },
      [&](CleaningKind, const std::vector<Segment*>& victims) {
        ++begun;
        return std::make_unique<FreesNothing>(victims);
      });
  Cleaner::Worker worker(cleaner);
  Keys keys(parts.log);
  for (uint64_t key = 0; keys.write(key, value_for(1, 1)) == StatusCode::kOk;) ++key;
  const auto work = [&] {
    for (int i = 0; i < 1'000; ++i) worker.step();
  };
  work();
  EXPECT_EQ(begun, 1);
  EXPECT_FALSE(parts.log.cleaning_helps()) << "writers are told that memory is full";
  dead_seglets = 3;
  parts.log.want_look(parts.log.find_segment(3)->number());
  work();
  EXPECT_EQ(begun, 2) << "that one should free more";
}

/// An entry died while the pass copied, which moved the padding: the memory sized for all entries did
/// not suffice. Now there is less to copy, and no writer would make more memory free.
TEST(Cleaner, APassThatFailedAsEntriesDiedIsTriedAgain) {
  TestLog parts{40, true, 1, true, 2};
  VirtualClock clock;
  uint32_t live_percent = 90;
  int begun = 0;
  Cleaner cleaner(
      parts.log, clock, {.balancer = {}, .victims = 1},
      [&](const Segment& segment, Look) {
        auto figures = judge(segment);
        figures->live_bytes =
            segment.memory_bytes() / 100 * (segment.id() == 3 ? live_percent : 100);
        return figures;
      },
      [&](CleaningKind, const std::vector<Segment*>&) -> std::unique_ptr<CleaningWork> {
        if (++begun > 1) return std::make_unique<Done>();
        live_percent = 80;
        return std::make_unique<Failing>(parts.log);
      });
  Cleaner::Worker worker(cleaner);
  Keys keys(parts.log);
  for (uint64_t key = 0; keys.write(key, value_for(1, 1)) == StatusCode::kOk;) ++key;
  for (int i = 0; i < 1'000 && begun < 2; ++i) {
    worker.step();
    parts.log.reclaim(parts.log.take_retired());
  }
  EXPECT_EQ(begun, 2);
}

/// All four fail together. Alone the first does, and the others can be cleaned.
TEST(Cleaner, AFailedPassIsTriedWithFewerVictims) {
  WithFailures t({{3, 5}, {4, 6}, {5, 6}, {6, 6}}, 3, 8);
  EXPECT_EQ(t.failed, 3) << "of four, of two, of one";
  EXPECT_GE(t.done, 1);
  EXPECT_THAT(t.live_percent, ElementsAre(Pair(3, 5)));
  EXPECT_FALSE(t.parts.log.cleaning_helps());
}

/// The best segment cannot be cleaned, and the next one can.
TEST(Cleaner, AfterAFailureAnotherSegmentIsTried) {
  WithFailures t({{3, 90}, {4, 95}}, 3, 1);
  EXPECT_EQ(t.failed, 1);
  EXPECT_EQ(t.done, 1);
  EXPECT_FALSE(t.parts.log.cleaning_helps());
}

/// More memory became free after all segments were looked at.
TEST(Cleaner, WhatWasPutOffIsTriedWithMoreMemory) {
  WithFailures t({}, 3, 1);
  SideLog side(t.parts.log, MemoryPurpose::kSurvivors);
  const std::string value(65'000, 'v');
  const TestObject seglet(2, 1, "other", value);
  const char* ref = nullptr;
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(side.append(std::span(&seglet.source, 1), &ref), StatusCode::kOk);
  }
  t.live_percent[3] = 90;
  for (const Segment* segment : t.parts.log.segments()) {
    if (segment->id() == 3) t.parts.log.want_look(segment->number());
  }
  while (t.worker.step()) {
  }
  ASSERT_EQ(t.failed, 1);
  side.abort();
  while (t.worker.step()) {
  }
  ASSERT_EQ(t.failed, 1);
  // Then it is not its turn.
  for (t.looked_at = false; !t.looked_at;) EXPECT_FALSE(t.worker.step());
  t.parts.log.reclaim(t.parts.log.take_retired());
  t.worker.step();
  EXPECT_EQ(t.failed, 2);
}

uint32_t room_in(const Log& log) {
  return log.memory().free_seglets - log.must_stay_free(MemoryPurpose::kSurvivors);
}

/// Fills side segments until copies have room for so many seglets.
std::vector<std::unique_ptr<SideLog>> leave_room(Log& log, uint32_t seglets) {
  std::vector<std::unique_ptr<SideLog>> filled;
  const std::string value(65'000, 'v');
  const TestObject seglet(2, 1, "other", value);
  while (room_in(log) > seglets) {
    const uint32_t taken = std::min(room_in(log) - seglets, 100u);
    filled.push_back(std::make_unique<SideLog>(log, MemoryPurpose::kSurvivors));
    const char* ref = nullptr;
    for (uint32_t i = 0; i < taken; ++i) {
      EXPECT_EQ(filled.back()->append(std::span(&seglet.source, 1), &ref), StatusCode::kOk);
    }
    filled.back()->close();
  }
  EXPECT_EQ(room_in(log), seglets);
  return filled;
}

/// Small survivors and emergency heads have part of the segment that is kept for survivors. What needs
/// less than that can be cleaned all the same; otherwise nothing would become free ever again.
class CleanerWithLittleMemory : public testing::TestWithParam<uint64_t> {};

TEST_P(CleanerWithLittleMemory, CleansWhatFits) {
  Rig t(24);
  uint64_t key = 0;
  while (t.write(key, value_for(key, 0)) == StatusCode::kOk) ++key;
  const std::vector<std::unique_ptr<SideLog>> others = leave_room(t.log, kSegletsPerSegment - 1);
  for (uint64_t dead = 0; dead < 1'400; ++dead) {
    if (dead % GetParam() != 0) continue;
    const auto at = t.keys.by_key.find("key" + std::to_string(dead));
    t.log.mark_dead(at->second);
    t.keys.by_key.erase(at);
  }
  EXPECT_EQ(t.write(key, value_for(key, 0)), StatusCode::kOk) << t.cleaner.state().why;
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}
/// All of some segments is dead, or half of them.
INSTANTIATE_TEST_SUITE_P(All, CleanerWithLittleMemory, testing::Values(1, 2));

/// The first choice of combined cleaning is half a segment on disk, and cleaning it alone frees
/// nothing. Then compaction may still free memory.
TEST(Cleaner, CompactsWhenTheDisksCannotBeCleaned) {
  TestLog parts(40, true, 1, true, 1);
  VirtualClock clock;
  Keys keys(parts.log);
  CleanerOptions options{.policy = CleaningPolicy::kGreedy, .balancer = {}, .victims = 1};
  options.balancer.compaction = true;
  options.balancer.disk_expansion = 0.5;  // the limit is near
  std::vector<std::pair<CleaningKind, uint64_t>> made;
  const auto all_of_small_ones = [](const Segment& segment, Look) {
    auto figures = judge(segment);
    if (segment.memory_bytes() < kSegmentBytes) figures->live_bytes = segment.memory_bytes();
    return figures;
  };
  Cleaner cleaner(parts.log, clock, options, all_of_small_ones,
                  [&](CleaningKind kind, const std::vector<Segment*>& victims) {
                    made.emplace_back(kind, victims.front()->id());
                    return std::make_unique<Done>();
                  });
  Cleaner::Worker worker(cleaner);
  uint64_t key = 0;
  const uint64_t small = parts.log.head().segment_id();
  while (key < 60) ASSERT_EQ(keys.write(key++, value_for(1, 1)), StatusCode::kOk);
  ASSERT_EQ(parts.log.roll_head(), StatusCode::kOk);
  const uint64_t half_dead = parts.log.head().segment_id();
  while (keys.write(key, value_for(1, 1)) == StatusCode::kOk) ++key;
  for (uint64_t dead = 61; dead < 61 + 60; ++dead) {
    parts.log.mark_dead(keys.by_key.at("key" + std::to_string(dead)));
  }
  ASSERT_LT(parts.log.find_segment(small)->memory_bytes(), kSegmentBytes * 6 / 10);
  ASSERT_GT(parts.log.find_segment(half_dead)->live_bytes(), kSegmentBytes * 5 / 10);
  ASSERT_TRUE(worker.step());
  EXPECT_THAT(cleaner.state().why, HasSubstr("segments on disk come near the limit"));
  EXPECT_EQ(made.front(), std::pair(CleaningKind::kCompaction, half_dead));
  EXPECT_TRUE(parts.log.cleaning_helps());
}

/// A pass that waits for backups.
struct Waiting final : CleaningWork {
  Progress step() override { return Progress::kWaits; }
  void commit_now() override {}
  Result result() const override { return {}; }
};

/// The disk's limit is near, so combined cleaning comes first, and one pass of it takes all places.
CleanerOptions one_waits(bool compaction) {
  CleanerOptions options{.policy = CleaningPolicy::kGreedy, .balancer = {}, .victims = 1};
  options.balancer.compaction = compaction;
  options.balancer.disk_expansion = 1;
  options.waiting = 1;
  return options;
}

/// Combined cleaning waits for backups. Compaction does not need them.
TEST(Cleaner, CompactsWhileAllPlacesAreTakenByPassesThatWait) {
  TestLog parts(40, true, 1, true, 1);
  VirtualClock clock;
  Keys keys(parts.log);
  std::vector<CleaningKind> made;
  Cleaner cleaner(parts.log, clock, one_waits(true), judge,
                  [&](CleaningKind kind, const std::vector<Segment*>&) {
                    made.push_back(kind);
                    std::unique_ptr<CleaningWork> work = std::make_unique<Done>();
                    if (kind == CleaningKind::kCombined) work = std::make_unique<Waiting>();
                    return work;
                  });
  Cleaner::Worker worker(cleaner);
  uint64_t key = 0;
  while (keys.write(key, value_for(1, 1)) == StatusCode::kOk) ++key;
  for (uint64_t dead = 0; dead < key; dead += 2) {
    parts.log.mark_dead(keys.by_key.at("key" + std::to_string(dead)));
  }
  for (int i = 0; i < 100; ++i) (void)worker.step();
  EXPECT_EQ(std::ranges::count(made, CleaningKind::kCombined), 1) << cleaner.state().why;
  EXPECT_GT(std::ranges::count(made, CleaningKind::kCompaction), 0);
  EXPECT_LE(worker.passes(), 2u);
}

/// A table is dropped while passes find no frames for their survivors: segments that need none still
/// leave, and with them their frames.
TEST(Cleaner, CleansEmptySegmentsWhileAllPlacesAreTakenByPassesThatWait) {
  for (const bool compaction : {false, true}) {
    TestLog parts(40, true, 1, true, 1);
    VirtualClock clock;
    Keys keys(parts.log);
    std::vector<uint64_t> live;  // of the victims of each pass
    Cleaner cleaner(parts.log, clock, one_waits(compaction), judge,
                    [&](CleaningKind kind, const std::vector<Segment*>& victims) {
                      live.push_back(0);
                      for (const Segment* victim : victims) live.back() += victim->live_bytes();
                      std::unique_ptr<CleaningWork> work = std::make_unique<Done>();
                      if (live.back() > 0 && kind == CleaningKind::kCombined) {
                        work = std::make_unique<Waiting>();
                      }
                      return work;
                    });
    Cleaner::Worker worker(cleaner);
    uint64_t key = 0;
    while (keys.write(key, value_for(1, 1)) == StatusCode::kOk) ++key;
    const auto drop = [&](uint64_t one) {
      const auto at = keys.by_key.find("key" + std::to_string(one));
      parts.log.mark_dead(at->second);
      keys.by_key.erase(at);
    };
    for (uint64_t dead = 0; dead < key; dead += 2) drop(dead);
    for (int i = 0; i < 100; ++i) (void)worker.step();
    ASSERT_GE(worker.passes(), 1u) << cleaner.state().why;
    ASSERT_EQ(std::ranges::count(live, 0u), 0);
    for (uint64_t dead = 1; dead < key; dead += 2) drop(dead);
    for (int i = 0; i < 100; ++i) (void)worker.step();
    EXPECT_GE(std::ranges::count(live, 0u), 1) << cleaner.state().why;
    EXPECT_LE(worker.passes(), 2u);
  }
}

/// The victims are small, and wholly live: by the figures the pass wins no memory. But its survivors
/// have taken memory already, and that of the victims comes back.
TEST(Cleaner, WritersWaitForPassesThatWait) {
  TestLog parts(40, true, 1, true, 2);
  VirtualClock clock;
  Keys keys(parts.log);
  CleanerOptions options;
  options.balancer.compaction = true;
  options.balancer.disk_expansion = 0.5;  // the limit is near
  const auto all_live = [](const Segment& segment, Look) {
    auto figures = judge(segment);
    figures->live_bytes = segment.memory_bytes();
    return figures;
  };
  Cleaner cleaner(
      parts.log, clock, options, all_live,
      [](CleaningKind, const std::vector<Segment*>&) { return std::make_unique<Waiting>(); });
  Cleaner::Worker worker(cleaner);
  uint64_t key = 0;
  for (int small = 0; small < 2; ++small) {
    ASSERT_EQ(keys.write(key++, value_for(1, 1)), StatusCode::kOk);
    ASSERT_EQ(parts.log.roll_head(), StatusCode::kOk);
  }
  while (keys.write(key, value_for(1, 1)) == StatusCode::kOk) ++key;
  while (worker.step()) {
  }
  ASSERT_EQ(worker.passes(), 1u) << cleaner.state().why;
  EXPECT_TRUE(parts.log.cleaning_helps());
}

/// The first choice cannot be cleaned any more, so another segment is chosen.
TEST(Cleaner, CompactsAnotherWhenTheBestOneLeaves) {
  TestLog parts(40, true, 1, true, 1);
  VirtualClock clock;
  Keys keys(parts.log);
  CleanerOptions options{.policy = CleaningPolicy::kGreedy, .balancer = {}};
  options.balancer.compaction = true;
  options.balancer.start_below = 0.2;
  std::vector<uint64_t> made;
  std::map<uint64_t, int> looks;
  uint64_t leaves = 0;
  const auto judge_by = [&](const Segment& segment, Look) -> std::optional<CleaningFigures> {
    // Another pass claims it after it entered the order and before it is chosen.
    if (segment.id() == leaves && ++looks[leaves] > 1) return std::nullopt;
    return judge(segment);
  };
  Cleaner cleaner(parts.log, clock, options, judge_by,
                  [&](CleaningKind, const std::vector<Segment*>& victims) {
                    made.push_back(victims.front()->id());
                    return std::make_unique<Done>();
                  });
  Cleaner::Worker worker(cleaner);
  uint64_t key = 0;
  while (parts.log.memory().free_seglets > 5 * kSegletsPerSegment) {
    ASSERT_EQ(keys.write(key++, value_for(1, 1)), StatusCode::kOk);
  }
  const auto kill = [&](const char* name, int most) {
    const Segment* segment = parts.log.arena().segment_of(keys.by_key.at(name));
    for (const auto& [other, address] : keys.by_key) {
      if (parts.log.arena().segment_of(address) != segment || --most < 0) continue;
      parts.log.mark_dead(address);
    }
    return segment->id();
  };
  const uint64_t second = kill("key200", 30);
  leaves = kill("key2900", 80);  // not among those that are looked at in turn
  while (made.empty() && worker.step()) {
  }
  ASSERT_FALSE(made.empty()) << cleaner.state().why;
  EXPECT_EQ(made.front(), second);
  EXPECT_EQ(looks[leaves], 2);
}

/// The best segment has too much that is live for the memory that is left.
TEST(Cleaner, CompactsAnotherWhenTheBestOneHasNoRoom) {
  TestLog parts(24, true, 1, true, 2);
  VirtualClock clock;
  Keys keys(parts.log);
  CleanerOptions options{.policy = CleaningPolicy::kCostBenefit, .balancer = {}};
  options.balancer.compaction = true;
  std::vector<uint64_t> made;
  // The oldest is the best, and needs nearly a segment.
  const auto judge_by = [&](const Segment& segment, Look) {
    auto figures = judge(segment);
    figures->live_bytes = segment.memory_bytes();
    if (segment.id() == 1) figures->live_bytes = segment.memory_bytes() / 100 * 90;
    if (segment.id() == 15) figures->live_bytes = segment.memory_bytes() / 100 * 80;
    return figures;
  };
  Cleaner cleaner(parts.log, clock, options, judge_by,
                  [&](CleaningKind kind, const std::vector<Segment*>& victims) {
                    EXPECT_EQ(kind, CleaningKind::kCompaction);
                    made.push_back(victims.front()->id());
                    return std::make_unique<Done>();
                  });
  Cleaner::Worker worker(cleaner);
  for (uint64_t key = 0; keys.write(key, value_for(1, 1)) == StatusCode::kOk;) ++key;
  const std::vector<std::unique_ptr<SideLog>> others = leave_room(parts.log, 110);
  for (int i = 0; i < 100 && made.empty(); ++i) worker.step();
  ASSERT_FALSE(made.empty()) << cleaner.state().why;
  EXPECT_EQ(made.front(), 15u);
}

/// However small they are.
TEST(Cleaner, APassHasABoundedNumberOfVictims) {
  TestLog parts(40, true, 1, true, 2);
  VirtualClock clock;
  Keys keys(parts.log);
  size_t most = 0;
  const auto judge_by = [&](const Segment& segment, Look) {
    auto figures = judge(segment);
    figures->live_bytes = 0;
    return figures;
  };
  CleanerOptions options;
  options.balancer.start_below = 0.6;
  options.balancer.disk_expansion = 1e6;
  Cleaner cleaner(parts.log, clock, options, judge_by,
                  [&](CleaningKind, const std::vector<Segment*>& victims) {
                    most = std::max(most, victims.size());
                    return std::make_unique<Done>();
                  });
  Cleaner::Worker worker(cleaner);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(keys.write(i, "v"), StatusCode::kOk);
    ASSERT_EQ(parts.log.roll_head(), StatusCode::kOk);
  }
  while (worker.step()) {
  }
  ASSERT_EQ(most, 0u) << "they are known, and enough memory is free";
  const auto others = leave_room(parts.log, parts.log.memory().total_seglets / 2);
  worker.step();
  EXPECT_EQ(most, 64u);
}

/// Without replicas the disks set no limit. But the log cannot have any number of segments.
TEST(Cleaner, CleansWhenThereAreTooManySegments) {
  CleanerOptions options;
  options.balancer.compaction = true;
  options.balancer.disk_expansion = 1e6;
  Rig t(16, true, options);
  for (uint64_t i = 0; i < 3 * t.log.most_segments(); ++i) {
    ASSERT_EQ(t.write(i, "v"), StatusCode::kOk) << i;
    ASSERT_EQ(t.log.roll_head(), StatusCode::kOk) << i << " " << t.cleaner.state().why;
    t.clean();
  }
  EXPECT_GT(t.cleaner.state().combined_runs, 0u);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

/// With one level, too. All in them is live, so memory is not a reason to clean them.
TEST(Cleaner, MergesHeadsThatClosedEarly) {
  Rig t(16);
  const std::string seglet(64'700, 'v');
  const uint64_t heads = t.log.most_segments() * 6 / 5;
  for (uint64_t i = 0; i < heads; ++i) {
    for (uint64_t key = 8 * i; key < 8 * (i + 1); ++key) {
      ASSERT_EQ(t.write(key, seglet), StatusCode::kOk) << t.cleaner.state().why;
    }
    ASSERT_EQ(t.log.roll_head(), StatusCode::kOk) << i << " " << t.cleaner.state().why;
    t.clean();
  }
  EXPECT_LT(t.log.memory().segments, t.log.most_segments() * 3 / 4);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

}  // namespace
}  // namespace ramcloud::log
