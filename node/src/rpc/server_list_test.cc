#include "rpc/server_list.h"

#include <gtest/gtest.h>

namespace ramcloud {
namespace {

wire::ServerListEntry entry(uint64_t id, wire::ServerState state = wire::ServerState::kUp) {
  wire::ServerListEntry e;
  e.server_id = id;
  e.state = state;
  e.locator = "tcp:host=127.0.0.1,port=11200";
  return e;
}

TEST(ServerList, RefusesTermsBelowTheHighestSeenInAnyMessage) {
  ServerList list;
  EXPECT_TRUE(list.check_term(5).ok());
  EXPECT_TRUE(list.check_term(5).ok());
  EXPECT_EQ(list.check_term(4).to_string(),
            "STALE_TERM: term 4 is of a former coordinator; the present one is 5");
  EXPECT_EQ(list.apply({4, 9, {}}).code(), StatusCode::kStaleTerm);
  EXPECT_TRUE(list.apply({6, 1, {}}).ok());
  EXPECT_EQ(list.check_term(5).code(), StatusCode::kStaleTerm);
}

TEST(ServerList, TakesHigherListsAndRefusesLowerOnes) {
  ServerList list;
  EXPECT_TRUE(list.apply({1, 5, {entry(2), entry(1)}}).ok());
  EXPECT_EQ(list.version(), 5u);
  EXPECT_EQ(list.apply({1, 4, {}}).code(), StatusCode::kStaleTerm);
  EXPECT_EQ(list.apply({0, 9, {}}).code(), StatusCode::kStaleTerm);
  EXPECT_TRUE(list.apply({2, 1, {entry(1)}}).ok()) << "a new term begins where it likes";
  EXPECT_EQ(list.servers().size(), 1u);
}

TEST(ServerList, TheWholeListIsWhatWasSentAndChangedSince) {
  ServerList list;
  ASSERT_TRUE(list.apply({3, 5, {entry(2), entry(1)}}).ok());
  wire::ServerList changes{3, 6, {entry(2, wire::ServerState::kCrashed), entry(4)}};
  changes.base_version = 5;
  ASSERT_TRUE(list.apply(changes).ok());
  const wire::ServerList whole = list.whole();
  EXPECT_EQ(whole.term, 3u);
  EXPECT_EQ(whole.version, 6u);
  EXPECT_EQ(whole.base_version, 0u);
  ASSERT_EQ(whole.servers.size(), 3u);
  EXPECT_EQ(whole.servers[1].state, wire::ServerState::kCrashed);
  EXPECT_EQ(whole.servers[2].locator, entry(4).locator);
  ServerList other;
  EXPECT_TRUE(other.apply(whole).ok());
}

TEST(ServerList, TellsWhoStoppedByAPlan) {
  ServerList list;
  ASSERT_TRUE(list.apply({3, 5, {entry(1), entry(2)}}).ok());
  EXPECT_FALSE(list.find(1)->stopped_by_plan);
  wire::ServerList changes{3, 6, {entry(1, wire::ServerState::kCrashed)}, 5};
  changes.servers[0].stopped_by_plan = true;
  ASSERT_TRUE(list.apply(changes).ok());
  EXPECT_TRUE(list.find(1)->stopped_by_plan);
  EXPECT_FALSE(list.find(2)->stopped_by_plan);
  EXPECT_TRUE(list.whole().servers[0].stopped_by_plan);
}

TEST(ServerList, FindsById) {
  ServerList list;
  ASSERT_TRUE(list.apply({1, 1, {entry(7), entry(3, wire::ServerState::kCrashed), entry(5)}}).ok());
  EXPECT_EQ(list.servers().front().server_id, 3u);
  EXPECT_TRUE(list.is_live(5));
  EXPECT_FALSE(list.is_live(3));
  EXPECT_FALSE(list.is_live(4));
  EXPECT_EQ(list.find(4), nullptr);
  EXPECT_EQ(list.find(7)->failure_domain, "server:7");
  EXPECT_EQ(list.find(7)->locator->address.port, 11200);
}

TEST(ServerList, RefusesDoubleAndZeroIds) {
  ServerList list;
  EXPECT_EQ(list.apply({1, 1, {entry(7), entry(7)}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(list.apply({1, 1, {entry(0)}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(list.version(), 0u);
}

TEST(ServerList, KeepsCrashedServersCrashed) {
  ServerList list;
  ASSERT_TRUE(list.apply({1, 1, {entry(1, wire::ServerState::kCrashed)}}).ok());
  ASSERT_TRUE(list.apply({1, 2, {entry(1)}}).ok());
  EXPECT_FALSE(list.is_live(1));
}

TEST(ServerList, KeepsServersWhoseLocatorDoesNotParse) {
  ServerList list;
  auto bad = entry(1);
  bad.locator = "nonsense";
  ASSERT_TRUE(list.apply({1, 1, {bad}}).ok());
  EXPECT_TRUE(list.is_live(1));
  EXPECT_FALSE(list.find(1)->locator.has_value());
}

TEST(ServerList, TakesChangesOnExactlyTheirBase) {
  ServerList list;
  ASSERT_TRUE(list.apply({1, 5, {entry(1), entry(2), entry(3)}}).ok());
  const wire::ServerList changes{
      1,
      9,
      {entry(4), entry(2, wire::ServerState::kCrashed), entry(3, wire::ServerState::kRemoved)},
      5};
  EXPECT_TRUE(list.apply(changes).ok());
  EXPECT_TRUE(list.is_live(1));
  EXPECT_TRUE(list.is_live(4));
  EXPECT_FALSE(list.is_live(2));
  EXPECT_NE(list.find(2), nullptr);
  EXPECT_EQ(list.find(3), nullptr);
  EXPECT_EQ(list.version(), 9u);
  for (const uint64_t base : {5, 8, 10}) {
    const wire::ServerList other{1, 12, {entry(7)}, base};
    EXPECT_EQ(list.apply(other).code(), StatusCode::kWrongVersion) << base;
  }
  EXPECT_EQ(list.find(7), nullptr);
  EXPECT_EQ(list.version(), 9u);
  ServerList fresh;
  EXPECT_EQ(fresh.apply(changes).code(), StatusCode::kWrongVersion);
  EXPECT_TRUE(list.apply({2, 10, {entry(1)}}).ok()) << "the whole list is taken on any";
  EXPECT_EQ(list.servers().size(), 1u);
}

TEST(ServerList, TellsSubscribersOfChangesOnly) {
  ServerList list;
  int calls = 0, other = 0;
  auto kept = list.subscribe([&] { ++calls; });
  {
    auto dropped = list.subscribe([&] { ++other; });
    ASSERT_TRUE(list.apply({1, 1, {entry(1)}}).ok());
  }
  ASSERT_TRUE(list.apply({1, 1, {entry(1)}}).ok());
  ASSERT_TRUE(list.apply({1, 2, {entry(1)}}).ok());
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(other, 1);
}

}  // namespace
}  // namespace ramcloud
