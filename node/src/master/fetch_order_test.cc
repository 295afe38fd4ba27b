#include "master/fetch_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace ramcloud::master {
namespace {

using ::testing::ElementsAre;

wire::RecoverySegment segment(uint64_t id, std::vector<wire::RecoverySource> sources) {
  return {.segment_id = id, .length = 100, .sources = std::move(sources)};
}

std::vector<uint64_t> ids(const std::vector<wire::RecoverySegment>& segments) {
  std::vector<uint64_t> found;
  for (const wire::RecoverySegment& one : segments) found.push_back(one.segment_id);
  return found;
}

TEST(FetchOrder, EachRoundHasTheNewestOfEachBackupAndBeginsBehindThisServer) {
  const std::vector<wire::RecoverySegment> log = {
      segment(1, {{5, 0}}), segment(2, {{5, 1}, {7, 0}}), segment(3, {{9, 0}}),
      segment(4, {{7, 1}}), segment(5, {{5, 2}}),         segment(6, {{9, 1}}),
  };
  EXPECT_THAT(ids(fetch_order(log, 4)), ElementsAre(5, 4, 6, 2, 3, 1));
  EXPECT_THAT(ids(fetch_order(log, 5)), ElementsAre(4, 6, 5, 3, 2, 1));
  EXPECT_THAT(ids(fetch_order(log, 9)), ElementsAre(5, 4, 6, 2, 3, 1)) << "nobody is behind it";
}

TEST(FetchOrder, SegmentsOfOneBackupComeNewestFirst) {
  EXPECT_THAT(
      ids(fetch_order({segment(1, {{5, 0}}), segment(3, {{5, 1}}), segment(2, {{5, 2}})}, 7)),
      ElementsAre(3, 2, 1));
}

TEST(FetchOrder, WhatNobodyHasIsNotForgotten) {
  EXPECT_THAT(ids(fetch_order({segment(1, {}), segment(2, {{5, 0}})}, 4)), ElementsAre(2, 1));
}

/// All masters at the same place of their orders: they ask different backups, and are within one
/// round.
TEST(FetchOrder, MastersAskDifferentBackups) {
  constexpr uint64_t kServers = 100, kRounds = 5;
  std::vector<wire::RecoverySegment> log;
  for (uint64_t id = 1; id <= kServers * kRounds; ++id) {
    log.push_back(segment(id, {{id * 37 % kServers + 1, 0}}));
  }
  std::vector<std::vector<wire::RecoverySegment>> orders;
  for (uint64_t own = 1; own <= kServers; ++own) orders.push_back(fetch_order(log, own));
  for (size_t at = 0; at < log.size(); ++at) {
    std::set<uint64_t> asked;
    std::map<uint64_t, std::set<uint64_t>> of_backup;
    for (const auto& order : orders) {
      asked.insert(order[at].sources[0].server_id);
      of_backup[order[at].sources[0].server_id].insert(order[at].segment_id);
    }
    EXPECT_EQ(asked.size(), kServers);
    for (const auto& [backup, segments] : of_backup) EXPECT_EQ(segments.size(), 1u) << backup;
  }
}

}  // namespace
}  // namespace ramcloud::master
