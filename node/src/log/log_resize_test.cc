// Log, resizing: the memory of each user while the limit moves, and the refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "log/invariants.h"
#include "log/log_test_support.h"
#include "log/side_log.h"

namespace ramcloud::log {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const std::string kMiBValue(1 << 20, 'v');
constexpr uint32_t kWhole = kSegletsPerSegment;
constexpr uint64_t kSegment = kSegmentBytes;

/// Of 16 segments, which may become 24; cleaning has one of them.
struct ResizedLog : TestLog {
  explicit ResizedLog(uint32_t cleaner_segments = 1)
      : TestLog(16, true, 1, true, cleaner_segments, 24) {}
  StatusCode append(ByteView value = kMiBValue) { return append_object(log, 1, 1, "k", value); }
  void fill() {
    while (append() == StatusCode::kOk) {
    }
  }
  StatusCode remove() {
    const std::string key(60'000, 'k');
    const TestTombstone tombstone(1, 1, 1, key, true);
    Appended appended;
    const char* ref = nullptr;
    return log.append(std::span(&tombstone.source, 1), true, appended, &ref);
  }
  void continue_resize() {
    while (log.continue_resize()) {
    }
  }
  /// Cleans like a pass that frees the log's first segments completely.
  void clean(size_t count) {
    const auto segments = log.segments();
    SegmentChange change{.enter = {}, .leave = {segments.begin(), segments.begin() + int(count)}};
    ASSERT_EQ(log.commit(change, Roll::kNow), StatusCode::kOk);
    ASSERT_TRUE(change.done());
    reclaim();
  }
  void reclaim() { log.reclaim(log.take_retired()); }
};

TEST(LogResize, GrowsWhileItIsUsed) {
  ResizedLog t;
  t.fill();
  const size_t before = t.log.segments().size();
  ASSERT_TRUE(t.log.resize(24 * kSegment, 0).ok());
  EXPECT_FALSE(t.log.sizes(0).done());
  t.continue_resize();
  EXPECT_TRUE(t.log.sizes(0).done());
  EXPECT_EQ(t.log.statistics().total_segments, 24u);
  EXPECT_EQ(t.log.most_segments(), t.log.most_segments_ever());
  t.fill();
  EXPECT_GE(t.log.segments().size(), before + 7);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(LogResize, IsRefusedWithTheValueAndWhatIsAccepted) {
  ResizedLog t;
  t.fill();
  const auto refused = [&](uint64_t bytes, uint64_t live) {
    const Status status = t.log.resize(bytes, live);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bytes;
    EXPECT_EQ(t.log.sizes(live).target, 16 * kSegment) << "nothing has changed";
    return status.message();
  };
  EXPECT_THAT(refused(25 * kSegment, 0), HasSubstr("log-memory 200MiB: accepted are 64MiB"));
  EXPECT_THAT(refused(25 * kSegment, 0), HasSubstr("to 192MiB (--log-memory-max)"));
  EXPECT_THAT(refused(7 * kSegment, 0), HasSubstr("log-memory 56MiB: accepted are 64MiB"));
  // 8 segments of live objects and a tenth, one for deletes, one for survivors, three for heads, and a
  // part of one for emergency heads.
  EXPECT_THAT(refused(13 * kSegment, 8 * kSegment),
              HasSubstr("accepted are 112MiB (what live objects and cleaning need)"));
  EXPECT_TRUE(t.log.resize(14 * kSegment, 8 * kSegment).ok());
  EXPECT_TRUE(t.log.resize(14 * kSegment, 15 * kSegment).ok()) << "it is that already";
}

TEST(LogResize, WithoutCleaningOnlyWhatIsFreeCanGo) {
  ResizedLog t(0);
  while (t.log.segments().size() < 8) ASSERT_EQ(t.append(), StatusCode::kOk);
  const Status status = t.log.resize(8 * kSegment, 0);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("what is used"));
  const uint64_t least = t.log.sizes(0).least;
  ASSERT_LT(least, 16 * kSegment);
  ASSERT_TRUE(t.log.resize(least, 0).ok());
  t.continue_resize();
  EXPECT_TRUE(t.log.sizes(0).done()) << "without anybody's help";
  EXPECT_EQ(t.append(), StatusCode::kOk);
}

/// A full log that is to have half of its memory: each user keeps its memory, and no user gets
/// more.
TEST(LogResize, NobodyGetsMemoryThatIsToGo) {
  ResizedLog t;
  t.fill();
  ASSERT_TRUE(t.log.resize(8 * kSegment, 0).ok());
  t.continue_resize();
  const Arena::Sizes full = t.arena.sizes();
  EXPECT_GT(full.limit, full.target);
  EXPECT_EQ(t.log.memory().excess_seglets, full.limit - full.target);
  EXPECT_EQ(t.append(), StatusCode::kOutOfMemory);
  EXPECT_GE(t.arena.free_seglets(), t.log.must_stay_free(MemoryPurpose::kDeletes))
      << "cleaning can begin";

  // Four of the segments come back: not for writers, who have their heads.
  t.clean(4);
  const Arena::Sizes now = t.arena.sizes();
  EXPECT_LT(now.limit, full.limit);
  EXPECT_LE(now.limit - now.used, t.log.must_stay_free(MemoryPurpose::kWrites) + 2 * kWhole);
  t.fill();
  while (t.remove() == StatusCode::kOk) {
  }
  SideLog survivors(t.log, MemoryPurpose::kSurvivors);
  StatusCode status = StatusCode::kOk;
  while (status == StatusCode::kOk) {
    const TestObject object(1, 1, "survivor", kMiBValue);
    const char* ref = nullptr;
    status = survivors.append(std::span(&object.source, 1), &ref);
  }
  EXPECT_EQ(status, StatusCode::kOutOfMemory);
  EXPECT_LE(t.arena.sizes().used, t.arena.sizes().limit);
  EXPECT_GE(t.arena.free_seglets(), t.log.must_stay_free(MemoryPurpose::kSurvivors))
      << "and be committed";
  EXPECT_LE(t.arena.sizes().limit, now.limit);
  survivors.abort();
  t.reclaim();
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

TEST(LogResize, ShrinksWithWhatComesBack) {
  ResizedLog t;
  t.fill();
  ASSERT_TRUE(t.log.resize(8 * kSegment, 0).ok());
  uint64_t limit = t.log.sizes(0).limit;
  for (int pass = 0; pass < 40 && !t.log.sizes(0).done(); ++pass) {
    t.clean(1);
    t.continue_resize();
    const Log::Sizes now = t.log.sizes(0);
    ASSERT_LE(now.limit, limit) << "it only sinks";
    ASSERT_GE(now.limit, now.target);
    limit = now.limit;
  }
  EXPECT_TRUE(t.log.sizes(0).done());
  EXPECT_EQ(t.log.statistics().total_segments, 8u);
  EXPECT_EQ(t.log.memory().excess_seglets, 0u);
  EXPECT_EQ(t.append(), StatusCode::kOk);
  EXPECT_THAT(Invariants(t.log).check(), IsEmpty());
}

/// Pinned memory keeps its pages during a shrink.
TEST(LogResize, APinnedSegmentKeepsItsPages) {
  ResizedLog t;
  const char* address = nullptr;
  ASSERT_EQ(append_object(t.log, 1, 1, "pinned", kMiBValue, nullptr, &address), StatusCode::kOk);
  t.fill();
  Pin pin = t.log.pin(t.log.entry(address));
  ASSERT_TRUE(t.log.resize(8 * kSegment, 0).ok());
  t.clean(t.log.segments().size() - 2);  // without the head, and the next one, which is for deletes
  t.continue_resize();
  t.reclaim();
  t.continue_resize();
  EXPECT_TRUE(t.log.entry(address).verify());
  const uint32_t used = t.arena.sizes().used;
  pin.release();
  t.reclaim();
  EXPECT_LT(t.arena.sizes().used, used);
  t.continue_resize();
  EXPECT_TRUE(t.log.sizes(0).done());
}

TEST(LogResize, ReservesFollow) {
  EXPECT_EQ(Log::segments_for_survivors(8), 1u);
  EXPECT_EQ(Log::segments_for_survivors(400), 4u);
  EXPECT_EQ(Log::segments_for_survivors(40'000), 16u);
  ResizedLog t(2);
  const uint32_t before = t.log.must_stay_free(MemoryPurpose::kDeletes) -
                          t.log.must_stay_free(MemoryPurpose::kSurvivors);
  EXPECT_EQ(before, 2 * kWhole) << "as the test wants it";
  ASSERT_TRUE(t.log.resize(24 * kSegment, 0).ok());
  t.continue_resize();
  EXPECT_EQ(t.log.must_stay_free(MemoryPurpose::kDeletes) -
                t.log.must_stay_free(MemoryPurpose::kSurvivors),
            kWhole);
}

}  // namespace
}  // namespace ramcloud::log
