#include "base/hash.h"

#include <gtest/gtest.h>

namespace ramcloud {
namespace {

// These are part of the protocol: a change breaks every client.
TEST(Hash, GoldenValues) {
  EXPECT_EQ(key_hash(0, ""), 3244421341483603138u);
  EXPECT_NE(key_hash(1, "a"), key_hash(2, "a"));
}

TEST(Hash, TabletsCoverTheRangeWithoutGaps) {
  for (uint32_t n : {1u, 2u, 3u, 5u, 7u, 64u, 1000u}) {
    EXPECT_EQ(tablet_start(0, n), 0u);
    EXPECT_EQ(tablet_end(n - 1, n), ~uint64_t{0});
    for (uint32_t i = 1; i < n; ++i) EXPECT_EQ(tablet_end(i - 1, n) + 1, tablet_start(i, n));
  }
}

TEST(Hash, MixerDependsOnOrder) {
  HashMixer a, b;
  a.add(1), a.add(2);
  b.add(2), b.add(1);
  EXPECT_NE(a.value(), b.value());
}

}  // namespace
}  // namespace ramcloud
