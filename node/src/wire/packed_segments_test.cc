#include "wire/packed_segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/random.h"
#include "wire/codec.h"
#include "wire/recovery_messages.h"
#include "wire/testing/filler.h"

namespace ramcloud::wire {
namespace {

RecoverySegment segment(uint64_t id, uint32_t length, std::vector<RecoverySource> sources) {
  return {.segment_id = id, .length = length, .sources = std::move(sources)};
}

std::vector<RecoverySegment> a_log() {
  return {segment(~uint64_t{0} - 1, 8 << 20, {{7, 3}, {900, 70'000}, {~uint64_t{0}, 0}}),
          segment(300, 8 << 20, {{900, ~uint32_t{0}}}), segment(299, 0, {}),
          segment(1, 100, {{7, 4}})};
}

std::string bytes(std::initializer_list<int> values) {
  std::string all;
  for (const int value : values) all += static_cast<char>(value);
  return all;
}

TEST(PackedSegments, AreTheSameWhenUnpacked) {
  std::vector<RecoverySegment> unpacked;
  ASSERT_TRUE(unpack_segments(pack_segments(a_log()), unpacked));
  EXPECT_EQ(unpacked, a_log());
  unpacked.clear();
  ASSERT_TRUE(unpack_segments(pack_segments({}), unpacked));
  EXPECT_TRUE(unpacked.empty());
}

/// docs/formats.md has these bytes.
TEST(PackedSegments, HaveTheseBytes) {
  const std::vector<RecoverySegment> log = {segment(9, 300, {{5, 1}, {7, 128}}),
                                            segment(8, 300, {{7, 0}}), segment(5, 20, {})};
  EXPECT_EQ(wire::testing::to_hex(pack_segments(log)),
            "02"
            "0502"  // servers 5 and 7
            "03"
            "0a"
            "08"          // three segments, up to 9; a frame has 8 bits
            "b204000094"  // from here on bits, the lowest first
            "80006509000048004d01000000");
}

/// A log of 500 GB on 1,000 backups with large volumes.
TEST(PackedSegments, TakeASixthOfTheirBytes) {
  Random random(1);
  RecoverRequest order;
  for (uint64_t id = 60'000; id > 0; --id) {
    const auto source = [&] {
      return RecoverySource{1 + random.below(1000), static_cast<uint32_t>(random.below(65'536))};
    };
    order.segments.push_back(segment(id, 8 << 20, {source(), source(), source()}));
  }
  const size_t plain = encode(order, kExtensible).size();
  const size_t packed = pack_segments(order.segments).size();
  EXPECT_LT(packed, order.segments.size() * 21 / 2);
  EXPECT_LT(packed, plain / 6);
}

TEST(PackedSegments, BytesThatWereCutOrAddedDoNotDecode) {
  const std::string packed = pack_segments(a_log());
  for (size_t length = 0; length < packed.size(); ++length) {
    std::vector<RecoverySegment> unpacked;
    EXPECT_FALSE(unpack_segments(std::string_view(packed).substr(0, length), unpacked)) << length;
  }
  std::vector<RecoverySegment> unpacked;
  EXPECT_FALSE(unpack_segments(packed + '\0', unpacked));
}

TEST(PackedSegments, WrongNumbersDoNotDecode) {
  // A server, a segment with id 9, and its bits: gap, shape, length, number of sources, the source.
  const auto decodes = [](std::initializer_list<int> numbers, std::initializer_list<int> bits) {
    std::vector<RecoverySegment> unpacked;
    return unpack_segments(bytes(numbers) + bytes(bits), unpacked);
  };
  const std::string packed = pack_segments(std::vector{segment(9, 3, {{5, 4}})});
  ASSERT_EQ(packed, bytes({1, 5, 1, 10, 8}) + bytes({0x0e, 0, 0, 0, 0x04, 0x01}));
  EXPECT_TRUE(decodes({1, 5, 1, 10, 8}, {0x0e, 0, 0, 0, 0x04, 0x01}));
  EXPECT_FALSE(decodes({1, 5, 1, 10, 8}, {0x0e, 0, 0, 0, 0x24, 0x01})) << "no such server";
  EXPECT_FALSE(decodes({1, 5, 1, 0, 8}, {0x0e, 0, 0, 0, 0x04, 0x01})) << "an id below 0";
  EXPECT_FALSE(decodes({1, 5, 100, 10, 8}, {0x0e, 0, 0, 0, 0x04, 0x01})) << "more segments";
  EXPECT_FALSE(decodes({100, 5, 1, 10, 8}, {0x0e, 0, 0, 0, 0x04, 0x01})) << "more servers";
  EXPECT_FALSE(decodes({1, 5, 1, 10, 8}, {0x0e, 0, 0, 0, 0xfc, 0xff, 0x03})) << "more sources";
  EXPECT_FALSE(decodes({1, 5, 1, 10, 7}, {0x0e, 0, 0, 0, 0x04, 0x01})) << "frames of 7 bits";
  EXPECT_FALSE(decodes({1, 5, 1, 10, 33}, {0x0e, 0, 0, 0, 0x04, 0x01})) << "frames of 33 bits";
}

TEST(PackedSegments, AnyBytesAreTakenOrRefused) {
  Random random(3);
  const std::string packed = pack_segments(a_log());
  for (int round = 0; round < 20'000; ++round) {
    std::string changed = packed;
    for (uint64_t i = 0; i <= random.below(3); ++i) {
      changed[random.below(changed.size())] = static_cast<char>(random.below(256));
    }
    std::vector<RecoverySegment> unpacked;
    if (!unpack_segments(changed, unpacked)) continue;
    EXPECT_TRUE(std::ranges::is_sorted(unpacked, std::greater(), &RecoverySegment::segment_id));
  }
}

}  // namespace
}  // namespace ramcloud::wire
