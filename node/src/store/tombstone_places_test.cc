#include "store/tombstone_places.h"

#include <gtest/gtest.h>

namespace ramcloud::store {
namespace {

constexpr uint64_t kPart = uint64_t{1} << 56;

Tablet& tablet_of(Tablet& tablet, uint64_t table, uint64_t start, uint64_t end) {
  tablet.table_id = table;
  tablet.start_hash = start;
  tablet.end_hash = end;
  return tablet;
}

bool may_be_in(const TombstonePlaces& places, uint64_t table, uint64_t start, uint64_t end) {
  Tablet tablet;
  return places.may_be_in(tablet_of(tablet, table, start, end));
}

TEST(TombstonePlaces, OfNoneNothingIsInATablet) {
  EXPECT_FALSE(may_be_in({}, 1, 0, ~uint64_t{0}));
}

TEST(TombstonePlaces, PartsOfATableAreTold) {
  TombstonePlaces places;
  places.add(1, 0);
  places.add(1, 7 * kPart + 5);
  places.add(1, ~uint64_t{0});
  EXPECT_TRUE(may_be_in(places, 1, 0, 0));
  EXPECT_TRUE(may_be_in(places, 1, 0, ~uint64_t{0}));
  EXPECT_TRUE(may_be_in(places, 1, 7 * kPart, 7 * kPart + 1)) << "not more exactly than this";
  EXPECT_FALSE(may_be_in(places, 1, kPart, 7 * kPart - 1));
  EXPECT_TRUE(may_be_in(places, 1, kPart, 7 * kPart));
  EXPECT_FALSE(may_be_in(places, 1, 8 * kPart, 255 * kPart - 1));
  EXPECT_TRUE(may_be_in(places, 1, 255 * kPart, ~uint64_t{0}));
  EXPECT_FALSE(may_be_in(places, 2, 0, ~uint64_t{0}));
}

TEST(TombstonePlaces, OfTooManyTablesAllIsPossible) {
  TombstonePlaces places;
  for (uint64_t table = 1; table <= TombstonePlaces::kMostTables; ++table) places.add(table, 0);
  EXPECT_FALSE(may_be_in(places, 99, 0, ~uint64_t{0}));
  places.add(50, 0);
  EXPECT_TRUE(may_be_in(places, 99, 0, ~uint64_t{0}));
  EXPECT_TRUE(may_be_in(places, 1, kPart, ~uint64_t{0}));
}

}  // namespace
}  // namespace ramcloud::store
