#include "coordinator/metadata/tablet_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/testing/fake_cluster.h"
#include "runtime/when_all.h"

namespace ramcloud {
namespace {

using ::testing::ElementsAre;
using testing::FakeCluster;
using ::testing::HasSubstr;

constexpr uint64_t kLast = ~uint64_t{0};
constexpr uint64_t kHalf = uint64_t{1} << 63;

/// Servers 1 and 2 are UP, 3 and 4 crashed. Table 1 has a tablet on 1 and one on 3, table 2 all
/// on 4.
class TabletChangesTest : public ::testing::Test {
 protected:
  void SetUp() override { open(); }
  void open(uint16_t format = kMetadataFormatMax) {
    ASSERT_FALSE(opened_);
    opened_ = true;
    while (store.leading() == 0) (void)cluster.wait_for(store.campaign("me"));
    auto opened = cluster.wait_for(ledger.open("test", store.leading()));
    ASSERT_TRUE(opened.has_value());
    state = std::move(*opened);
    state.format = format;
    state.ids = {4, 2};
    MetadataChange change;
    change.put(kIdsKey, state.ids);
    for (uint64_t id = 1; id <= 4; ++id) {
      ServerRecord& record = state.servers[id].record;
      record.id = id;
      record.state = id <= 2 ? wire::ServerState::kUp : wire::ServerState::kCrashed;
      change.put(server_key(id), record);
    }
    ASSERT_TRUE(cluster.wait_for(commit(std::move(change))).ok());
    make({.id = 1,
          .name = "t",
          .state = TableState::kNormal,
          .tablets = {{0, kHalf - 1, 1}, {kHalf, kLast, 3}},
          .span = 2});
    make({.id = 2,
          .name = "u",
          .state = TableState::kNormal,
          .tablets = {{0, kLast, 4}},
          .span = 1});
    check();
  }
  Task<Status> commit(MetadataChange change) {
    const AsyncMutex::Lock lock = co_await ledger.lock();
    co_return co_await ledger.commit(lock, std::move(change));
  }
  Task<Status> write(TableRecord table) {
    const AsyncMutex::Lock lock = co_await ledger.lock();
    co_return co_await writer.write(lock, std::move(table));
  }
  void make(TableRecord table) { ASSERT_TRUE(cluster.wait_for(write(std::move(table))).ok()); }
  void check() {
    const Status sound = invariants.check(state);
    EXPECT_TRUE(sound.ok()) << sound.to_string();
    const auto stored = read_cluster_state(cluster.metadata.records);
    ASSERT_TRUE(stored.has_value()) << stored.error().to_string();
    for (const auto& [id, table] : state.tables) {
      EXPECT_TRUE(std::ranges::equal(
          stored->tables.at(id).tablets, table.tablets,
          [](const auto& a, const auto& b) { return !differs(a, b) && a.revision == b.revision; }))
          << "table " << id << " is recorded otherwise";
      EXPECT_TRUE(stored->tables.at(id).strays.empty());
    }
  }
  StatusCode split(uint64_t table_id, uint64_t at) {
    return code(cluster.wait_for(changes.split(table_id, {at})));
  }
  StatusCode recover(std::vector<TabletRange> ranges, uint64_t attempt) {
    return code(cluster.wait_for(changes.set_recovering(std::move(ranges), attempt)));
  }
  StatusCode hand_over(HandOver wanted) {
    return code(cluster.wait_for(changes.hand_over(wanted)));
  }
  StatusCode code(const Status& status) {
    check();
    why = status.message();
    return status.code();
  }
  /// They find another change being made, and wait for it.
  std::vector<Status> all_at_once(std::vector<Task<Status>> calls) {
    std::optional<AsyncMutex::Lock> lock = cluster.wait_for(take_lock());
    auto all = when_all(std::move(calls));
    all.resume();
    cluster.run_for(1ms);
    lock.reset();
    EXPECT_TRUE(cluster.run_until([&] { return all.done(); }));
    return all.take();
  }
  Task<AsyncMutex::Lock> take_lock() { co_return co_await ledger.lock(); }
  const TabletRecord& tablet(uint64_t table_id, size_t i) {
    return state.tables.at(table_id).tablets.at(i);
  }
  uint64_t commits() const { return cluster.metadata.commits; }

