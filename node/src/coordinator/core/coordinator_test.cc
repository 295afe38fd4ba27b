// Start and leadership of a coordinator, its limits, and its status.
#include "coordinator/core/coordinator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "coordinator/core/testing/coordinator_fixture.h"

namespace ramcloud {
namespace {

using testing::CoordinatorTest;
using ::testing::ElementsAre;
using testing::FakeCluster;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using wire::Opcode;

// ---- start

TEST_F(CoordinatorTest, MakesTheClusterOnceAndRaisesTheTermAtEachStart) {
  start(0);
  auto first = cluster.call<wire::ClusterInfo>(Opcode::kGetClusterInfo, wire::Empty());
  ASSERT_TRUE(first.has_value()) << first.error().to_string();
  EXPECT_EQ(first->cluster_name, "test");
  EXPECT_EQ(first->version, "1.2.3");
  EXPECT_EQ(first->term, 1u);
  EXPECT_EQ(first->admin_address, "inside:1");
  EXPECT_NE(first->cluster_uuid, wire::Uuid{});
  restart();
  auto second = cluster.call<wire::ClusterInfo>(Opcode::kGetClusterInfo, wire::Empty(),
                                                FakeCluster::kOutsidePort);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->cluster_uuid, first->cluster_uuid);
  EXPECT_EQ(second->term, 2u);
  EXPECT_EQ(second->admin_address, "outside:2");
}

TEST_F(CoordinatorTest, RefusesMetadataOfAnotherClusterOrDamaged) {
  start(0);
  cluster.stop_coordinator();
  cluster.options.cluster_name = "other";
  const Status other = cluster.start_coordinator();
  EXPECT_EQ(other.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(other.message(), HasSubstr("cluster name 'other' is not accepted: the metadata is of "
                                         "cluster 'test'"));
  EXPECT_FALSE(cluster.coordinator->ready());
  cluster.stop_coordinator();
  cluster.options.cluster_name = "";
  cluster.metadata.records[server_key(7)] = "garbage";
  EXPECT_EQ(cluster.start_coordinator().to_string(),
            "CORRUPT: metadata record '/servers/00000000000000000007' (7 bytes) does not decode");
  cluster.stop_coordinator();
  cluster.metadata.records[kTermKey] =
      encode_record(TermRecord{~uint64_t{0}, 1}, kMetadataFormatMax);
  EXPECT_THAT(cluster.start_coordinator().to_string(),
              StartsWith("CORRUPT: metadata record '/term' has 18446744073709551615, which is too "
                         "large"));
}

/// A store that others write to may give any numbers to leaderships.
TEST_F(CoordinatorTest, RevisionsRiseWhateverTheTermsAre) {
  start(1);
  uint64_t last = cluster.coordinator->status().revision;
  for (const uint64_t term : {uint64_t{0xffff'fffe}, uint64_t{1} << 33, uint64_t{1} << 50}) {
    cluster.stop_coordinator();
    cluster.metadata.last_leadership = term;
    ASSERT_TRUE(cluster.start_coordinator().ok());
    EXPECT_GT(cluster.coordinator->state().term, term);
    EXPECT_GT(cluster.coordinator->status().revision, last);
    ASSERT_TRUE(cluster.create("t" + std::to_string(term), 1).has_value());
    last = cluster.coordinator->status().revision;
  }
}

/// A cluster goes on after 2^32 changes.
TEST_F(CoordinatorTest, RevisionsRiseBeyondAnyNumberOfTransactions) {
  start(1);
  uint64_t last = cluster.coordinator->status().revision;
  for (const uint64_t transactions :
       {(uint64_t{1} << 32) - 3, uint64_t{1} << 32, uint64_t{1} << 50}) {
    cluster.stop_coordinator();
    TermRecord term;
    ASSERT_TRUE(decode_record(cluster.metadata.records.at(kTermKey), term));
    term.revision = transactions;
    cluster.metadata.records[kTermKey] = encode_record(term, kMetadataFormatMax);
    for (int i = 0; i < 3; ++i) {
      restart();
      EXPECT_GT(cluster.coordinator->status().revision, last);
      last = cluster.coordinator->status().revision;
    }
    ASSERT_TRUE(cluster.create(fmt::format("t{}", transactions), 1).has_value());
    EXPECT_GT(cluster.coordinator->status().revision, last);
    last = cluster.coordinator->status().revision;
  }
}

// ---- leadership

TEST_F(CoordinatorTest, AReplacedCoordinatorChangesNothing) {
  start(2);
  // The first leader does not know it: by its own clock its lease still runs.
  cluster.metadata.lease_end = {};
  SimMetadata second_store(cluster.reactor, cluster.metadata);
  const auto leader = cluster.wait_for(second_store.campaign("second"));
  ASSERT_TRUE(leader.has_value());
  ASSERT_EQ(leader->number, second_store.leading());
  Ledger usurper(cluster.reactor, second_store);
  ASSERT_TRUE(cluster.wait_for(usurper.open("", leader->number)).has_value());
  ASSERT_NE(cluster.store->leading(), 0u);
  const auto before = cluster.metadata.records;
  const auto refused = cluster.create("t", 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kNotLeader);
  EXPECT_EQ(cluster.metadata.records, before);
  EXPECT_FALSE(cluster.coordinator->ready());
}

/// The successor has not written anything yet: only the leader key shows it.
TEST_F(CoordinatorTest, WhoseLeaseAnotherHasChangesNothing) {
  start(2);
  cluster.metadata.lease_end = {};
  SimMetadata second_store(cluster.reactor, cluster.metadata);
  ASSERT_TRUE(cluster.wait_for(second_store.campaign("second")).has_value());
  ASSERT_NE(second_store.leading(), 0u);
  const auto before = cluster.metadata.records;
  const auto refused = cluster.create("t", 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kNotLeader);
  EXPECT_EQ(cluster.metadata.records, before);
}

TEST(CoordinatorAmbiguity, UnknownOutcomesChangeNothingForUsers) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    SimMetadata::Options shaky;
    shaky.unknown = 0.4;
    shaky.load_failure = 0.2;
    FakeCluster c(seed, shaky);
    ASSERT_TRUE(c.start_coordinator().ok());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(c.add_server().id, static_cast<uint64_t>(i + 1));
    for (int i = 0; i < 5; ++i) {
      const auto table = c.create("t" + std::to_string(i), 2);
      ASSERT_TRUE(table.has_value()) << table.error().to_string();
      EXPECT_EQ(table->table_id, static_cast<uint64_t>(i + 1));
    }
    ASSERT_TRUE(c.drop("t0").has_value());
    c.stop_coordinator();
    ASSERT_TRUE(c.start_coordinator().ok());
    EXPECT_EQ(c.coordinator->state().tables.size(), 4u);
    EXPECT_EQ(c.coordinator->state().servers.size(), 3u);
    EXPECT_EQ(c.violation, "");
  }
}

// ---- a store that takes no changes

TEST_F(CoordinatorTest, ADropThatWasGivenUpIsNotMadeLater) {
  start(2);
  ASSERT_TRUE(cluster.create("kept", 1).has_value());
  ASSERT_TRUE(cluster.create("also_kept", 1).has_value());
  cluster.store->set_full(true);
  auto first = begin<wire::Empty>(Opcode::kDropTable, wire::DropTableRequest{"kept"}, 1s);
  auto behind = begin<wire::Empty>(Opcode::kDropTable, wire::DropTableRequest{"also_kept"}, 1s);
  auto enlisting = begin<wire::EnlistReply>(
      Opcode::kEnlist,
      [&] {
        wire::EnlistRequest request = server(0).request;
        request.nonce += 2;
        return request;
      }(),
      1s);
  cluster.run_for(10s);
  EXPECT_EQ(first.take().error().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(behind.take().error().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(enlisting.take().error().code(), StatusCode::kDeadlineExceeded);
  cluster.store->set_full(false);
  ASSERT_TRUE(cluster.create("new", 1).has_value());
  EXPECT_NE(state().find_table("kept"), nullptr);
  EXPECT_NE(state().find_table("also_kept"), nullptr);
  EXPECT_EQ(state().servers.size(), 2u);
}

TEST_F(CoordinatorTest, CallsThatNobodyWaitsForMakePlaceForOthers) {
  cluster.options.calls_at_once = 2;
  start(1);
  cluster.store->set_full(true);
  const auto drop = [&](Duration timeout) {
    return begin<wire::Empty>(Opcode::kDropTable, wire::DropTableRequest{"t"}, timeout);
  };
  auto writes = begin<wire::TableInfo>(Opcode::kCreateTable, wire::CreateTableRequest{"t", 1}, 5s);
  cluster.run_for(100ms);
  auto waits = drop(5s);
  cluster.run_for(100ms);
  auto third = drop(5s);
  cluster.run_for(1s);
  ASSERT_TRUE(third.done());
  EXPECT_EQ(third.take().error().code(), StatusCode::kRetry);
  // Calls that do not wait are not limited.
  EXPECT_TRUE(cluster.call<wire::ClusterInfo>(Opcode::kGetClusterInfo, wire::Empty()).has_value());
  EXPECT_TRUE(cluster.call<wire::ListTablesReply>(Opcode::kListTables, wire::Empty()).has_value());
  cluster.run_for(5s);
  auto fourth = drop(60s);
  cluster.run_for(1s);
  EXPECT_FALSE(fourth.done());
  cluster.store->set_full(false);
  ASSERT_TRUE(cluster.run_until([&] { return fourth.done(); }));
  EXPECT_EQ(fourth.take().error().code(), StatusCode::kNotFound)
      << "the table was not made, either";
}

// ---- status

TEST_F(CoordinatorTest, StatusAddsUpWhatServersSay) {
  start(2);
  for (const auto& s : cluster.servers) {
    s->stats.objects = 10;
    s->stats.log_bytes_total = 100;
    s->stats.segments = 4;
    s->stats.segments_fully_replicated = 3;
    s->stats.segments_under_replicated = 1;
    s->stats.replicas_wanted = 2;
  }
  cluster.run_for(1s);
  const ClusterStatus status = cluster.coordinator->status();
  EXPECT_EQ(status.servers_up, 2u);
  EXPECT_EQ(status.objects, 20u);
  EXPECT_EQ(status.replication.segments_fully_replicated, 6u);
  EXPECT_EQ(status.health, "DEGRADED");
  EXPECT_THAT(status.reasons, ElementsAre("2 segments have fewer than 2 replicas"));
  const std::string text = cluster.metrics.text();
  EXPECT_THAT(text, HasSubstr("ramcloud_coordinator_servers{state=\"up\"} 2"));
  EXPECT_THAT(text, HasSubstr("ramcloud_coordinator_term 1"));
}

TEST_F(CoordinatorTest, ErrorsSayWhoseTheyAreAndWhenToAskAgain) {
  start(1);
  const Locator to{"tcp", {"10.0.0.1", FakeCluster::kCoordinatorPort}};
  const auto ask = [&](Opcode opcode, auto message) {
    return cluster.wait_for(cluster.client->call_with(to, 0, opcode, RpcClient::body_of(message),
                                                      cluster.reactor.now() + 5s));
  };
  const RpcReply absent = ask(Opcode::kGetTable, wire::GetTableRequest{"t", 0});
  EXPECT_EQ(absent.status.code(), StatusCode::kNotFound);
  EXPECT_EQ(absent.details.term, state().term);
  EXPECT_EQ(absent.details.retry_after_us, 0u);
  cluster.stop_coordinator();
  cluster.options.calls_at_once = 0;
  ASSERT_TRUE(cluster.start_coordinator().ok());
  const RpcReply busy = ask(Opcode::kCreateTable, wire::CreateTableRequest{"t", 1});
  EXPECT_EQ(busy.status.code(), StatusCode::kRetry);
  EXPECT_EQ(busy.details.term, state().term);
  EXPECT_GT(busy.details.retry_after_us, 0u);
  EXPECT_EQ(busy.details.retry_after_us, busy.retry_after_us);
}

TEST_F(CoordinatorTest, MalformedBodiesAreRefused) {
  start(1);
  const Locator to{"tcp", {"10.0.0.1", FakeCluster::kCoordinatorPort}};
  for (const Opcode opcode : {Opcode::kGetClusterInfo, Opcode::kCreateTable, Opcode::kDropTable,
                              Opcode::kListTables, Opcode::kGetTable, Opcode::kEnlist}) {
    const auto reply = cluster.wait_for(
        cluster.client->call(to, 0, opcode, "\xff\xff\xff\xff\x01", cluster.reactor.now() + 5s));
    EXPECT_EQ(reply.status.code(), StatusCode::kInvalidArgument) << static_cast<int>(opcode);
  }
}

}  // namespace
}  // namespace ramcloud
