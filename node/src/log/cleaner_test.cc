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
#include "log/group_reader.h"
#include "log/invariants.h"
#include "log/log_test_support.h"
#include "log/side_log.h"

namespace ramcloud::log {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Progress = CleaningWork::Progress;

/// The simplest store: it knows where each key's object is. It writes no tombstones, because these
/// tests are about memory, not about replay.
struct Keys {
  explicit Keys(Log& l) : log(l) {}
  StatusCode write(uint64_t key, ByteView value) {
    const std::string name = "key" + std::to_string(key);
    const char* ref = nullptr;
    const StatusCode status = append_object(log, 1, ++version, name, value, nullptr, &ref);
    if (status != StatusCode::kOk) return status;
    if (const auto old = by_key.find(name); old != by_key.end()) log.mark_dead(old->second);
    by_key[name] = ref;
    return status;
  }
  std::string value_of(const std::string& name) const {
    const auto object = parse_object(log.entry(by_key.at(name)));
    std::string value(object->value_length, '\0');
    object->entry.read(object->value_offset, value.data(), object->value_length);
    return value;
  }
  Log& log;
  uint64_t version = 0;
  std::map<std::string, const char*> by_key;
};

/// Copies a victim a step, then waits for the commit.
class Copying final : public CleaningWork {
 public:
  Copying(Keys& keys, std::vector<Segment*> victims)
      : keys_(keys), victims_(std::move(victims)), side_(keys.log, MemoryPurpose::kSurvivors) {}
  Progress step() override {
    if (next_ < victims_.size()) return copy(*victims_[next_++]) ? Progress::kMore : fail();
    side_.close();
    if (!side_.all_durable()) return Progress::kWaits;
    if (change_.state.load() == Change::State::kNew) {
      change_.enter = side_.segments();
      change_.leave = victims_;
      EXPECT_EQ(keys_.log.commit(change_, now_ ? Roll::kNow : Roll::kNext), StatusCode::kOk);
      return Progress::kMore;
    }
    if (!change_.done()) return Progress::kWaits;
    (void)side_.release();
    return Progress::kDone;
  }
  void commit_now() override {
    now_ = true;
    if (change_.state.load() != Change::State::kWaiting || !keys_.log.withdraw(change_)) return;
    EXPECT_EQ(keys_.log.commit(change_, Roll::kNow), StatusCode::kOk);
  }
  Result result() const override { return result_; }

