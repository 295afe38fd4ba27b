#include "coordinator/core/recovery_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "base/random.h"

namespace ramcloud {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kLast = ~uint64_t{0};
constexpr uint64_t kMiB = 1u << 20;

PlanInput input_of(std::vector<LostRange> tablets, uint64_t bytes, size_t masters) {
  PlanInput input{std::move(tablets), bytes, 0, {}, {}};
  for (uint64_t id = 1; id <= masters; ++id) input.masters.push_back({id, 1000 * kMiB});
  return input;
}

TEST(RecoveryPlan, AShortLogIsNotSplit) {
  const RecoveryPlan plan = plan_recovery(input_of({{1, 0, kLast}}, 64 * kMiB, 4), {});
  EXPECT_TRUE(plan.splits.empty());
  ASSERT_EQ(plan.parts.size(), 1u);
  EXPECT_THAT(plan.parts[0].ranges, ElementsAre(LostRange{1, 0, kLast}));
}

TEST(RecoveryPlan, ALongLogGivesEveryMasterAPiece) {
  const RecoveryPlan plan = plan_recovery(input_of({{1, 0, kLast}}, 400 * kMiB, 4), {});
  ASSERT_EQ(plan.splits.size(), 3u);
  EXPECT_EQ(plan.splits[0].at, uint64_t{1} << 62);
  EXPECT_EQ(plan.splits[1].at, uint64_t{1} << 63);
  ASSERT_EQ(plan.parts.size(), 4u);
  for (const PlannedPart& part : plan.parts) EXPECT_EQ(part.bytes, 100 * kMiB);
}

TEST(RecoveryPlan, AFirstPartIsSmall) {
  PlanInput input = input_of({{1, 0, kLast}}, 400 * kMiB, 4);
  input.first_part = true;
  const RecoveryPlan plan = plan_recovery(input, {});
  ASSERT_EQ(plan.parts.size(), 4u);
  const PlannedPart& first = plan.parts[0];
  EXPECT_TRUE(first.first);
  ASSERT_EQ(first.ranges.size(), 1u);
  EXPECT_NEAR(static_cast<double>(first.bytes), 400.0 * kMiB / 32, 1);
  EXPECT_NEAR(static_cast<double>(first.ranges[0].end_hash), std::ldexp(1.0, 59), 1e6);
  EXPECT_EQ(plan.splits.size(), 4u);
  EXPECT_EQ(plan.splits.back().at, first.ranges[0].end_hash + 1);
  EXPECT_EQ(plan.held_back, 1u) << "the rest of its piece";
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_FALSE(plan.parts[i].first);
    EXPECT_EQ(plan.parts[i].bytes, 100 * kMiB);
  }
}

TEST(RecoveryPlan, AFirstPartOfManyTabletsSplitsNone) {
  std::vector<LostRange> tablets;
  for (uint64_t table = 1; table <= 400; ++table) tablets.push_back({table, 0, kLast});
  PlanInput input = input_of(std::move(tablets), 400 * kMiB, 4);
  input.first_part = true;
  const RecoveryPlan plan = plan_recovery(input, {});
  EXPECT_TRUE(plan.splits.empty());
  EXPECT_TRUE(plan.parts[0].first);
  EXPECT_EQ(plan.parts[0].ranges.size(), 13u) << "400 MiB / 32";
  EXPECT_EQ(plan.held_back, 87u);
}

TEST(RecoveryPlan, NeitherAShortLogNorASingleMasterHasAFirstPart) {
  for (const auto& [mib, masters] : {std::pair{64, 4}, {400, 1}}) {
    PlanInput input =
        input_of({{1, 0, kLast}}, static_cast<uint64_t>(mib) * kMiB, static_cast<size_t>(masters));
    input.first_part = true;
    const RecoveryPlan plan = plan_recovery(input, {});
    EXPECT_EQ(plan.held_back, 0u);
    EXPECT_FALSE(plan.parts.at(0).first);
    EXPECT_TRUE(plan.splits.empty());
  }
}

TEST(RecoveryPlan, NoPieceIsSmallerThanItMayBe) {
  const RecoveryPlan plan = plan_recovery(input_of({{1, 0, kLast}}, 80 * kMiB, 30), {});
  EXPECT_EQ(plan.splits.size(), 4u) << "five pieces of 16 MiB";
  EXPECT_EQ(plan.parts.size(), 5u);
}

/// Without that, no piece of a table that has most of the log would become small enough.
TEST(RecoveryPlan, ATableThatTurnedOutToHaveMoreIsSplitMore) {
  PlanInput input = input_of({{2, 0, kLast}, {1, 0, kLast}}, 64 * kMiB, 1);
  learn_weights(input.weights, {.server_id = 1, .ranges = {{2, 0, kLast}}, .bytes = 32 * kMiB},
                64 * kMiB);
  learn_weights(input.weights, {.server_id = 1, .ranges = {{1, 0, kLast}}, .bytes = 32 * kMiB}, 0);
  input.masters[0].most_bytes = 16 * kMiB;
  const RecoveryPlan plan = plan_recovery(input, {});
  ASSERT_EQ(plan.parts.size(), 1u);
  EXPECT_EQ(plan.parts[0].bytes, 16 * kMiB);
  EXPECT_THAT(plan.parts[0].ranges, ElementsAre(LostRange{2, 0, kLast / 4})) << "of 64 MiB";
  std::ranges::reverse(input.tablets);
  EXPECT_THAT(plan_recovery(input, {}).parts.at(0).ranges, ElementsAre(LostRange{1, 0, kLast / 2}))
      << "what is less than estimated is not learnt";
}

