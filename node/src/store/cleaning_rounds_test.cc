// Cleaning under random changes with crashes, in many rounds. This program's segments are small
// (RAMCLOUD_SMALL_SEGMENTS), so that a round does the same with a quarter of the bytes.
// RAMCLOUD_CLEANING_ROUNDS: rounds of each case (`make soak`). RAMCLOUD_CLEANING_SEED: the first.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "store/testing/cleaning_round.h"

namespace ramcloud::store {
namespace {

static_assert(log::kSegmentBytes == 2u << 20);

constexpr uint64_t kCases = 4;  // run at the same time

class CleaningRounds : public ::testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Cases, CleaningRounds, ::testing::Range(uint64_t{0}, kCases));

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::stoull(given) : otherwise;
}

TEST_P(CleaningRounds, LoseNothingAndBringNothingBack) {
  const uint64_t rounds = from_environment("RAMCLOUD_CLEANING_ROUNDS", 125);
  const uint64_t first = from_environment("RAMCLOUD_CLEANING_SEED", 1000);
  testing::Totals totals;
  testing::run_rounds(first + GetParam() * rounds, rounds, 0.0002, totals);
  if (rounds >= 100) totals.expect_complete(rounds);
  std::printf(
      "rounds %lu passes %lu compacted %lu (no gain %lu, in replicas %lu) aborted %lu "
      "without memory %lu crashes %lu power cuts %lu returned %lu resized %lu segments %lu written "
      "%lu "
      "MB; "
      "objects %lu tombstones %lu dropped %lu dead copies %lu of no tablet %lu\n",
      rounds, totals.passes, totals.compacted, totals.no_gain, totals.compacted_replicas,
      totals.aborted, totals.without_memory, totals.crashes, totals.power_cuts, totals.returned,
      totals.resized, totals.segments, totals.written_bytes >> 20, totals.counts.objects,
      totals.counts.tombstones, totals.counts.tombstones_dropped, totals.counts.dead_copies,
      totals.counts.of_no_tablet);
}

}  // namespace
}  // namespace ramcloud::store
