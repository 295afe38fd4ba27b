// The commands that a server follows: those of the newest coordinator, about the newest state of a
// table.
#include "master/tablet_service.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "master/testing/master_fixture.h"
#include "master/testing/rebuilt_keys.h"
#include "transport/testing/recorded_replies.h"

namespace ramcloud::master {
namespace {

class TabletServiceTest : public testing::MasterFixture<ramcloud::testing::RecordedReplies> {
 protected:
  ~TabletServiceTest() override { node_.reactor().set_epochs(nullptr); }
  TabletServiceTest() : MasterFixture(4, true) {
    node_.reactor().set_epochs(&participant_);
    service_.attach(store_);
  }
  template <typename Message>
  StatusCode send(wire::Opcode opcode, const Message& message) {
    const size_t before = transport_.answered.size();
    MasterFixture::send(opcode, wire::encode(message, wire::kVersionMax));
    EXPECT_TRUE(sim_.run_until([&] { return transport_.answered.size() > before; }, 10s));
    EXPECT_EQ(transport_.answered.size(), before + 1);
    return transport_.last().status;
  }
  StatusCode take(uint64_t term, uint64_t revision, uint64_t table) {
    return send(wire::Opcode::kTakeTablet,
                wire::TakeTabletRequest{term, revision, table, 0, ~uint64_t{0}});
  }
  StatusCode drop(uint64_t term, uint64_t revision, uint64_t table) {
    return send(wire::Opcode::kDropTablet, wire::DropTabletRequest{term, revision, table});
  }
  /// Of the answer to the last take().
  uint64_t told_position() const {
    wire::TakeTabletReply told;
    EXPECT_TRUE(wire::decode(transport_.last().body, wire::kVersionMax, told));
    return told.creation_position;
  }
  size_t tablets() const {
    return static_cast<size_t>(std::ranges::count(store_.tablets(), store::TabletState::kNormal,
                                                  &store::TabletCounts::state));
  }

