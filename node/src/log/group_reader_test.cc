#include "log/group_reader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "base/checksum.h"
#include "log/log_test_support.h"

namespace ramcloud::log {
namespace {

const SegmentIdentity kIdentity{kTestCluster, kTestMaster, 1};

/// A small closed segment: header, two objects, an overwrite, a delete, footer.
std::string closed_image() {
  TestLog t(3);
  Log& log = t.log;
  Appended appended;
  const char* refs[2];
  EXPECT_EQ(append_object(log, 0x77, 1, "alpha", "the first value"), StatusCode::kOk);
  EXPECT_EQ(append_object(log, 0x77, 2, "beta", std::string(100, 'b')), StatusCode::kOk);
  const TestObject newer(0x77, 3, "alpha", "a newer value");
  const TestTombstone older(0x77, 1, 1, "alpha", false);
  const EntrySource overwrite[] = {newer.source, older.source};
  EXPECT_EQ(log.append(overwrite, false, appended, refs), StatusCode::kOk);
  const TestTombstone deleted(0x77, 2, 1, "beta", true);
  EXPECT_EQ(log.append(std::span(&deleted.source, 1), true, appended, refs), StatusCode::kOk);
  EXPECT_EQ(log.roll_head(), StatusCode::kOk);
  return image_of(*log.find_segment(1));
}

std::string to_hex(ByteView bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
    text += i % 16 == 15 || i + 1 == bytes.size() ? '\n' : ' ';
  }
  return text;
}

TEST(GroupReader, GoldenSegment) {
  // The bytes of format version 1. A change here means a new format version.
  const std::string path = std::string(RAMCLOUD_GOLDEN_DIR) + "/segment_v1.hex";
  const std::string bytes = to_hex(closed_image());
  if (std::getenv("RAMCLOUD_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << bytes;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(bytes, golden.str());
}

TEST(GroupReader, ReadsWhatTheLogWrote) {
  const std::string image = closed_image();
  std::vector<EntryType> types;
  const SegmentScan scan =
      scan_segment(kIdentity, SegmentBytes(image), {}, [&](const GroupView& group) {
        for (auto e = group.first(); e; e = group.next(*e)) types.push_back(e->view.type());
      });
  EXPECT_EQ(scan.end, ScanEnd::kClosed);
  EXPECT_EQ(scan.valid_bytes, image.size());
  EXPECT_EQ(scan.groups, 6u);
  EXPECT_EQ(scan.entries, 9u);
  EXPECT_TRUE(scan.is_head);
  EXPECT_EQ(scan.digest, std::vector<uint64_t>{1});
  EXPECT_EQ(scan.safe_version, 1u);
  EXPECT_EQ(scan.highest_version, 3u);
  EXPECT_EQ(scan.header_bytes % 8, 0u);
  EXPECT_GT(scan.header_bytes, sizeof(GroupHeader) + sizeof(SegmentHeaderBody));
  using enum EntryType;
  EXPECT_EQ(types, (std::vector{kSegmentHeader, kLogDigest, kSafeVersion, kObject, kObject, kObject,
                                kTombstone, kTombstone, kFooter}));
  EXPECT_EQ(identify_segment(SegmentBytes(image)), kIdentity);
}

/// Damaged at random, and cut: reading in slices of any size gives the same result.
TEST(GroupReader, SlicesGiveTheSameAsAWholeScan) {
  const std::string image = closed_image();
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    std::string bytes = image.substr(0, 1 + random.below(image.size()));
    for (uint64_t n = random.below(3); n > 0; --n) {
      bytes[random.below(bytes.size())] ^= static_cast<char>(1u << random.below(8));
    }
    bytes += std::string(8 * random.below(20), '\0');
    KnownOfSegment known;
    if (random.chance(0.3)) known.bytes_held = static_cast<uint32_t>(random.below(bytes.size()));
    const SegmentScan whole = scan_segment(kIdentity, SegmentBytes(bytes), known);
    SegmentScanner scanner(kIdentity, SegmentBytes(bytes), known);
    while (scanner.step(static_cast<uint32_t>(1 + random.below(50)))) {
    }
    const SegmentScan sliced = scanner.take();
    ASSERT_EQ(sliced.end, whole.end) << seed;
    ASSERT_EQ(sliced.valid_bytes, whole.valid_bytes) << seed;
    ASSERT_EQ(sliced.durable_up_to, whole.durable_up_to) << seed;
    ASSERT_EQ(sliced.bad_offset, whole.bad_offset) << seed;
    ASSERT_EQ(sliced.what, whole.what) << seed;
    ASSERT_EQ(sliced.groups_after_hole, whole.groups_after_hole) << seed;
    ASSERT_EQ(sliced.footer_after_hole, whole.footer_after_hole) << seed;
    ASSERT_EQ(sliced.headers_read, whole.headers_read) << seed;
    ASSERT_EQ(sliced.highest_version, whole.highest_version) << seed;
  }
}

/// From each place where a group begins, to each end: whole groups, and damage only where it is.
TEST(GroupReader, GroupsFromTheMiddleAreChecked) {
  const std::string image = closed_image();
  std::vector<uint32_t> starts;
  (void)scan_segment(kIdentity, SegmentBytes(image), {},
                     [&](const GroupView& group) { starts.push_back(group.offset()); });
  const auto check = [](const std::string& bytes, uint32_t offset) {
    GroupsChecker checker(kIdentity, SegmentBytes(bytes), offset);
    while (checker.step(8)) {
    }
    return checker.take();
  };
  for (const uint32_t start : starts) {
    for (uint32_t end = start + 1; end <= image.size(); ++end) {
      uint32_t whole = 0;
      for (const uint32_t other : starts) {
        if (other > start && other <= end) whole = other - start;
      }
      if (end == image.size()) whole = end - start;
      const GroupsCheck found = check(image.substr(start, end - start), start);
      ASSERT_EQ(found.whole_bytes, whole) << start << " to " << end;
      ASSERT_FALSE(found.bad) << start << " to " << end << ": " << found.what;
    }
    ASSERT_TRUE(check(image.substr(start), start + 8).bad) << "at another place";
  }
  for (uint32_t at = starts[1]; at < image.size(); ++at) {
    std::string damaged = image.substr(starts[1]);
    damaged[at - starts[1]] ^= 0x10;
    const GroupsCheck found = check(damaged, starts[1]);
    ASSERT_LE(found.whole_bytes, at - starts[1]) << at;
    ASSERT_FALSE(found.what.empty()) << at;
  }
}

TEST(GroupReader, ClosedSegmentMayBeFollowedByAnything) {
  std::string image = closed_image();
  const size_t length = image.size();
  image += std::string(100, '\x5a');
  const SegmentScan scan = scan_segment(kIdentity, SegmentBytes(image));
  EXPECT_EQ(scan.end, ScanEnd::kClosed);
  EXPECT_EQ(scan.valid_bytes, length);
}

/// Every bit pattern at some places, two patterns at every place: found, and found where it is.
TEST(GroupReader, EveryFlippedByteIsDetectedAndLocated) {
  std::string image = closed_image();
  const KnownOfSegment closed{.closed_length = static_cast<uint32_t>(image.size()),
                              .durable_up_to = 0};
  for (uint32_t at = 0; at < image.size(); ++at) {
    for (const uint8_t change : {uint8_t{0x01}, uint8_t{0x80}, uint8_t(1 + at * 37 % 255)}) {
      image[at] = static_cast<char>(image[at] ^ change);
      const SegmentScan scan =
          scan_segment(kIdentity, SegmentBytes(image), closed, nullptr, Locate::kFlippedByte);
      image[at] = static_cast<char>(image[at] ^ change);
      ASSERT_EQ(scan.end, ScanEnd::kCorrupt) << at;
      ASSERT_LE(scan.bad_offset, at);
      ASSERT_EQ(scan.flipped_byte, at) << scan.what;
    }
  }
}

TEST(GroupReader, FlippedBytesAreNeverAcceptedSilently) {
  // Without knowing that it was closed: only damage to the footer itself looks like a torn tail.
  std::string image = closed_image();
  const uint32_t footer = static_cast<uint32_t>(image.size()) - 32;
  for (uint32_t at = 0; at < image.size(); ++at) {
    image[at] = static_cast<char>(image[at] ^ 0x10);
    const SegmentScan scan = scan_segment(kIdentity, SegmentBytes(image));
    image[at] = static_cast<char>(image[at] ^ 0x10);
    ASSERT_EQ(scan.end, at < footer ? ScanEnd::kCorrupt : ScanEnd::kTorn) << at;
    ASSERT_LE(scan.valid_bytes, at);
  }
}

/// A full segment with seglets crossed, padding and large values: random bytes flipped.
TEST(GroupReader, FlippedBytesInAFullSegment) {
  TestLog t(3);
  Random random(11);
  while (!t.log.find_segment(1)->closed()) {
    const std::string value(random.chance(0.1) ? random.below(300'000) : random.below(9'000), 'q');
    ASSERT_EQ(append_object(t.log, 1, 1, "some key", value), StatusCode::kOk);
  }
  std::string image = image_of(*t.log.find_segment(1));
  const KnownOfSegment closed{.closed_length = static_cast<uint32_t>(image.size()),
                              .durable_up_to = 0};
  ASSERT_EQ(scan_segment(kIdentity, SegmentBytes(image), closed).end, ScanEnd::kClosed);
  for (int round = 0; round < 60; ++round) {
    const auto at = static_cast<uint32_t>(random.below(image.size()));
    const auto change = static_cast<char>(1 + random.below(255));
    image[at] = static_cast<char>(image[at] ^ change);
    const SegmentScan scan =
        scan_segment(kIdentity, SegmentBytes(image), closed, nullptr, Locate::kFlippedByte);
    image[at] = static_cast<char>(image[at] ^ change);
    ASSERT_EQ(scan.end, ScanEnd::kCorrupt) << at;
    ASSERT_EQ(scan.flipped_byte, at) << scan.what;
  }
}

TEST(GroupReader, AnotherPlaceIsNotValid) {
  const std::string image = closed_image();
  SegmentIdentity other = kIdentity;
  other.segment_id = 2;
  EXPECT_EQ(scan_segment(other, SegmentBytes(image)).valid_bytes, 0u);
  other = kIdentity;
  other.master_id = 8;
  EXPECT_EQ(scan_segment(other, SegmentBytes(image)).valid_bytes, 0u);
  other = kIdentity;
  other.cluster_uuid[5] ^= 1;
  EXPECT_EQ(scan_segment(other, SegmentBytes(image)).valid_bytes, 0u);
  const std::string shifted =
      image.substr(0, image.size() - 32) + std::string(8, '\0') + image.substr(image.size() - 32);
  EXPECT_NE(scan_segment(kIdentity, SegmentBytes(shifted)).end, ScanEnd::kClosed);
}

std::set<uint32_t> group_ends(const std::string& image) {
  std::set<uint32_t> ends;
  scan_segment(kIdentity, SegmentBytes(image), {},
               [&](const GroupView& g) { ends.insert(g.end()); });
  return ends;
}

TEST(GroupReader, CutAnywhereIsTornOrOpenAndValidUpToTheLastWholeGroup) {
  const std::string image = closed_image();
  const auto ends = group_ends(image);
  for (uint32_t cut = 0; cut < image.size(); ++cut) {
    const auto above = ends.upper_bound(cut);
    const uint32_t whole = above == ends.begin() ? 0 : *std::prev(above);
    // Cut off, and in a frame whose rest was never written.
    const std::string in_frame = image.substr(0, cut) + std::string(image.size(), '\0');
    for (const bool framed : {false, true}) {
      const std::string bytes = framed ? in_frame : image.substr(0, cut);
      const SegmentScan scan = scan_segment(kIdentity, SegmentBytes(bytes));
      ASSERT_TRUE(scan.end == ScanEnd::kTorn || scan.end == ScanEnd::kOpen) << cut << scan.what;
      // A cut that leaves only zero fill behind has lost nothing.
      ASSERT_TRUE(scan.valid_bytes == whole || (framed && scan.valid_bytes == *above)) << cut;
      if (scan.end == ScanEnd::kTorn) {
        ASSERT_EQ(scan.bad_offset, scan.valid_bytes);
      }
    }
  }
}

TEST(GroupReader, CutBelowWhatWasDurableIsCorrupt) {
  const std::string image = closed_image();
  const auto ends = group_ends(image);
  const uint32_t second = *std::next(ends.begin());
  const uint32_t third = *std::next(ends.begin(), 2);
  const KnownOfSegment known{.closed_length = {}, .durable_up_to = third};
  const auto scan = [&](uint32_t cut) {
    return scan_segment(kIdentity, SegmentBytes(ByteView(image).substr(0, cut)), known).end;
  };
  EXPECT_EQ(scan(third - 1), ScanEnd::kCorrupt);
  EXPECT_EQ(scan(second), ScanEnd::kCorrupt) << "ends cleanly, but too early";
  EXPECT_EQ(scan(third), ScanEnd::kOpen);
  EXPECT_EQ(scan(third + 3), ScanEnd::kTorn);
}

TEST(GroupReader, DurableUpToOfALaterGroupDecides) {
  TestLog t(3, false);
  t.replicator.finish_open(1);
  Appended a, b;
  ASSERT_EQ(append_object(t.log, 1, 1, "a", "1", &a), StatusCode::kOk);
  ASSERT_EQ(append_object(t.log, 1, 2, "b", "2", &b), StatusCode::kOk);
  t.replicator.finish_data(1);
  ASSERT_EQ(append_object(t.log, 1, 3, "c", "3"), StatusCode::kOk);
  std::string image = image_of(*t.log.find_segment(1));
  // Damage to the last group: no later mark says that it was durable.
  image[image.size() - 12] ^= 1;
  SegmentScan scan = scan_segment(kIdentity, SegmentBytes(image));
  EXPECT_EQ(scan.end, ScanEnd::kTorn);
  EXPECT_EQ(scan.valid_bytes, b.end.offset());
  image[image.size() - 12] ^= 1;
  // Damage before the last group, which is valid.
  image[a.end.offset() + 30] ^= 1;
  scan = scan_segment(kIdentity, SegmentBytes(image));
  EXPECT_EQ(scan.end, ScanEnd::kCorrupt);
  EXPECT_EQ(scan.bad_offset, a.end.offset());
}

/// Five objects, of which only the first was durable when the others were appended; and where each
/// begins.
struct OpenSegment {
  OpenSegment() {
    TestLog t(3, false);
    t.replicator.finish_open(1);
    for (uint64_t i = 0; i < 5; ++i) {
      starts.push_back(t.log.head().offset());
      EXPECT_EQ(append_object(t.log, 1, i + 1, "key", std::string(500, 'v')), StatusCode::kOk);
      if (i == 0) t.replicator.finish_data(1);
    }
    image = image_of(*t.log.find_segment(1));
  }
  /// The sectors of group `i` did not land.
  std::string without(size_t i) const {
    std::string bytes = image;
    const uint32_t end =
        i + 1 < starts.size() ? starts[i + 1] : static_cast<uint32_t>(image.size());
    std::fill(bytes.begin() + starts[i], bytes.begin() + end, '\0');
    return bytes;
  }
  std::vector<uint32_t> starts;
  std::string image;
};

/// Sectors land in any order: neither the hole nor the bytes behind it were acknowledged.
TEST(GroupReader, AHoleAboveAllThatWasDurableIsATornTail) {
  const OpenSegment segment;
  for (size_t i = 1; i < 5; ++i) {
    const SegmentScan scan = scan_segment(kIdentity, SegmentBytes(segment.without(i)));
    EXPECT_EQ(scan.end, i < 4 ? ScanEnd::kTorn : ScanEnd::kOpen) << i << ": " << scan.what;
    EXPECT_EQ(scan.valid_bytes, segment.starts[i]);
    EXPECT_EQ(scan.groups_after_hole, 4 - i);
    EXPECT_FALSE(scan.footer_after_hole);
  }
}

TEST(GroupReader, AHoleBelowWhatAGroupBehindItKnewToBeDurableIsCorruption) {
  const OpenSegment segment;
  const SegmentScan scan = scan_segment(kIdentity, SegmentBytes(segment.without(0)));
  EXPECT_EQ(scan.end, ScanEnd::kCorrupt);
  EXPECT_EQ(scan.bad_offset, segment.starts[0]);
  EXPECT_EQ(scan.durable_up_to, segment.starts[1]);
}

TEST(GroupReader, AFooterBehindAHoleIsSeen) {
  const std::string image = closed_image();
  std::string hole = image;
  const auto footer = static_cast<uint32_t>(image.size()) - 32;
  hole[footer - 10] ^= 1;  // in the last group before it
  const SegmentScan scan = scan_segment(kIdentity, SegmentBytes(hole));
  EXPECT_TRUE(scan.footer_after_hole);
  EXPECT_EQ(scan.groups_after_hole, 1u);
}

/// The first group of a segment with another format version, its checksums right.
std::string header_of_version(uint16_t version) {
  SegmentHeaderBody body{.format_version = version,
                         .flags = 0,
                         .segment_bytes = kSegmentBytes,
                         .cluster_uuid = {},
                         .master_id = kTestMaster,
                         .segment_id = 1};
  std::copy(kTestCluster.begin(), kTestCluster.end(), body.cluster_uuid);
  const auto type = static_cast<char>(EntryType::kSegmentHeader);
  EntryHeader entry{
      .length_and_type = sizeof body | static_cast<uint32_t>(EntryType::kSegmentHeader) << 24,
      .body_crc = crc32c(bytes_of(body), crc32c(ByteView(&type, 1)))};
  constexpr uint32_t kLength = sizeof(GroupHeader) + sizeof entry + sizeof body;
  static_assert(kLength % kGroupAlignment == 0);
  GroupHeader group{.length_and_magic = kLength | uint32_t{kGroupMagic} << 24,
                    .replication_epoch = 0,
                    .durable_up_to = 0,
                    .crc = 0};
  const uint32_t offset = 0;
  uint32_t crc = crc32c(bytes_of(offset), kIdentity.checksum_seed());
  crc = crc32c(bytes_of(group).substr(0, offsetof(GroupHeader, crc)), crc);
  group.crc = crc32c(bytes_of(entry), crc);
  return std::string(bytes_of(group)) + std::string(bytes_of(entry)) + std::string(bytes_of(body));
}

TEST(GroupReader, AFutureFormatIsNamedNotGuessed) {
  const std::string current = header_of_version(kFormatVersion);
  ASSERT_EQ(scan_segment(kIdentity, SegmentBytes(current)).end, ScanEnd::kOpen);
  const std::string future = header_of_version(kFormatVersion + 1);
  EXPECT_EQ(identify_segment(SegmentBytes(future)), kIdentity);
  const SegmentScan scan = scan_segment(kIdentity, SegmentBytes(future));
  EXPECT_EQ(scan.end, ScanEnd::kCorrupt);
  EXPECT_EQ(scan.what, "format version 2; known is 1");
  EXPECT_EQ(scan.valid_bytes, 0u);
}

TEST(GroupReader, BytesThatAreTooFewIdentifyNothing) {
  EXPECT_FALSE(identify_segment(SegmentBytes(ByteView("short"))));
  EXPECT_FALSE(identify_segment(SegmentBytes(std::string(200, '\0'))));
  const SegmentScan empty = scan_segment(kIdentity, SegmentBytes(ByteView()));
  EXPECT_EQ(empty.end, ScanEnd::kOpen);
  EXPECT_EQ(empty.valid_bytes, 0u);
}

TEST(GroupReader, HostileBytesDoNoHarm) {
  Random random(5);
  const std::string good = closed_image();
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good;
    for (uint64_t n = 1 + random.below(20); n > 0; --n) {
      bytes[random.below(bytes.size())] = static_cast<char>(random.next());
    }
    bytes.resize(random.below(bytes.size() + 64));
    const SegmentScan scan = scan_segment(kIdentity, SegmentBytes(bytes));
    ASSERT_LE(scan.valid_bytes, bytes.size());
  }
}

TEST(GroupReader, HostileFrameTakesLinearTime) {
  // Eight MiB of what looks like group headers with endless empty entries.
  std::string bytes(kSegmentBytes, '\0');
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const uint32_t word =
        ((kSegmentBytes - static_cast<uint32_t>(i)) & 0xfffff8) | uint32_t{kGroupMagic} << 24;
    std::memcpy(&bytes[i], &word, 4);
  }
  for (size_t i = 64; i + 8 <= bytes.size(); i += 16) std::memset(&bytes[i + 8], 0, 8);
  for (const auto locate : {Locate::kNo, Locate::kFlippedByte}) {
    const SegmentScan scan = scan_segment(kIdentity, SegmentBytes(bytes), {}, nullptr, locate);
    EXPECT_EQ(scan.valid_bytes, 0u);
    EXPECT_EQ(scan.end, ScanEnd::kTorn);
    EXPECT_GT(scan.headers_read, kSegmentBytes / kGroupAlignment) << "nothing was hostile in it";
    EXPECT_LE(scan.headers_read, kMaxHeadersRead);
  }
}

/// The bound costs nothing that is valid: with hostile bytes before it, a claim is still found.
TEST(GroupReader, AClaimBehindHostileBytesIsFound) {
  const OpenSegment segment;
  std::string bytes = segment.image;
  for (uint32_t at = segment.starts[0]; at + 8 <= segment.starts[3]; at += 8) {
    const uint32_t word =
        ((static_cast<uint32_t>(bytes.size()) - at) & 0xfffff8) | uint32_t{kGroupMagic} << 24;
    std::memcpy(&bytes[at], &word, 4);
  }
  const SegmentScan scan = scan_segment(kIdentity, SegmentBytes(bytes));
  EXPECT_EQ(scan.end, ScanEnd::kCorrupt);
  EXPECT_EQ(scan.durable_up_to, segment.starts[1]);
  EXPECT_EQ(scan.groups_after_hole, 2u);
}

}  // namespace
}  // namespace ramcloud::log