  FakeCluster cluster;
  SimMetadata store{cluster.reactor, cluster.metadata, {.lease = std::chrono::hours(1)}};
  Ledger ledger{cluster.reactor, store};
  ClusterState state;
  TableWriter writer{state, ledger};
  std::vector<uint64_t> changed;
  TabletChanges changes{state, ledger, writer, [this](uint64_t id) { changed.push_back(id); }};
  Invariants invariants;
  std::string why;
  bool opened_ = false;
};

TEST_F(TabletChangesTest, ATabletOfADeadServerIsSplitAndEachPartHandedOver) {
  ASSERT_EQ(split(2, kHalf), StatusCode::kOk);
  ASSERT_EQ(recover({{2, 0, kHalf - 1}, {2, kHalf, kLast}}, 7), StatusCode::kOk);
  EXPECT_EQ(tablet(2, 0).status, TabletStatus::kRecovering);
  EXPECT_EQ(state.table_info(state.tables.at(2), Side::kInside).tablets[0].state,
            wire::TabletState::kUnavailable);
  ASSERT_EQ(hand_over({{2, kHalf, kLast}, 1, 55, 7}), StatusCode::kOk);
  EXPECT_EQ(tablet(2, 0).server_id, 4u);
  EXPECT_EQ(tablet(2, 0).status, TabletStatus::kRecovering);
  const TabletRecord& second = tablet(2, 1);
  EXPECT_EQ(second.server_id, 1u);
  EXPECT_EQ(second.status, TabletStatus::kNormal);
  EXPECT_EQ(second.creation_position, 55u);
  EXPECT_EQ(second.attempt, 7u);
  EXPECT_EQ(second.revision, ledger.revision());
  EXPECT_EQ(state.tables.at(2).latest_revision(), ledger.revision());
  EXPECT_EQ(state.tables.at(2).span, 1u);
  EXPECT_THAT(changed, ElementsAre(2, 2, 2));
}

TEST_F(TabletChangesTest, WhatIsDoneAlreadyIsOkAndChangesNothing) {
  ASSERT_EQ(split(2, kHalf), StatusCode::kOk);
  ASSERT_EQ(recover({{2, 0, kHalf - 1}}, 7), StatusCode::kOk);
  ASSERT_EQ(hand_over({{2, 0, kHalf - 1}, 1, 55, 7}), StatusCode::kOk);
  const uint64_t before = commits();
  EXPECT_EQ(split(2, kHalf), StatusCode::kOk);
  EXPECT_EQ(split(2, 0), StatusCode::kOk);
  EXPECT_EQ(hand_over({{2, 0, kHalf - 1}, 1, 55, 7}), StatusCode::kOk);
  ASSERT_EQ(recover({{2, kHalf, kLast}}, 8), StatusCode::kOk);
  EXPECT_EQ(recover({{2, kHalf, kLast}}, 8), StatusCode::kOk);
  EXPECT_EQ(commits(), before + 1);
}

TEST_F(TabletChangesTest, ALateCompletionOfAnOldAttemptIsRefused) {
  ASSERT_EQ(recover({{2, 0, kLast}}, 7), StatusCode::kOk);
  ASSERT_EQ(recover({{2, 0, kLast}}, 8), StatusCode::kOk);
  EXPECT_EQ(hand_over({{2, 0, kLast}, 1, 55, 7}), StatusCode::kWrongVersion);
  EXPECT_THAT(why, HasSubstr("attempt 7 is over; the last one is 8"));
  EXPECT_EQ(hand_over({{2, 0, kLast}, 1, 55, 9}), StatusCode::kWrongVersion);
  EXPECT_EQ(tablet(2, 0).status, TabletStatus::kRecovering);
  ASSERT_EQ(hand_over({{2, 0, kLast}, 2, 66, 8}), StatusCode::kOk);
  // Another server has the tablet by the same attempt.
  EXPECT_EQ(hand_over({{2, 0, kLast}, 1, 55, 8}), StatusCode::kWrongVersion);
  EXPECT_EQ(hand_over({{2, 0, kLast}, 1, 55, 7}), StatusCode::kWrongVersion);
  EXPECT_EQ(tablet(2, 0).server_id, 2u);
}

TEST_F(TabletChangesTest, AnAttemptIsHigherThanAllBefore) {
  ASSERT_EQ(recover({{2, 0, kLast}}, 7), StatusCode::kOk);
  EXPECT_EQ(recover({{2, 0, kLast}}, 6), StatusCode::kWrongVersion);
  ASSERT_EQ(hand_over({{2, 0, kLast}, 1, 55, 7}), StatusCode::kOk);
  state.servers.at(1).record.state = wire::ServerState::kCrashed;
  state.list_version = ledger.revision();
  EXPECT_EQ(recover({{2, 0, kLast}}, 7), StatusCode::kWrongVersion);
  EXPECT_EQ(recover({{2, 0, kLast}}, 8), StatusCode::kOk);
  EXPECT_EQ(tablet(2, 0).creation_position, 55u) << "that of the log it is recovered from";
}

TEST_F(TabletChangesTest, OnlyAServerThatIsUpGetsATablet) {
  ASSERT_EQ(recover({{2, 0, kLast}}, 7), StatusCode::kOk);
  for (const uint64_t server : {3, 9, 0}) {
    EXPECT_EQ(hand_over({{2, 0, kLast}, server, 55, 7}), StatusCode::kCrashed) << server;
  }
  EXPECT_EQ(tablet(2, 0).server_id, 4u);
}

TEST_F(TabletChangesTest, TabletsOfServersThatAreUpAreLeftAlone) {
  EXPECT_EQ(split(1, 99), StatusCode::kInvalidArgument);
  EXPECT_THAT(why, HasSubstr("server 1, which has the tablet, is UP"));
  // All or nothing.
  EXPECT_EQ(recover({{2, 0, kLast}, {1, 0, kLast}}, 7), StatusCode::kInvalidArgument);
  EXPECT_EQ(tablet(2, 0).status, TabletStatus::kNormal);
  EXPECT_EQ(hand_over({{1, 0, kHalf - 1}, 2, 55, 0}), StatusCode::kWrongVersion)
      << "nobody recovers it";
}

TEST_F(TabletChangesTest, ATableThatIsDroppedOrBeingCreatedIsRefused) {
  ASSERT_EQ(recover({{2, 0, kLast}}, 7), StatusCode::kOk);
  TableRecord table = state.tables.at(2);
  table.state = TableState::kDropping;
  make(table);
  EXPECT_EQ(hand_over({{2, 0, kLast}, 1, 55, 7}), StatusCode::kNotFound);
  EXPECT_EQ(recover({{2, 0, kLast}}, 8), StatusCode::kNotFound);
  EXPECT_EQ(split(2, kHalf), StatusCode::kNotFound);
  EXPECT_EQ(hand_over({{3, 0, kLast}, 1, 55, 7}), StatusCode::kNotFound);
  table = state.tables.at(1);
  table.state = TableState::kCreating;
  make(table);
  EXPECT_EQ(recover({{1, kHalf, kLast}}, 7), StatusCode::kRetry);
  EXPECT_EQ(split(1, kHalf + 1), StatusCode::kRetry);
}

TEST_F(TabletChangesTest, RangesAreWholeTablets) {
  ASSERT_EQ(recover({{2, 0, kLast}}, 7), StatusCode::kOk);
  for (const TabletRange range :
       {TabletRange{2, 0, kHalf}, {2, 1, kLast}, {2, kLast, 0}, {1, kHalf, kLast - 1}}) {
    EXPECT_EQ(hand_over({range, 1, 55, 7}), StatusCode::kInvalidArgument);
    EXPECT_EQ(recover({range}, 8), StatusCode::kInvalidArgument);
  }
}

/// Each is judged by itself; hand-overs that wait for the lock together share a transaction.
TEST_F(TabletChangesTest, HandOversOfOneMomentShareATransaction) {
  ASSERT_EQ(split(2, kHalf), StatusCode::kOk);
  ASSERT_EQ(recover({{2, 0, kHalf - 1}, {2, kHalf, kLast}, {1, kHalf, kLast}}, 7), StatusCode::kOk);
  const uint64_t before = commits();
  std::vector<Task<Status>> calls;
  calls.push_back(changes.hand_over({{2, 0, kHalf - 1}, 1, 55, 7}));
  calls.push_back(changes.hand_over({{2, kHalf, kLast}, 3, 1, 7}));  // it is not UP
  calls.push_back(changes.hand_over({{2, kHalf, kLast}, 2, 66, 7}));
  calls.push_back(changes.hand_over({{2, kHalf, kLast}, 2, 66, 7}));  // sent twice
  calls.push_back(changes.hand_over({{1, kHalf, kLast}, 2, 77, 7}));
  const auto outcomes = all_at_once(std::move(calls));
  std::vector<StatusCode> codes;
  for (const Status& status : outcomes) codes.push_back(status.code());
  EXPECT_THAT(codes, ElementsAre(StatusCode::kOk, StatusCode::kCrashed, StatusCode::kOk,
                                 StatusCode::kOk, StatusCode::kOk));
  EXPECT_EQ(commits(), before + 1);
  check();
  EXPECT_EQ(tablet(2, 0).server_id, 1u);
  EXPECT_EQ(tablet(2, 1).server_id, 2u);
  EXPECT_EQ(tablet(1, 1).server_id, 2u);
}

/// A hand-over that waits when the leadership is lost is not done, not even one that was asked for
/// twice.
TEST_F(TabletChangesTest, NothingIsPromisedThatIsNotDurable) {
  ASSERT_EQ(recover({{2, 0, kLast}}, 7), StatusCode::kOk);
  cluster.metadata.leader = {++cluster.metadata.last_leadership, "another"};
  std::vector<Task<Status>> calls;
  for (int i = 0; i < 2; ++i) calls.push_back(changes.hand_over({{2, 0, kLast}, 1, 55, 7}));
  for (const Status& status : all_at_once(std::move(calls))) {
    EXPECT_EQ(status.code(), StatusCode::kNotLeader);
  }
  EXPECT_EQ(tablet(2, 0).server_id, 4u);
}

/// A recovery by a thousand masters needs a thousand tablets.
TEST_F(TabletChangesTest, ManySplitsShareTransactions) {
  std::vector<uint64_t> at;
  for (uint64_t i = 1; i < 1024; ++i) at.push_back(i << 54);
  at.push_back(kHalf);  // once more
  const uint64_t before = commits();
  ASSERT_EQ(code(cluster.wait_for(changes.split(2, at))), StatusCode::kOk);
  EXPECT_LE(commits() - before, 4u);
  const TableRecord& table = state.tables.at(2);
  ASSERT_EQ(table.tablets.size(), 1024u);
  for (uint64_t i = 0; i < 1024; ++i) EXPECT_EQ(table.tablets[i].start_hash, i << 54);
  for (auto chunk = table.chunks.begin(); chunk != table.chunks.end(); ++chunk) {
    const auto next = std::next(chunk);
    const uint64_t end = next == table.chunks.end() ? kLast : next->first - 1;
    EXPECT_LE(std::ranges::count_if(table.tablets,
                                    [&](const auto& t) {
                                      return chunk->first <= t.start_hash && t.start_hash <= end;
                                    }),
              static_cast<int64_t>(kMostTabletsInAChunk));
  }
}

/// No transaction leaves a hole: after each of them another leader may read the table.
TEST_F(TabletChangesTest, SplitsThatNeedSeveralTransactionsAreWholeAfterEach) {
  size_t transactions = 0;
  store.set_probe([&](SimMetadata::Point point, const MetadataTransaction&) {
    if (point == SimMetadata::Point::kBefore) return;
    ++transactions;
    const auto stored = read_cluster_state(cluster.metadata.records);
    ASSERT_TRUE(stored.has_value()) << stored.error().to_string();
    const auto& tablets = stored->tables.at(2).tablets;
    uint64_t begin = 0;
    for (const TabletRecord& tablet : tablets) {
      EXPECT_EQ(tablet.start_hash, begin);
      begin = tablet.end_hash + 1;
    }
    EXPECT_EQ(begin, 0u) << "up to the last hash";
    EXPECT_TRUE(stored->tables.at(2).strays.empty());
  });
  TableWriter small(state, ledger, 7);
  TabletChanges few(state, ledger, small, [](uint64_t) {});
  std::vector<uint64_t> at;
  for (uint64_t i = 1; i < 256; ++i) at.push_back(i << 56);
  ASSERT_EQ(code(cluster.wait_for(few.split(2, at))), StatusCode::kOk);
  EXPECT_GT(transactions, 3u);
  EXPECT_EQ(state.tables.at(2).tablets.size(), 256u);
}

/// A small record, however many tablets the table has.
TEST_F(TabletChangesTest, AChangeOfOneTabletWritesOneChunk) {
  for (uint64_t i = 1; i < 64; ++i) ASSERT_EQ(split(2, i << 58), StatusCode::kOk);
  EXPECT_EQ(state.tables.at(2).tablets.size(), 64u);
  EXPECT_GE(state.tables.at(2).chunks.size(), 4u);
  for (const auto& [start, unknown] : state.tables.at(2).chunks) {
    const auto& bytes = cluster.metadata.records.at(tablet_chunk_key(2, 1, start));
    EXPECT_LT(bytes.size(), 1200u);
  }
  ASSERT_EQ(recover({{2, 0, kLast}}, 7), StatusCode::kOk);
  std::vector<std::string> written;
  store.set_probe([&](SimMetadata::Point point, const MetadataTransaction& t) {
    if (point == SimMetadata::Point::kBefore) return;
    for (const auto& put : t.puts) written.push_back(put.first);
  });
  const uint64_t start = uint64_t{5} << 58;
  ASSERT_EQ(hand_over({{2, start, (uint64_t{6} << 58) - 1}, 1, 55, 7}), StatusCode::kOk);
  const auto chunk = std::prev(state.tables.at(2).chunks.upper_bound(start))->first;
  EXPECT_THAT(written, ElementsAre(tablet_chunk_key(2, 1, chunk), kTermKey));
}

TEST_F(TabletChangesTest, MoreThanFitsInATransactionWaitsForTheNextOrIsRefused) {
  for (uint64_t i = 1; i < 64; ++i) ASSERT_EQ(split(2, i << 58), StatusCode::kOk);
  ASSERT_EQ(recover({{2, 0, kLast}}, 7), StatusCode::kOk);
  TableWriter small(state, ledger, 2);
  TabletChanges few(state, ledger, small, [](uint64_t) {});
  EXPECT_EQ(code(cluster.wait_for(few.hand_over({{2, 0, kLast}, 1, 55, 7}))),
            StatusCode::kInvalidArgument);
  const uint64_t before = commits();
  std::vector<Task<Status>> calls;
  for (uint64_t i = 0; i < 64; i += 16) {
    calls.push_back(few.hand_over({{2, i << 58, (i << 58) + (uint64_t{1} << 58) - 1}, 1, 55, 7}));
  }
  for (const Status& status : all_at_once(std::move(calls))) {
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  EXPECT_EQ(commits(), before + 2);
  check();
}

/// An earlier leader wrote some of its chunks, and died.
TEST_F(TabletChangesTest, TheNumberOfALayoutThatWasNotFinishedIsNotUsedAgain) {
  cluster.metadata.records[tablet_chunk_key(2, 2, 0)] =
      encode_record(TabletChunkRecord{2, 2, {{0, kHalf, 1}}}, kMetadataFormatMax);
  state.tables.at(2).strays = {{2, 0}};
  TableRecord table = state.tables.at(2);
  table.chunks.clear();
  make(table);
  check();
  EXPECT_EQ(state.tables.at(2).layout, 3u);
  EXPECT_FALSE(cluster.metadata.records.contains(tablet_chunk_key(2, 2, 0)));
}

/// As after an import: the servers have the table, the metadata do not. The leader may die after each
/// transaction.
TEST_F(TabletChangesTest, ANewTableThatIsWrittenInStepsCanBeReadAfterEach) {
  state.ids = {4, 3};
  MetadataChange ids;
  ids.put(kIdsKey, state.ids);
  ASSERT_TRUE(cluster.wait_for(commit(std::move(ids))).ok());
  TableRecord table{.id = 3,
                    .name = "v",
                    .state = TableState::kNormal,
                    .tablets = tablets_of_span(64),
                    .span = 64};
  for (TabletRecord& t : table.tablets) t.server_id = 1;
  size_t steps = 0;
  store.set_probe([&](SimMetadata::Point point, const MetadataTransaction&) {
    if (point == SimMetadata::Point::kBefore) return;
    ++steps;
    const auto stored = read_cluster_state(cluster.metadata.records);
    ASSERT_TRUE(stored.has_value()) << "step " << steps << ": " << stored.error().to_string();
    const Status sound = Invariants().check(*stored);
    EXPECT_TRUE(sound.ok()) << "step " << steps << ": " << sound.to_string();
  });
  TableWriter small(state, ledger, 4);
  const auto write_in_steps = [&]() -> Task<Status> {
    const AsyncMutex::Lock lock = co_await ledger.lock();
    co_return co_await small.write(lock, table);
  };
  EXPECT_TRUE(cluster.wait_for(write_in_steps()).ok());
  EXPECT_GT(steps, 2u);
  check();
  EXPECT_EQ(state.tables.at(3).state, TableState::kNormal);
}

TEST_F(TabletChangesTest, ThereAreNotMoreTabletsThanAListHolds) {
  TableRecord table = state.tables.at(2);
  table.tablets = tablets_of_span(kMaxTablets - 2);
  for (TabletRecord& t : table.tablets) t.server_id = 4;
  table.chunks.clear();
  make(table);
  EXPECT_EQ(split(2, 1), StatusCode::kInvalidArgument);
  EXPECT_THAT(why, HasSubstr("at most 16384 tablets"));
}

/// Metadata of earlier formats has no field for it.
TEST_F(TabletChangesTest, FormerFormatsAreRefused) {
  state.format = 2;
  EXPECT_EQ(split(2, kHalf), StatusCode::kUnsupported);
  EXPECT_EQ(recover({{2, 0, kLast}}, 7), StatusCode::kUnsupported);
  EXPECT_EQ(hand_over({{2, 0, kLast}, 1, 55, 7}), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace ramcloud
