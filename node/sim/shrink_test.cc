#include "sim/shrink.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ramcloud::sim {
namespace {

Outcome of_plan(uint32_t faults) {
  Outcome outcome;
  outcome.wrong = "something";
  outcome.clients = 4;
  outcome.operations_of_each = 100;
  for (uint32_t i = 0; i < faults; ++i) outcome.plan[i] = "a fault";
  return outcome;
}

TEST(Shrink, LeavesWhatTheFailureNeeds) {
  const auto needs = [](const ScenarioConfig& c) {
    const auto has = [&](uint32_t number) {
      return !c.faults || std::ranges::count(*c.faults, number) > 0;
    };
    return has(2) && has(5) && c.clients.value_or(4) >= 2 && c.operations.value_or(100) >= 37;
  };
  const ScenarioConfig smaller = shrink({.seed = 9}, of_plan(8), needs);
  EXPECT_EQ(smaller.seed, 9u);
  EXPECT_EQ(smaller.faults, (std::vector<uint32_t>{2, 5}));
  EXPECT_EQ(smaller.clients, 2u);
  EXPECT_GE(smaller.operations, 37u);
  EXPECT_LE(smaller.operations, 49u) << "within a quarter";
  EXPECT_TRUE(needs(smaller));
}

TEST(Shrink, AFailureThatNeedsNoFaultHasNone) {
  const auto always = [](const ScenarioConfig&) { return true; };
  const ScenarioConfig smaller = shrink({}, of_plan(8), always);
  EXPECT_EQ(smaller.faults, std::vector<uint32_t>{});
  EXPECT_EQ(smaller.clients, 1u);
  EXPECT_EQ(smaller.operations, 1u);
}

TEST(Shrink, EndsAfterSoManyRuns) {
  uint32_t runs = 0;
  const auto count = [&](const ScenarioConfig&) { return ++runs % 2 == 0; };
  (void)shrink({}, of_plan(50), count, 10);
  EXPECT_EQ(runs, 10u);
}

}  // namespace
}  // namespace ramcloud::sim
