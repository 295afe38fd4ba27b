// Simulated failovers at every place, with fixed seeds. Histories are checked for linearizability
// by e2e/local when RAMCLOUD_HISTORY_DIR names a folder for them.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/logging.h"
#include "sim/expected.h"
#include "sim/failover_scenario.h"
#include "sim/testing/durability.h"

namespace ramcloud::sim {
namespace {

void keep(const Outcome& outcome, size_t number, uint64_t seed) {
  const char* folder = std::getenv("RAMCLOUD_HISTORY_DIR");
  if (folder == nullptr) return;
  std::ofstream file(fmt::format("{}/failover-{:02}-{}.jsonl", folder, number, seed));
  file << outcome.history;
  ASSERT_TRUE(file.good()) << folder;
}

/// The parameter says whether replicas are `synced`.
class FailoverSim : public ::testing::TestWithParam<bool> {
 protected:
  FailoverSim() { set_log_level(std::getenv("SIM_LOG") ? LogLevel::kDebug : LogLevel::kError); }
  static bool synced() { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Durability, FailoverSim, ::testing::Bool(), durability);

/// SIM_FAILPOINT=N runs only this one.
bool wanted(size_t number) {
  const char* text = std::getenv("SIM_FAILPOINT");
  return text == nullptr || std::strtoull(text, nullptr, 10) == number;
}

TEST_P(FailoverSim, AnotherGoesOnWhereverTheLeaderDies) {
  uint64_t refused = 0;
  for (size_t i = 0; i < failover_places(); ++i) {
    if (!wanted(i)) continue;
    const uint64_t seed = (synced() ? 600 : 500) + i;
    const Outcome outcome = run_failover_at(i, {.seed = seed}, synced());
    ASSERT_EQ(outcome.wrong, "") << failover_place(i) << ", SIM_FAILPOINT=" << i;
    EXPECT_GT(outcome.strikes, 0u) << failover_place(i) << " was never reached";
    EXPECT_GT(outcome.history.size(), 1000u);
    refused += outcome.refused;
    keep(outcome, i, seed);
  }
  if (std::getenv("SIM_FAILPOINT") != nullptr) return;
  EXPECT_GT(refused, 0u) << "no former leader tried to change anything";
  EXPECT_EQ(never_reached(Run::kFailover), "");
}

TEST_P(FailoverSim, SameSeedSameEvents) {
  for (const size_t i : {size_t{3}, size_t{17}}) {
    const Outcome first = run_failover_at(i, {.seed = 77}, synced()),
                  again = run_failover_at(i, {.seed = 77}, synced());
    EXPECT_EQ(first.event_hash, again.event_hash);
    EXPECT_EQ(first.history, again.history);
    EXPECT_NE(first.event_hash, run_failover_at(i, {.seed = 78}, synced()).event_hash);
  }
}

}  // namespace
}  // namespace ramcloud::sim
