#include "log/owned_tablets.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/random.h"
#include "log/group_reader.h"
#include "log/log_test_support.h"

namespace ramcloud::log {
namespace {

constexpr uint64_t kAll = ~uint64_t{0};

std::string encode(const OwnedTablets& tablets, size_t most = kMaxOwnedTabletsBytes) {
  std::string out;
  OwnedTabletsEncoder encoder(out, most);
  for (const OwnedTablet& tablet : tablets) encoder.add(tablet);
  EXPECT_EQ(encoder.finish(), !out.empty());
  return out;
}

TEST(OwnedTablets, Golden) {
  // Format 1, reserved, count 4. Table 3: all hashes. Table 5: 16 to 31, 32 to 47, 300 to the end.
  const std::string bytes =
      encode({{3, 0, kAll, 0}, {5, 16, 31, 0}, {5, 32, 47, 200}, {5, 300, kAll, 7}});
  std::string expected("\x01\0\0\0\x04\0\0\0", 8);
  expected += std::string("\x03\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", 13);
  expected += std::string("\x02\x10\x0f\x00", 4);
  expected += std::string("\x00\x00\x0f\xc8\x01", 5);
  expected += std::string("\x00\xfc\x01\xd3\xfd\xff\xff\xff\xff\xff\xff\xff\x01\x07", 14);
  EXPECT_EQ(bytes, expected);
  EXPECT_EQ(encode({}), std::string("\x01\0\0\0\0\0\0\0", 8)) << "none is owned";
}

/// Sorted, without overlaps.
OwnedTablets random_tablets(Random& random) {
  OwnedTablets tablets;
  OwnedTablet last;
  for (uint64_t n = random.below(40); n > 0; --n) {
    OwnedTablet next{.first_segment = random.chance(0.5) ? 0 : random.below(1 << 20)};
    const bool same = !tablets.empty() && last.end_hash != kAll && random.chance(0.6);
    next.table_id = same ? last.table_id : last.table_id + 1 + random.below(1000);
    const uint64_t from = same ? last.end_hash + 1 : 0;
    next.start_hash = random.chance(0.5) ? from : from + random.below(kAll - from);
    next.end_hash =
        random.chance(0.3) ? kAll : next.start_hash + random.below(kAll - next.start_hash);
    tablets.push_back(last = next);
  }
  return tablets;
}

TEST(OwnedTablets, RoundTrip) {
  Random random(1);
  for (int round = 0; round < 500; ++round) {
    const OwnedTablets tablets = random_tablets(random);
    const auto decoded = decode_owned_tablets(encode(tablets));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, tablets);
  }
}

TEST(OwnedTablets, AreFoundByHash) {
  const OwnedTablets tablets{{3, 10, 19, 0}, {3, 20, 29, 4}, {7, 0, kAll, 0}};
  EXPECT_EQ(find_owned(tablets, 3, 9), nullptr);
  EXPECT_EQ(find_owned(tablets, 3, 10), &tablets[0]);
  EXPECT_EQ(find_owned(tablets, 3, 19), &tablets[0]);
  EXPECT_EQ(find_owned(tablets, 3, 29), &tablets[1]);
  EXPECT_EQ(find_owned(tablets, 3, 30), nullptr);
  EXPECT_EQ(find_owned(tablets, 5, 10), nullptr);
  EXPECT_EQ(find_owned(tablets, 7, kAll), &tablets[2]);
  EXPECT_EQ(find_owned({}, 7, 0), nullptr);
}

/// 16,384 is the most of a table.
TEST(OwnedTablets, OfTheLargestTableHaveRoom) {
  OwnedTablets tablets;
  for (uint64_t i = 0; i < 16'384; ++i) {
    // Every second range of 32,768: the gaps are as long as the ranges. Positions of a long life.
    tablets.push_back({1'000'000, i << 50, (i << 50) + (uint64_t{1} << 49) - 1, 1 << 30});
  }
  const std::string body = encode(tablets);
  EXPECT_LT(body.size(), kMaxOwnedTabletsBytes);
  EXPECT_EQ(decode_owned_tablets(body), tablets);
}

TEST(OwnedTablets, AListThatDoesNotFitIsNotWritten) {
  const OwnedTablets tablets{{3, 0, kAll, 0}, {5, 16, 31, 0}};
  EXPECT_EQ(encode(tablets, 7), "");
  EXPECT_EQ(encode(tablets, 8), "");
  EXPECT_EQ(encode(tablets, 50), "");
  EXPECT_NE(encode(tablets, 100), "");
}

TEST(OwnedTablets, MalformedIsRefused) {
  const std::string good = encode({{3, 0, kAll, 0}, {5, 16, 31, 0}, {5, 32, kAll, 9}});
  for (size_t n = 0; n < good.size(); ++n)
    EXPECT_FALSE(decode_owned_tablets(good.substr(0, n))) << n;
  EXPECT_FALSE(decode_owned_tablets(good + '\0'));
  std::string later = good;
  later[0] = 2;
  EXPECT_FALSE(decode_owned_tablets(later)) << "a format of the future";
  const std::string two("\x01\0\0\0\x02\0\0\0", 8);
  const std::string whole("\x03\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", 13);
  EXPECT_TRUE(decode_owned_tablets(two + whole + std::string("\x01\0\0\0", 4)));
  EXPECT_FALSE(decode_owned_tablets(two + whole + std::string("\x00\0\0\0", 4)))
      << "behind the end";
  EXPECT_FALSE(decode_owned_tablets(two + whole + std::string("\x01\x01", 2) + whole.substr(2)))
      << "ends above the highest hash";
}

TEST(OwnedTablets, RandomBytesDoNoHarm) {
  Random random(2);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(8 + random.below(40), '\0');
    for (auto& c : bytes) c = static_cast<char>(random.next());
    bytes[0] = 1;
    bytes[1] = bytes[5] = bytes[6] = bytes[7] = 0;
    bytes[4] = static_cast<char>(random.below(12));
    const auto tablets = decode_owned_tablets(bytes);
    if (!tablets) continue;
    for (const OwnedTablet& tablet : *tablets) EXPECT_LE(tablet.start_hash, tablet.end_hash);
  }
}

