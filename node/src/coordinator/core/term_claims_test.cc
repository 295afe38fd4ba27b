#include "coordinator/core/term_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/testing/coordinator_fixture.h"

namespace ramcloud {
namespace {

using testing::CoordinatorTest;

TEST_F(CoordinatorTest, ALeaderRisesAboveATermThatAServerClaims) {
  for (const bool former_build : {false, true}) {
    if (!cluster.coordinator) start(2);
    bool fenced = false;
    cluster.coordinator->on_fenced([&] { fenced = true; });
    server(0).former_build = former_build;
    server(0).term_refusals = 0;
    const uint64_t claimed = state().term + 1'000'000;
    server(0).heard_term = claimed;
    ASSERT_TRUE(cluster.create(former_build ? "f" : "t", 2).has_value());
    EXPECT_FALSE(fenced);
    EXPECT_EQ(state().term, claimed + 1);
    ASSERT_TRUE(cluster.drop(former_build ? "f" : "t").has_value());
    EXPECT_TRUE(server(0).tablets.empty()) << "a refusal for its term does not end a drop";
    cluster.run_for(3s);
    EXPECT_FALSE(state().servers.at(1).suspected);
    EXPECT_LT(server(0).term_refusals, 10);
  }
  const uint64_t before = state().term;
  restart();
  EXPECT_GT(state().term, before);
}

/// The leader must not follow it: the next leader could not have a higher term any more.
TEST_F(CoordinatorTest, AServerThatClaimsAnImpossibleTermIsSuspectAndStopsNobody) {
  start(3);
  const uint64_t term = state().term;
  for (const uint64_t claimed : {(uint64_t{1} << 62) - 1, ~uint64_t{0}}) {
    server(0).heard_term = claimed;
    ASSERT_TRUE(cluster.run_until([&] { return state().servers.at(1).suspected; }));
    cluster.run_for(3s);
    EXPECT_TRUE(cluster.coordinator->ready());
    EXPECT_EQ(state().term, term);
    ASSERT_TRUE(cluster.create("t" + std::to_string(claimed), 2).has_value());
    EXPECT_FALSE(crashed(1)) << "it lives";
    server(0).heard_term = 0;
    ASSERT_TRUE(cluster.run_until([&] { return !state().servers.at(1).suspected; }));
  }
}

TEST_F(CoordinatorTest, ALeaderThatWasReplacedStepsDownWhenAServerSaysSo) {
  start(2);
  cluster.metadata.lease_end = {};
  SimMetadata second_store(cluster.reactor, cluster.metadata);
  const auto leader = cluster.wait_for(second_store.campaign("second"));
  ASSERT_TRUE(leader.has_value());
  Ledger successor(cluster.reactor, second_store);
  const auto opened = cluster.wait_for(successor.open("", leader->number));
  ASSERT_TRUE(opened.has_value());
  bool fenced = false;
  cluster.coordinator->on_fenced([&] { fenced = true; });
  server(0).heard_term = opened->term;
  EXPECT_TRUE(cluster.run_until([&] { return fenced; }));
  EXPECT_FALSE(cluster.coordinator->ready());
  EXPECT_EQ(successor.term(), opened->term);
  EXPECT_EQ(cluster.create("t", 1).error().code(), StatusCode::kNotLeader);
}

}  // namespace
}  // namespace ramcloud
