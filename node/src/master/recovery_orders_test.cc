// The coordinator's orders to a recovery master.
#include "master/recovery_orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "master/testing/recovery_fixture.h"

namespace ramcloud::master {
namespace {

using store::testing::kDeadMaster;
using store::testing::object_entry;
using store::testing::tombstone_entry;
using ::testing::HasSubstr;
using wire::HashRange;
using wire::Opcode;
using wire::RecoveryPhase;

using RecoveryOrdersTest = testing::RecoveryFixture;

/// Whole tables, from the first on.
std::vector<HashRange> tablets_of(uint64_t tables) {
  std::vector<HashRange> all;
  for (uint64_t table = 1; table <= tables; ++table) all.push_back({table, 0, ~uint64_t{0}});
  return all;
}

TEST_F(RecoveryOrdersTest, WhatADeadMasterHadIsServed) {
  dead_[3] = {object_entry(1, "a", "old"), object_entry(2, "b", "gone"), object_entry(3, "c", "c")};
  dead_[4] = {object_entry(7, "a", "new"), tombstone_entry(1, "a"), tombstone_entry(2, "b"),
              object_entry(9, "d", "d")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(state(7)->segments_done, 2u);
  EXPECT_EQ(state(7)->objects, 3u);
  EXPECT_GT(state(7)->bytes_fetched, 0u);
  EXPECT_EQ(state(7)->creation_position, 0u) << "it was never here";
  EXPECT_EQ(read_status("a"), StatusCode::kUnknownTablet) << "before the coordinator's word";
  EXPECT_EQ(backups_[0]->requests.front().segment_id, 4u) << "newest first";
  EXPECT_EQ(backups_[0]->requests.front().frame, 5u);
  expect_invariants();

  ASSERT_EQ(serve(7), StatusCode::kOk);
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kServing);
  EXPECT_EQ(read("a"), "new");
  EXPECT_EQ(read_status("b"), StatusCode::kNotFound);
  EXPECT_EQ(read("c"), "c");
  EXPECT_EQ(read("d"), "d");
  EXPECT_GE(write("b"), testing::kDeadSafeVersion);
  EXPECT_TRUE(run_until([&] { return store_.table().entries() == 4; })) << "tombstones are swept";
  expect_invariants();
  const auto tables = tablets_.restate();
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].name, "table1");
  EXPECT_EQ(tables[0].revision, 5u);
  EXPECT_EQ(tables[0].tablets.size(), 1u);
  EXPECT_THAT(metrics_.text(), HasSubstr("ramcloud_recovery_parts_total{outcome=\"served\"} 1"));
}

TEST_F(RecoveryOrdersTest, OrdersThatComeAgainChangeNothing) {
  dead_[3] = {object_entry(1, "a", "1")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kReady);
  ASSERT_EQ(serve(7), StatusCode::kOk);
  const uint64_t version = write("a");
  EXPECT_EQ(serve(7), StatusCode::kOk);
  EXPECT_EQ(recover(part(7)), StatusCode::kOk);
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kServing);
  EXPECT_EQ(abort(7), StatusCode::kOk) << "what is served stays";
  run_for(1s);
  EXPECT_EQ(serve(7), StatusCode::kOk);
  store::ReadResult result;
  ASSERT_EQ(store_.read(1, "a", {}, result), StatusCode::kOk);
  EXPECT_EQ(result.version, version);
  EXPECT_EQ(backups_[0]->requests.size(), 1u);
}

/// After an import the metadata have the attempt of the export.
TEST_F(RecoveryOrdersTest, WhatALaterAttemptBroughtIsServedAlready) {
  ASSERT_EQ(recover(part(9)), StatusCode::kOk);
  ASSERT_TRUE(reaches(9, RecoveryPhase::kReady));
  EXPECT_EQ(serve(7), StatusCode::kNotFound) << "the metadata may not name this server";
  ASSERT_EQ(serve(9), StatusCode::kOk);
  EXPECT_EQ(serve(7), StatusCode::kOk);
  EXPECT_EQ(serve(7, {{1, 0, 9}}), StatusCode::kNotFound) << "another range";
  EXPECT_EQ(serve(10), StatusCode::kNotFound);
  EXPECT_EQ(serve(7, {testing::kWholeTable}, 4), StatusCode::kStaleTerm) << "an older order";
}

