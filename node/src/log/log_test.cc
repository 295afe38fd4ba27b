#include "log/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <thread>

#include "log/group_reader.h"
#include "log/invariants.h"
#include "log/log_test_support.h"

namespace ramcloud::log {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint32_t kMiB = 1 << 20;
const std::string kMiBValue(kMiB, 'v');

void fill_until_retry(Log& log, const std::string& value) {
  for (int i = 0; i < 100'000; ++i) {
    const StatusCode status = append_object(log, 1, 1, "k", value);
    if (status == StatusCode::kRetry) return;
    ASSERT_EQ(status, StatusCode::kOk);
  }
  FAIL() << "never full";
}

TEST(Log, TakesDataOnlyWhenTheFirstHeadIsOpenOnReplicas) {
  TestLog t(4, false);
  EXPECT_THAT(t.replicator.events, ElementsAre("open 1"));
  EXPECT_EQ(append_object(t.log, 1, 1, "k", "v"), StatusCode::kRetry);
  EXPECT_FALSE(t.log.ready());
  t.replicator.finish_open(1);
  EXPECT_TRUE(t.log.ready());
  EXPECT_EQ(append_object(t.log, 1, 1, "k", "v"), StatusCode::kOk);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(Log, HeadOrdering) {
  TestLog t(4, false);
  t.replicator.finish_open(1);
  while (t.replicator.events.size() < 3) {
    ASSERT_EQ(append_object(t.log, 1, 1, "k", kMiBValue), StatusCode::kOk);
  }
  // Half full: the next head is opened ahead, and its digest lists it.
  EXPECT_THAT(t.replicator.events, ElementsAre("open 1", "opened 1", "open 2"));
  Segment* first = t.log.find_segment(1);
  Segment* second = t.log.find_segment(2);
  EXPECT_GT(first->published(), kSegmentBytes / 2);
  EXPECT_LT(first->published(), kSegmentBytes / 2 + 2 * kMiB);
  EXPECT_EQ(second->published(), second->header_length());
  EXPECT_EQ(scan_segment(second->identity(), second->bytes()).digest,
            (std::vector<uint64_t>{1, 2}));

  // Full while the next is not open on replicas: the head is not closed.
  fill_until_retry(t.log, kMiBValue);
  EXPECT_FALSE(first->closed());
  EXPECT_THAT(t.replicator.events, ElementsAre("open 1", "opened 1", "open 2"));
  // Open: now the old head is closed, but data waits for that to be durable.
  t.replicator.finish_open(2);
  EXPECT_TRUE(first->closed());
  EXPECT_EQ(append_object(t.log, 1, 1, "k", "v"), StatusCode::kRetry);
  EXPECT_EQ(second->published(), second->header_length());
  t.replicator.finish_data(1);
  EXPECT_EQ(append_object(t.log, 1, 1, "k", "v"), StatusCode::kRetry);
  EXPECT_EQ(t.log.durable().segment_id(), 1u);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
  t.replicator.finish_close(1);
  EXPECT_EQ(t.log.durable(), second->position(second->header_length()));
  EXPECT_EQ(append_object(t.log, 1, 1, "k", "v"), StatusCode::kOk);
  EXPECT_GT(second->published(), second->header_length());
  EXPECT_THAT(t.replicator.events,
              ElementsAre("open 1", "opened 1", "open 2", "opened 2", "close 1", "closed 1"));
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(Log, ImmediateReplicationNeverAnswersRetry) {
  TestLog t(6);
  for (int i = 0; i < 25; ++i) {
    ASSERT_EQ(append_object(t.log, 1, 1, "k", kMiBValue), StatusCode::kOk) << i;
  }
  EXPECT_EQ(t.log.statistics().retries, 3u) << "one inside the append at each switch";
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(Log, WithoutReplicationAllIsDurableAtOnce) {
  Arena arena(4 * uint64_t{kSegmentBytes}, {.try_huge_pages = false, .prefault = false});
  NullReplicator replicator;
  Log log(arena, replicator, test_log_options());
  log.start();
  for (int i = 0; i < 20; ++i) {
    Appended appended;
    ASSERT_EQ(append_object(log, 1, 1, "k", kMiBValue, &appended), StatusCode::kOk) << i;
    EXPECT_GE(log.durable(), appended.end);
    EXPECT_EQ(log.durable(), log.head());
  }
  EXPECT_THAT(Invariants(log).check(), IsEmpty());
}

TEST(Log, PositionsRiseAndDurableFollowsWholeGroups) {
  TestLog t(4, false);
  t.replicator.finish_open(1);
  Appended a, b;
  const char* ref = nullptr;
  ASSERT_EQ(append_object(t.log, 1, 1, "a", "1", &a, &ref), StatusCode::kOk);
  ASSERT_EQ(append_object(t.log, 1, 2, "b", kMiBValue, &b), StatusCode::kOk);
  EXPECT_LT(a.end, b.end);
  EXPECT_EQ(t.log.head(), b.end);
  EXPECT_LE(t.log.position_of(ref), a.end);
  EXPECT_LT(t.log.durable(), t.log.position_of(ref));
  t.replicator.finish_data(1, 1000);  // the first fits, the second does not
  EXPECT_EQ(t.log.durable(), a.end);
  t.replicator.finish_data(1, 1000);  // a single group larger than the limit goes whole
  EXPECT_EQ(t.log.durable(), b.end);
  t.log.set_durable(a.end);
  EXPECT_EQ(t.log.durable(), b.end) << "does not go back";
  // Later groups record how far the segment was durable.
  ASSERT_EQ(append_object(t.log, 1, 3, "c", "3"), StatusCode::kOk);
  const Segment* segment = t.log.find_segment(1);
  EXPECT_EQ(scan_segment(segment->identity(), segment->bytes()).durable_up_to, b.end.offset());
}

TEST(Log, DeletesMayUseTheReserveAndReadsGoOn) {
  TestLog t(3);
  Appended appended;
  const char* ref = nullptr;
  ASSERT_EQ(append_object(t.log, 1, 1, "first", "value", &appended, &ref), StatusCode::kOk);
  StatusCode status = StatusCode::kOk;
  int written = 0;
  while (status == StatusCode::kOk && written < 100) {
    status = append_object(t.log, 1, 1, "k", kMiBValue);
    ++written;
  }
  EXPECT_EQ(status, StatusCode::kOutOfMemory);
  EXPECT_EQ(written, 15) << "two segments of seven, then refused";
  EXPECT_EQ(append_object(t.log, 1, 1, "k", "small"), StatusCode::kOk) << "what fits still goes";
  const std::string key(60'000, 'k');
  const TestTombstone tombstone(1, 1, 1, key, true);
  int deleted = 0;
  do {
    status = t.log.append(std::span(&tombstone.source, 1), true, appended, &ref);
    if (status == StatusCode::kOk) ++deleted;
  } while (status == StatusCode::kOk && deleted < 1000);
  EXPECT_EQ(status, StatusCode::kOutOfMemory) << "the reserve ends, too";
  EXPECT_GT(deleted, 130) << "a whole segment";
  EXPECT_EQ(append_object(t.log, 1, 1, "k", "small"), StatusCode::kOutOfMemory);
  EXPECT_EQ(t.log.statistics().free_segments, 0u);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(Log, GroupsUpTo4KiBDoNotStraddleSegletsLargerMay) {
  TestLog t(6);
  Random random(3);
  bool straddled = false;
  for (int i = 0; i < 3000; ++i) {
    const std::string value(random.below(12'000), static_cast<char>('a' + i % 26));
    const TestObject object(1, static_cast<uint64_t>(i), "key", value);
    const TestTombstone tombstone(1, 3, 1, "key", false);
    const EntrySource entries[] = {object.source, tombstone.source};
    Appended appended;
    const char* refs[2];
    ASSERT_EQ(t.log.append(entries, false, appended, refs), StatusCode::kOk);
    const auto view = parse_object(t.log.entry(refs[0]));
    ASSERT_TRUE(view);
    ASSERT_TRUE(view->has_key(1, "key"));
    ASSERT_TRUE(view->entry.equals(view->value_offset, value));
    ASSERT_TRUE(view->entry.verify());
    const auto dead = parse_tombstone(t.log.entry(refs[1]));
    ASSERT_TRUE(dead && dead->has_key(1, "key") && dead->entry.verify());
    Slice slices[kMaxEntrySlices];
    const int count = view->entry.slices(view->value_offset, view->value_length, slices);
    straddled = straddled || count > 1;
    std::string joined;
    for (int s = 0; s < count; ++s) {
      joined.append(static_cast<const char*>(slices[s].data), slices[s].size);
    }
    ASSERT_EQ(joined, value);
  }
  EXPECT_TRUE(straddled);
  for (const Segment* segment : t.log.segments()) {
    scan_segment(segment->identity(), segment->bytes(), {}, [](const GroupView& group) {
      if (group.length() > kMaxContiguousGroupBytes) return;
      EXPECT_EQ(group.offset() / kSegletBytes, (group.end() - 1) / kSegletBytes);
    });
  }
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(Log, EveryEndOfASegmentLeavesRoomForTheFooter) {
  // Groups of sizes that leave each possible rest, closed by the next that does not fit.
  for (uint32_t rest = 0; rest < 200; rest += 8) {
    TestLog t(3);
    while (t.log.head().offset() < kSegmentBytes - 2 * kMiB) {
      ASSERT_EQ(append_object(t.log, 1, 1, "k", kMiBValue), StatusCode::kOk);
    }
    const uint32_t left = kSegmentBytes - rest - t.log.head().offset();
    const uint32_t overhead = sizeof(GroupHeader) + sizeof(EntryHeader) + sizeof(ObjectBody) + 1;
    const std::string value(left - overhead, 'x');
    ASSERT_EQ(append_object(t.log, 1, 1, "k", value), StatusCode::kOk);
    ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
    const Segment* segment = t.log.find_segment(1);
    ASSERT_TRUE(segment->closed());
    EXPECT_EQ(scan_segment(segment->identity(), segment->bytes()).end, ScanEnd::kClosed) << rest;
  }
}

TEST(Log, RefusesWhatNoSegmentHolds) {
  TestLog t(3);
  const std::string huge(kMaxGroupBytes, 'x');
  EXPECT_EQ(append_object(t.log, 1, 1, "k", huge), StatusCode::kInvalidArgument);
  Appended appended;
  const char* refs[kMaxGroupEntries + 1];
  const TestObject object(1, 1, "k", "v");
  const std::vector<EntrySource> many(kMaxGroupEntries + 1, object.source);
  EXPECT_EQ(t.log.append(many, false, appended, refs), StatusCode::kInvalidArgument);
  EXPECT_EQ(t.log.append({}, false, appended, refs), StatusCode::kInvalidArgument);
}

TEST(Log, SafeVersionIsLoggedWithEachHead) {
  TestLog t(3, true, 1, false);
  uint64_t safe = 17;
  t.log.set_safe_version_source([&] { return safe; });
  t.log.start();
  safe = 99;
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  const auto segments = t.log.segments();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(scan_segment(segments[0]->identity(), segments[0]->bytes()).safe_version, 17u);
  EXPECT_EQ(scan_segment(segments[1]->identity(), segments[1]->bytes()).safe_version, 99u);
}

TEST(Log, EpochOfTheSegmentIsInItsGroups) {
  TestLog t(3);
  t.log.find_segment(1)->set_replication_epoch(5);
  ASSERT_EQ(append_object(t.log, 1, 1, "k", "v"), StatusCode::kOk);
  const Segment* segment = t.log.find_segment(1);
  uint32_t last_epoch = 0;
  scan_segment(segment->identity(), segment->bytes(), {},
               [&](const GroupView& g) { last_epoch = g.header().replication_epoch; });
  EXPECT_EQ(last_epoch, 5u);
}

/// The epoch is already in the header of a head that is opened ahead: a replica may have nothing
/// but the header.
TEST(Log, ANewHeadBeginsWithTheEpochOfTheOneBefore) {
  TestLog t(4);
  t.log.find_segment(1)->set_replication_epoch(5);
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  const Segment* next = t.log.find_segment(2);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(scan_segment(next->identity(), next->bytes()).replication_epoch, 5u);
}

TEST(Log, AppendsFromSeveralThreads) {
  TestLog t(12);
  constexpr int kThreads = 3;
  constexpr int kAppends = 1500;
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  // As replication sees it: published bytes are always whole, valid groups.
  std::thread watcher([&] {
    while (!stop.load()) {
      const Segment* segment = t.log.find_segment(1);
      const SegmentScan scan = scan_segment(segment->identity(), segment->bytes());
      ASSERT_TRUE(scan.end == ScanEnd::kOpen || scan.end == ScanEnd::kClosed) << scan.what;
    }
  });
  for (int n = 0; n < kThreads; ++n) {
    threads.emplace_back([&, n] {
      Random random(static_cast<uint64_t>(n));
      const std::string big(40'000, static_cast<char>('a' + n));
      for (int i = 0; i < kAppends; ++i) {
        const auto length = random.chance(0.3) ? 5'000 + random.below(35'000) : random.below(500);
        const ByteView value = ByteView(big).substr(0, length);
        const char* ref = nullptr;
        Appended appended;
        const StatusCode status = append_object(t.log, 1, 1, "key", value, &appended, &ref);
        if (status == StatusCode::kRetry) {
          --i;
          std::this_thread::yield();
          continue;
        }
        ASSERT_EQ(status, StatusCode::kOk);
        const auto object = parse_object(t.log.entry(ref));
        ASSERT_TRUE(object && object->entry.verify());
        ASSERT_TRUE(object->entry.equals(object->value_offset, value));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  stop = true;
  watcher.join();
  EXPECT_EQ(t.log.statistics().appended_groups, uint64_t{kThreads} * kAppends);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

uint64_t free_huge_pages() {
  std::ifstream info("/proc/meminfo");
  std::string name;
  uint64_t value = 0;
  while (info >> name) {
    if (name == "HugePages_Free:" && info >> value) return value;
    info.ignore(1000, '\n');
  }
  return 0;
}

/// In pages that were reserved, or not at all: how a machine is set up decides which of both can
/// be seen on it.
TEST(Arena, ReservedPagesAreUsedOrTheProcessEnds) {
  const Arena::Options options{.prefault = false, .reserved_page_bytes = 2u << 20};
  constexpr uint64_t kPagesNeeded = kSegmentBytes / (2u << 20);
  if (free_huge_pages() < kPagesNeeded) {
    EXPECT_DEATH(Arena(kSegmentBytes, options), "too few are reserved.*pages=4");
    return;
  }
  Arena arena(kSegmentBytes, options);
  EXPECT_TRUE(arena.huge_pages());
  EXPECT_FALSE(arena.resizable());
  Segment segment;
  std::array<char*, kSegletsPerSegment> all{};
  ASSERT_TRUE(arena.allocate(segment, all));
  for (char* seglet : all) *seglet = 1;
  arena.free(all);
}

TEST(Arena, SegletsComeAndGo) {
  Arena arena(2 * uint64_t{kSegmentBytes} + 5, {.try_huge_pages = true, .prefault = true});
  EXPECT_EQ(arena.total_segments(), 2u);
  EXPECT_EQ(arena.free_seglets(), 2 * kSegletsPerSegment);
  auto segment = std::make_unique<Segment>();
  std::array<char*, kSegletsPerSegment> a{}, b{};
  ASSERT_TRUE(arena.allocate(*segment, a));
  ASSERT_TRUE(arena.allocate(*segment, b));
  EXPECT_FALSE(arena.allocate(*segment, std::span(a).first(1)));
  EXPECT_EQ(arena.locate(a[3] + 17).offset, 3 * kSegletBytes + 17);
  EXPECT_EQ(arena.segment_of(b[127] + kSegletBytes - 1), segment.get());
  arena.free(a);
  EXPECT_EQ(arena.segment_of(a[0]), nullptr);
  EXPECT_EQ(arena.free_seglets(), kSegletsPerSegment);
  EXPECT_TRUE(arena.contains(a[0]));
  EXPECT_FALSE(arena.contains(reinterpret_cast<const char*>(segment.get())));
}

}  // namespace
}  // namespace ramcloud::log
