#include "store/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <map>
#include <set>
#include <thread>

#include "base/hash.h"
#include "log/group_reader.h"
#include "log/log_test_support.h"
#include "log/replay.h"
#include "store/invariants.h"

namespace ramcloud::store {
namespace {

using log::LogPosition;
using testing::ElementsAre;
using testing::IsEmpty;
using wire::RejectRules;

constexpr RejectRules kNoRules{};

struct TestStore {
  explicit TestStore(uint32_t segments, bool immediate = true, StoreOptions options = {})
      : parts(segments, immediate, 1, false), store(parts.log, clock, options) {
    parts.log.start();
    if (!immediate) parts.replicator.finish_all();
    EXPECT_TRUE(store.take_tablet(1, 0, ~uint64_t{0}).ok());
  }
  StatusCode write(ByteView key, ByteView new_value, RejectRules rules = kNoRules) {
    return store.write(1, key, new_value, rules, version, depends_on);
  }
  StatusCode remove(ByteView key, RejectRules rules = kNoRules) {
    return store.remove(1, key, rules, version, depends_on);
  }
  StatusCode read(ByteView key, RejectRules rules = kNoRules) {
    ReadResult result;
    const StatusCode status = store.read(1, key, rules, result);
    version = result.version;
    depends_on = result.depends_on;
    value.clear();
    if (status == StatusCode::kOk) {
      value.resize(result.value_length);
      result.entry.read(result.value_offset, value.data(), result.value_length);
    }
    return status;
  }
  VirtualClock clock;
  log::TestLog parts;
  ObjectStore store;
  uint64_t version = 0;
  LogPosition depends_on;
  std::string value;
};

/// All pages of a tablet's enumeration.
std::vector<std::string> enumerate_all(
    TestStore& t, uint32_t max_bytes, const std::function<void()>& between = [] {}) {
  std::vector<std::string> keys;
  std::vector<log::ObjectView> page(16);
  EnumerateResult result;
  do {
    EXPECT_EQ(t.store.enumerate(1, 0, result.next_cursor, {.max_bytes = max_bytes}, page, result),
              StatusCode::kOk);
    for (uint32_t i = 0; i < result.count; ++i) {
      std::string key(page[i].key_length, '\0');
      page[i].entry.read(page[i].key_offset, key.data(), page[i].key_length);
      keys.push_back(key);
    }
    between();
  } while (!result.done);
  return keys;
}

TEST(ObjectStore, WritesReadsDeletes) {
  TestStore t(4);
  EXPECT_EQ(t.read("k"), StatusCode::kNotFound);
  ASSERT_EQ(t.write("k", "one"), StatusCode::kOk);
  const uint64_t first = t.version;
  ASSERT_EQ(t.read("k"), StatusCode::kOk);
  EXPECT_EQ(t.value, "one");
  EXPECT_EQ(t.version, first);
  ASSERT_EQ(t.write("k", "two"), StatusCode::kOk);
  EXPECT_GT(t.version, first);
  const uint64_t second = t.version;
  ASSERT_EQ(t.remove("k"), StatusCode::kOk);
  EXPECT_EQ(t.version, second);
  EXPECT_EQ(t.read("k"), StatusCode::kNotFound);
  EXPECT_EQ(t.remove("k"), StatusCode::kOk);
  EXPECT_EQ(t.version, 0u) << "there was none";
  ASSERT_EQ(t.write("k", "three"), StatusCode::kOk);
  EXPECT_GT(t.version, second) << "versions rise across delete and re-create";
  EXPECT_EQ(t.store.object_count(1), 1u);
  EXPECT_THAT(Invariants(t.store).check(), IsEmpty());
}

TEST(ObjectStore, VersionsRiseAfterTheTombstoneIsSwept) {
  TestStore t(4);
  ASSERT_EQ(t.write("k", "one"), StatusCode::kOk);
  ASSERT_EQ(t.write("k", "two"), StatusCode::kOk);
  const uint64_t before = t.version;
  ASSERT_EQ(t.remove("k"), StatusCode::kOk);
  t.parts.replicator.finish_all();
  t.store.sweep();
  EXPECT_EQ(t.store.table().entries(), 0u);
  ASSERT_EQ(t.write("k", "three"), StatusCode::kOk);
  EXPECT_GT(t.version, before);
  t.store.raise_version_floor(1'000'000);
  ASSERT_EQ(t.write("k", "four"), StatusCode::kOk);
  EXPECT_EQ(t.version, 1'000'000u);
}

TEST(ObjectStore, TheSafeVersionRisesWithOverwritesAndDeletesOnly) {
  TestStore t(4);
  const auto safe_after = [&](StatusCode status) {
    EXPECT_EQ(status, StatusCode::kOk);
    EXPECT_GT(t.store.safe_version(), t.version);
    return t.store.safe_version();
  };
  const uint64_t safe = safe_after(t.write("a", "1"));
  EXPECT_EQ(safe_after(t.write("b", "1")), safe);
  EXPECT_EQ(safe_after(t.write("a", "2")), safe + 1);
  const uint64_t overwritten = t.version;
  EXPECT_EQ(safe_after(t.write("b", "2")), safe + 1) << "no higher than a's";
  EXPECT_EQ(safe_after(t.remove("a")), safe + 2);
  EXPECT_EQ(safe_after(t.remove("b")), safe + 2);
  EXPECT_EQ(safe_after(t.write("a", "3")), safe + 2);
  EXPECT_GT(t.version, overwritten);
  EXPECT_THAT(Invariants(t.store).check(), IsEmpty());
}

TEST(ObjectStore, EveryOutcomeDependsOnWhatMadeIt) {
  TestStore t(4, false);
  ASSERT_EQ(t.write("k", "v"), StatusCode::kOk);
  const LogPosition written = t.depends_on;
  EXPECT_EQ(written, t.parts.log.head());
  EXPECT_EQ(t.read("k"), StatusCode::kOk);
  EXPECT_GT(t.depends_on, t.parts.log.durable());
  EXPECT_LE(t.depends_on, written);
  EXPECT_EQ(t.write("k", "w", {.flags = RejectRules::kIfExists, .reserved = 0, .version = 0}),
            StatusCode::kExists);
  EXPECT_GT(t.depends_on, t.parts.log.durable());
  t.parts.replicator.finish_all();
  EXPECT_EQ(t.read("k"), StatusCode::kOk);
  EXPECT_EQ(t.depends_on, LogPosition());

  ASSERT_EQ(t.remove("k"), StatusCode::kOk);
  const LogPosition deleted = t.depends_on;
  t.store.sweep();
  EXPECT_EQ(t.read("k"), StatusCode::kNotFound);
  // The end of the entry; the group's, which is what becomes durable, is at most its fill further.
  const auto is_fresh = [&](LogPosition p) { return p > t.parts.log.durable() && p <= deleted; };
  EXPECT_TRUE(is_fresh(t.depends_on)) << "absence has a position until it is durable";
  EXPECT_EQ(t.remove("k"), StatusCode::kOk);
  EXPECT_TRUE(is_fresh(t.depends_on));
  std::vector<log::ObjectView> page(4);
  EnumerateResult result;
  ASSERT_EQ(t.store.enumerate(1, 0, 0, {}, page, result), StatusCode::kOk);
  EXPECT_TRUE(is_fresh(result.depends_on));
  EXPECT_EQ(t.store.pending_deletes(), 1u);
  t.parts.replicator.finish_all();
  t.store.sweep();
  EXPECT_EQ(t.store.pending_deletes(), 0u);
  EXPECT_EQ(t.read("k"), StatusCode::kNotFound);
  EXPECT_EQ(t.depends_on, LogPosition());
  EXPECT_EQ(t.store.table().entries(), 0u);
}

/// The entries of each group of a segment, the header's left out.
std::vector<std::vector<log::EntryType>> groups_of(const log::Segment& segment) {
  std::vector<std::vector<log::EntryType>> groups;
  log::scan_segment(segment.identity(), segment.bytes(), {}, [&](const log::GroupView& group) {
    if (group.offset() == 0) return;
    auto& types = groups.emplace_back();
    for (auto e = group.first(); e; e = group.next(*e)) types.push_back(e->view.type());
  });
  return groups;
}

/// So that a torn tail takes all of them, or nothing.
TEST(ObjectStore, TheEffectsOfAnOperationAreOneGroup) {
  TestStore t(4);
  ASSERT_EQ(t.write("k", "one"), StatusCode::kOk);
  ASSERT_EQ(t.write("k", "two"), StatusCode::kOk);
  ASSERT_EQ(t.write("k", std::string(300'000, 'v')), StatusCode::kOk) << "copied outside the lock";
  ASSERT_EQ(t.remove("k"), StatusCode::kOk);
  using enum log::EntryType;
  EXPECT_THAT(groups_of(*t.parts.log.find_segment(1)),
              ElementsAre(ElementsAre(kObject), ElementsAre(kObject, kTombstone),
                          ElementsAre(kObject, kTombstone), ElementsAre(kTombstone)));
}

TEST(ObjectStore, RejectRules) {
  using enum StatusCode;
  struct Case {
    uint32_t flags;
    int version;  // relative to the present one
    StatusCode absent, present;
  };
  const Case cases[] = {
      {0, 0, kOk, kOk},
      {RejectRules::kIfAbsent, 0, kNotFound, kOk},
      {RejectRules::kIfExists, 0, kOk, kExists},
      {RejectRules::kIfVersionNotEqual, 0, kWrongVersion, kOk},
      {RejectRules::kIfVersionNotEqual, 1, kWrongVersion, kWrongVersion},
      {RejectRules::kIfVersionNotEqual, -1, kWrongVersion, kWrongVersion},
      {RejectRules::kIfVersionAtMost, 0, kOk, kWrongVersion},
      {RejectRules::kIfVersionAtMost, 1, kOk, kWrongVersion},
      {RejectRules::kIfVersionAtMost, -1, kOk, kOk},
      {RejectRules::kIfAbsent | RejectRules::kIfExists, 0, kNotFound, kExists},
      {16, 0, kInvalidArgument, kInvalidArgument},
  };
  for (const Case& c : cases) {
    for (const bool exists : {false, true}) {
      TestStore t(3);
      const StatusCode expected = exists ? c.present : c.absent;
      uint64_t present = 10;
      if (exists) {
        ASSERT_EQ(t.write("k", "old"), kOk);
        present = t.version;
      }
      const RejectRules rules{c.flags, 0, present + static_cast<uint64_t>(c.version)};
      SCOPED_TRACE(std::to_string(c.flags) + (exists ? " present " : " absent ") +
                   std::to_string(c.version));
      EXPECT_EQ(t.read("k", rules), expected == kOk && !exists ? kNotFound : expected);
      EXPECT_EQ(t.write("k", "new", rules), expected);
      if (expected != kOk && expected != kInvalidArgument) {
        EXPECT_EQ(t.version, exists ? present : 0);
      }
      EXPECT_EQ(t.read("k"), exists || expected == kOk ? kOk : kNotFound);
      TestStore u(3);
      if (exists) ASSERT_EQ(u.write("k", "old"), kOk);
      EXPECT_EQ(u.remove("k", rules), expected);
      EXPECT_EQ(u.read("k"), exists && expected != kOk ? kOk : kNotFound);
    }
  }
}

TEST(ObjectStore, IncrementsIntegersAndDoubles) {
  TestStore t(4);
  ObjectStore::Incremented sum;
  const auto add = [&](ByteView key, wire::NumberType type, uint64_t delta,
                       RejectRules rules = kNoRules) {
    return t.store.increment(1, key, type, delta, rules, sum, t.depends_on);
  };
  constexpr auto kInt = wire::NumberType::kInt64;
  constexpr auto kDouble = wire::NumberType::kDouble;
  ASSERT_EQ(add("i", kInt, 5), StatusCode::kOk) << "absent counts as 0";
  EXPECT_EQ(sum.bits, 5u);
  const uint64_t first = sum.version;
  ASSERT_EQ(add("i", kInt, static_cast<uint64_t>(-7)), StatusCode::kOk);
  EXPECT_EQ(static_cast<int64_t>(sum.bits), -2);
  EXPECT_GT(sum.version, first);
  ASSERT_EQ(t.read("i"), StatusCode::kOk);
  EXPECT_EQ(t.value, std::string("\xfe") + std::string(7, '\xff')) << "little-endian";
  EXPECT_EQ(t.version, sum.version);

  const auto bits = [](double d) { return std::bit_cast<uint64_t>(d); };
  ASSERT_EQ(add("d", kDouble, bits(1.5)), StatusCode::kOk);
  ASSERT_EQ(add("d", kDouble, bits(-0.25)), StatusCode::kOk);
  EXPECT_EQ(std::bit_cast<double>(sum.bits), 1.25);

  const auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  ASSERT_EQ(add("w", kInt, most), StatusCode::kOk);
  ASSERT_EQ(add("w", kInt, 1), StatusCode::kOk);
  EXPECT_EQ(static_cast<int64_t>(sum.bits), std::numeric_limits<int64_t>::min()) << "wraps round";

  for (const ByteView value : {ByteView(""), ByteView("1234567"), ByteView("123456789")}) {
    ASSERT_EQ(t.write("text", value), StatusCode::kOk);
    EXPECT_EQ(add("text", kInt, 1), StatusCode::kInvalidArgument);
    EXPECT_EQ(sum.value_length, value.size());
    ASSERT_EQ(t.read("text"), StatusCode::kOk);
    EXPECT_EQ(t.value, value) << "nothing changed";
  }
  EXPECT_EQ(add("i", static_cast<wire::NumberType>(3), 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(add("none", kInt, 1, {.flags = RejectRules::kIfAbsent, .reserved = 0, .version = 0}),
            StatusCode::kNotFound);
  EXPECT_EQ(add("i", kInt, 1, {.flags = RejectRules::kIfExists, .reserved = 0, .version = 0}),
            StatusCode::kExists);
  EXPECT_EQ(t.store.increment(2, "i", kInt, 1, kNoRules, sum, t.depends_on),
            StatusCode::kUnknownTablet);
  EXPECT_EQ(t.store.object_count(1), 4u);
  EXPECT_THAT(Invariants(t.store).check(), IsEmpty());
}

TEST(ObjectStore, IncrementsDependOnTheirLogPosition) {
  TestStore t(4, false);
  ObjectStore::Incremented sum;
  ASSERT_EQ(t.store.increment(1, "n", wire::NumberType::kInt64, 1, kNoRules, sum, t.depends_on),
            StatusCode::kOk);
  EXPECT_EQ(t.depends_on, t.parts.log.head());
  ASSERT_EQ(t.write("text", "x"), StatusCode::kOk);
  EXPECT_EQ(t.store.increment(1, "text", wire::NumberType::kInt64, 1, kNoRules, sum, t.depends_on),
            StatusCode::kInvalidArgument);
  EXPECT_GT(t.depends_on, t.parts.log.durable()) << "that it is no number depends on the write";
  t.parts.replicator.finish_all();
  ASSERT_EQ(t.remove("n"), StatusCode::kOk);
  ASSERT_EQ(t.store.increment(1, "n", wire::NumberType::kInt64, 3, kNoRules, sum, t.depends_on),
            StatusCode::kOk);
  EXPECT_EQ(sum.bits, 3u) << "deleted counts as 0, also before the tombstone is durable";
}

TEST(ObjectStore, LimitsAreExact) {
  TestStore t(4);
  const std::string key(65'535, 'k');
  const std::string value(1'048'576, 'v');
  EXPECT_EQ(t.write(key, value), StatusCode::kOk);
  EXPECT_EQ(t.write(key, value), StatusCode::kOk) << "with a tombstone";
  EXPECT_EQ(t.read(key), StatusCode::kOk);
  EXPECT_EQ(t.value, value);
  EXPECT_EQ(t.write(key + "k", "v"), StatusCode::kInvalidArgument);
  EXPECT_EQ(t.read(key + "k"), StatusCode::kInvalidArgument);
  EXPECT_EQ(t.remove(key + "k"), StatusCode::kInvalidArgument);
  EXPECT_EQ(t.write("k", value + "v"), StatusCode::kInvalidArgument);
  EXPECT_EQ(t.remove(key), StatusCode::kOk);
  EXPECT_EQ(t.write("", ""), StatusCode::kOk);
  EXPECT_EQ(t.read(""), StatusCode::kOk);
  EXPECT_THAT(Invariants(t.store).check(), IsEmpty());
}

TEST(ObjectStore, OnlyServedTablets) {
  TestStore t(3);
  ReadResult result;
  EXPECT_EQ(t.store.read(2, "k", kNoRules, result), StatusCode::kUnknownTablet);
  EXPECT_EQ(t.store.write(2, "k", "v", kNoRules, t.version, t.depends_on),
            StatusCode::kUnknownTablet);
  const uint64_t hash = key_hash(2, "k");
  ASSERT_TRUE(t.store.take_tablet(2, hash, hash).ok());
  EXPECT_EQ(t.store.write(2, "k", "v", kNoRules, t.version, t.depends_on), StatusCode::kOk);
  EXPECT_EQ(t.store.write(2, "j", "v", kNoRules, t.version, t.depends_on),
            StatusCode::kUnknownTablet);
  EXPECT_EQ(t.store.take_tablet(2, 0, hash).code(), StatusCode::kExists);
  EXPECT_EQ(t.store.drop_table(3).code(), StatusCode::kNotFound);
}

TEST(ObjectStore, MemoryFullRefusesWritesWhileReadsAndDeletesGoOn) {
  TestStore t(3);
  const std::string value(500'000, 'v');
  int n = 0;
  while (t.write("key" + std::to_string(n), value) == StatusCode::kOk) ++n;
  EXPECT_EQ(t.write("other", value), StatusCode::kOutOfMemory);
  for (int i = 0; i < n; ++i) {
    ASSERT_EQ(t.read("key" + std::to_string(i)), StatusCode::kOk);
    ASSERT_EQ(t.remove("key" + std::to_string(i)), StatusCode::kOk);
  }
  EXPECT_EQ(t.store.object_count(1), 0u);
  EXPECT_THAT(Invariants(t.store).check(), IsEmpty());
}

/// A dropped table has far more objects than the reserve takes tombstones. Deletes go on.
TEST(ObjectStore, PurgingLeavesTheReserveToDeletes) {
  TestStore t(3);
  ASSERT_TRUE(t.store.take_tablet(2, 0, ~uint64_t{0}).ok());
  ASSERT_EQ(t.write("stays", "until it is deleted"), StatusCode::kOk);
  uint64_t version = 0;
  LogPosition depends_on;
  const std::string value(500, 'v');
  const auto fill = [&](int i) {
    return t.store.write(2, "key" + std::to_string(i), value, kNoRules, version, depends_on);
  };
  int n = 0;
  while (fill(n) == StatusCode::kOk) ++n;
  ASSERT_GT(n, 20'000);
  ASSERT_TRUE(t.store.drop_table(2).ok());
  t.store.may_purge(t.store.drops());
  for (int i = 0; i < 2'000; ++i) t.store.purge_step();
  EXPECT_TRUE(t.store.purge_step()) << "it waits for memory";
  EXPECT_GT(t.store.table().entries(), 1u);
  const uint64_t head = t.parts.log.head().segment_id();
  EXPECT_EQ(t.remove("stays"), StatusCode::kOk);
  EXPECT_EQ(t.parts.log.head().segment_id(), head + 1) << "which is the first in the reserve";
}

TEST(ObjectStore, EnumerationGivesWhatStaysExactlyOnce) {
  TestStore t(8, true, {.buckets = 8});  // long overflow chains
  Random random(4);
  std::set<std::string> stable;
  for (int i = 0; i < 500; ++i) {
    stable.insert("stable" + std::to_string(i));
    ASSERT_EQ(t.write("stable" + std::to_string(i), "v"), StatusCode::kOk);
  }
  for (int round = 0; round < 10; ++round) {
    const auto keys = enumerate_all(t, 300, [&] {
      for (int i = 0; i < 20; ++i) {
        const std::string other = "other" + std::to_string(random.below(400));
        ASSERT_EQ(random.chance(0.5) ? t.write(other, "x") : t.remove(other), StatusCode::kOk);
        ASSERT_EQ(t.write("stable" + std::to_string(random.below(500)), "again"), StatusCode::kOk);
      }
      t.store.sweep();
    });
    std::multiset<std::string> seen;
    for (const auto& key : keys) {
      if (stable.contains(key)) seen.insert(key);
    }
    EXPECT_EQ(seen.size(), stable.size());
    EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()), stable);
  }
  EXPECT_THAT(Invariants(t.store).check(), IsEmpty());
}

void replay_into(const log::Log& log, log::Replay& replay, std::vector<std::string>& images) {
  for (const log::Segment* segment : log.segments()) {
    images.push_back(log::image_of(*segment));
    replay.add({segment->id(), images.back(), {}, "image"});
  }
}

TEST(ObjectStore, ADroppedTableIsPurgedAndStaysGoneInReplay) {
  TestStore t(6, true, {.buckets = 1024});
  ASSERT_TRUE(t.store.take_tablet(2, 0, ~uint64_t{0}).ok());
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(t.write("k" + std::to_string(i), "v"), StatusCode::kOk);
  }
  const uint64_t dropped_version = t.version;
  ASSERT_EQ(t.store.write(2, "kept", "v", kNoRules, t.version, t.depends_on), StatusCode::kOk);
  ASSERT_TRUE(t.store.drop_table(1).ok());
  EXPECT_EQ(t.read("k1"), StatusCode::kUnknownTablet);
  EXPECT_EQ(t.store.take_tablet(1, 0, 5).code(), StatusCode::kRetry);
  EXPECT_FALSE(t.store.purge_step()) << "somebody may still be at work in it";
  t.store.may_purge(t.store.drops());
  EXPECT_EQ(t.store.take_tablet(1, 0, 5).code(), StatusCode::kRetry);
  int steps = 0;
  while (t.store.purge_step() && steps < 100) ++steps;
  EXPECT_GE(steps, 3);
  EXPECT_EQ(t.store.table().entries(), 1u);
  EXPECT_THAT(Invariants(t.store).check(), IsEmpty());
  ASSERT_TRUE(t.store.take_tablet(1, 0, ~uint64_t{0}).ok());
  EXPECT_EQ(t.read("k1"), StatusCode::kNotFound);
  std::vector<std::string> images;
  images.reserve(10);
  log::Replay replay(log::kTestCluster, log::kTestMaster);
  replay_into(t.parts.log, replay, images);
  ASSERT_EQ(replay.run().to_string(), "OK");
  EXPECT_EQ(replay.live_objects(), 1u);
  ASSERT_EQ(t.write("k2999", "again"), StatusCode::kOk);
  EXPECT_GT(t.version, dropped_version);
}

TEST(ObjectStore, APurgeStepIsASliceOfWork) {
  // Few buckets, so that a step by buckets alone would append thousands of tombstones.
  TestStore t(8, true, {.buckets = 512});
  ASSERT_TRUE(t.store.take_tablet(2, 0, ~uint64_t{0}).ok());
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(t.write("k" + std::to_string(i), "v"), StatusCode::kOk);
  }
  ASSERT_TRUE(t.store.drop_table(1).ok());
  t.store.may_purge(t.store.drops());
  // The bucket that exceeds a slice is finished.
  constexpr uint64_t kMost = ObjectStore::kPurgeSlice / ObjectStore::kPurgeTombstone + 64;
  uint64_t before = t.parts.log.statistics().appended_groups;
  int steps = 0;
  bool more = true;
  while (more && steps < 10'000) {
    more = t.store.purge_step();
    ++steps;
    const uint64_t after = t.parts.log.statistics().appended_groups;
    ASSERT_LE(after - before, kMost) << "tombstones of step " << steps;
    EXPECT_FALSE(t.store.purge_waits());
    before = after;
  }
  EXPECT_FALSE(more);
  EXPECT_EQ(t.store.table().entries(), 0u);
  // Without anything to purge a step ends after so many buckets.
  EXPECT_GE(steps, 10'000 / static_cast<int>(kMost));
}

TEST(ObjectStore, APageOfAnEnumerationEndsAfterSoManyEntries) {
  TestStore t(4, true, {.buckets = 64});  // long chains
  ASSERT_TRUE(t.store.take_tablet(2, 0, ~uint64_t{0}).ok());
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(t.write("k" + std::to_string(i), "v"), StatusCode::kOk);
  }
  ASSERT_EQ(t.store.write(2, "alone", "v", kNoRules, t.version, t.depends_on), StatusCode::kOk);
  for (const uint64_t table : {uint64_t{1}, uint64_t{2}}) {
    std::vector<log::ObjectView> page(1000);
    EnumerateResult result;
    uint64_t found = 0, pages = 0;
    do {
      ASSERT_EQ(t.store.enumerate(table, 0, result.next_cursor, {.max_entries = 50}, page, result),
                StatusCode::kOk);
      EXPECT_LE(result.count, 50u);
      found += result.count;
      ++pages;
    } while (!result.done && pages < 1000);
    EXPECT_EQ(found, table == 1 ? 2000u : 1u);
    EXPECT_GE(pages, 2001u / 100) << "entries of other tables count, too";
  }
}

TEST(ObjectStore, ASweepEndsAfterSoManyDeletes) {
  TestStore t(4, false);
  t.parts.replicator.finish_all();
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(t.write("k" + std::to_string(i), "v"), StatusCode::kOk);
    ASSERT_EQ(t.remove("k" + std::to_string(i)), StatusCode::kOk);
  }
  t.parts.replicator.finish_all();
  EXPECT_TRUE(t.store.sweep(128));
  EXPECT_EQ(t.store.pending_deletes(), 172u);
  EXPECT_TRUE(t.store.sweep(128));
  EXPECT_FALSE(t.store.sweep(128));
  EXPECT_EQ(t.store.pending_deletes(), 0u);
}

TEST(ObjectStore, ReadersWithoutLocksBesideWriters) {
  TestStore t(16, true, {.buckets = 64});
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    Random random(9);
    while (!stop.load()) {
      const std::string key = "k" + std::to_string(random.below(200));
      ReadResult r;
      const StatusCode status = t.store.read(1, key, kNoRules, r);
      if (status == StatusCode::kNotFound) continue;
      ASSERT_EQ(status, StatusCode::kOk);
      std::string value(r.value_length, '\0');
      r.entry.read(r.value_offset, value.data(), r.value_length);
      ASSERT_EQ(value.substr(0, key.size()), key);
    }
  });
  std::vector<std::thread> writers;
  for (uint64_t n = 0; n < 2; ++n) {
    writers.emplace_back([&, n] {
      Random random(n);
      for (int i = 0; i < 8000; ++i) {
        const std::string key = "k" + std::to_string(random.below(200));
        uint64_t version;
        LogPosition position;
        const std::string value = key + std::string(random.below(300), 'x');
        const StatusCode status = random.chance(0.3)
                                      ? t.store.remove(1, key, kNoRules, version, position)
                                      : t.store.write(1, key, value, kNoRules, version, position);
        if (status == StatusCode::kRetry) std::this_thread::yield();
        ASSERT_TRUE(status == StatusCode::kOk || status == StatusCode::kRetry);
        if (i % 50 == 0) t.store.sweep();
      }
    });
  }
  for (auto& w : writers) w.join();
  stop = true;
  reader.join();
  EXPECT_THAT(Invariants(t.store).check(), IsEmpty());
}

/// Random operations against a plain map, with replication that lags; then replay of the images.
void run_model(uint64_t seed, int operations, uint64_t keys, uint32_t segments) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  TestStore t(segments, false, {.buckets = 512});
  Random random(seed);
  std::map<std::string, std::pair<uint64_t, std::string>> model;
  std::map<std::string, uint64_t> last_version;
  Invariants invariants(t.store);
  for (int i = 0; i < operations; ++i) {
    const std::string key = "key" + std::to_string(random.below(keys));
    const auto found = model.find(key);
    const auto kind = random.below(10);
    StatusCode status = StatusCode::kOk;
    if (kind < 4) {
      uint64_t size = random.below(uint64_t{1} << random.below(9));
      if (random.chance(0.0002)) size = random.below((1 << 20) + 1);
      const std::string value(size, static_cast<char>('a' + i % 26));
      status = t.write(key, value);
      if (status == StatusCode::kOk) {
        ASSERT_GT(t.version, last_version[key]);
        last_version[key] = t.version;
        model[key] = {t.version, value};
      }
    } else if (kind < 6) {
      status = t.remove(key);
      if (status == StatusCode::kOk) {
        ASSERT_EQ(t.version, found == model.end() ? 0 : found->second.first);
        model.erase(key);
      }
    } else {
      const StatusCode read = t.read(key);
      ASSERT_EQ(read, found == model.end() ? StatusCode::kNotFound : StatusCode::kOk);
      if (found != model.end()) {
        ASSERT_EQ(t.value, found->second.second);
        ASSERT_EQ(t.version, found->second.first);
      }
    }
    ASSERT_TRUE(status == StatusCode::kOk || status == StatusCode::kRetry) << i;
    if (random.chance(status == StatusCode::kRetry ? 0.5 : 0.05)) {
      t.parts.replicator.step(random);
      t.store.sweep();
    }
    if (i % (operations / 5) == 0) ASSERT_THAT(invariants.check(), IsEmpty()) << i;
  }
  ASSERT_THAT(invariants.check(), IsEmpty());
  ASSERT_EQ(t.store.object_count(1), model.size());
  std::vector<std::string> images;
  images.reserve(segments);
  log::Replay replay(log::kTestCluster, log::kTestMaster);
  replay_into(t.parts.log, replay, images);
  ASSERT_EQ(replay.run().to_string(), "OK");
  std::map<std::string, std::pair<uint64_t, std::string>> replayed;
  replay.for_each([&](const log::ReplayedObject& o) {
    replayed[std::string(o.key)] = {o.version, std::string(o.value)};
  });
  EXPECT_EQ(replayed, model);
  EXPECT_LE(replay.report().safe_version, t.store.safe_version());
}

TEST(ObjectStoreModel, FewKeys) {
  run_model(21, 120'000, 20, 12);
}
TEST(ObjectStoreModel, ManyKeys) {
  run_model(22, 120'000, 20'000, 12);
}

}  // namespace
}  // namespace ramcloud::store
