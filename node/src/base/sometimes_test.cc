#include "base/sometimes.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ramcloud {
namespace {

void pass(bool by_the_rare_way) {
  if (by_the_rare_way) RC_SOMETIMES("test.rare");
  RC_SOMETIMES("test.common");
}

TEST(Sometimes, CountsWhatWasReachedAndKnowsNothingOfTheRest) {
  for (int i = 0; i < 3; ++i) pass(false);
  auto counts = sometimes_counts();
  EXPECT_EQ(counts.at("test.common"), 3u);
  EXPECT_FALSE(counts.contains("test.rare"));
  pass(true);
  counts = sometimes_counts();
  EXPECT_EQ(counts.at("test.common"), 4u);
  EXPECT_EQ(counts.at("test.rare"), 1u);
}

TEST(Sometimes, ThreadsMeetAtAPointForTheFirstTime) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int n = 0; n < 1000; ++n) {
        RC_SOMETIMES("test.one");
        RC_SOMETIMES("test.two");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sometimes_counts().at("test.one"), 4000u);
  EXPECT_EQ(sometimes_counts().at("test.two"), 4000u);
}

}  // namespace
}  // namespace ramcloud