TEST_F(RecoveryOrdersTest, OutdatedOrdersAreRefused) {
  ASSERT_TRUE(servers_.check_term(1).ok());
  EXPECT_EQ(state(7), std::nullopt);
  EXPECT_EQ(serve(7), StatusCode::kNotFound);
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  EXPECT_EQ(recover(part(6, {{2, 0, 9}})), StatusCode::kStaleTerm);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(serve(6), StatusCode::kNotFound) << "of another attempt";
  EXPECT_EQ(serve(7, {{1, 0, 9}}), StatusCode::kNotFound) << "another range";
  ASSERT_EQ(abort(8), StatusCode::kOk);
  EXPECT_EQ(state(7), std::nullopt);
  EXPECT_EQ(serve(7), StatusCode::kNotFound);
  EXPECT_EQ(recover(part(7)), StatusCode::kStaleTerm) << "late, and over";
  EXPECT_EQ(recover(part(8)), StatusCode::kStaleTerm) << "given up before it came";
  EXPECT_TRUE(nothing_is_left());
  ASSERT_EQ(recover(part(9)), StatusCode::kOk);
  ASSERT_TRUE(servers_.check_term(2).ok());
  auto late = part(10);
  EXPECT_EQ(recover(late), StatusCode::kStaleTerm);
  EXPECT_EQ(serve(9), StatusCode::kStaleTerm);
  EXPECT_EQ(abort(9), StatusCode::kStaleTerm);
}

/// A part that took one for the order of an empty log would serve its tablets without their data.
TEST_F(RecoveryOrdersTest, AnOrderWithoutItsSegmentsIsRefused) {
  dead_[3] = {object_entry(1, "a", "1")};
  const auto refused = [&](const wire::RecoverRequest& request) {
    const auto reply = ask(Opcode::kRecover, request);
    EXPECT_THAT(reply.body, HasSubstr("packed_segments must be there, and segments empty"));
    return reply.status == StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(part(7)));
  auto both = packed(part(7));
  both.segments = part(7).segments;
  EXPECT_TRUE(refused(both));
  EXPECT_EQ(state(7), std::nullopt);
  version_ = wire::kPackedSegments - 1;
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(state(7)->objects, 1u);
}

