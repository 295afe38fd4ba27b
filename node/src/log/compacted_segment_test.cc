#include "log/compacted_segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "base/random.h"
#include "log/group_reader.h"
#include "log/invariants.h"
#include "log/log_test_support.h"

namespace ramcloud::log {
namespace {

using ::testing::IsEmpty;

constexpr uint32_t kGroupBytes = 2048;

/// Writes as a pass does: groups with a limit of entries and of bytes.
class Copying {
 public:
  Copying(CompactedSegment& copy) : copy_(copy) {}
  /// Objects that are passed in must stay until flush().
  StatusCode add(const std::string& key, const std::string& value) {
    const auto bytes =
        static_cast<uint32_t>(sizeof(EntryHeader) + sizeof(ObjectBody) + key.size() + value.size());
    StatusCode status = StatusCode::kOk;
    if (group_.size() == kMaxGroupEntries || (!group_.empty() && bytes_ + bytes > kGroupBytes)) {
      status = flush();
    }
    group_.push_back(objects_.emplace_back(1, 1, key, value).source);
    bytes_ += bytes;
    return status;
  }
  StatusCode flush() {
    const char* refs[kMaxGroupEntries];
    const StatusCode status = group_.empty() ? StatusCode::kOk : copy_.append(group_, refs);
    group_.clear();
    objects_.clear();
    bytes_ = 0;
    return status;
  }

 private:
  CompactedSegment& copy_;
  std::deque<TestObject> objects_;  // the sources refer to them
  std::vector<EntrySource> group_;
  uint32_t bytes_ = 0;
};

/// A closed member that takes a whole segment's memory.
Segment& full_member(TestLog& parts) {
  const uint64_t id = parts.log.head().segment_id();
  const std::string value(200'000, 'v');
  while (parts.log.head().segment_id() < id + 2) {
    EXPECT_EQ(append_object(parts.log, 1, 1, "k", value), StatusCode::kOk);
  }
  return *parts.log.find_segment(id);
}

TEST(CompactedSegment, ItsSizeIsKnownBeforeItIsFilled) {
  Random random(3);
  for (int round = 0; round < 40; ++round) {
    TestLog parts(8);
    Segment& original = full_member(parts);
    const uint32_t most = round % 4 == 0   ? 30
                          : round % 4 == 1 ? 300
                          : round % 4 == 2 ? 5'000
                                           : 100'000;
    std::vector<std::string> values;
    CompactedSize size(original.header_length(), kGroupBytes);
    const std::string key = "key";
    for (uint64_t bytes = 0; bytes < (4u << 20);) {
      values.emplace_back(1 + random.below(most), 'v');
      const uint32_t entry = static_cast<uint32_t>(sizeof(EntryHeader) + sizeof(ObjectBody) +
                                                   key.size() + values.back().size());
      size.add(entry);
      bytes += entry;
    }
    CompactedSegment copy(parts.log, original);
    ASSERT_EQ(copy.open(size.seglets()), StatusCode::kOk);
    Copying copying(copy);
    for (const std::string& value : values) {
      ASSERT_EQ(copying.add(key, value), StatusCode::kOk);
    }
    ASSERT_EQ(copying.flush(), StatusCode::kOk);
    copy.close({});
    copy.replace();
    const uint32_t used = parts.log.find_segment(original.id())->memory_bytes() / kSegletBytes;
    EXPECT_LE(used, size.seglets());
    EXPECT_LE(size.seglets(), used + 2);
    EXPECT_THAT(Invariants(parts.log).check(), IsEmpty());
  }
}

TEST(CompactedSegment, TheFirstGroupStaysAsItIs) {
  TestLog parts(8);
  Segment& original = full_member(parts);
  const std::string before = image_of(original, original.header_length());
  CompactedSegment copy(parts.log, original);
  ASSERT_EQ(copy.open(1), StatusCode::kOk);
  copy.close({});
  copy.replace();
  const Segment& after = *parts.log.find_segment(original.id());
  EXPECT_EQ(image_of(after, after.header_length()), before);
  const SegmentScan scan = scan_segment(after.identity(), after.bytes());
  EXPECT_EQ(scan.end, ScanEnd::kClosed);
  EXPECT_TRUE(scan.is_head);
  EXPECT_THAT(scan.digest, testing::ElementsAre(original.id()));
}

TEST(CompactedSegment, WhatDoesNotFitIsRefused) {
  TestLog parts(8);
  Segment& original = full_member(parts);
  CompactedSegment copy(parts.log, original);
  EXPECT_EQ(copy.open(kSegletsPerSegment), StatusCode::kInvalidArgument) << "nothing is won";
  ASSERT_EQ(copy.open(2), StatusCode::kOk);
  const std::string value(50'000, 'v');
  const TestObject object(1, 1, "k", value);
  const char* ref = nullptr;
  EXPECT_EQ(copy.append(std::span(&object.source, 1), &ref), StatusCode::kOk);
  EXPECT_EQ(copy.append(std::span(&object.source, 1), &ref), StatusCode::kOk);
  EXPECT_EQ(copy.append(std::span(&object.source, 1), &ref), StatusCode::kOutOfMemory);
}

/// It has no replicas of its own, and its release removes nothing that a replay finds.
TEST(CompactedSegment, CopiesCountForNothing) {
  TestLog parts(8);
  Segment& original = full_member(parts);
  const Log::Memory before = parts.log.memory();
  const uint64_t gone = parts.log.segments_gone();
  {
    CompactedSegment copy(parts.log, original);
    ASSERT_EQ(copy.open(2), StatusCode::kOk);
    EXPECT_EQ(parts.log.memory().segments, before.segments);
  }
  EXPECT_EQ(parts.log.memory().leaving_seglets, 2u);
  parts.log.reclaim(parts.log.take_retired());
  EXPECT_EQ(parts.log.memory().free_seglets, before.free_seglets);

  CompactedSegment copy(parts.log, original);
  ASSERT_EQ(copy.open(2), StatusCode::kOk);
  copy.close({});
  copy.replace();
  EXPECT_EQ(parts.log.memory().segments, before.segments);
  parts.log.reclaim(parts.log.take_retired());
  EXPECT_EQ(parts.log.memory().segments, before.segments);
  EXPECT_EQ(parts.log.segments_gone(), gone);
}

}  // namespace
}  // namespace ramcloud::log
