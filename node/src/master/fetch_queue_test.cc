#include "master/fetch_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

namespace ramcloud::master {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

wire::RecoverySegment segment(uint64_t id, std::vector<wire::RecoverySource> sources) {
  return {.segment_id = id, .length = 100, .sources = std::move(sources)};
}

using Segments = std::vector<const wire::RecoverySegment*>;

std::vector<uint64_t> ids(const Segments& segments) {
  std::vector<uint64_t> found;
  for (const wire::RecoverySegment* one : segments) found.push_back(one->segment_id);
  return found;
}

/// Of a log by rising id.
FetchQueue queue_of(const std::vector<wire::RecoverySegment>& log, uint64_t own_id) {
  FetchQueue queue;
  for (const auto& segment : std::views::reverse(log)) queue.add(segment);
  queue.start(own_id, 1);
  return queue;
}

/// All segments, one after the other.
Segments fetch_order(const std::vector<wire::RecoverySegment>& log, uint64_t own_id) {
  FetchQueue queue = queue_of(log, own_id);
  Segments order;
  while (!queue.empty()) order.push_back(queue.next(1).at(0));
  return order;
}

TEST(FetchQueue, EachRoundHasTheNewestOfEachBackup) {
  const std::vector<wire::RecoverySegment> log = {
      segment(1, {{5, 0}}), segment(2, {{5, 1}, {7, 0}}), segment(3, {{9, 0}}),
      segment(4, {{7, 1}}), segment(5, {{5, 2}}),         segment(6, {{9, 1}}),
  };
  EXPECT_THAT(ids(fetch_order(log, 5)), ElementsAre(4, 6, 5, 3, 2, 1));
  EXPECT_THAT(ids(fetch_order(log, 7)), ElementsAre(6, 5, 4, 3, 2, 1));
  EXPECT_THAT(ids(fetch_order(log, 9)), ElementsAre(5, 4, 6, 2, 3, 1));
}

TEST(FetchQueue, SegmentsOfOneBackupComeNewestFirst) {
  const std::vector<wire::RecoverySegment> log = {segment(1, {{5, 0}}), segment(2, {{5, 1}}),
                                                  segment(3, {{5, 2}})};
  EXPECT_THAT(ids(fetch_order(log, 7)), ElementsAre(3, 2, 1));
}

TEST(FetchQueue, WhatNobodyHasIsNotForgotten) {
  const std::vector<wire::RecoverySegment> log = {segment(1, {}), segment(2, {{5, 0}})};
  EXPECT_THAT(ids(fetch_order(log, 4)), UnorderedElementsAre(1, 2));
}

/// All masters are at the same place of their orders: they ask different backups, and are within
/// one round.
TEST(FetchQueue, MastersAskDifferentBackups) {
  constexpr uint64_t kServers = 100, kRounds = 5;
  std::vector<wire::RecoverySegment> log;
  for (uint64_t id = 1; id <= kServers * kRounds; ++id) {
    log.push_back(segment(id, {{id * 37 % kServers + 1, 0}}));
  }
  std::vector<Segments> orders;
  for (uint64_t own = 1; own <= kServers; ++own) orders.push_back(fetch_order(log, own));
  for (size_t at = 0; at < log.size(); ++at) {
    std::set<uint64_t> asked;
    std::map<uint64_t, std::set<uint64_t>> of_backup;
    for (const auto& order : orders) {
      asked.insert(order[at]->sources[0].server_id);
      of_backup[order[at]->sources[0].server_id].insert(order[at]->segment_id);
    }
    EXPECT_EQ(asked.size(), kServers);
    for (const auto& [backup, segments] : of_backup) EXPECT_EQ(segments.size(), 1u) << backup;
  }
}

/// The first of them would otherwise read all segments for the others, which follow it.
TEST(FetchQueue, FewMastersWithNeighbouringIdsBeginFarFromEachOther) {
  constexpr uint64_t kServers = 1000;
  std::vector<wire::RecoverySegment> log;
  for (uint64_t id = 1; id <= kServers; ++id) log.push_back(segment(id, {{id, 0}}));
  std::set<uint64_t> begins;
  for (uint64_t own = 1; own <= 10; ++own) begins.insert(fetch_order(log, own).front()->segment_id);
  ASSERT_EQ(begins.size(), 10u);
  for (auto at = begins.begin(); std::next(at) != begins.end(); ++at) {
    EXPECT_GT(*std::next(at) - *at, 40u) << *at;
  }
}

/// They came after the log was written.
TEST(FetchQueue, MastersWithoutASegmentBeginWithDifferentBackups) {
  std::vector<wire::RecoverySegment> log;
  for (uint64_t id = 1; id <= 10; ++id) log.push_back(segment(id, {{id, 0}}));
  std::set<uint64_t> begins;
  for (uint64_t own = 21; own <= 30; ++own) begins.insert(fetch_order(log, own)[0]->segment_id);
  EXPECT_EQ(begins.size(), 10u);
}

TEST(FetchQueue, NothingIsFetchedOfNothing) {
  FetchQueue queue = queue_of({}, 4);
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(queue.next(3).empty());
}

TEST(FetchQueue, SeveralAtOnceAreOfOneBackup) {
  const std::vector<wire::RecoverySegment> log = {
      segment(1, {{5, 0}}), segment(2, {{7, 0}}), segment(3, {{5, 1}}),
      segment(4, {{5, 2}}), segment(5, {{7, 1}}),
  };
  FetchQueue queue = queue_of(log, 2);
  EXPECT_THAT(ids(queue.next(2)), ElementsAre(4, 3));
  EXPECT_THAT(ids(queue.next(9)), ElementsAre(5, 2));
  EXPECT_FALSE(queue.empty());
  EXPECT_THAT(ids(queue.next(9)), ElementsAre(1));
  EXPECT_TRUE(queue.empty());
}

TEST(FetchQueue, WhatIsPutBackIsTheNextOfItsBackup) {
  const std::vector<wire::RecoverySegment> log = {segment(1, {{5, 0}}), segment(2, {{7, 0}}),
                                                  segment(3, {{5, 1}}), segment(4, {{5, 2}})};
  FetchQueue queue = queue_of(log, 2);
  const Segments taken = queue.next(3);
  ASSERT_THAT(ids(taken), ElementsAre(4, 3, 1));
  EXPECT_THAT(ids(queue.next(1)), ElementsAre(2));
  EXPECT_TRUE(queue.empty());
  queue.put_back(std::span(taken).subspan(1));
  EXPECT_FALSE(queue.empty());
  EXPECT_THAT(ids(queue.next(1)), ElementsAre(3));
  EXPECT_THAT(ids(queue.next(1)), ElementsAre(1));
  EXPECT_TRUE(queue.empty());
}

TEST(FetchQueue, OfASlowBackupOneAtATimeIsTaken) {
  const std::vector<wire::RecoverySegment> log = {segment(1, {{5, 0}}), segment(2, {{5, 1}}),
                                                  segment(3, {{7, 0}}), segment(4, {{7, 1}})};
  FetchQueue queue = queue_of(log, 2);
  queue.slow_down(5);
  EXPECT_THAT(ids(queue.next(9)), ElementsAre(2));
  EXPECT_THAT(ids(queue.next(9)), ElementsAre(4, 3));
  EXPECT_THAT(ids(queue.next(9)), ElementsAre(1));
}

TEST(FetchQueue, FetchersShareTheLastOnes) {
  std::vector<wire::RecoverySegment> log;
  for (uint64_t id = 1; id <= 20; ++id) log.push_back(segment(id, {{5, 0}}));
  FetchQueue queue;
  for (const auto& segment : std::views::reverse(log)) queue.add(segment);
  queue.start(2, 4);
  EXPECT_EQ(queue.next(16).size(), 5u);
  EXPECT_EQ(queue.next(16).size(), 4u);
  EXPECT_EQ(queue.next(16).size(), 3u);
  EXPECT_EQ(queue.next(16).size(), 2u);
  EXPECT_EQ(queue.next(2).size(), 2u);
  EXPECT_EQ(queue.next(16).size(), 1u);
}

TEST(FetchQueue, AsManyAtOnceAsHaveAFewEntries) {
  EXPECT_EQ(segments_at_once(0, 0), 1u);
  EXPECT_EQ(segments_at_once(100, 100 * 8'000), 16u);
  EXPECT_EQ(segments_at_once(100, 100 * 20'000), 6u);
  EXPECT_EQ(segments_at_once(100, 100 << 20), 1u);
  EXPECT_EQ(segments_at_once(100, 0), 16u);
}

}  // namespace
}  // namespace ramcloud::master
