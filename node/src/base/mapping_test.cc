#include "base/mapping.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ramcloud {
namespace {

TEST(Mapping, IsZeroAlignedAndWritableToItsEnd) {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, (uint64_t{5} << 20) + 17}) {
    Mapping mapping;
    EXPECT_EQ(mapping.data(), nullptr);
    ASSERT_TRUE(mapping.map(bytes, true));
    EXPECT_EQ(mapping.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uint64_t>(mapping.data()) % Mapping::kHugePageBytes, 0u);
    mapping.touch();
    EXPECT_TRUE(std::all_of(mapping.data(), mapping.data() + bytes, [](char c) { return c == 0; }));
    std::fill(mapping.data(), mapping.data() + bytes, 'x');
  }
}

TEST(Mapping, MovesWithItsMemory) {
  Mapping first;
  ASSERT_TRUE(first.map(100, false));
  EXPECT_FALSE(first.huge_pages());
  char* const data = first.data();
  Mapping second(std::move(first));
  EXPECT_EQ(second.data(), data);
  data[99] = 'x';
  second = Mapping();
  EXPECT_EQ(second.data(), nullptr);
}

TEST(Mapping, TooMuchIsRefused) {
  Mapping mapping;
  EXPECT_FALSE(mapping.map(uint64_t{1} << 60, false));
  EXPECT_EQ(mapping.data(), nullptr);
  EXPECT_FALSE(mapping.map_reserved(uint64_t{1} << 46, uint64_t{1} << 30));
}

}  // namespace
}  // namespace ramcloud
