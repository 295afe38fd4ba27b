// Fixed seeds of the scenarios with faults of every kind, and every failpoint.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/testing/sanitizer.h"
#include "sim/failpoints_scenario.h"
#include "sim/scenario.h"

namespace ramcloud::sim {
namespace {

class FaultsSim : public ::testing::Test {
 protected:
  FaultsSim() { set_log_level(std::getenv("SIM_LOG") ? LogLevel::kDebug : LogLevel::kError); }

  /// Runs seeds, which must all succeed. Returns the number of effective faults by kind.
  std::map<std::string, uint64_t> run_all(const char* scenario, uint64_t from, uint64_t count) {
    std::map<std::string, uint64_t> faults;
    for (uint64_t seed = from; seed < from + count; ++seed) {
      const Outcome outcome = find_scenario(scenario)->run({.seed = seed});
      EXPECT_EQ(outcome.wrong, "")
          << "replay with build/bin/ramcloud-sim --scenario " << scenario << " --seeds " << seed;
      if (!outcome.wrong.empty()) break;
      for (const auto& [kind, times] : outcome.faults) faults[kind] += times;
    }
    return faults;
  }
};

TEST_F(FaultsSim, PlansOfFaultsLoseNothing) {
  const uint64_t count = testing::seeds(20);
  const auto faults = run_all("faults", 5000, count);
  for (const auto& [kind, times] : faults)
    std::printf("%12llu  %s\n", static_cast<unsigned long long>(times), kind.c_str());
  if (count < 20) return;
  for (const char* kind : {"message_cut", "message_cut_one_way", "message_slow", "call_repeated",
                           "session_broken", "process_killed", "host_rebooted", "process_paused",
                           "disk_slow", "sync_failed", "clock_rate", "clock_jumped"}) {
    EXPECT_TRUE(faults.contains(kind)) << kind << " never changed anything";
  }
}

TEST_F(FaultsSim, ADeviceThatDoesNotKeepWhatItWasGivenLosesNothing) {
  const uint64_t count = testing::seeds(20);
  const auto faults = run_all("rot", 6000, count);
  if (count < 20) return;
  for (const char* kind : {"write_lost", "write_misdirected", "sync_failed", "disk_damaged"}) {
    EXPECT_TRUE(faults.contains(kind)) << kind << " never changed anything";
  }
}

TEST_F(FaultsSim, WhatDeadServersHadIsServedByOthers) {
  const uint64_t count = testing::seeds(20);
  const auto faults = run_all("recovery", 8000, count);
  if (count < 20) return;
  for (const char* kind : {"process_killed", "host_rebooted", "process_paused", "message_cut"}) {
    EXPECT_TRUE(faults.contains(kind)) << kind << " never changed anything";
  }
}

/// With a sanitizer, which takes six times as long: one of three.
TEST_F(FaultsSim, EveryFailpointIsReachedAndSurvived) {
  for (size_t i = 0; i < kFailpointCount; i += testing::kSanitized ? 3 : 1) {
    const Outcome outcome = run_failpoint(i, {.seed = 7000 + i});
    EXPECT_EQ(outcome.wrong, "") << kFailpoints[i].name;
    EXPECT_GT(outcome.strikes, 0u) << kFailpoints[i].name << " was never passed";
  }
}

}  // namespace
}  // namespace ramcloud::sim