 private:
  /// The originals of copied objects stay, so they are found again.
  Progress fail() {
    for (const auto& [name, address] : moved_) keys_.by_key[name] = address;
    side_.abort();
    return Progress::kFailed;
  }
  bool copy(Segment& victim) {
    bool good = true;
    scan_segment(victim.identity(), victim.bytes(), {}, [&](const GroupView& group) {
      for (auto e = group.first(); e && good; e = group.next(*e)) {
        const auto object = parse_object(e->view);
        if (object) good = copy(*object);
      }
    });
    return good;
  }
  bool copy(const ObjectView& object) {
    std::string name(object.key_length, '\0');
    object.entry.read(object.key_offset, name.data(), object.key_length);
    const auto at = keys_.by_key.find(name);
    if (at == keys_.by_key.end()) return true;
    const auto present = parse_object(keys_.log.entry(at->second));
    if (present->version != object.version) return true;
    std::string value(object.value_length, '\0');
    object.entry.read(object.value_offset, value.data(), object.value_length);
    const TestObject source(1, object.version, name, value);
    const char* ref = nullptr;
    if (side_.append(std::span(&source.source, 1), &ref) != StatusCode::kOk) return false;
    moved_.emplace(name, at->second);
    at->second = ref;
    result_.bytes_written += value.size();
    return true;
  }
  Keys& keys_;
  std::vector<Segment*> victims_;
  SideLog side_;
  Change change_;
  std::map<std::string, const char*> moved_;
  size_t next_ = 0;
  bool now_ = false;
  Result result_;
};

std::optional<CleaningFigures> judge(const Segment& segment) {
  return CleaningFigures{.memory_bytes = segment.memory_bytes(),
                         .live_bytes = segment.live_bytes(),
                         .segment_id = segment.id(),
                         .average_s = static_cast<uint32_t>(segment.id()),
                         .youngest_s = static_cast<uint32_t>(segment.id())};
}

struct Rig : TestLog {
  explicit Rig(uint32_t segments, bool immediate = true, CleanerOptions options = {})
      : TestLog(segments, immediate, 1, true, 2),
        keys(log),
        cleaner(log, clock, options, judge,
                [this](CleaningKind, std::vector<Segment*> victims) {
                  return std::make_unique<Copying>(keys, std::move(victims));
                }),
        worker(cleaner) {}
  /// Cleans until there is nothing to do, or freed memory must be released first.
  int clean() {
    int steps = 0;
    while (worker.step() && ++steps < 10'000) reclaim();
    reclaim();
    EXPECT_LT(steps, 10'000) << "it never sleeps";
    return steps;
  }
  void reclaim() { log.reclaim(log.take_retired()); }
  /// Writes, with cleaning whenever memory is short.
  StatusCode write(uint64_t key, ByteView value) {
    StatusCode status = keys.write(key, value);
    for (int i = 0; i < 200 && status != StatusCode::kOk; ++i) {
      clean();
      replicator.finish_all();
      reclaim();
      if (status == StatusCode::kOutOfMemory && !log.cleaning_helps()) break;
      status = keys.write(key, value);
    }
    return status;
  }
  VirtualClock clock;
  Keys keys;
  Cleaner cleaner;
  Cleaner::Worker worker;
};

std::string value_for(uint64_t key, int round) {
  return std::string(60'000, static_cast<char>('a' + (key + static_cast<uint64_t>(round)) % 26)) +
         std::to_string(key);
}

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
            [this, each](const Segment& segment) {
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
  const auto judge_by = [&](const Segment& segment) {
    auto figures = judge(segment);
    if (!died) looked_at = segment.number();
    if (died && segment.number() == looked_at) figures->live_bytes = 0;
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

/// A pass without work.
struct Done final : CleaningWork {
  Progress step() override { return Progress::kDone; }
  void commit_now() override {}
  Result result() const override { return {}; }
};

/// When a recovered tablet is served, its tombstones die: no segment is marked, and no memory
/// becomes free.
TEST(Cleaner, TriesAgainWhenMoreCanBeWon) {
  TestLog parts(40, true, 1, true, 2);
  VirtualClock clock;
  Keys keys(parts.log);
  const uint64_t small = parts.log.head().segment_id();
  uint64_t dies = 0;
  const auto judge_by = [&](const Segment& segment) {
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
            [this, fails](const Segment& segment) {
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
  WithFailures t({{3, 30}, {4, 30}}, 3, 8);
  EXPECT_EQ(t.failed, 1);
  EXPECT_EQ(t.done, 0);
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

/// Small survivors and emergency heads have part of the segment that is kept for survivors. What needs
/// less than that can be cleaned all the same; otherwise nothing would become free ever again.
class CleanerWithLittleMemory : public testing::TestWithParam<uint64_t> {};

TEST_P(CleanerWithLittleMemory, CleansWhatFits) {
  Rig t(24);
  uint64_t key = 0;
  while (t.write(key, value_for(key, 0)) == StatusCode::kOk) ++key;
  std::vector<std::unique_ptr<SideLog>> others;
  const std::string value(65'000, 'v');
  const TestObject seglet(2, 1, "other", value);
  const auto room = [&] {
    return t.log.memory().free_seglets - t.log.must_stay_free(MemoryPurpose::kSurvivors);
  };
  while (room() >= kSegletsPerSegment) {
    const uint32_t taken = std::min(room() - kSegletsPerSegment + 1, 100u);
    others.push_back(std::make_unique<SideLog>(t.log, MemoryPurpose::kSurvivors));
    const char* ref = nullptr;
    for (uint32_t i = 0; i < taken; ++i) {
      ASSERT_EQ(others.back()->append(std::span(&seglet.source, 1), &ref), StatusCode::kOk);
    }
    others.back()->close();
  }
  ASSERT_EQ(room(), kSegletsPerSegment - 1);
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
  const auto all_of_small_ones = [](const Segment& segment) {
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
  const auto judge_by = [&](const Segment& segment) -> std::optional<CleaningFigures> {
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
