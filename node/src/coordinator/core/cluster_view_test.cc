// How many more servers may fail, as the status shows it: against a model that tries every choice
// of servers that fail.
#include "coordinator/core/cluster_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"

namespace ramcloud {
namespace {

ServerEntry& add_server(ClusterState& state, uint32_t replicas, std::string domain = {}) {
  const uint64_t id = state.servers.size() + 1;
  ServerEntry& server = state.servers[id];
  server.record.id = id;
  server.record.replicas = replicas;
  server.record.failure_domain = std::move(domain);
  server.answered = true;
  server.stats.replicas_wanted = replicas;
  server.stats.log_bytes_total = 1000;
  return server;
}

ClusterState cluster_of(size_t servers, uint32_t replicas) {
  ClusterState state;
  for (size_t i = 0; i < servers; ++i) add_server(state, replicas);
  return state;
}

uint32_t survives(const ClusterState& state) {
  return cluster_status(state, "test").survives_servers;
}

TEST(SurvivesServers, AsManyAsThereAreReplicas) {
  EXPECT_EQ(survives(cluster_of(9, 1)), 1u);
  EXPECT_EQ(survives(cluster_of(9, 3)), 3u);
  EXPECT_EQ(survives(cluster_of(9, 0)), 0u);
  ClusterState state = cluster_of(9, 3);
  state.servers.at(4).record.replicas = 2;
  EXPECT_EQ(survives(state), 2u) << "the least over the masters";
  state.servers.at(5).stats.replicas_wanted = 1;
  EXPECT_EQ(survives(state), 1u) << "of what it was enlisted with and what it says";
}

TEST(SurvivesServers, HalfOfThemMustBeLeft) {
  EXPECT_EQ(survives(cluster_of(5, 3)), 2u);
  EXPECT_EQ(survives(cluster_of(1, 0)), 0u);
  EXPECT_EQ(survives(ClusterState{}), 0u);
}

TEST(SurvivesServers, ThoseThatAreLeftMustHaveTheMemory) {
  ClusterState state = cluster_of(9, 3);
  for (auto& [id, server] : state.servers) server.stats.log_bytes_used = 777;  // 6993 of 9000
  EXPECT_EQ(survives(state), 2u);
  state.servers.at(1).stats.log_bytes_total = 3000;
  state.servers.at(1).stats.log_bytes_used = 1777;
  EXPECT_EQ(survives(state), 1u) << "the largest is one of those that fail";
}

TEST(SurvivesServers, MemoryThatIsToGoDoesNotCount) {
  ClusterState state = cluster_of(9, 3);
  for (auto& [id, server] : state.servers) server.stats.log_bytes_used = 777;  // 6993 of 9000
  state.servers.at(1).stats.log_bytes_target = 800;
  EXPECT_EQ(survives(state), 1u) << "its log shrinks";
  state.servers.at(1).stats.log_bytes_target = 5000;
  EXPECT_EQ(survives(state), 2u) << "what it is to get is not there yet";
}

/// Nine full logs, mostly with dead objects.
TEST(SurvivesServers, WhatCleaningFreesIsNotNeeded) {
  ClusterState state = cluster_of(9, 3);
  for (auto& [id, server] : state.servers) {
    server.stats.log_bytes_used = 950;
    server.stats.log_bytes_live = 500;  // 4500 of 9000
  }
  EXPECT_EQ(survives(state), 0u) << "nothing cleans: all of it is needed";
  for (auto& [id, server] : state.servers) server.stats.cleaner = wire::CleanerState::kCombined;
  EXPECT_EQ(survives(state), 3u) << "six have room for 5400; R is 3";
  for (auto& [id, server] : state.servers) server.stats.log_bytes_live = 760;  // 6840
  EXPECT_EQ(survives(state), 1u) << "eight have room for 7200, seven for 6300";
}

/// A recovery master's replicas need as many other failure domains.
TEST(SurvivesServers, ThoseThatAreLeftMustHoldReplicasOfWhatTheyRecover) {
  EXPECT_EQ(survives(cluster_of(2, 1)), 0u) << "the one that is left has no backup";
  EXPECT_EQ(survives(cluster_of(3, 2)), 1u) << "one replica is the minimum";
  EXPECT_EQ(survives(cluster_of(4, 3)), 1u) << "two replicas are";
  ClusterState state;
  for (const char* zone : {"a", "a", "a", "b", "b", "b"}) add_server(state, 2, zone);
  EXPECT_EQ(survives(state), 2u) << "each zone has a third";
  state.servers.at(3).record.failure_domain = "b";
  state.servers.at(2).record.failure_domain = "b";
  EXPECT_EQ(survives(state), 0u) << "with server 1 its zone fails";
}

TEST(SurvivesServers, WhatIsNotKnownIsNone) {
  const ClusterState good = cluster_of(5, 2);
  ASSERT_EQ(survives(good), 2u);
  ClusterState state = good;
  state.servers.at(2).answered = false;
  EXPECT_EQ(survives(state), 0u) << "nobody has heard of its replicas yet";
  state = good;
  state.servers.at(2).stats.segments_under_replicated = 1;
  EXPECT_EQ(survives(state), 0u) << "it is not known how many replicas that segment has";
  state = good;
  state.recoveries[9];
  state.servers[9].record.state = wire::ServerState::kCrashed;
  EXPECT_EQ(survives(state), 0u);
  state = good;
  state.restate.emplace();
  EXPECT_EQ(survives(state), 0u);
  state = good;
  state.servers[9].record.id = 9;
  state.servers.at(9).record.state = wire::ServerState::kCrashed;
  EXPECT_EQ(survives(state), 2u) << "one that is done with counts for nothing";
}

/// True if everything is served again when just the servers in `failed` (bits) do.
bool is_served_without(const std::vector<ServerEntry>& up, uint32_t failed) {
  uint64_t used = 0, memory = 0;
  uint32_t wanted = 0;
  size_t left = 0;
  std::set<std::string> domains;
  for (size_t i = 0; i < up.size(); ++i) {
    const ServerEntry& server = up[i];
    used += server.stats.log_bytes_used;
    wanted = std::max(wanted, server.record.replicas);
    if ((failed >> i & 1) != 0) {
      // The other failed servers may be the only ones with its replicas.
      const auto others = static_cast<uint32_t>(std::popcount(failed)) - 1;
      if (std::min<uint64_t>(server.record.replicas, server.stats.replicas_wanted) <= others) {
        return false;
      }
      continue;
    }
    ++left;
    memory += server.stats.log_bytes_total;
    domains.insert(server.record.failure_domain.empty() ? std::to_string(server.record.id)
                                                        : "zone " + server.record.failure_domain);
  }
  const size_t backups = wanted == 0 ? 0 : std::max(1u, wanted - 1);
  return memory >= used && left * 2 >= up.size() && domains.size() >= backups + 1;
}

/// The largest number of servers of which any may fail.
uint32_t model(const std::vector<ServerEntry>& up) {
  uint32_t most = static_cast<uint32_t>(up.size());
  for (uint32_t failed = 1; failed < 1u << up.size(); ++failed) {
    const auto count = static_cast<uint32_t>(std::popcount(failed));
    if (count <= most && !is_served_without(up, failed)) most = count - 1;
  }
  return most;
}

TEST(SurvivesServers, IsWhatEveryChoiceOfServersBears) {
  std::vector<int> seen(5);
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Random random(seed);
    ClusterState state;
    const size_t servers = 1 + random.below(9);
    const uint64_t zones = random.below(6);  // 0: each server is one
    const uint32_t most_replicas = 1 + static_cast<uint32_t>(random.below(4));
    for (size_t i = 0; i < servers; ++i) {
      const auto less = static_cast<uint32_t>(random.below(8) == 0 ? 1 : 0);
      ServerEntry& server = add_server(state, most_replicas - less,
                                       zones == 0 ? "" : std::to_string(random.below(zones)));
      server.stats.log_bytes_total = 100 + random.below(900);
      server.stats.log_bytes_used = random.below(server.stats.log_bytes_total + 1) / 2;
    }
    std::vector<ServerEntry> up;
    for (const auto& [id, server] : state.servers) up.push_back(server);
    const uint32_t expected = model(up);
    ASSERT_EQ(survives(state), expected) << "seed " << seed;
    ++seen[expected];
  }
  for (size_t n = 0; n < seen.size(); ++n) EXPECT_GT(seen[n], 0) << n << " never came";
}

}  // namespace
}  // namespace ramcloud
