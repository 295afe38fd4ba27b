#include "log/cleaning_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "log/format.h"

namespace ramcloud::log {
namespace {

using testing::ElementsAre;

constexpr CleaningTime kNow{.segment_id = 1'000'000, .unix_s = 1'800'000'000};
constexpr uint32_t kMiB = 1 << 20;

/// `age` counts segments, and seconds of the average object.
CleaningFigures figures(double utilisation, uint32_t age, uint32_t youngest_age = 0) {
  return {.memory_bytes = kSegmentBytes,
          .live_bytes = static_cast<uint32_t>(utilisation * kSegmentBytes),
          .segment_id = kNow.segment_id - age,
          .average_s = kNow.unix_s - age,
          .youngest_s = kNow.unix_s - youngest_age};
}

std::vector<uint32_t> take(CleaningOrder& order, uint32_t count, uint64_t live = ~uint64_t{0}) {
  std::vector<uint32_t> segments;
  for (const auto& chosen :
       order.take(kNow, {.memory_bytes = uint64_t{count} * kSegmentBytes, .live_bytes = live})) {
    segments.push_back(chosen.segment);
  }
  return segments;
}

TEST(CleaningScore, IsWhatTheFormulasSay) {
  const CleaningFigures half = figures(0.5, 99, 9);
  CleaningFigures copied = half;  // a survivor: its objects are older than the segment
  copied.segment_id = kNow.segment_id - 19;
  EXPECT_DOUBLE_EQ(cleaning_score(CleaningPolicy::kCostBenefit, copied, kNow), 0.5 * 20 / 0.5);
  EXPECT_DOUBLE_EQ(cleaning_score(CleaningPolicy::kObjectAge, copied, kNow), 0.5 * 100 / 0.5);
  EXPECT_DOUBLE_EQ(cleaning_score(CleaningPolicy::kLfs, half, kNow), 0.5 * 10 / 1.5);
  EXPECT_DOUBLE_EQ(cleaning_score(CleaningPolicy::kGreedy, half, kNow), 0.5);
  const CleaningFigures quarter = figures(0.25, 99);
  EXPECT_DOUBLE_EQ(cleaning_score(CleaningPolicy::kCostBenefit, quarter, kNow), 300);
}

TEST(CleaningScore, TheFutureIsNew) {
  CleaningFigures future = figures(0.5, 0);
  future.segment_id = kNow.segment_id + 1000;
  future.average_s = kNow.unix_s + 1000;
  EXPECT_DOUBLE_EQ(cleaning_score(CleaningPolicy::kObjectAge, future, kNow), 1);
  EXPECT_DOUBLE_EQ(cleaning_score(CleaningPolicy::kCostBenefit, future, kNow), 1);
}

TEST(CleaningOrder, ColdSegmentsAreCleanedAtHigherUtilisation) {
  CleaningOrder order(CleaningPolicy::kCostBenefit, 4);
  order.set(0, figures(0.5, 10));
  order.set(1, figures(0.8, 1000));
  order.set(2, figures(0.8, 900));
  EXPECT_THAT(take(order, 4), ElementsAre(1, 2, 0));
  CleaningOrder greedy(CleaningPolicy::kGreedy, 4);
  greedy.set(0, figures(0.5, 10));
  greedy.set(1, figures(0.8, 1000));
  EXPECT_THAT(take(greedy, 4), ElementsAre(0, 1));
}

TEST(CleaningOrder, LfsLooksAtTheYoungest) {
  CleaningOrder order(CleaningPolicy::kLfs, 4);
  order.set(0, figures(0.5, 1000, 1));
  order.set(1, figures(0.5, 500, 400));
  EXPECT_THAT(take(order, 4), ElementsAre(1, 0));
}

TEST(CleaningOrder, ASegmentThatWinsLessThanTwoPercentIsNotChosen) {
  CleaningOrder order(CleaningPolicy::kCostBenefit, 4);
  order.set(0, figures(0.981, 1'000'000));
  EXPECT_EQ(order.best(kNow), std::nullopt);
  EXPECT_EQ(order.gain_bytes(), 0u);
  order.set(1, figures(0.979, 1));
  EXPECT_THAT(take(order, 4), ElementsAre(1));
  EXPECT_EQ(order.segments(), 1u);
  // A short segment is measured by the memory that it takes.
  order.set(2, {.memory_bytes = kMiB, .live_bytes = kMiB - 100});
  EXPECT_EQ(order.best(kNow), std::nullopt);
}

TEST(CleaningOrder, APassTakesNoMoreThanItsSurvivorsHaveRoomFor) {
  CleaningOrder order(CleaningPolicy::kGreedy, 8);
  for (uint32_t i = 0; i < 4; ++i) order.set(i, figures(0.5 + 0.01 * i, 1));
  EXPECT_THAT(take(order, 8, 9 * kMiB), ElementsAre(0, 1));
  EXPECT_THAT(take(order, 8, 1), ElementsAre(2));  // one always fits
  EXPECT_THAT(take(order, 8), ElementsAre(3));
}

/// Heads that were closed empty cost a pass nothing, so they do not end the choice.
TEST(CleaningOrder, APassTakesSmallSegmentsAlong) {
  CleaningOrder order(CleaningPolicy::kCostBenefit, 100);
  for (uint32_t i = 0; i < 20; ++i) {
    order.set(i, {.memory_bytes = kSegletBytes, .live_bytes = 0});
  }
  order.set(20, figures(0.5, 10));
  EXPECT_EQ(take(order, 1).size(), 21u);
}

TEST(CleaningOrder, FiguresOfASegmentAreReplaced) {
  CleaningOrder order(CleaningPolicy::kCostBenefit, 4);
  order.set(1, figures(0.9, 10));
  order.set(2, figures(0.8, 10));
  EXPECT_EQ(order.best(kNow)->segment, 2u);
  order.set(1, figures(0.1, 10));
  EXPECT_EQ(order.best(kNow)->segment, 1u);
  order.erase(1);
  order.erase(1);
  EXPECT_EQ(order.best(kNow)->segment, 2u);
  EXPECT_EQ(order.segments(), 1u);
  EXPECT_EQ(order.memory_bytes(), kSegmentBytes);
}

/// The best score, by a search through all segments.
double naive(const std::map<uint32_t, CleaningFigures>& all, CleaningPolicy policy,
             const CleaningTime& now) {
  double best = -1;
  for (const auto& [segment, f] : all) {
    if (f.worth_cleaning()) best = std::max(best, cleaning_score(policy, f, now));
  }
  return best;
}

/// How much scores of one class may differ: the effect of one step of utilisation.
double tolerance(const CleaningFigures& chosen) {
  const double low = std::max(std::floor(chosen.utilisation() * 256), 0.5) / 256;
  const double high = std::min(std::floor(chosen.utilisation() * 256 + 1) / 256, 0.9801);
  return ((1 - low) / low) / ((1 - high) / high);
}

class CleaningOrderProperty : public testing::TestWithParam<CleaningPolicy> {};

TEST_P(CleaningOrderProperty, TheChoiceIsAsGoodAsTheNaiveOneWithinAStep) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Random random(seed);
    CleaningOrder order(GetParam(), 300);
    std::map<uint32_t, CleaningFigures> model;
    CleaningTime now = kNow;
    for (int step = 0; step < 2'000; ++step) {
      const auto segment = static_cast<uint32_t>(random.below(300));
      now.unix_s += static_cast<uint32_t>(random.below(3));
      now.segment_id += random.below(3);
      if (random.chance(0.1)) {
        order.erase(segment);
        model.erase(segment);
      } else {
        CleaningFigures f;
        f.memory_bytes = kSegletBytes * static_cast<uint32_t>(1 + random.below(128));
        f.live_bytes = static_cast<uint32_t>(random.below(f.memory_bytes + 1));
        f.segment_id = now.segment_id - random.below(10'000);
        f.average_s = now.unix_s - static_cast<uint32_t>(random.below(10'000));
        f.youngest_s = now.unix_s - static_cast<uint32_t>(random.below(1'000));
        order.set(segment, f);
        model[segment] = f;
      }
      const auto best = order.best(now);
      const double expected = naive(model, GetParam(), now);
      ASSERT_EQ(best.has_value(), expected >= 0) << "seed " << seed;
      if (!best) continue;
      ASSERT_EQ(best->figures, model[best->segment]) << "seed " << seed;
      const double score = cleaning_score(GetParam(), best->figures, now);
      ASSERT_LE(expected / score, tolerance(best->figures) * 1.001) << "seed " << seed;
    }
    uint64_t live = 0, memory = 0;
    for (const auto& [number, f] : model) {
      live += f.live_bytes;
      memory += f.memory_bytes;
    }
    EXPECT_EQ(order.live_bytes(), live);
    EXPECT_EQ(order.memory_bytes(), memory);
    EXPECT_EQ(order.segments(), model.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, CleaningOrderProperty,
                         testing::Values(CleaningPolicy::kCostBenefit, CleaningPolicy::kObjectAge,
                                         CleaningPolicy::kGreedy, CleaningPolicy::kLfs));

}  // namespace
}  // namespace ramcloud::log
