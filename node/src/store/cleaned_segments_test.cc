#include "store/cleaned_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ramcloud::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(CleanedSegments, ADeadCopyKeepsItsTombstone) {
  CleanedSegments cleaned;
  cleaned.note_dead_copy(1, 10, {77, 5});
  EXPECT_TRUE(cleaned.has_dead_copies(1));
  EXPECT_FALSE(cleaned.has_dead_copies(10));
  EXPECT_TRUE(cleaned.kills_dead_copy(1, {77, 5}));
  EXPECT_TRUE(cleaned.kills_dead_copy(1, {77, 6}));
  EXPECT_FALSE(cleaned.kills_dead_copy(1, {77, 4})) << "of an earlier object of that key";
  EXPECT_FALSE(cleaned.kills_dead_copy(1, {78, 5}));
  EXPECT_FALSE(cleaned.kills_dead_copy(2, {77, 5}));
}

TEST(CleanedSegments, UntilEachSurvivorWithOneHasLeft) {
  CleanedSegments cleaned;
  cleaned.note_dead_copy(1, 10, {77, 1});
  cleaned.note_dead_copy(1, 11, {78, 1});
  cleaned.note_dead_copy(2, 11, {79, 1});
  EXPECT_THAT(cleaned.with_dead_copies(), ElementsAre(Pair(1, 2), Pair(2, 1)));
  EXPECT_THAT(cleaned.survivors_with_dead_copies(), ElementsAre(10, 11));
  cleaned.segment_left(1);
  EXPECT_TRUE(cleaned.kills_dead_copy(1, {77, 1})) << "its copies are still there";
  cleaned.segment_left(10);
  EXPECT_FALSE(cleaned.kills_dead_copy(1, {77, 1}));
  EXPECT_TRUE(cleaned.kills_dead_copy(1, {78, 1}));
  cleaned.segment_left(11);
  EXPECT_THAT(cleaned.with_dead_copies(), IsEmpty());
  EXPECT_THAT(cleaned.survivors_with_dead_copies(), IsEmpty());
}

TEST(CleanedSegments, ManyDeadCopiesKeepAllTombstones) {
  CleanedSegments cleaned;
  for (uint64_t hash = 0; hash < CleanedSegments::kMostCopies; ++hash) {
    cleaned.note_dead_copy(1, 10, {2 * hash, 1});
  }
  EXPECT_FALSE(cleaned.kills_dead_copy(1, {3, 1}));
  EXPECT_THAT(cleaned.with_dead_copies(), ElementsAre(Pair(1, CleanedSegments::kMostCopies)));
  cleaned.note_dead_copy(1, 10, {1, 1});
  cleaned.note_dead_copy(1, 11, {5, 1});
  EXPECT_TRUE(cleaned.kills_dead_copy(1, {3, 1}));
  EXPECT_THAT(cleaned.with_dead_copies(), ElementsAre(Pair(1, CleanedSegments::kUncounted)));
  cleaned.segment_left(10);
  EXPECT_FALSE(cleaned.kills_dead_copy(1, {3, 1}));
  EXPECT_TRUE(cleaned.kills_dead_copy(1, {5, 1}));
}

}  // namespace
}  // namespace ramcloud::store