// ---- in heads

struct ListingLog : TestLog {
  explicit ListingLog(uint32_t segments, uint32_t cleaner_segments = 0)
      : TestLog(segments, true, 1, false, cleaner_segments) {
    log.set_owned_tablets_source([this](OwnedTabletsEncoder& encoder) {
      for (const OwnedTablet& tablet : owned) encoder.add(tablet);
    });
    log.start();
  }
  OwnedTablets owned;
};

/// What the head lists; nothing if it has no list.
std::optional<OwnedTablets> listed_in(const Segment& head) {
  const std::string image = image_of(head);
  std::optional<OwnedTablets> tablets;
  scan_segment(head.identity(), SegmentBytes(image), {}, [&](const GroupView& group) {
    for (auto e = group.first(); e; e = group.next(*e)) {
      if (e->view.type() != EntryType::kOwnedTablets) continue;
      EXPECT_EQ(group.offset(), 0u);
      tablets = decode_owned_tablets(e->view.contiguous(0, e->view.body_length()));
      EXPECT_TRUE(tablets) << "what a log wrote decodes";
    }
  });
  return tablets;
}

TEST(OwnedTablets, EachHeadListsThoseOfTheMomentWhenItWasOpened) {
  ListingLog t(5);
  t.owned = {{1, 0, kAll, 0}};
  ASSERT_EQ(append_object(t.log, 1, 1, "key", "keeps the head in the log"), StatusCode::kOk);
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  t.owned = {{1, 0, kAll, 0}, {2, 0, 99, 2}};
  ASSERT_EQ(append_object(t.log, 1, 1, "key", "keeps the head in the log"), StatusCode::kOk);
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  EXPECT_EQ(listed_in(*t.log.find_segment(1)), OwnedTablets{});
  EXPECT_EQ(listed_in(*t.log.find_segment(2)), (OwnedTablets{{1, 0, kAll, 0}}));
  EXPECT_EQ(listed_in(*t.log.find_segment(3)), t.owned);
  EXPECT_EQ(t.log.find_segment(3)->entry_bytes(), 0u) << "the list is none of the head's entries";
}

TEST(OwnedTablets, TheNewestHeadIsTheOneOpenedAhead) {
  ListingLog t(5);
  EXPECT_EQ(t.log.newest_head(), 1u);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(append_object(t.log, 1, 1, "key", std::string(1'000'000, 'x')), StatusCode::kOk);
  }
  EXPECT_EQ(t.log.head().segment_id(), 1u);
  EXPECT_EQ(t.log.newest_head(), 2u);
}

/// The bytes of a head with format 1 of the list.
TEST(OwnedTablets, GoldenHead) {
  ListingLog t(3);
  t.owned = {{3, 0, kAll, 0}, {5, 16, 31, 0}, {5, 32, 47, 200}};
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  const std::string image = image_of(*t.log.find_segment(2));
  std::string hex;
  for (size_t i = 0; i < image.size(); ++i) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02x%c", static_cast<uint8_t>(image[i]),
                  i % 16 == 15 || i + 1 == image.size() ? '\n' : ' ');
    hex += digits;
  }
  const std::string path = std::string(RAMCLOUD_GOLDEN_DIR) + "/head_with_tablets_v1.hex";
  if (std::getenv("RAMCLOUD_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << hex;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(hex, golden.str());
}

/// A list that is too long for a head is left out; the head is good without it.
TEST(OwnedTablets, AHeadWithoutRoomForTheListIsOpenedWithoutIt) {
  ListingLog t(5);
  for (uint64_t i = 0; i < 30'000; ++i) {
    t.owned.push_back({1'000'000, i << 49, (i << 49) + (uint64_t{1} << 48) - 1, 1 << 30});
  }
  ASSERT_EQ(t.log.roll_head(), StatusCode::kOk);
  const Segment& head = *t.log.find_segment(2);
  EXPECT_FALSE(listed_in(head));
  EXPECT_EQ(scan_segment(head.identity(), head.bytes()).digest, (std::vector<uint64_t>{1, 2}));
  ASSERT_EQ(append_object(t.log, 1, 1, "key", "value"), StatusCode::kOk);
}

TEST(OwnedTablets, AnEmergencyHeadHasTheListIfThereIsRoom) {
  Arena arena(uint64_t{2} * kSegmentBytes, {.try_huge_pages = false, .prefault = false});
  SegmentPool pool(arena);
  Segment* emergency = pool.take({kTestCluster, kTestMaster, 1}, SegmentKind::kHead, 1);
  ASSERT_NE(emergency, nullptr);
  const size_t room = SegmentWriter(*emergency).room_for_tablets(1000);
  EXPECT_GT(room, 60'000u);
  const std::string digest(1000, 'd');
  SegmentWriter(*emergency).write_head_header(digest, 1, std::string(room, 't'));
  SegmentWriter(*emergency).write_footer(0);
  EXPECT_LE(emergency->published(), kSegletBytes);
  EXPECT_EQ(SegmentWriter(*emergency).room_for_tablets(kSegletBytes), 0u);
}

}  // namespace
}  // namespace ramcloud::log
