#include "log/cleaner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "log/cleaner_test_support.h"
#include "log/invariants.h"
#include "log/side_log.h"

namespace ramcloud::log {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Cleaner, SleepsWhileEnoughIsFree) {
  Rig t(40);
  ASSERT_EQ(t.write(1, "v"), StatusCode::kOk);
  t.clean();
  EXPECT_FALSE(t.worker.step());
  const CleanerState state = t.cleaner.state();
  EXPECT_EQ(state.mode, CleanerMode::kIdle);
  EXPECT_THAT(state.why, HasSubstr("is free; cleaning starts below"));
  EXPECT_EQ(state.combined_runs, 0u);
  EXPECT_EQ(state.write_cost, 1);
}

/// A cleaner that counts how often it looks at a segment.
struct Looking : TestLog {
  explicit Looking(Duration each)
      : TestLog(40, true, 1, true, 2),
        keys(log),
        cleaner(
            log, clock, {},
            [this, each](const Segment& segment, Look) {
              ++looks;
              clock.advance(each);
              return judge(segment);
            },
            [this](CleaningKind, std::vector<Segment*> victims) {
              return std::make_unique<Copying>(keys, std::move(victims));
            }),
        worker(cleaner) {}
  /// Writes until the log has so many segments.
  void fill(uint64_t segments) {
    for (uint64_t key = 0; log.memory().segments < segments; ++key) {
      ASSERT_EQ(keys.write(key, value_for(key, 0)), StatusCode::kOk);
    }
  }
  VirtualClock clock;
  Keys keys;
  int looks = 0;
  Cleaner cleaner;
  Cleaner::Worker worker;
};

/// While most of the memory is free, segments are not looked at: the first look reads all of a
/// segment.
TEST(Cleaner, LooksAtNothingBeforeCleaningIsNear) {
  Looking t(Duration::zero());
  t.fill(20);
  EXPECT_FALSE(t.worker.step());
  EXPECT_EQ(t.looks, 0);
  t.fill(33);
  while (t.worker.step()) {
  }
  EXPECT_GE(t.looks, 32) << "all that closed before";
  EXPECT_EQ(t.cleaner.state().combined_runs, 0u);
}

/// When many segments must be looked at, each step takes a part of them.
TEST(Cleaner, LooksForABoundedTime) {
  Looking t(150us);
  t.fill(33);
  int before = 0, steps = 0;
  for (bool more = true; more; ++steps) {
    more = t.worker.step();
    EXPECT_LE(t.looks - before, 2 + 2) << "two of those that changed, and two in turn";
    before = t.looks;
  }
  EXPECT_GE(steps, 32 / 2) << "all were looked at";
}

class CleanerOverwrites : public testing::TestWithParam<std::tuple<bool, CleaningPolicy>> {};

