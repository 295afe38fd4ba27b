#include "workload/mix.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace ramcloud::workload {
namespace {

TEST(Workloads, SharesAddUpAndAreKept) {
  std::set<std::string_view> names;
  for (const Workload& workload : workloads()) {
    EXPECT_TRUE(names.insert(workload.name).second) << workload.name;
    EXPECT_DOUBLE_EQ(workload.shares[0].share + workload.shares[1].share, 1) << workload.name;
    Random random(7);
    std::map<Operation, int> seen;
    constexpr int kDraws = 100'000;
    for (int i = 0; i < kDraws; ++i) ++seen[workload.next(random)];
    for (const auto& [operation, share] : workload.shares) {
      if (share == 0) continue;
      EXPECT_NEAR(seen[operation] / double{kDraws}, share, 0.01) << workload.name;
    }
    EXPECT_EQ(seen.size(), workload.shares[1].share == 0 ? 1u : 2u) << workload.name;
  }
  for (const char* name : {"read", "write", "multiread", "multiwrite", "ycsb-a", "ycsb-b", "ycsb-c",
                           "ycsb-d", "ycsb-f"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

}  // namespace
}  // namespace ramcloud::workload