  ServerList servers_;
  Epochs epochs_;
  Epochs::Participant participant_{epochs_};
  TabletService service_{registry_, node_.reactor(), replies_, servers_, epochs_};
};

TEST_F(TabletServiceTest, ARefusedCoordinatorChangesNothing) {
  ASSERT_EQ(take(5, 1, 1), StatusCode::kOk);
  EXPECT_EQ(take(4, 9, 2), StatusCode::kStaleTerm);
  EXPECT_EQ(drop(4, 9, 1), StatusCode::kStaleTerm);
  EXPECT_EQ(tablets(), 1u);
  // A term counts, no matter which message carried it.
  ASSERT_TRUE(servers_.apply({7, 1, {}}).ok());
  EXPECT_EQ(take(6, 9, 2), StatusCode::kStaleTerm);
  EXPECT_EQ(take(7, 9, 2), StatusCode::kOk);
  EXPECT_EQ(tablets(), 2u);
}

TEST_F(TabletServiceTest, AnOlderDecisionChangesNothing) {
  ASSERT_EQ(take(1, 5, 1), StatusCode::kOk);
  EXPECT_EQ(take(1, 5, 1), StatusCode::kOk) << "the answer may have been lost";
  EXPECT_EQ(drop(1, 4, 1), StatusCode::kStaleTerm);
  EXPECT_EQ(tablets(), 1u);
  EXPECT_EQ(drop(1, 6, 1), StatusCode::kOk);
  EXPECT_EQ(drop(1, 6, 1), StatusCode::kOk) << "dropped already";
  EXPECT_EQ(take(1, 5, 1), StatusCode::kStaleTerm) << "late, and over";
  EXPECT_EQ(tablets(), 0u);
  EXPECT_EQ(take(1, 2, 2), StatusCode::kOk) << "revisions are a table's own";
}

TEST_F(TabletServiceTest, SaysWhatItOwnsAndWhatItWasOrdered) {
  ASSERT_EQ(send(wire::Opcode::kTakeTablet, wire::TakeTabletRequest{1, 5, 1, 0, 9, "first"}),
            StatusCode::kOk);
  ASSERT_EQ(send(wire::Opcode::kTakeTablet, wire::TakeTabletRequest{1, 6, 1, 20, 29, "first"}),
            StatusCode::kOk);
  ASSERT_EQ(send(wire::Opcode::kTakeTablet, wire::TakeTabletRequest{1, 7, 2, 0, 9, "second"}),
            StatusCode::kOk);
  ASSERT_EQ(drop(1, 8, 2), StatusCode::kOk);
  ASSERT_EQ(take(1, 5, 1), StatusCode::kStaleTerm);
  const auto tables = service_.restate();
  ASSERT_EQ(tables.size(), 2u);  // by falling id
  EXPECT_EQ(tables[0].table_id, 2u);
  EXPECT_EQ(tables[0].revision, 8u);
  EXPECT_TRUE(tables[0].dropped);
  EXPECT_TRUE(tables[0].tablets.empty());
  EXPECT_EQ(tables[0].name, "") << "of use to nobody, and many could fill a message";
  EXPECT_EQ(tables[1].revision, 6u);
  EXPECT_FALSE(tables[1].dropped);
  EXPECT_EQ(tables[1].name, "first");
  ASSERT_EQ(tables[1].tablets.size(), 2u);
  EXPECT_EQ(tables[1].tablets[0].end_hash + tables[1].tablets[1].end_hash, 9u + 29u);
}

TEST_F(TabletServiceTest, OnlyTheLatestDropsAreRemembered) {
  constexpr uint64_t kTables = TabletService::kMostDropped + 1;
  for (uint64_t table = 1; table <= kTables; ++table) {
    ASSERT_EQ(drop(1, 10 + table, table), StatusCode::kOk);
  }
  EXPECT_EQ(service_.restate().size(), TabletService::kMostDropped);
  EXPECT_EQ(take(1, 1, 2), StatusCode::kStaleTerm);
  ASSERT_EQ(take(1, kTables + 11, 3), StatusCode::kOk);
  ASSERT_EQ(drop(1, kTables + 12, kTables + 1), StatusCode::kOk) << "there is room for one more";
  EXPECT_EQ(take(1, 1, 2), StatusCode::kStaleTerm);
  EXPECT_EQ(take(1, 1, 3), StatusCode::kStaleTerm);
  EXPECT_EQ(service_.restate().size(), TabletService::kMostDropped + 1);
}

/// Entries of its earlier ownership here are in segments below the one with which it begins.
TEST_F(TabletServiceTest, ATabletThatComesBackBeginsWithANewHead) {
  ASSERT_EQ(take(1, 1, 1), StatusCode::kOk);
  EXPECT_EQ(told_position(), 0u);
  EXPECT_EQ(parts_.log.head().segment_id(), 1u) << "no head is rolled for what is new";
  uint64_t version = 0;
  log::LogPosition position;
  ASSERT_EQ(store_.write(1, "k", "v", {}, version, position), StatusCode::kOk);
  parts_.replicator.finish_all();
  ASSERT_EQ(drop(1, 2, 1), StatusCode::kOk);
  ASSERT_TRUE(sim_.run_until(
      [&] {
        parts_.replicator.finish_all();
        return take(1, 3, 1) == StatusCode::kOk;
      },
      10s))
      << "purged";
  EXPECT_EQ(told_position(), log::LogPosition(2, 0).value);
  EXPECT_EQ(parts_.log.head().segment_id(), 2u);
  EXPECT_EQ(take(1, 3, 1), StatusCode::kOk);
  EXPECT_EQ(told_position(), log::LogPosition(2, 0).value) << "told again, it says the same";
  EXPECT_EQ(parts_.log.head().segment_id(), 2u);
  EXPECT_EQ(service_.restate().front().tablets.front().creation_position,
            log::LogPosition(2, 0).value);
  EXPECT_EQ(take(1, 3, 2), StatusCode::kOk);
  EXPECT_EQ(told_position(), 0u);
}

/// The head that was opened ahead does not list the tablet. Entries below that head would pass for
/// those of a tablet that is not owned any more.
TEST_F(TabletServiceTest, ATabletBeginsWithTheHeadThatWasOpenedAhead) {
  uint64_t version = 0;
  log::LogPosition position;
  ASSERT_EQ(take(1, 1, 1), StatusCode::kOk);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(store_.write(1, "old", std::string(1'000'000, 'x'), {}, version, position),
              StatusCode::kOk);
  }
  ASSERT_EQ(parts_.log.newest_head(), 2u);
  ASSERT_EQ(take(1, 1, 2), StatusCode::kOk);
  EXPECT_EQ(told_position(), 0u) << "it was never here";
  ASSERT_EQ(store_.write(2, "new", "value", {}, version, position), StatusCode::kOk);
  EXPECT_EQ(position.segment_id(), 2u);
  EXPECT_EQ(testing::rebuilt_keys(parts_.log, 1), std::vector<std::string>{"old"});
  EXPECT_EQ(testing::rebuilt_keys(parts_.log, 2), std::vector<std::string>{"new"});
}

/// Whether or not its objects are purged.
TEST_F(TabletServiceTest, HeadsAfterADropDoNotListTheTable) {
  uint64_t version = 0;
  log::LogPosition position;
  ASSERT_EQ(take(1, 1, 1), StatusCode::kOk);
  ASSERT_EQ(store_.write(1, "key", "value", {}, version, position), StatusCode::kOk);
  ASSERT_EQ(parts_.log.roll_head(), StatusCode::kOk);
  parts_.replicator.finish_all();
  EXPECT_EQ(testing::rebuilt_keys(parts_.log, 1), std::vector<std::string>{"key"});
  ASSERT_TRUE(store_.drop_table(1).ok());
  ASSERT_EQ(parts_.log.roll_head(), StatusCode::kOk);
  parts_.replicator.finish_all();
  EXPECT_EQ(testing::rebuilt_keys(parts_.log, 1), std::vector<std::string>{});
}

TEST_F(TabletServiceTest, ADropDoesNotHurryThePurgeOfALaterOne) {
  ASSERT_EQ(take(1, 1, 1), StatusCode::kOk);
  ASSERT_EQ(take(1, 1, 2), StatusCode::kOk);
  uint64_t version = 0;
  log::LogPosition position;
  ASSERT_EQ(store_.write(2, "k", "v", {}, version, position), StatusCode::kOk);
  parts_.replicator.finish_all();  // what the answer to a drop waits for
  ASSERT_EQ(drop(1, 2, 1), StatusCode::kOk);
  // Another reactor still uses tablets that it found before table 2 was dropped.
  Epochs::Participant other(epochs_);
  other.go_online();
  wire::MessageHeader header{};
  header.kind = wire::Kind::kRequest;
  header.opcode = static_cast<uint16_t>(wire::Opcode::kDropTablet);
  registry_.on_request({}, header,
                       wire::encode(wire::DropTabletRequest{1, 2, 2}, wire::kVersionMin));
  sim_.run_for(1s);  // the purge of table 1 goes through the whole hash table meanwhile
  EXPECT_EQ(store_.table().entries(), 1u);
  other.go_offline();
  EXPECT_TRUE(sim_.run_until([&] { return store_.table().entries() == 0; }, 10s));
}

TEST_F(TabletServiceTest, MalformedCommandsAreRefused) {
  EXPECT_EQ(send(wire::Opcode::kTakeTablet, wire::Empty()), StatusCode::kInvalidArgument);
  EXPECT_EQ(send(wire::Opcode::kDropTablet, wire::Empty()), StatusCode::kInvalidArgument);
  EXPECT_EQ(send(wire::Opcode::kTakeTablet, wire::TakeTabletRequest{1, 1, 1, 9, 8}),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(tablets(), 0u);
}

}  // namespace
}  // namespace ramcloud::master
