#include "base/random.h"

#include <gtest/gtest.h>

#include <array>

namespace ramcloud {
namespace {

TEST(Random, SameSeedSameSequence) {
  Random a(42), b(42), c(43);
  const uint64_t first = a.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, c.next());
}

TEST(Random, BelowStaysBelowAndReachesEverything) {
  Random random(7);
  std::array<int, 10> seen{};
  for (int i = 0; i < 10'000; ++i) ++seen.at(random.below(10));
  for (const int n : seen) EXPECT_GT(n, 800);
}

TEST(Random, ChanceFollowsProbability) {
  Random random(7);
  int hits = 0;
  for (int i = 0; i < 10'000; ++i) hits += random.chance(0.25);
  EXPECT_NEAR(hits, 2500, 200);
}

}  // namespace
}  // namespace ramcloud
