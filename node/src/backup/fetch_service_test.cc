// What recovery masters fetch from a backup: the entries of their ranges, whole pages, verified;
// each segment is read once for all of them.
#include "backup/fetch_service.h"

#include <gmock/gmock.h>

#include <set>

#include "backup/testing/recovery_fixture.h"
#include "base/hash.h"
#include "log/group_reader.h"

namespace ramcloud {
namespace {

using ::testing::HasSubstr;
using wire::HashRange;
constexpr uint64_t kMaster = testing::kServiceMaster;
constexpr uint64_t kAllHashes = ~uint64_t{0};
constexpr log::SegmentIdentity kSegmentOne{
    .cluster_uuid = testing::kServiceCluster, .master_id = kMaster, .segment_id = 1};

/// An entry of the log as the test knows it.
struct Known {
  uint64_t table = 0;
  uint64_t hash = 0;
  std::string bytes;  // header and body
  uint32_t group_end = 0;
};

/// In order, without the code that is tested.
std::vector<Known> entries_of(const std::string& segment) {
  std::vector<Known> all;
  log::scan_segment(kSegmentOne, log::SegmentBytes(segment), {}, [&](const log::GroupView& group) {
    for (auto e = group.first(); e; e = group.next(*e)) {
      const bool object = e->view.type() == log::EntryType::kObject;
      if (!object && e->view.type() != log::EntryType::kTombstone) continue;
      const auto table = e->view.load_at<uint64_t>(0);
      const uint32_t key_at = object ? sizeof(log::ObjectBody) : sizeof(log::TombstoneBody);
      const auto key_length =
          e->view.load_at<uint16_t>(object ? offsetof(log::ObjectBody, key_length)
                                           : offsetof(log::TombstoneBody, key_length));
      all.push_back({table, key_hash(table, e->view.contiguous(key_at, key_length)),
                     segment.substr(e->offset, e->view.total_length()), group.end()});
    }
  });
  return all;
}

bool is_in(const Known& entry, const std::vector<HashRange>& ranges) {
  return std::ranges::any_of(
      ranges, [&](const HashRange& range) { return range.contains(entry.table, entry.hash); });
}

/// Groups of one to eight objects and tombstones of three tables, small and large.
void append_anything(testing::SmallLog& master, Random& random) {
  std::vector<std::string> keys, values;
  std::vector<log::TestObject> objects;
  std::vector<log::TestTombstone> tombstones;
  std::vector<log::EntrySource> sources;
  const size_t n = random.chance(0.7) ? 1 : 1 + random.below(log::kMaxGroupEntries);
  keys.reserve(n), values.reserve(n), objects.reserve(n), tombstones.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t table = 1 + random.below(3);
    keys.push_back(std::to_string(random.next()) + std::string(random.below(40), 'k'));
    if (random.chance(0.2)) {
      tombstones.emplace_back(table, ++master.version, 1, keys.back(), random.chance(0.5));
      sources.push_back(tombstones.back().source);
    } else {
      values.emplace_back(random.below(random.chance(0.05) ? 200'000 : 300), 'v');
      objects.emplace_back(table, ++master.version, keys.back(), values.back());
      sources.push_back(objects.back().source);
    }
  }
  log::Appended appended;
  const char* refs[log::kMaxGroupEntries];
  ASSERT_EQ(master.log.append(sources, false, appended, refs), StatusCode::kOk);
}

class FetchServiceTest : public testing::RecoveryFixture {
 protected:
  /// A replica of the log's segment 1, not queried yet.
  void hold(const testing::SmallLog& master) {
    all_ = master.bytes(1);
    end_ = static_cast<uint32_t>(all_.size());
    ASSERT_EQ(open_head(1, all_), StatusCode::kOk);
  }
  wire::RecoveryFetchRequest request(std::vector<HashRange> ranges, uint32_t offset = 0,
                                     uint32_t max_bytes = FetchService::kMaxPageBytes) const {
    return {.master_id = kMaster,
            .segment_id = 1,
            .frame = 0,
            .offset = offset,
            .end = end_,
            .max_bytes = max_bytes,
            .ranges = std::move(ranges),
            .further = {}};
  }
  void post_fetch(const wire::RecoveryFetchRequest& asked) {
    post(wire::Opcode::kRecoveryFetch, wire::encode(asked, wire::kExtensible));
  }
  StatusCode fetch(const wire::RecoveryFetchRequest& asked) {
    return send(wire::Opcode::kRecoveryFetch, wire::encode(asked, wire::kExtensible));
  }
  wire::RecoveryFetchReply head() const {
    const auto head = load<wire::RecoveryFetchReply>(replies_.bytes.data());
    EXPECT_EQ(replies_.bytes.size(), sizeof head + head.bytes);
    return head;
  }
  /// The entries of the last answer.
  std::vector<std::string> entries() const {
    std::vector<std::string> all;
    const ByteView bytes = ByteView(replies_.bytes).substr(sizeof(wire::RecoveryFetchReply));
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = sizeof(log::EntryHeader) + load<log::EntryHeader>(&bytes[at]).length();
      all.emplace_back(bytes.substr(at, n));
      at += n;
    }
    EXPECT_EQ(all.size(), head().entries);
    return all;
  }
  /// All pages from the first on.
  std::vector<std::string> fetch_all(const std::vector<HashRange>& ranges, Random& random,
                                     uint32_t most_bytes) {
    std::vector<std::string> all;
    for (uint32_t offset = 0; offset < end_;) {
      const auto max_bytes = static_cast<uint32_t>(1 + random.below(most_bytes));
      EXPECT_EQ(fetch(request(ranges, offset, max_bytes)), StatusCode::kOk) << error();
      if (replies_.status != StatusCode::kOk) break;
      EXPECT_GT(head().next_offset, offset);
      EXPECT_LE(head().next_offset, end_);
      if (head().bytes > max_bytes) EXPECT_LE(entries().size(), log::kMaxGroupEntries);
      std::ranges::move(entries(), std::back_inserter(all));
      offset = head().next_offset;
    }
    return all;
  }
  std::string error() const {
    wire::MessageHeader header{};
    header.status = static_cast<uint16_t>(replies_.status);
    return decode_reply(header, replies_.bytes).status.to_string();
  }
  const IndexedSegments& segments() const { return service_->fetches().segments(); }
  static std::vector<HashRange> whole() {
    return {{1, 0, kAllHashes}, {2, 0, kAllHashes}, {3, 0, kAllHashes}};
  }

  std::string all_;
  uint32_t end_ = 0;
};

/// Cuts the hashes of the three tables into parts; each part has a range of each table, or none.
std::vector<std::vector<HashRange>> random_partition(Random& random, size_t parts) {
  std::vector<std::vector<HashRange>> partition(parts);
  for (uint64_t table = 1; table <= 3; ++table) {
    std::set<uint64_t> ends{kAllHashes};
    for (uint64_t cuts = random.below(2 * parts); cuts > 0; --cuts) ends.insert(random.next());
    uint64_t start = 0;
    for (const uint64_t end : ends) {
      partition[random.below(parts)].push_back({table, start, end});
      start = end + 1;
    }
  }
  return partition;
}

class FetchPropertyTest : public FetchServiceTest,
                          public ::testing::WithParamInterface<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, FetchPropertyTest, ::testing::Range<uint64_t>(1, 9));

/// Recovery masters whose ranges together cover everything get every entry once, in order.
TEST_P(FetchPropertyTest, ThePagesOfAPartitionAreAllEntries) {
  Random random(GetParam());
  testing::SmallLog master;
  const uint64_t groups = 1 + random.below(600);
  for (uint64_t i = 0; i < groups && master.bytes(1).size() < 6'000'000; ++i) {
    append_anything(master, random);
  }
  hold(master);
  (void)query();
  const std::vector<Known> known = entries_of(all_);
  for (const uint32_t most_bytes : {100u, 20'000u, FetchService::kMaxPageBytes}) {
    size_t fetched = 0;
    for (const auto& ranges :
         random_partition(random, 1 + random.below(random.chance(0.5) ? 5 : 60))) {
      std::vector<std::string> expected;
      for (const Known& entry : known) {
        if (is_in(entry, ranges)) expected.push_back(entry.bytes);
      }
      const std::vector<std::string> got = fetch_all(ranges, random, most_bytes);
      ASSERT_TRUE(got == expected) << got.size() << " of " << expected.size();
      fetched += got.size();
    }
    EXPECT_EQ(fetched, known.size());
  }
  EXPECT_EQ(segments().bytes_read(), end_) << "once for all of them";
}

TEST_P(FetchPropertyTest, RangesMayComeInAnyOrderAndOverlap) {
  Random random(GetParam());
  testing::SmallLog master;
  for (int i = 0; i < 200; ++i) append_anything(master, random);
  hold(master);
  (void)query();
  std::vector<HashRange> ranges;
  for (uint64_t i = random.below(8); i > 0; --i) {
    const uint64_t a = random.next(), b = random.chance(0.2) ? a : random.next();
    ranges.push_back({1 + random.below(4), std::min(a, b), std::max(a, b)});
  }
  std::vector<std::string> expected;
  for (const Known& entry : entries_of(all_)) {
    if (is_in(entry, ranges)) expected.push_back(entry.bytes);
  }
  EXPECT_TRUE(fetch_all(ranges, random, 50'000) == expected);
}

TEST_F(FetchServiceTest, NoRangesAreAnsweredByNoEntries) {
  testing::SmallLog master;
  master.put("a", 100);
  hold(master);
  (void)query();
  ASSERT_EQ(fetch(request({})), StatusCode::kOk);
  EXPECT_EQ(head().entries, 0u);
  EXPECT_EQ(head().next_offset, end_);
  ASSERT_EQ(fetch(request({{7, 0, kAllHashes}})), StatusCode::kOk);
  EXPECT_EQ(head().entries, 0u) << "another table";
}

TEST_F(FetchServiceTest, ARangeIncludesBothItsEnds) {
  testing::SmallLog master;
  for (int i = 0; i < 20; ++i) master.put("k" + std::to_string(i), 10);
  hold(master);
  (void)query();
  for (const Known& entry : entries_of(all_)) {
    ASSERT_EQ(fetch(request({{1, entry.hash, entry.hash}})), StatusCode::kOk);
    EXPECT_EQ(entries(), std::vector<std::string>{entry.bytes});
  }
}

/// A request for fewer bytes than a group has gets the whole group: otherwise it would never make
/// progress.
TEST_F(FetchServiceTest, AGroupIsNeverCut) {
  testing::SmallLog master;
  for (int i = 0; i < 3; ++i) master.put("k" + std::to_string(i), 50'000);
  hold(master);
  (void)query();
  const std::vector<Known> known = entries_of(all_);
  ASSERT_EQ(fetch(request(whole(), 0, 1)), StatusCode::kOk);
  EXPECT_EQ(entries(), std::vector<std::string>{known[0].bytes});
  EXPECT_EQ(head().next_offset, known[0].group_end);
  ASSERT_EQ(fetch(request(whole(), 0, 2 * known[0].bytes.size())), StatusCode::kOk);
  EXPECT_EQ(entries().size(), 2u);
  EXPECT_EQ(head().next_offset, known[1].group_end);
}

TEST_F(FetchServiceTest, OnlyOfAFrozenMasterAndOnlyWhatIsThere) {
  testing::SmallLog master;
  master.put("a", 100);
  hold(master);
  EXPECT_EQ(fetch(request(whole())), StatusCode::kNotFound) << "its master may still write";
  (void)query();
  EXPECT_EQ(fetch(request(whole())), StatusCode::kOk);
  wire::RecoveryFetchRequest asked = request(whole());
  asked.segment_id = 2;
  EXPECT_EQ(fetch(asked), StatusCode::kNotFound);
  EXPECT_THAT(error(), HasSubstr("frame 0 has no replica of segment 2 of master 7"));
  asked = request(whole());
  asked.frame = 1;
  EXPECT_EQ(fetch(asked), StatusCode::kNotFound);
  restart(/*power_loss=*/false);
  EXPECT_EQ(fetch(request(whole())), StatusCode::kNotFound) << "nobody asked this incarnation";
  (void)query();
  EXPECT_EQ(fetch(request(whole())), StatusCode::kOk) << "a former frame";
}

TEST_F(FetchServiceTest, BadRequestsAreRefusedByName) {
  testing::SmallLog master;
  master.put("a", 100);
  hold(master);
  (void)query();
  const uint32_t header = entries_of(all_)[0].group_end;
  using Request = wire::RecoveryFetchRequest;
  const std::vector<std::pair<std::function<void(Request&)>, std::string>> cases = {
      {[](Request& r) { r.end = kCapacity + 8; },
       "end is 8388616; the replica has room for 8388608"},
      {[](Request& r) { r.offset = 4; }, "offset is 4; multiples of 8 below the end"},
      {[](Request& r) { r.offset = r.end; }, "offset is "},
      {[](Request& r) { r.end = 0; }, "offset is 0; multiples of 8 below the end, 0"},
      {[](Request& r) { r.max_bytes = 0; }, "max_bytes is 0"},
      {[](Request& r) { r.ranges.resize(FetchService::kMaxRanges + 1); },
       "4097 ranges; at most 4096 are accepted"},
      {[](Request& r) { r.ranges[1] = {9, 0x20, 0x1f}; },
       "ranges[1] of table 9 ends at 0x1f, before its start 0x20"},
      {[&](Request& r) { r.offset = header - 8; }, "where no group begins"},
  };
  for (const auto& [spoil, why] : cases) {
    Request asked = request(whole());
    spoil(asked);
    EXPECT_EQ(fetch(asked), StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(error(), HasSubstr(why));
  }
  const std::string encoded = wire::encode(request(whole()), wire::kExtensible);
  EXPECT_EQ(send(wire::Opcode::kRecoveryFetch, encoded.substr(0, 20)),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(error(), HasSubstr("does not decode"));
  EXPECT_EQ(fetch(request(whole())), StatusCode::kOk) << "it serves on";
}

// ---- damage

class DamagedFetchTest : public FetchServiceTest {
 protected:
  void SetUp() override {
    FetchServiceTest::SetUp();
    testing::SmallLog master;
    for (int i = 0; i < 40; ++i) master.put("k" + std::to_string(i), 30'000);
    hold(master);
    known_ = entries_of(all_);
    (void)query();
  }
  std::vector<Known> known_;
};

TEST_F(DamagedFetchTest, PagesBeforeTheDamageAreGiven) {
  poke(known_[19].group_end + 1'000, "?");
  ASSERT_EQ(fetch(request(whole(), 0, 100'000)), StatusCode::kOk);
  EXPECT_EQ(entries().size(), 3u);
  ASSERT_EQ(fetch(request(whole())), StatusCode::kOk);
  EXPECT_EQ(entries().size(), 20u);
  const uint32_t bad = head().next_offset;
  EXPECT_EQ(bad, known_[19].group_end);
  EXPECT_EQ(fetch(request(whole(), bad)), StatusCode::kCorrupt);
  EXPECT_THAT(error(), HasSubstr("segment 1 of master 7 in frame 0 of /d/frames, offset " +
                                 std::to_string(bad)));
  EXPECT_EQ(fetch(request(whole(), known_[30].group_end)), StatusCode::kCorrupt);
  EXPECT_THAT(error(), HasSubstr("offset " + std::to_string(bad)));
}

TEST_F(DamagedFetchTest, DamageThatWasToldIsLookedForAgain) {
  const std::string good = all_.substr(known_[19].group_end + 1'000, 1);
  poke(known_[19].group_end + 1'000, "?");
  EXPECT_EQ(fetch(request(whole(), known_[19].group_end)), StatusCode::kCorrupt);
  poke(known_[19].group_end + 1'000, good);
  EXPECT_EQ(fetch(request(whole(), known_[19].group_end)), StatusCode::kOk);
  EXPECT_EQ(head().next_offset, end_);
}

TEST_F(DamagedFetchTest, AGroupThatIsCutOffByTheEndIsDamage) {
  wire::RecoveryFetchRequest asked = request(whole());
  asked.end = known_[5].group_end + 800;
  ASSERT_EQ(fetch(asked), StatusCode::kOk);
  EXPECT_EQ(head().next_offset, known_[5].group_end);
  asked.offset = known_[5].group_end;
  EXPECT_EQ(fetch(asked), StatusCode::kCorrupt);
}

TEST_F(DamagedFetchTest, ADeviceErrorIsToldAsSuchAndNotKept) {
  node_.disk().fail_reads(1);
  EXPECT_EQ(fetch(request(whole())), StatusCode::kIoError);
  EXPECT_EQ(segments().segments(), 0u);
  EXPECT_EQ(segments().bytes(), 0u);
  EXPECT_EQ(fetch(request(whole())), StatusCode::kOk);
}

/// Checksums hold, and the lengths inside the body do not fit.
TEST_F(FetchServiceTest, AnObjectThatDoesNotHoldItsKeyIsDamage) {
  testing::SmallLog master;
  master.put("a", 100);
  log::TestObject object(1, 2, "key", "");
  object.body.key_length = 100;
  log::Appended appended;
  const char* ref = nullptr;
  ASSERT_EQ(master.log.append(std::span(&object.source, 1), false, appended, &ref),
            StatusCode::kOk);
  master.put("b", 100);
  hold(master);
  (void)query();
  ASSERT_EQ(fetch(request(whole())), StatusCode::kOk);
  EXPECT_EQ(head().entries, 1u);
  EXPECT_EQ(fetch(request(whole(), head().next_offset)), StatusCode::kCorrupt);
  EXPECT_THAT(error(), HasSubstr("an object whose lengths do not fit"));
}

// ---- what is kept

class FetchCacheTest : public FetchServiceTest {
 protected:
  static constexpr uint32_t kSegments = 6;
  FetchCacheTest() { frames_wanted_ = kSegments; }
  void SetUp() override {
    FetchServiceTest::SetUp();
    testing::SmallLog master;
    for (int i = 0; i < 120; ++i) master.put("k" + std::to_string(i), 60'000);
    end_ = static_cast<uint32_t>(master.bytes(1).size());
    ASSERT_GT(end_, 7'000'000u);
    // Their groups say that they are of segment 1: only the first one is whole.
    for (uint64_t id = 1; id <= kSegments; ++id) {
      ASSERT_EQ(open_head(id, master.bytes(1)), StatusCode::kOk);
    }
    (void)query();
  }
  wire::RecoveryFetchRequest of(uint32_t frame, uint32_t offset = 0) const {
    wire::RecoveryFetchRequest asked = request(whole(), offset, 1'000'000);
    asked.frame = frame;
    asked.segment_id = frame + 1;
    return asked;
  }
};

TEST_F(FetchCacheTest, ASegmentIsReadOnceForAllWhoFetchIt) {
  const int before = replies_.count;
  for (int i = 0; i < 10; ++i) post_fetch(of(0));
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == before + 10; }, 10s));
  EXPECT_EQ(replies_.status, StatusCode::kOk);
  EXPECT_EQ(segments().bytes_read(), end_);
  EXPECT_EQ(fetch(of(0, head().next_offset)), StatusCode::kOk);
  EXPECT_EQ(segments().bytes_read(), end_);
}

TEST_F(FetchCacheTest, WhatNobodyAsksForIsDropped) {
  EXPECT_EQ(fetch(of(0)), StatusCode::kOk);
  EXPECT_GE(segments().bytes(), end_);
  scheduler_.run_for(IndexedSegments::kKeptFor - 1s);
  EXPECT_EQ(fetch(of(0)), StatusCode::kOk);
  scheduler_.run_for(IndexedSegments::kKeptFor - 1s);
  EXPECT_EQ(segments().segments(), 1u) << "it was asked for since";
  scheduler_.run_for(2s);
  EXPECT_EQ(segments().segments(), 0u);
  EXPECT_EQ(segments().bytes(), 0u);
}

TEST_F(FetchCacheTest, WhatIsKeptIsBounded) {
  uint64_t most = 0;
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t frame = 0; frame < kSegments; ++frame) {
      (void)fetch(of(frame));
      most = std::max(most, segments().bytes());
    }
  }
  EXPECT_LE(most, IndexedSegments::kLeastRoom);
  EXPECT_GE(segments().segments(), 3u);
  // The last entries.
  const uint64_t read = segments().bytes_read();
  EXPECT_EQ(fetch(of(kSegments - 2)), StatusCode::kCorrupt) << "another segment's";
  EXPECT_EQ(segments().bytes_read(), read + end_);
}

TEST_F(FetchCacheTest, SegmentsThatAreReadTogetherAreBounded) {
  replies_.statuses.clear();
  for (uint32_t frame = 0; frame < kSegments; ++frame) post_fetch(of(frame));
  ASSERT_TRUE(scheduler_.run_until(
      [&] {
        EXPECT_LE(segments().bytes(), IndexedSegments::kLeastRoom);
        return replies_.statuses.size() == kSegments;
      },
      10s));
  EXPECT_THAT(replies_.statuses, ::testing::Contains(StatusCode::kRetry));
  EXPECT_EQ(fetch(of(0)), StatusCode::kOk) << "later there is room";
}

TEST_F(FetchCacheTest, RequestsThatWaitAreBounded) {
  const int before = replies_.count;
  for (size_t i = 0; i < FetchService::kMaxFetches; ++i) post_fetch(of(0));
  EXPECT_EQ(replies_.count, before);
  post_fetch(of(0));
  EXPECT_EQ(replies_.count, before + 1);
  EXPECT_EQ(replies_.status, StatusCode::kRetry);
  const int all = before + 1 + static_cast<int>(FetchService::kMaxFetches);
  ASSERT_TRUE(scheduler_.run_until([&] { return replies_.count == all; }, 10s));
  EXPECT_EQ(replies_.status, StatusCode::kOk);
}

// ---- several segments at once

class FurtherSegmentsTest : public FetchServiceTest {
 protected:
  static constexpr uint32_t kSegments = 20;
  FurtherSegmentsTest() {
    frames_wanted_ = kSegments;
    version_ = wire::kVersionMax;
  }
  /// Segment i + 1 has entries of the key i, in frame i.
  void SetUp() override {
    FetchServiceTest::SetUp();
    testing::SmallLog master;
    for (uint32_t i = 0; i < kSegments; ++i) {
      for (int n = 0; n < 3; ++n) master.put("k" + std::to_string(i), value_bytes_);
      images_.push_back(master.bytes(i + 1));
      ASSERT_EQ(master.log.roll_head(), StatusCode::kOk);
    }
    for (uint32_t i = 0; i < kSegments; ++i) {
      if (i == damaged_) images_[i][images_[i].size() / 2] ^= 1;
      ASSERT_EQ(open_head(i + 1, images_[i]), StatusCode::kOk);
    }
    (void)query();
  }
  wire::RecoveryFetchRequest of(uint32_t first, uint32_t further, uint32_t max_bytes = 1u << 20) {
    wire::RecoveryFetchRequest asked = request(whole(), 0, max_bytes);
    asked.segment_id = first + 1;
    asked.frame = first;
    asked.end = static_cast<uint32_t>(images_[first].size());
    for (uint32_t i = first + 1; i <= first + further; ++i) {
      asked.further.push_back({i + 1, i, static_cast<uint32_t>(images_[i].size())});
    }
    return asked;
  }
  StatusCode ask(const wire::RecoveryFetchRequest& asked) {
    return send(wire::Opcode::kRecoveryFetch, wire::encode(asked, wire::kVersionMax));
  }
  /// Makes the backup have them in memory.
  void read_all(uint32_t first, uint32_t further) {
    ASSERT_EQ(ask(of(first, further)), StatusCode::kOk) << error();
    scheduler_.run_for(100ms);
  }
  std::vector<std::string> images_;
  uint32_t damaged_ = kSegments;
  size_t value_bytes_ = 1000;
};

TEST_F(FurtherSegmentsTest, WhatIsInMemoryIsAdded) {
  ASSERT_EQ(ask(of(0, 4)), StatusCode::kOk) << error();
  EXPECT_EQ(head().further, 0u) << "they are not in memory yet, and nobody waits for them";
  EXPECT_EQ(entries().size(), 3u);
  scheduler_.run_for(100ms);
  EXPECT_EQ(segments().segments(), 5u) << "but they are read for the next who asks";
  const uint64_t read = segments().bytes_read();
  ASSERT_EQ(ask(of(0, 4)), StatusCode::kOk);
  EXPECT_EQ(head().further, 4u);
  EXPECT_EQ(entries().size(), 15u);
  EXPECT_EQ(segments().bytes_read(), read);
  std::vector<std::string> all;
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_EQ(ask(of(i, 0)), StatusCode::kOk);
    std::ranges::move(entries(), std::back_inserter(all));
  }
  ASSERT_EQ(ask(of(0, 4)), StatusCode::kOk);
  EXPECT_EQ(entries(), all);
}

TEST_F(FurtherSegmentsTest, OnlyWholeSegmentsAreAdded) {
  read_all(0, 4);
  const uint32_t one = head().bytes;
  ASSERT_EQ(ask(of(0, 4, 3 * one - 1)), StatusCode::kOk);
  EXPECT_EQ(head().further, 1u);
  EXPECT_EQ(entries().size(), 6u);
  ASSERT_EQ(ask(of(0, 4, 3 * one)), StatusCode::kOk);
  EXPECT_EQ(head().further, 2u);
  ASSERT_EQ(ask(of(0, 4, one - 1)), StatusCode::kOk);
  EXPECT_LT(head().next_offset, of(0, 0).end);
  EXPECT_EQ(head().further, 0u) << "the first one does not end here";
}

TEST_F(FurtherSegmentsTest, NothingIsAddedBehindOneThatIsMissing) {
  read_all(0, 4);
  auto asked = of(0, 4);
  asked.further[1].frame = 9;  // it has another segment
  ASSERT_EQ(ask(asked), StatusCode::kOk);
  EXPECT_EQ(head().further, 1u);
  asked = of(0, 4);
  asked.further[0].end = testing::RecoveryFixture::kCapacity + 8;
  ASSERT_EQ(ask(asked), StatusCode::kOk);
  EXPECT_EQ(head().further, 0u);
}

TEST_F(FurtherSegmentsTest, NoMoreThanFifteenCount) {
  read_all(0, 18);
  ASSERT_EQ(ask(of(0, 18)), StatusCode::kOk);
  EXPECT_EQ(head().further, wire::RecoveryFetchRequest::kMostFurther);
  EXPECT_EQ(segments().segments(), 1 + wire::RecoveryFetchRequest::kMostFurther);
}

class LargeFurtherSegments : public FurtherSegmentsTest {
 protected:
  LargeFurtherSegments() { value_bytes_ = 15'000; }
};

TEST_F(LargeFurtherSegments, NothingIsAddedToAPageThatIsWorthItsMessage) {
  read_all(0, 4);
  const uint32_t one = head().bytes;
  ASSERT_EQ(ask(of(0, 4)), StatusCode::kOk);
  EXPECT_EQ(head().bytes, 3 * one);
  EXPECT_LT(2 * one, FetchService::kMostBeforeFurther);
  EXPECT_GT(3 * one, FetchService::kMostBeforeFurther);
  EXPECT_EQ(head().further, 2u);
}

/// Of all requests together: those that somebody waits for have the rest.
TEST_F(FurtherSegmentsTest, WhatIsReadAheadTakesAQuarterOfTheRoomAtMost) {
  auto asked = of(0, 15);
  for (auto& segment : asked.further) segment.end = 2u << 20;
  ASSERT_EQ(ask(asked), StatusCode::kOk);
  asked = of(16, 3);
  for (auto& segment : asked.further) segment.end = 2u << 20;
  ASSERT_EQ(ask(asked), StatusCode::kOk);
  EXPECT_EQ(segments().segments(), 2u + 2u);
  EXPECT_LT(segments().bytes(), IndexedSegments::kLeastRoom / 4 + 100'000);
}

TEST_F(FurtherSegmentsTest, SmallRangesOfFurtherSegmentsAreFoundByTheirHash) {
  read_all(0, 4);
  for (uint64_t part = 0; part < 16; ++part) {
    auto asked = of(0, 4);
    asked.ranges = {{1, part << 60, (part << 60) + (kAllHashes >> 4)}};
    ASSERT_EQ(ask(asked), StatusCode::kOk);
    EXPECT_EQ(head().further, 4u);
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < 5; ++i) {
      wanted += asked.ranges[0].contains(1, key_hash(1, "k" + std::to_string(i))) ? 3 : 0;
    }
    EXPECT_EQ(entries().size(), wanted);
  }
}

/// Reading ahead finds no room, and takes none from others.
TEST_F(FetchCacheTest, WhatFindsNoRoomDropsNothing) {
  ASSERT_EQ(fetch(of(0)), StatusCode::kOk);
  version_ = wire::kVersionMax;
  auto asked = of(1);
  asked.further = {{3, 2, end_}, {4, 3, end_}};
  (void)send(wire::Opcode::kRecoveryFetch, wire::encode(asked, wire::kVersionMax));
  scheduler_.run_for(100ms);
  EXPECT_EQ(segments().segments(), 2u) << "a segment that is read takes more than a quarter";
}

class DamagedFurtherSegment : public FurtherSegmentsTest {
 protected:
  DamagedFurtherSegment() { damaged_ = 2; }
};

TEST_F(DamagedFurtherSegment, IsNotAdded) {
  read_all(0, 4);
  ASSERT_EQ(ask(of(0, 4)), StatusCode::kOk);
  EXPECT_EQ(head().further, 1u);
  EXPECT_EQ(entries().size(), 6u);
}

TEST(IndexedSegmentsRoom, GrowsWithTheServersLog) {
  EXPECT_EQ(IndexedSegments::room_for(1 << 30), 32u << 20);
  EXPECT_EQ(IndexedSegments::room_for(uint64_t{500} << 30), 500u << 20);
}

}  // namespace
}  // namespace ramcloud
