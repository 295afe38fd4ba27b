#include "coordinator/core/retirement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "coordinator/core/testing/coordinator_fixture.h"

namespace ramcloud {
namespace {

using testing::CoordinatorTest;
using ::testing::ElementsAre;
using testing::FakeServer;
using ::testing::HasSubstr;
using wire::Opcode;

TEST_F(CoordinatorTest, AServerThatNobodyNeedsLeavesTheList) {
  cluster.options.retirement.after = cluster.options.recoveries.query.returning = 10s;
  start(3);
  ASSERT_TRUE(cluster.create("t", 3).has_value());
  cluster.kill_server(server(0));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(1); }));
  cluster.run_for(60s);
  EXPECT_TRUE(crashed(1)) << "a table has a tablet there";
  ASSERT_TRUE(cluster.drop("t").has_value());
  ASSERT_TRUE(cluster.run_until([&] { return state_of(1) == wire::ServerState::kRemoved; }));
  cluster.run_for(2s);
  const auto has_first = [](const wire::ServerList& list) {
    return std::ranges::any_of(list.servers, [](const auto& e) { return e.server_id == 1; });
  };
  EXPECT_FALSE(has_first(server(1).list));
  EXPECT_FALSE(has_first(server(2).list));
  restart();
  EXPECT_EQ(state_of(1), wire::ServerState::kRemoved) << "its record proves that it is not needed";
  FakeServer& late = cluster.add_server();
  EXPECT_FALSE(has_first(late.list));
  EXPECT_EQ(late.id, 4u);
}

/// A master whose open head was only there still lives, and may die later.
TEST_F(CoordinatorTest, ACrashedServerStaysAsLongAsItsVolumeIsExpected) {
  cluster.options.retirement.after = 5s;
  cluster.options.recoveries.query.returning = 60s;
  start(3);
  cluster.kill_server(server(0));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(1); }));
  cluster.run_for(50s);
  EXPECT_TRUE(crashed(1)) << "nothing is recovered, and all the same its volume may be needed";
  ASSERT_TRUE(cluster.run_until([&] { return state_of(1) == wire::ServerState::kRemoved; }));
}

/// The log of the second may end on the volume of the first: as long as it is not recovered, others
/// wait for that volume. Another server of the same volume answers in its place.
TEST_F(CoordinatorTest, WhoMayHaveWhatARecoveryLacksStaysInTheList) {
  cluster.options.retirement.after = cluster.options.recoveries.query.returning = 10s;
  start(4);
  ASSERT_TRUE(cluster.create("t", 4).has_value());
  ASSERT_TRUE(cluster.drop("t").has_value());
  for (const size_t i : {0, 1}) cluster.kill_server(server(i));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(1) && crashed(2); }));
  ASSERT_TRUE(cluster.create("u", 2).has_value());
  cluster.kill_server(server(2));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(3); }));
  cluster.run_for(60s);
  EXPECT_TRUE(crashed(1) && crashed(2)) << "server 3 is not recovered";
  cluster.prepare = [this](FakeServer& back) {
    back.request.former_server_id = 1;
    back.request.cluster_uuid = state().uuid;
  };
  cluster.add_server();
  ASSERT_TRUE(cluster.run_until([&] { return state_of(1) == wire::ServerState::kRemoved; }));
  cluster.run_for(30s);
  EXPECT_TRUE(crashed(2));
  ASSERT_TRUE(cluster.drop("u").has_value());
  ASSERT_TRUE(cluster.run_until([&] { return state_of(2) == wire::ServerState::kRemoved; }));
}

/// The answer by which backups free frames.
TEST_F(CoordinatorTest, OnlyCrashedServersWithoutTabletsAreCalledRecovered) {
  cluster.options.retirement.after = cluster.options.recoveries.query.returning = 10s;
  start(3);
  ASSERT_TRUE(cluster.create("t", 3).has_value());
  EXPECT_THAT(told_recovered({1, 2, 3, 99}), ElementsAre()) << "UP, or never heard of";
  cluster.kill_server(server(0));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(1); }));
  cluster.run_for(60s);
  EXPECT_THAT(told_recovered({1}), ElementsAre()) << "a table has a tablet there";
  ASSERT_TRUE(cluster.drop("t").has_value());
  ASSERT_TRUE(cluster.run_until([&] { return state().tables.empty(); }));
  EXPECT_EQ(state_of(1), wire::ServerState::kCrashed);
  EXPECT_THAT(told_recovered({1, 2, 3, 99}), ElementsAre(1)) << "it will never have one again";
  ASSERT_TRUE(cluster.run_until([&] { return state_of(1) == wire::ServerState::kRemoved; }));
  EXPECT_THAT(told_recovered({1, 2, 3, 99}), ElementsAre(1));
  restart();
  EXPECT_THAT(told_recovered({99, 1}), ElementsAre(1));
  const std::vector<uint64_t> many(wire::GetRecoveredRequest::kMaxIdsAtOnce + 1, 1);
  const auto refused =
      cluster.call<wire::Recovered>(Opcode::kGetRecovered, wire::GetRecoveredRequest{many});
  EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("1025 ids; at most 1024"));
}

/// As many as made the list longer than a message may be.
TEST_F(CoordinatorTest, AnyNumberOfIncarnationsLeavesAShortList) {
  cluster.options.retirement.after = cluster.options.recoveries.query.returning = 1s;
  start(1);
  cluster.stop_coordinator();
  constexpr uint64_t kIncarnations = 2000;
  for (uint64_t id = 2; id <= kIncarnations; ++id) {
    ServerRecord record;
    record.id = id;
    record.nonce = id;
    record.state = wire::ServerState::kCrashed;
    record.locator = "tcp:host=10.0.0.9,port=1";
    cluster.metadata.records[server_key(id)] = encode_record(record, kMetadataFormatMax);
  }
  cluster.metadata.records[kIdsKey] =
      encode_record(IdsRecord{kIncarnations, 0}, kMetadataFormatMax);
  ASSERT_TRUE(cluster.start_coordinator().ok());
  ASSERT_TRUE(cluster.run_until([&] {
    return std::ranges::none_of(state().servers, [&](const auto& s) { return crashed(s.first); });
  }));
  ASSERT_TRUE(cluster.run_until([&] { return server(0).list.version == state().list_version; }));
  EXPECT_EQ(server(0).list.servers.size(), 1u);
  EXPECT_EQ(cluster.add_server().id, kIncarnations + 1);
  EXPECT_EQ(server(1).list.servers.size(), 2u);
}

}  // namespace
}  // namespace ramcloud
