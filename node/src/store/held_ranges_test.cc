#include "store/held_ranges.h"

#include <gtest/gtest.h>

namespace ramcloud::store {
namespace {

constexpr uint64_t kAll = ~uint64_t{0};

TEST(HeldRanges, OverlapsAreFoundAtEveryEdge) {
  HeldRanges held;
  EXPECT_FALSE(held.overlaps(1, 0, kAll));
  held.add(1, 100, 200);
  held.add(1, 300, 400);
  EXPECT_FALSE(held.overlaps(1, 0, 99));
  EXPECT_TRUE(held.overlaps(1, 0, 100));
  EXPECT_TRUE(held.overlaps(1, 200, 200));
  EXPECT_FALSE(held.overlaps(1, 201, 299));
  EXPECT_TRUE(held.overlaps(1, 201, 300));
  EXPECT_TRUE(held.overlaps(1, 150, 160));
  EXPECT_FALSE(held.overlaps(1, 401, kAll));
  EXPECT_FALSE(held.overlaps(2, 0, kAll));
  held.add(1, 150, 350);
  EXPECT_TRUE(held.overlaps(1, 250, 250));
  held.add(3, 0, kAll);
  EXPECT_TRUE(held.overlaps(3, kAll, kAll));
}

TEST(HeldRanges, WhatIsForgottenCountsAsHeld) {
  HeldRanges held;
  for (uint64_t i = 0; i <= HeldRanges::kMostRanges; ++i) held.add(1, 10 * i, 10 * i);
  EXPECT_TRUE(held.overlaps(1, 15, 15));
  EXPECT_FALSE(held.overlaps(1, 10 * HeldRanges::kMostRanges + 1, kAll));
  for (uint64_t table = 2; table < 2 + HeldRanges::kMostTables; ++table) held.add(table, 5, 5);
  EXPECT_TRUE(held.overlaps(1, kAll, kAll));
  EXPECT_FALSE(held.overlaps(2, 6, kAll));
}

/// An old table comes back to a server that has had many younger ones since.
TEST(HeldRanges, WhatIsForgottenStaysForgotten) {
  HeldRanges held;
  constexpr uint64_t kForgotten = 50;
  for (uint64_t table = 1; table <= HeldRanges::kMostTables + kForgotten; ++table) {
    held.add(table, 5, 5);
  }
  ASSERT_TRUE(held.overlaps(kForgotten, 6, kAll));
  ASSERT_FALSE(held.overlaps(kForgotten + 1, 6, kAll));
  held.add(3, 5, 5);
  EXPECT_TRUE(held.overlaps(3, 6, kAll));
  EXPECT_TRUE(held.overlaps(kForgotten, 6, kAll));
}

}  // namespace
}  // namespace ramcloud::store
