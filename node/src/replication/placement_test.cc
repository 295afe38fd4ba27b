#include "replication/placement.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <map>

namespace ramcloud {
namespace {

std::vector<PlacementServer> cluster(uint32_t count) {
  std::vector<PlacementServer> servers(count);
  for (uint32_t i = 0; i < count; ++i) {
    servers[i].server_id = i + 1;
    servers[i].failure_domain = "d" + std::to_string(i + 1);
  }
  return servers;
}

TEST(Placement, AvoidsTakenDomainsAndUnusableServers) {
  auto servers = cluster(6);
  servers[3].usable = false;
  servers[4].failure_domain = "d1";
  const std::vector<std::string> taken = {"d1", "d2"};
  Random random(1);
  std::map<size_t, int> chosen;
  for (int i = 0; i < 1000; ++i) ++chosen[*choose_backup(servers, taken, false, random)];
  EXPECT_EQ(chosen.size(), 2u);
  EXPECT_TRUE(chosen.contains(2));
  EXPECT_TRUE(chosen.contains(5));
}

TEST(Placement, GivesNothingWhenNobodyIsLeft) {
  const auto servers = cluster(2);
  const std::vector<std::string> taken = {"d1", "d2"};
  Random random(1);
  EXPECT_FALSE(choose_backup(servers, taken, false, random).has_value());
  EXPECT_FALSE(choose_backup({}, taken, false, random).has_value());
}

TEST(Placement, TakesTheFasterAndEmptierOfItsCandidates) {
  auto servers = cluster(3);
  servers[0].read_bytes_per_second = 100'000'000;
  servers[1].read_bytes_per_second = 400'000'000;
  servers[2].read_bytes_per_second = 200'000'000;
  Random random(7);
  EXPECT_EQ(choose_backup(servers, {}, false, random), 1u);
  servers[1].replicas = 20;
  EXPECT_EQ(choose_backup(servers, {}, false, random), 2u);
  EXPECT_EQ(choose_backup(servers, {}, true, random), 1u) << "it has many replicas, no primaries";
}

TEST(Placement, PredictsTimeOfOneReplicaMore) {
  PlacementServer server;
  EXPECT_DOUBLE_EQ(predicted_read_seconds(server, false), 8.388608e6 / 100e6);
  server.replicas = 3;
  server.read_bytes_per_second = 200'000'000;
  EXPECT_DOUBLE_EQ(predicted_read_seconds(server, false), 4 * 8.388608e6 / 200e6);
  EXPECT_DOUBLE_EQ(predicted_read_seconds(server, true), 8.388608e6 / 200e6);
}

/// With refinement the fullest backup of many stays near the mean; pure chance would not.
TEST(Placement, SpreadsEvenly) {
  auto servers = cluster(40);
  Random random(3), chance(3);
  std::vector<uint32_t> by_chance(servers.size());
  constexpr uint32_t kSegments = 800;
  for (uint32_t i = 0; i < kSegments; ++i) {
    ++servers[*choose_backup(servers, {}, false, random)].replicas;
    ++by_chance[chance.below(servers.size())];
  }
  uint32_t fullest = 0;
  for (const auto& server : servers) fullest = std::max(fullest, server.replicas);
  EXPECT_LE(fullest, kSegments / servers.size() + 2);
  EXPECT_GT(*std::ranges::max_element(by_chance), fullest + 3);
}

TEST(Placement, IsDeterminedByTheSeed) {
  const auto servers = cluster(20);
  Random a(5), b(5);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(choose_backup(servers, {}, false, a), choose_backup(servers, {}, false, b));
  }
}

TEST(Placement, SaysWhatIsMissing) {
  auto servers = cluster(3);
  EXPECT_TRUE(check_domains(servers, "d1", 2).ok());
  const Status status = check_domains(servers, "d1", 3);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("3 replicas need 4 live failure domains"), std::string::npos);
  EXPECT_NE(status.message().find("there are 2 others: d2, d3"), std::string::npos);
  servers[2].failure_domain = "d2";
  EXPECT_FALSE(check_domains(servers, "d1", 2).ok()) << "two servers, one domain";
  EXPECT_TRUE(check_domains(servers, "d1", 0).ok());
}

}  // namespace
}  // namespace ramcloud
