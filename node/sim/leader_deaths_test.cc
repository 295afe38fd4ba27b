// Leaders that die in a recovery (docs/design/recovery.md, "Recovery of one server"), at each place that
// a coordinator passes in it.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/failpoint.h"
#include "base/testing/sanitizer.h"
#include "sim/testing/recovery_cluster.h"

namespace ramcloud::sim {
namespace {

class LeaderDeathsSim : public DurabilityTest {
 protected:
  /// A server with data dies. The leader dies at the failpoint passage with this number, counted
  /// from 1; 0: it does not die. Another one starts soon.
  void recover(size_t deadly) {
    passages_.clear();
    attempts_ = 0;
    start({.seed = 1, .servers = 4}, 1);
    fill("t", 0, 40, 2'000);
    remove("t", 0, 5);
    cluster().set_failpoint_probe([this, deadly](size_t number, const Cluster::Role& role) {
      if (!role.coordinator) return;
      const std::string_view place = kFailpoints[number].name;
      if (place == "coordinator.recovery.attempt_recorded") ++attempts_;
      passages_.push_back(place);
      if (passages_.size() != deadly) return;
      cluster().die_here(role);
      cluster().scheduler().after(500ms, [this] { cluster().restart_coordinator(); });
    });
    kill(owner("t"));
    ASSERT_TRUE(until_served()) << waits_for();
    expect_filled("t", 5, 35);
    expect_absent("t", 0, 5);
    EXPECT_EQ(verdicts(), 1u);
    expect_sound();
  }

  static Task<void> read_key(ClientCore& client, uint64_t table_id, std::string key,
                             std::shared_ptr<bool> answered) {
    const auto found = co_await client.read(table_id, key);
    *answered = found.has_value();
  }

  std::vector<std::string_view> passages_;  // of places, by coordinators
  uint32_t attempts_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Durability, LeaderDeathsSim, durabilities(), durability);

/// The coordinators live, but cannot reach a majority of etcd. Heads roll meanwhile. In the end
/// nobody dies, or the owner, or a holder of its head. Then reads and writes wait until a coordinator
/// leads: for the recovery, or for the fence.
TEST_P(LeaderDeathsSim, MinutesWithoutALeaderLoseNothing) {
  constexpr uint32_t kSeconds = 120;
  for (const uint64_t seed : seeds(3)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .coordinators = 3, .servers = 5}, 1);
    fill("t", 0, 20, 1'000);
    const uint64_t master = owner("t");
    const uint64_t head = head_of(master);
    const auto cut_off = [&](bool cut) {
      for (size_t i = 0; i < 3; ++i) cluster().metadata(i).set_cut_off(cut);
    };
    cut_off(true);
    ASSERT_TRUE(until([&] { return cluster().coordinator() == nullptr; }, 30s));
    for (uint32_t second = 0; second < kSeconds; ++second) {
      const Time before = cluster().scheduler().now();
      fill("t", 20 + second, 1, 200'000);
      expect_filled("t", 20 + second, 1);
      expect_filled("t", second % 20, 1);
      EXPECT_LE(cluster().scheduler().now() - before, 500ms) << "reads or writes wait";
      cluster().scheduler().run_for(1s);
      ASSERT_EQ(cluster().coordinator(), nullptr);
    }
    EXPECT_GE(head_of(master), head + 2);
    const bool dies = seed % 3 != 1;
    const auto answered = std::make_shared<bool>(false);
    if (dies) {
      kill(seed % 3 == 2 ? master : holders_of_head(master).at(0));
      cluster().scheduler().run_for(1s);
      begin_writers("t", 3, 1'000);
      cluster().spawn(1, read_key(cluster().client(1), id("t"), key(0), answered));
      cluster().scheduler().run_for(60s);
      EXPECT_EQ(acknowledged_writes(), 0u) << "nobody has recorded the loss";
      EXPECT_FALSE(*answered) << "without a lease";
    }
    cut_off(false);
    ASSERT_TRUE(until([&] { return cluster().coordinator() != nullptr; }, 60s));
    ASSERT_TRUE(until_served()) << waits_for();
    if (dies) {
      EXPECT_TRUE(until([&] { return *answered && acknowledged_writes() > 10; }, 60s));
      for (const auto& [name, at] : stop_writers()) {
        ASSERT_TRUE(cluster().run(0, client().read(id("t"), name)).has_value()) << name;
      }
    }
    fill("t", 20 + kSeconds, 20, 1'000);
    expect_filled("t", 0, 40 + kSeconds);
    cluster().scheduler().run_for(20s);
    EXPECT_EQ(verdicts(), dies ? 1u : 0u);
    expect_sound();
  }
}

TEST_P(LeaderDeathsSim, AtEachPlaceOfARecoveryCostOneAttemptAtMost) {
  recover(0);
  ASSERT_EQ(attempts_, 1u);
  const std::vector<std::string_view> places = passages_;
  const std::set<std::string_view> names(places.begin(), places.end());
  ASSERT_GE(places.size(), 20u);
  for (const char* name :
       {"coordinator.crash.recorded", "coordinator.commit.before", "coordinator.recovery.log_found",
        "coordinator.recovery.handed_over", "coordinator.recovery.attempt_continued"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  const size_t step = testing::kSanitized ? 7 : 1;
  for (size_t deadly = 1; deadly <= places.size(); deadly += step) {
    SCOPED_TRACE(fmt::format("passage {}: {}", deadly, places[deadly - 1]));
    recover(deadly);
    ASSERT_GE(passages_.size(), deadly);
    ASSERT_EQ(passages_[deadly - 1], places[deadly - 1]);
    ASSERT_LE(attempts_, 2u);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ramcloud::sim