TEST_F(RecoveryOrdersTest, APartWhoseSegmentsDoNotDecodeFails) {
  for (uint64_t id = 1; id <= 600; ++id) dead_[id] = {object_entry(1, "a", "1")};
  auto request = packed(part(7));
  request.packed_segments.pop_back();
  ASSERT_EQ(order(Opcode::kRecover, request), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kFailed));
  EXPECT_EQ(state(7)->status, static_cast<uint16_t>(StatusCode::kInvalidArgument));
  EXPECT_THAT(state(7)->why, HasSubstr("do not decode"));
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(RecoveryOrdersTest, OrdersThatCanNeverWorkSayWhy) {
  EXPECT_EQ(order(Opcode::kRecover, wire::Empty{}), StatusCode::kInvalidArgument);
  EXPECT_EQ(order(Opcode::kServeRecovered, wire::Empty{}), StatusCode::kInvalidArgument);
  EXPECT_EQ(order(Opcode::kAbortRecovery, wire::Empty{}), StatusCode::kInvalidArgument);
  EXPECT_EQ(order(Opcode::kGetRecoveryState, wire::Empty{}), StatusCode::kInvalidArgument);
  const auto why = [&](const wire::RecoverRequest& request) {
    const auto reply = ask(Opcode::kRecover, packed(request));
    EXPECT_EQ(reply.status, StatusCode::kInvalidArgument);
    return reply.body;
  };
  EXPECT_THAT(why(part(0)), HasSubstr("attempt is 0"));
  EXPECT_THAT(why(part(1, {})), HasSubstr("tablets is empty"));
  EXPECT_THAT(why(part(1, {{1, 9, 8}})), HasSubstr("[9, 8] of table 1"));
  EXPECT_THAT(why(part(1, {{1, 5, 9}, {2, 0, 9}, {1, 0, 5}})), HasSubstr("overlap"));
  EXPECT_THAT(why(part(1, tablets_of(TabletRecovery::kMostTablets + 1))),
              HasSubstr("at most 4096 are accepted"));
  EXPECT_EQ(serve(1, {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(serve(1, {{1, 0, 9}, {2, 0, 9}}), StatusCode::kNotFound);
  ASSERT_EQ(recover(part(1, {{1, 0, 9}, {2, 0, 9}})), StatusCode::kOk);
  ASSERT_TRUE(reaches(1, RecoveryPhase::kReady));
  EXPECT_EQ(serve(1, {{1, 0, 9}, {2, 0, 9}}), StatusCode::kInvalidArgument) << "of two tables";
}

TEST_F(RecoveryOrdersTest, APartMayHaveManyTablets) {
  for (uint64_t table = 1; table <= 100; ++table) {
    dead_[3].push_back(object_entry(1, "a", "1", table));
  }
  ASSERT_EQ(recover(part(7, tablets_of(100))), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(state(7)->objects, 100u);
  ASSERT_EQ(serve(7, {tablets_of(100).back()}), StatusCode::kOk);
  EXPECT_EQ(read("a", 100), "1");
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kReady) << "99 are still to be served";
  ASSERT_EQ(abort(7), StatusCode::kOk);
  ASSERT_TRUE(run_until([&] { return store_.tablets().size() == 1; }));
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kServing);
  expect_invariants();
}

TEST_F(RecoveryOrdersTest, TheStateIsToldWhenItChanges) {
  dead_[3] = {object_entry(1, "a", "1")};
  backups_[0]->holds = true;
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  wire::GetRecoveryStateRequest asked{1, kDeadMaster, 7, RecoveryPhase::kReplaying, 60'000};
  const uint64_t first = post(Opcode::kGetRecoveryState, asked);
  run_for(900ms);
  EXPECT_FALSE(transport_.by_call.contains(first));
  run_for(200ms);
  EXPECT_TRUE(transport_.by_call.contains(first)) << "after a second at most";
  const uint64_t second = post(Opcode::kGetRecoveryState, asked);
  run_for(10ms);
  backups_[0]->holds = false;
  backups_[0]->release();
  run_for(10ms);
  EXPECT_TRUE(transport_.by_call.contains(second)) << "at once";
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  asked.known = RecoveryPhase::kReady;
  const uint64_t third = post(Opcode::kGetRecoveryState, asked);
  run_for(10ms);
  ASSERT_EQ(abort(7), StatusCode::kOk);
  run_for(10ms);
  ASSERT_TRUE(transport_.by_call.contains(third));
  EXPECT_EQ(transport_.by_call[third].status, StatusCode::kNotFound);
}

TEST_F(RecoveryOrdersTest, AHigherAttemptGivesUpWhatIsNotServed) {
  constexpr HashRange kOther{2, 0, ~uint64_t{0}}, kThird{3, 0, ~uint64_t{0}};
  dead_[3] = {object_entry(1, "a", "1"), object_entry(1, "a", "2", 2),
              object_entry(1, "a", "3", 3)};
  ASSERT_EQ(recover(part(7, {testing::kWholeTable, kOther, kThird})), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_EQ(serve(7, {kThird}), StatusCode::kOk);
  const StatusCode first = recover(part(9, {kOther}));
  EXPECT_EQ(first, StatusCode::kRetry) << "it is given up first";
  EXPECT_EQ(serve(7, {kOther}), StatusCode::kNotFound);
  ASSERT_TRUE(run_until([&] { return store_.tablets().size() == 2; }));
  ASSERT_EQ(recover(part(9, {kOther})), StatusCode::kOk);
  EXPECT_EQ(serve(7, {testing::kWholeTable}), StatusCode::kOk)
      << "of other ranges, which the metadata gave us";
  ASSERT_TRUE(reaches(9, RecoveryPhase::kReady));
  EXPECT_GT(state(9)->creation_position, 0u) << "entries of the former attempt are in the log";
  ASSERT_EQ(serve(9, {kOther}), StatusCode::kOk);
  EXPECT_EQ(read("a"), "1");
  EXPECT_EQ(read("a", 2), "2");
  EXPECT_EQ(read("a", 3), "3");
  expect_invariants();
}

/// By the next leader: it does not know which parts the former one ordered.
TEST_F(RecoveryOrdersTest, AttemptsOfAllMastersAreGivenUp) {
  constexpr HashRange kOther{2, 0, ~uint64_t{0}}, kThird{3, 0, ~uint64_t{0}};
  dead_[3] = {object_entry(1, "a", "1"), object_entry(1, "a", "2", 2),
              object_entry(1, "a", "3", 3)};
  ASSERT_EQ(recover(part(7, {testing::kWholeTable, kOther})), StatusCode::kOk);
  ASSERT_EQ(recover(part(9, {kThird})), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_TRUE(reaches(9, RecoveryPhase::kReady));
  ASSERT_EQ(serve(7, {kOther}), StatusCode::kOk);
  const auto give_up_all = [&](uint64_t up_to) {
    return order(Opcode::kAbortRecovery,
                 wire::AbortRecoveryRequest{1, wire::AbortRecoveryRequest::kAllMasters, up_to});
  };
  ASSERT_EQ(give_up_all(8), StatusCode::kOk);
  EXPECT_EQ(serve(7, {testing::kWholeTable}), StatusCode::kNotFound);
  EXPECT_EQ(serve(7, {kOther}), StatusCode::kOk) << "what is served stays";
  EXPECT_EQ(serve(9, {kThird}), StatusCode::kOk) << "of a later attempt";
  ASSERT_TRUE(run_until([&] { return store_.tablets().size() == 2; }));
  EXPECT_EQ(read("a", 2), "2");
  EXPECT_EQ(read("a", 3), "3");
  ASSERT_EQ(recover(part(10)), StatusCode::kOk) << "later ones may begin";
  ASSERT_EQ(give_up_all(10), StatusCode::kOk);
  EXPECT_EQ(state(10), std::nullopt);
  ASSERT_TRUE(run_until([&] { return store_.tablets().size() == 2; }));
  expect_invariants();
}

TEST_F(RecoveryOrdersTest, AnAttemptThatStillFetchesIsGivenUp) {
  dead_[3] = {object_entry(1, "a", "1")};
  backups_[0]->holds = true;
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(run_until([&] { return backups_[0]->requests.size() == 1; }));
  EXPECT_EQ(recover(part(8)), StatusCode::kRetry);
  EXPECT_EQ(state(7), std::nullopt);
  ASSERT_TRUE(nothing_is_left());
  backups_[0]->holds = false;
  ASSERT_EQ(recover(part(8)), StatusCode::kOk);
  ASSERT_TRUE(reaches(8, RecoveryPhase::kReady)) << "others may fetch";
  backups_[0]->release();  // too late
  run_for(1s);
  ASSERT_EQ(serve(8), StatusCode::kOk);
  EXPECT_EQ(read("a"), "1");
}

TEST_F(RecoveryOrdersTest, ADroppedTableIsGivenUp) {
  constexpr HashRange kOther{2, 0, ~uint64_t{0}};
  dead_[3] = {object_entry(1, "a", "1"), object_entry(1, "a", "2", 2)};
  ASSERT_EQ(recover(part(7, {testing::kWholeTable, kOther})), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_EQ(drop(2), StatusCode::kOk);
  EXPECT_EQ(serve(7, {kOther}, 8), StatusCode::kNotFound);
  ASSERT_TRUE(run_until([&] { return store_.tablets().size() == 1; }));
  EXPECT_EQ(serve(7), StatusCode::kOk) << "the other one stays";
  EXPECT_EQ(read("a"), "1");
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kServing);

  ASSERT_EQ(recover(part(8, {{3, 0, 9}})), StatusCode::kOk);
  ASSERT_EQ(drop(3), StatusCode::kOk);
  EXPECT_EQ(state(8), std::nullopt);
  EXPECT_EQ(serve(7, {testing::kWholeTable}, 4), StatusCode::kStaleTerm)
      << "an older order about the table";
  expect_invariants();
}

}  // namespace
}  // namespace ramcloud::master