/// Memory is overwritten ten times; every value is the last one.
TEST_P(CleanerOverwrites, GoOnForEver) {
  const auto [immediate, policy] = GetParam();
  Rig t(16, immediate, {.policy = policy, .balancer = {}});
  t.replicator.finish_all();
  Random random(1);
  constexpr uint64_t kKeys = 16 * 8 * 16 * 6 / 10;  // 60 % of the memory
  std::vector<int> rounds(kKeys, 0);
  for (uint64_t key = 0; key < kKeys; ++key) {
    ASSERT_EQ(t.write(key, value_for(key, 0)), StatusCode::kOk) << key;
  }
  for (uint64_t i = 0; i < 10 * kKeys; ++i) {
    const uint64_t key = random.below(kKeys);
    ASSERT_EQ(t.write(key, value_for(key, ++rounds[key])), StatusCode::kOk)
        << i << ": " << t.cleaner.state().why;
    if (i % 5 == 0) t.worker.step();
    if (i % 1'000 == 0) ASSERT_THAT(Invariants(t.log).check(), IsEmpty()) << i;
  }
  for (uint64_t key = 0; key < kKeys; ++key) {
    ASSERT_EQ(t.keys.value_of("key" + std::to_string(key)), value_for(key, rounds[key]));
  }
  const CleanerState state = t.cleaner.state();
  EXPECT_GT(state.combined_runs, 50u);
  EXPECT_GT(state.write_cost, 1.1);
  EXPECT_EQ(state.failed_runs, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, CleanerOverwrites,
                         testing::Values(std::tuple(true, CleaningPolicy::kCostBenefit),
                                         std::tuple(false, CleaningPolicy::kCostBenefit),
                                         std::tuple(true, CleaningPolicy::kObjectAge),
                                         std::tuple(true, CleaningPolicy::kGreedy),
                                         std::tuple(true, CleaningPolicy::kLfs)));

/// Writers are told to try again while something can be freed, and no longer.
TEST(Cleaner, SaysWhenNothingIsLeftToFree) {
  Rig t(16);
  StatusCode status = StatusCode::kOk;
  uint64_t key = 0;
  for (; status == StatusCode::kOk && key < 10'000; ++key) status = t.write(key, value_for(key, 0));
  EXPECT_EQ(status, StatusCode::kOutOfMemory);
  EXPECT_FALSE(t.log.cleaning_helps());
  EXPECT_THAT(t.cleaner.state().why, HasSubstr("no segment has 2.0 % of dead bytes"));
  EXPECT_FALSE(t.worker.step()) << "it sleeps";

  // An object dies: cleaning helps again.
  for (uint64_t dead = 0; dead < 700; ++dead) {
    const auto at = t.keys.by_key.find("key" + std::to_string(dead));
    t.log.mark_dead(at->second);
    t.keys.by_key.erase(at);
  }
  EXPECT_TRUE(t.worker.step());
  EXPECT_TRUE(t.log.cleaning_helps());
  EXPECT_NE(t.cleaner.state().mode, CleanerMode::kIdle);
  for (uint64_t more = 0; more < 300; ++more) {
    ASSERT_EQ(t.write(key + more, value_for(more, 0)), StatusCode::kOk) << more;
  }
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

/// A little is dead in each segment, less than is worth cleaning: it is won before a write is refused,
/// and once.
TEST(Cleaner, WinsALittleWhenNothingElseIsLeft) {
  Rig t(32);
  uint64_t key = 0;
  while (t.write(key, value_for(key, 0)) == StatusCode::kOk) ++key;
  ASSERT_FALSE(t.log.cleaning_helps());
  const uint32_t before = t.log.memory().free_seglets;
  // Two of 139 objects of each segment.
  for (uint64_t dead = 0; dead < key; dead += 70) {
    const auto at = t.keys.by_key.find("key" + std::to_string(dead));
    t.log.mark_dead(at->second);
    t.keys.by_key.erase(at);
  }
  EXPECT_TRUE(t.worker.step());
  EXPECT_TRUE(t.log.cleaning_helps());
  EXPECT_EQ(t.cleaner.state().mode, CleanerMode::kEmergency);
  t.clean();
  EXPECT_GE(t.log.memory().free_seglets, before + 20);
  EXPECT_FALSE(t.log.cleaning_helps()) << "it is not enough for a head";
  const uint64_t passes = t.cleaner.state().combined_runs;
  EXPECT_GT(passes, 0u);
  t.clean();
  EXPECT_EQ(t.cleaner.state().combined_runs, passes);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

/// When a segment leaves, tombstones in other segments die, and those segments are not marked.
/// One segment seems worth cleaning, and frees no seglet.
class CleanerLooksAtAll : public testing::TestWithParam<bool> {};

TEST_P(CleanerLooksAtAll, BeforeItSaysThatNothingIsLeft) {
  TestLog parts(40, true, 1, true, 2);
  VirtualClock clock;
  Keys keys(parts.log);
  bool died = false;
  uint32_t looked_at = 0;  // last: it is the last again
  bool found = false;      // only by an exact look
  const auto judge_by = [&](const Segment& segment, Look look) {
    auto figures = judge(segment);
    if (!died) looked_at = segment.number();
    found = found || (died && segment.number() == looked_at && look == Look::kExact);
    if (found && segment.number() == looked_at) figures->live_bytes = 0;
    if (GetParam() && segment.number() == 0) {
      figures->live_bytes = segment.published();
      figures->memory_bytes = figures->live_bytes + figures->live_bytes / 32;
    }
    return figures;
  };
  Cleaner cleaner(parts.log, clock, {}, judge_by, [&](CleaningKind, std::vector<Segment*> victims) {
    return std::make_unique<Copying>(keys, std::move(victims));
  });
  Cleaner::Worker worker(cleaner);
  uint64_t key = 0;
  while (keys.write(key, value_for(key, 0)) == StatusCode::kOk) ++key;
  while (worker.step()) {
  }
  ASSERT_FALSE(parts.log.cleaning_helps());
  died = true;
  // A segment leaves: a recovery was given up.
  SideLog side(parts.log, MemoryPurpose::kSurvivors);
  const TestObject object(2, 1, "other", "v");
  const char* ref = nullptr;
  ASSERT_EQ(side.append(std::span(&object.source, 1), &ref), StatusCode::kOk);
  side.abort();
  parts.log.reclaim(parts.log.take_retired());
  bool helps = false;
  while (worker.step()) helps = helps || parts.log.cleaning_helps();
  EXPECT_TRUE(helps);
  EXPECT_GT(cleaner.state().combined_runs, 0u);
}
INSTANTIATE_TEST_SUITE_P(All, CleanerLooksAtAll, testing::Bool());

/// A pass waits for the next head, unless memory is short.
TEST(Cleaner, CommitsAtOnceOnlyWhenMemoryIsShort) {
  struct Waiting final : CleaningWork {
    explicit Waiting(int& n) : now(n) {}
    Progress step() override { return Progress::kWaits; }
    void commit_now() override { ++now; }
    Result result() const override { return {}; }
    int& now;
  };
  TestLog parts(40, true, 1, true, 2);
  VirtualClock clock;
  Keys keys(parts.log);
  int now = 0, made = 0;
  CleanerOptions options;
  options.victims = 1;
  options.balancer.start_below = 0.5;
  Cleaner cleaner(parts.log, clock, options, judge,
                  [&](CleaningKind kind, const std::vector<Segment*>& victims) {
                    EXPECT_EQ(kind, CleaningKind::kCombined);
                    EXPECT_GE(victims.size(), 1u);
                    ++made;
                    return std::make_unique<Waiting>(now);
                  });
  Cleaner::Worker worker(cleaner);
  while (parts.log.memory().free_seglets > 18 * kSegletsPerSegment) {
    ASSERT_EQ(keys.write(keys.version % 300, value_for(1, 1)), StatusCode::kOk);
  }
  ASSERT_TRUE(worker.step());
  EXPECT_EQ(made, 1);
  EXPECT_EQ(now, 0) << "the next head comes soon enough";
  StatusCode status = StatusCode::kOk;
  while (status == StatusCode::kOk) status = keys.write(keys.version % 300, value_for(1, 1));
  EXPECT_EQ(status, StatusCode::kOutOfMemory);
  while (worker.step()) {
  }
  EXPECT_EQ(now, made) << "each once";
  EXPECT_LE(worker.passes(), 4u);
  EXPECT_TRUE(parts.log.cleaning_helps()) << "what they free is still to come";
}

/// Victims of one pass are not another's.
TEST(Cleaner, WorkersShareNoVictims) {
  CleanerOptions options;
  options.victims = 1;
  Rig t(24, false, options);
  t.replicator.finish_all();
  Cleaner::Worker second(t.cleaner);
  Random random(1);
  size_t most = 0;
  for (uint64_t i = 0; i < 8'000; ++i) {
    const uint64_t key = i < 1'500 ? i : random.below(1'500);
    StatusCode status = t.keys.write(key, value_for(key, 1));
    for (int tries = 0; status != StatusCode::kOk && tries < 100; ++tries) {
      t.worker.step();
      second.step();
      if (t.worker.passes() > 0 && second.passes() > 0) {
        most = std::max(most, t.worker.passes() + second.passes());
      }
      if (random.chance(0.5)) t.replicator.step(random);
      if (tries > 50) t.replicator.finish_all();
      t.reclaim();
      status = t.keys.write(key, value_for(key, 1));
    }
    ASSERT_EQ(status, StatusCode::kOk) << i << " " << t.cleaner.state().why;
  }
  EXPECT_GE(most, 2u) << "at the same time";
  EXPECT_GT(t.cleaner.state().combined_runs, 5u);
  for (uint64_t key = 0; key < 1'500; ++key) {
    ASSERT_EQ(t.keys.value_of("key" + std::to_string(key)), value_for(key, 1));
  }
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

}  // namespace
}  // namespace ramcloud::log
