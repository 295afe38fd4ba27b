#include "cli/bench/bench_slo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace ramcloud::cli {
namespace {

using testing::HasSubstr;

TEST(SloTest, IsAPercentileAndABound) {
  const auto slo = parse_slo("p99.9=1ms");
  ASSERT_TRUE(slo.has_value()) << slo.error().to_string();
  EXPECT_EQ(slo->name, "p99.9");
  EXPECT_DOUBLE_EQ(slo->quantile, 0.999);
  EXPECT_EQ(slo->bound, 1ms);
  EXPECT_EQ(parse_slo("p50=250us")->bound, 250us);
  for (const char* wrong : {"", "p99.9", "99.9=1ms", "p=1ms", "p0=1ms", "p100=1ms", "pnan=1ms",
                            "p99.9x=1ms", "p99.9=", "p99.9=1", "p99.9=0ms", "p99=-1ms", "=1ms"}) {
    const auto refused = parse_slo(wrong);
    ASSERT_FALSE(refused.has_value()) << wrong;
    EXPECT_THAT(refused.error().message(), HasSubstr("p99.9=1ms")) << wrong;
  }
}

struct Outcome {
  uint64_t rate = 0;
  int trials = 0;
};

Outcome search(uint64_t first, const std::function<bool(uint64_t, int)>& keeps) {
  RateSearch search(first);
  Outcome outcome;
  while (search.next() > 0 && outcome.trials < 1000) {
    search.tried(keeps(search.next(), outcome.trials++));
  }
  outcome.rate = search.result();
  return outcome;
}

TEST(RateSearchTest, FindsTheHighestRateFromBothSides) {
  for (const uint64_t capacity : {uint64_t{1}, uint64_t{2}, uint64_t{7}, uint64_t{999},
                                  uint64_t{1000}, uint64_t{84'321}, uint64_t{3'000'000}}) {
    for (const uint64_t first : {uint64_t{1}, uint64_t{1000}, uint64_t{5'000'000}}) {
      const auto found = search(first, [&](uint64_t rate, int) { return rate <= capacity; });
      EXPECT_LE(found.rate, capacity);
      EXPECT_GE(static_cast<double>(found.rate) * RateSearch::kPrecision + 1,
                static_cast<double>(capacity));
      EXPECT_LT(found.trials, 45) << capacity << " from " << first;
    }
  }
}

TEST(RateSearchTest, EndsWhereNothingOrEverythingIsKept) {
  EXPECT_EQ(search(1000, [](uint64_t, int) { return false; }).rate, 0u);
  EXPECT_EQ(search(1000, [](uint64_t, int) { return true; }).rate, RateSearch::kHighest);
}

TEST(RateSearchTest, ARateThatWasKeptByChanceIsNotTheResult) {
  // 8,000 is kept once, and then nothing above 5,000 is.
  const auto found = search(
      1000, [&](uint64_t rate, int trial) { return rate <= 5000 || (rate == 8000 && trial == 3); });
  EXPECT_LE(found.rate, 5000u);
  EXPECT_GE(found.rate, 4800u);
}

}  // namespace
}  // namespace ramcloud::cli