TEST(RecoveryPlan, WhatIsTooMuchForOneAttemptIsLeftOver) {
  const RecoveryPlan plan = plan_recovery(input_of({{1, 0, kLast}}, 2'000'000'000, 2), {});
  ASSERT_EQ(plan.parts.size(), 2u);
  for (const PlannedPart& part : plan.parts) EXPECT_LE(part.bytes, 500'000'000u);
  EXPECT_EQ(plan.left_over, 1u);
}

/// Splits stay. So what waits for its turn is not split for the size of this turn's parts.
TEST(RecoveryPlan, WhatIsLeftOverIsNotSplit) {
  std::vector<LostRange> tablets;
  for (uint64_t table = 1; table <= 100; ++table) tablets.push_back({table, 0, kLast});
  PlanInput input = input_of(std::move(tablets), 64'000 * kMiB, 1);
  input.masters[0].most_bytes = 4 * kMiB;
  const RecoveryPlan plan = plan_recovery(input, {});
  EXPECT_EQ(plan.splits.size(), 1u);
  ASSERT_EQ(plan.parts.size(), 1u);
  EXPECT_EQ(plan.parts[0].bytes, 4 * kMiB);
  EXPECT_EQ(plan.left_over, 100u);
}

/// Nothing merges tablets, and there is a limit of them.
TEST(RecoveryPlan, SplitsForSpeedLeaveSomeToThoseThatAreNeeded) {
  PlanLimits limits;
  limits.splits_for_speed = 1;
  PlanInput input = input_of({{1, 0, kLast}}, 400 * kMiB, 4);
  EXPECT_EQ(plan_recovery(input, limits).splits.size(), 1u);
  for (RecoveryMaster& master : input.masters) master.most_bytes = 100 * kMiB;
  EXPECT_EQ(plan_recovery(input, limits).splits.size(), 3u) << "no master has memory for more";
}

TEST(RecoveryPlan, ManySmallEntriesFillAPartAsWell) {
  PlanInput input = input_of({{1, 0, kLast}}, 100 * kMiB, 2);
  input.entries = 8'000'000;
  const RecoveryPlan plan = plan_recovery(input, {});
  EXPECT_EQ(plan.splits.size(), 2u) << "of eight million two parts have two each";
  EXPECT_EQ(plan.left_over, 1u);
}

TEST(RecoveryPlan, WhoHasMoreMemoryGetsMore) {
  PlanInput input{{}, 0, 0, {{1, 300 * kMiB}, {2, 100 * kMiB}}, {}};
  for (uint64_t id = 1; id <= 40; ++id) input.tablets.push_back({id, 0, kLast});
  input.bytes = 40 * kMiB;
  const RecoveryPlan plan = plan_recovery(input, {});
  ASSERT_EQ(plan.parts.size(), 2u);
  EXPECT_EQ(plan.parts[0].ranges.size(), 30u);
  EXPECT_EQ(plan.parts[1].ranges.size(), 10u);
}

TEST(RecoveryPlan, WhoHadNoMemoryForSoMuchGetsLess) {
  PlanInput input = input_of({{1, 0, kLast / 2}, {1, kLast / 2 + 1, kLast}}, 100 * kMiB, 1);
  input.masters[0].most_bytes = 60 * kMiB;
  const RecoveryPlan plan = plan_recovery(input, {});
  ASSERT_EQ(plan.parts.size(), 1u);
  EXPECT_EQ(plan.parts[0].ranges.size(), 1u);
  EXPECT_EQ(plan.left_over, 1u);
}

/// Otherwise it is given whole to one master after the other, for ever.
TEST(RecoveryPlan, WhatNobodyHasMemoryForIsSplitHoweverSmallItIs) {
  PlanInput input = input_of({{1, 0, kLast}}, 24 * kMiB, 3);
  for (RecoveryMaster& master : input.masters) master.most_bytes = 12 * kMiB;
  const RecoveryPlan plan = plan_recovery(input, {});
  EXPECT_EQ(plan.splits.size(), 1u);
  ASSERT_EQ(plan.parts.size(), 2u);
  EXPECT_LE(plan.parts[0].bytes, 12 * kMiB);
  EXPECT_EQ(plan.left_over, 0u);
}

TEST(RecoveryPlan, WithoutMastersThereIsNoPart) {
  const RecoveryPlan plan = plan_recovery(input_of({{1, 0, kLast}}, 80 * kMiB, 0), {});
  EXPECT_TRUE(plan.parts.empty());
  EXPECT_TRUE(plan.splits.empty());
  EXPECT_EQ(plan.left_over, 1u);
}

// ---- whatever is asked for ------------------------------------------------------------------------

struct Asked {
  PlanInput input;
  PlanLimits limits;
};

Asked random_case(Random& random) {
  Asked asked;
  const uint64_t tables = 1 + random.below(4);
  for (uint64_t table = 1; table <= tables; ++table) {
    std::set<uint64_t> begins{0};
    const uint64_t cuts = random.below(6);
    for (uint64_t i = 0; i < cuts; ++i) {
      // Narrow tablets, too.
      begins.insert(random.below(2) == 0 ? random.next() : 1 + random.below(5));
    }
    for (auto at = begins.begin(); at != begins.end(); ++at) {
      const auto next = std::next(at);
      const uint64_t last = next == begins.end() ? kLast : *next - 1;
      if (random.below(4) != 0) asked.input.tablets.push_back({table, *at, last});
    }
  }
  if (asked.input.tablets.empty()) asked.input.tablets.push_back({1, 0, kLast});
  asked.input.bytes = random.below(3) == 0 ? random.below(kMiB) : random.below(8000 * kMiB);
  asked.input.entries = random.below(2) * random.below(40'000'000);
  const uint64_t masters = random.below(12);
  for (uint64_t id = 1; id <= masters; ++id) {
    asked.input.masters.push_back({id, random.below(4) == 0 ? 0 : random.below(4000 * kMiB)});
    if (random.below(5) == 0) asked.input.masters.back().most_bytes = random.below(300 * kMiB);
  }
  if (random.below(3) == 0) asked.limits.part_tablets = 1 + random.below(3);
  if (random.below(5) == 0) asked.limits.splits = random.below(4);
  if (random.below(5) == 0) asked.limits.splits_for_speed = random.below(4);
  asked.input.first_part = random.below(2) == 0;
  return asked;
}

/// Every hash of a lost tablet is in one piece; the pieces are the tablets after the splits.
void check_pieces(const Asked& asked, const RecoveryPlan& plan) {
  std::set<std::pair<uint64_t, uint64_t>> begins;
  for (const LostRange& tablet : asked.input.tablets)
    begins.insert({tablet.table_id, tablet.start_hash});
  for (const auto& [table_id, at] : plan.splits) {
    const bool inside = std::ranges::any_of(asked.input.tablets, [&](const LostRange& tablet) {
      return tablet.table_id == table_id && tablet.start_hash < at && at <= tablet.end_hash;
    });
    EXPECT_TRUE(inside) << "a split outside of what was lost";
    EXPECT_TRUE(begins.insert({table_id, at}).second) << "split twice";
  }
  std::set<std::pair<uint64_t, uint64_t>> given;
  for (const PlannedPart& part : plan.parts) {
    for (const LostRange& range : part.ranges) {
      ASSERT_TRUE(begins.contains({range.table_id, range.start_hash}));
      EXPECT_TRUE(given.insert({range.table_id, range.start_hash}).second) << "given twice";
      const auto next = begins.upper_bound({range.table_id, range.start_hash});
      const bool followed = next != begins.end() && next->first == range.table_id;
      if (followed) EXPECT_LT(range.end_hash, next->second);
      const auto tablet = std::ranges::find_if(asked.input.tablets, [&](const LostRange& t) {
        return t.table_id == range.table_id && t.start_hash <= range.start_hash &&
               range.end_hash <= t.end_hash;
      });
      ASSERT_NE(tablet, asked.input.tablets.end());
      const bool to_the_end =
          range.end_hash == tablet->end_hash || (followed && range.end_hash == next->second - 1);
      EXPECT_TRUE(to_the_end) << "a hash is in no piece";
    }
  }
  EXPECT_EQ(given.size() + plan.left_over + plan.held_back, begins.size());
}

void check_limits(const Asked& asked, const RecoveryPlan& plan) {
  std::set<uint64_t> servers;
  for (const PlannedPart& part : plan.parts) {
    EXPECT_TRUE(servers.insert(part.server_id).second) << "two parts for one server";
    EXPECT_FALSE(part.ranges.empty());
    EXPECT_LE(part.ranges.size(), asked.limits.part_tablets);
    if (part.ranges.size() == 1) continue;
    EXPECT_LE(part.bytes, asked.limits.part_bytes);
    const auto master =
        std::ranges::find(asked.input.masters, part.server_id, &RecoveryMaster::server_id);
    EXPECT_LE(part.bytes, master->most_bytes);
  }
  EXPECT_LE(plan.splits.size(), asked.limits.splits);
  EXPECT_EQ(std::ranges::count(plan.parts, true, &PlannedPart::first), plan.held_back > 0 ? 1 : 0);
  EXPECT_EQ(plan.parts.empty(), asked.input.masters.empty());
}

TEST(RecoveryPlanProperty, EveryHashIsInOnePartOrLeftOverAndPartsAreBounded) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Asked asked = random_case(random);
    const RecoveryPlan plan = plan_recovery(asked.input, asked.limits);
    check_pieces(asked, plan);
    check_limits(asked, plan);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace ramcloud
