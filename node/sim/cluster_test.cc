// Simulation of whole clusters: fixed seeds of the scenarios in which operations are random.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/logging.h"
#include "base/testing/sanitizer.h"
#include "sim/cluster.h"
#include "sim/expected.h"
#include "sim/scenario.h"

namespace ramcloud::sim {
namespace {

/// `count` seeds from `from` on, fewer with a sanitizer; SIM_SEEDS=FROM:COUNT chooses others.
std::pair<uint64_t, uint64_t> seeds(uint64_t from, uint64_t count) {
  count = testing::seeds(count);
  if (const char* text = std::getenv("SIM_SEEDS")) {
    char* end = nullptr;
    from = std::strtoull(text, &end, 10);
    if (*end == ':') count = std::strtoull(end + 1, nullptr, 10);
  }
  return {from, count};
}

class ClusterSim : public ::testing::Test {
 protected:
  ClusterSim() { set_log_level(std::getenv("SIM_LOG") ? LogLevel::kDebug : LogLevel::kError); }
};

TEST_F(ClusterSim, RandomOperationsMatchTheModelForAllSeeds) {
  const auto [from, count] = seeds(1, 100);
  uint64_t lost = 0, indeterminate = 0, events = 0, sent_by_others = 0, taken_by_others = 0;
  for (uint64_t seed = from; seed < from + count; ++seed) {
    const Outcome outcome = run_operations({.seed = seed});
    ASSERT_EQ(outcome.wrong, "") << "replay with SIM_SEEDS=" << seed << ":1";
    lost += outcome.lost;
    sent_by_others += outcome.sent_by_others;
    taken_by_others += outcome.taken_by_others;
    indeterminate += outcome.indeterminate;
    events += outcome.events;
  }
  std::printf("%llu seeds, %llu events, %llu messages lost, %llu outcomes unknown\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(events),
              static_cast<unsigned long long>(lost),
              static_cast<unsigned long long>(indeterminate));
  if (count >= 100) {
    // The interesting cases were reached.
    EXPECT_GT(lost, 100u);
    EXPECT_GT(indeterminate, 10u);
    EXPECT_GT(sent_by_others, 1'000u);
    EXPECT_GT(taken_by_others, 1'000u);
    EXPECT_EQ(never_reached(Run::kSeeds), "");
  }
}

TEST_F(ClusterSim, CoordinatorRestartsLoseNothing) {
  const auto [from, count] = seeds(1000, 20);
  for (uint64_t seed = from; seed < from + count; ++seed) {
    ASSERT_EQ(run_restarts({.seed = seed}).wrong, "") << "replay with SIM_SEEDS=" << seed << ":1";
  }
  if (count >= 20) EXPECT_EQ(never_reached(Run::kRestarts), "");
}

TEST_F(ClusterSim, BackupsComeAndGo) {
  const auto [from, count] = seeds(3000, 20);
  for (uint64_t seed = from; seed < from + count; ++seed) {
    ASSERT_EQ(run_backups({.seed = seed}).wrong, "") << "replay with SIM_SEEDS=" << seed << ":1";
  }
  if (count >= 20) EXPECT_EQ(never_reached(Run::kBackups), "");
}

TEST_F(ClusterSim, AServerThatWasGivenUpWhileCutOffFindsOut) {
  ClusterOptions options;
  options.seed = 11;
  options.replicas = 0;  // so no backup reports the verdict to it either
  Cluster cluster(options);
  ASSERT_TRUE(cluster.wait_ready());
  SimNode& lost = cluster.server_sim_node(2);
  cluster.network().partition(cluster.coordinator_sim_node(0), lost);
  // Cut off from its peers, too: a peer that reached it would vouch for it.
  for (size_t i = 0; i < cluster.servers(); ++i) {
    if (i != 2) cluster.network().partition(cluster.server_sim_node(i), lost);
  }
  const auto given_up = [&] { return cluster.coordinator()->status().servers_crashed == 1; };
  ASSERT_TRUE(cluster.scheduler().run_until(given_up, 120s));
  EXPECT_EQ(cluster.failures(), "") << "it cannot know yet";
  cluster.network().heal_all();
  ASSERT_TRUE(cluster.scheduler().run_until([&] { return !cluster.failures().empty(); }, 120s));
  EXPECT_NE(cluster.failures().find("CRASHED"), std::string::npos) << cluster.failures();
}

/// Raw messages, as any process on the network can send them.
TEST_F(ClusterSim, MadeUpTermsStopNobody) {
  ClusterOptions options;
  options.seed = 13;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.wait_ready());
  SimNode& node = cluster.client_node(0);
  const auto transport = cluster.network().make_transport(node);
  RpcClient raw(node.reactor(), *transport);
  std::vector<Locator> all = {{"sim", {"coordinator-1", 11100}}};
  for (const auto& [id, server] : cluster.coordinator()->state().servers) {
    all.push_back(*parse_locator(server.record.locator));
  }
  const auto refused = [&](const Locator& to, wire::Opcode opcode, auto message) {
    const auto reply =
        cluster.run(0, raw.call<wire::Empty>(to, 0, opcode, message, node.reactor().now() + 5s));
    return !reply.has_value();
  };
  const uint64_t term = cluster.coordinator()->state().term;
  for (const uint64_t bad : {(uint64_t{1} << 62) - 1, ~uint64_t{0}}) {
    for (const Locator& to : all) {
      EXPECT_TRUE(refused(to, wire::Opcode::kUpdateServerList, wire::ServerList{bad, 1, {}, 0}));
      EXPECT_TRUE(refused(to, wire::Opcode::kGetServerStats, wire::GetServerStatsRequest{bad, 1}));
      EXPECT_TRUE(refused(to, wire::Opcode::kTakeTablet,
                          wire::TakeTabletRequest{term, bad, 1, 0, ~uint64_t{0}}));
      EXPECT_TRUE(refused(to, wire::Opcode::kDropTablet, wire::DropTabletRequest{bad, bad, 1}));
    }
    cluster.scheduler().run_for(3s);  // some rounds of probes
    const auto made =
        cluster.run(0, cluster.client(0).create_table(fmt::format("after {}", bad),
                                                      static_cast<uint32_t>(cluster.servers())));
    ASSERT_TRUE(made.has_value()) << made.error().to_string();
    ASSERT_TRUE(cluster.run(0, cluster.client(0).write(made->table_id, "k", "v")).has_value());
  }
  EXPECT_EQ(cluster.coordinator()->state().term, term) << "nobody was elected";
  EXPECT_EQ(cluster.coordinator()->status().servers_up, cluster.servers());
  EXPECT_EQ(cluster.failures(), "");
}

TEST_F(ClusterSim, SameSeedSameEvents) {
  for (const auto run : {run_restarts, run_backups, run_faults}) {
    // Sanitizers are not needed to check that events repeat.
    for (uint64_t seed = 7; seed <= (testing::kSanitized ? 7u : 8u); ++seed) {
      const Outcome first = run({.seed = seed}), again = run({.seed = seed});
      EXPECT_EQ(first.event_hash, again.event_hash);
      EXPECT_EQ(first.events, again.events);
      EXPECT_NE(first.event_hash, run({.seed = seed + 100}).event_hash);
    }
  }
}

TEST_F(ClusterSim, LookingChangesNothing) {
  constexpr uint32_t kNever = ~uint32_t{0};
  const Outcome seen = run_backups({.seed = 7}),
                unseen = run_backups({.seed = 7, .steps_between_looks = kNever});
  EXPECT_EQ(seen.event_hash, unseen.event_hash);
  EXPECT_EQ(seen.events, unseen.events);
}

}  // namespace
}  // namespace ramcloud::sim
