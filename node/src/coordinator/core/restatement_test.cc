#include "coordinator/core/restatement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ramcloud {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kLast = ~uint64_t{0};
constexpr uint64_t kHalf = uint64_t{1} << 63;

class RestatementTest : public ::testing::Test {
 protected:
  RestatementTest() {
    for (uint64_t id = 1; id <= 4; ++id) server(id, wire::ServerState::kUp);
    state_.ids = {4, 9};
    state_.restate = RestateRecord{100, 4};
    for (uint64_t id = 1; id <= 3; ++id) said_[id].server_id = id;  // 4 is silent
  }
  void server(uint64_t id, wire::ServerState how) {
    state_.servers[id].record.id = id;
    state_.servers[id].record.state = how;
  }
  TableRecord& table(uint64_t id, TableState how, uint64_t revision,
                     std::vector<TabletRecord> tablets) {
    return state_.tables[id] =
               TableRecord{id, fmt::format("t{}", id), how, revision, std::move(tablets)};
  }
  void says(uint64_t server_id, wire::RestatedTable table) {
    said_[server_id].tables.push_back(std::move(table));
  }
  void owns(uint64_t server_id, uint64_t table_id, uint64_t revision, uint64_t start,
            uint64_t end) {
    says(server_id, {table_id, revision, false, fmt::format("t{}", table_id), {{start, end}}});
  }
  void dropped(uint64_t server_id, uint64_t table_id, uint64_t revision) {
    says(server_id, {table_id, revision, true, "", {}});
  }
  /// "0..7 of 1" for each tablet, after the state.
  static std::string text(const TableRecord& table) {
    std::string out = table.state == TableState::kNormal     ? "NORMAL"
                      : table.state == TableState::kCreating ? "CREATING"
                                                             : "DROPPING";
    for (const auto& t : table.tablets) {
      out += fmt::format(" {:x}-{:x}={}", t.start_hash >> 60, t.end_hash >> 60, t.server_id);
    }
    return out;
  }
  /// The result for the only table that changes; "" if none does.
  std::string outcome() {
    owned_ = owned_by(state_, said_, outlived_);
    EXPECT_LE(owned_.tables.size(), 1u);
    return owned_.tables.empty() ? "" : text(owned_.tables[0]);
  }
  std::string all_outcomes() {
    owned_ = owned_by(state_, said_, outlived_);
    std::string all;
    for (const TableRecord& table : owned_.tables) all += (all.empty() ? "" : ", ") + text(table);
    return all;
  }
  std::vector<std::pair<uint64_t, uint64_t>> orphans() const {
    std::vector<std::pair<uint64_t, uint64_t>> all;
    for (const auto& orphan : owned_.orphans) all.emplace_back(orphan.server_id, orphan.table_id);
    return all;
  }

  ClusterState state_;
  Restatements said_;
  ServerIds outlived_;
  Owned owned_;
};

TEST_F(RestatementTest, WhatAgreesIsLeftAlone) {
  table(1, TableState::kNormal, 21, {{0, kHalf - 1, 1}, {kHalf, kLast, 2}});
  owns(1, 1, 20, 0, kHalf - 1);
  owns(2, 1, 20, kHalf, kLast);
  EXPECT_EQ(outcome(), "");
  EXPECT_THAT(orphans(), IsEmpty());
}

TEST_F(RestatementTest, TheHighestRevisionHolds) {
  table(1, TableState::kNormal, 21, {{0, kLast, 1}});
  owns(2, 1, 20, 0, kLast);
  owns(3, 1, 40, 0, kHalf - 1);
  owns(1, 1, 30, kHalf, kLast);
  EXPECT_EQ(outcome(), "NORMAL 0-7=3 8-f=1");
  EXPECT_THAT(orphans(), ElementsAre(std::pair(2, 1))) << "it has lost all of it";
}

TEST_F(RestatementTest, OfEqualOnesTheMetadataDecides) {
  table(1, TableState::kNormal, 10, {{0, kLast, 2}});
  owns(1, 1, 10, 0, kLast);
  owns(2, 1, 10, 0, kLast);
  EXPECT_EQ(outcome(), "");
  said_.erase(2);
  EXPECT_EQ(outcome(), "");
}

/// Only the metadata know what a silent server owns.
TEST_F(RestatementTest, WhatASilentServerHasStaysItsUnlessALaterOrderSaysOtherwise) {
  table(1, TableState::kNormal, 21, {{0, kHalf - 1, 1}, {kHalf, kLast, 4}});
  owns(1, 1, 20, 0, kLast);
  EXPECT_EQ(outcome(), "");
  said_[1].tables[0].revision = 22;
  EXPECT_EQ(outcome(), "NORMAL 0-f=1");
}

/// Nothing was ordered since it answered.
TEST_F(RestatementTest, WhatAServerSaidHoldsThoughItDied) {
  table(1, TableState::kNormal, 21, {{0, kLast, 1}});
  owns(1, 1, 20, 0, kLast);
  owns(3, 1, 40, 0, kLast);
  owns(3, 2, 50, 0, kLast);
  dropped(1, 2, 20);
  server(3, wire::ServerState::kCrashed);
  EXPECT_EQ(all_outcomes(), "NORMAL 0-f=3, NORMAL 0-f=3");
  EXPECT_THAT(orphans(), ElementsAre(std::pair(1, 1)));
  // It is no witness of what it did not say.
  said_[3] = {};
  EXPECT_EQ(outcome(), "");
}

/// Others may have recovered what it owned.
TEST_F(RestatementTest, ServersThatWereGivenUpBeforeDoNotCount) {
  table(1, TableState::kNormal, 21, {{0, kLast, 1}});
  owns(1, 1, 20, 0, kLast);
  owns(3, 1, 40, 0, kLast);
  server(3, wire::ServerState::kCrashed);
  said_[2].list = {3, 150, {}};
  EXPECT_EQ(outcome(), "");
  EXPECT_THAT(orphans(), IsEmpty());
}

TEST_F(RestatementTest, ATableThatWasDroppedSinceIsDropped) {
  table(1, TableState::kNormal, 21, {{0, kHalf - 1, 1}, {kHalf, kLast, 2}});
  dropped(1, 1, 30);
  owns(2, 1, 20, kHalf, kLast);  // the order is on its way
  EXPECT_EQ(outcome(), "DROPPING 0-7=1 8-f=2");
  // An order that is older than the table's state in the metadata does not count.
  said_.clear();
  dropped(1, 1, 20);
  EXPECT_EQ(outcome(), "");
}

TEST_F(RestatementTest, WhatIsDroppedIsDroppedByAllWhoHaveIt) {
  table(1, TableState::kDropping, 21, {{0, kLast, 1}});
  owns(3, 1, 40, 0, kLast);
  dropped(2, 7, 50);
  owns(3, 7, 40, 0, kLast);
  EXPECT_EQ(outcome(), "DROPPING 0-f=1") << "with a revision that servers follow";
  EXPECT_THAT(orphans(), ElementsAre(std::pair(3, 1), std::pair(3, 7)));
  said_[3].tables[0].revision = 20;
  EXPECT_EQ(outcome(), "");
}

TEST_F(RestatementTest, ATableThatWasCreatedSinceIsThere) {
  owns(1, 9, 40, 0, kHalf - 1);
  owns(2, 9, 40, kHalf, kLast);
  EXPECT_EQ(outcome(), "NORMAL 0-7=1 8-f=2");
  EXPECT_EQ(owned_.tables[0].id, 9u);
  EXPECT_EQ(owned_.tables[0].name, "t9");
}

TEST_F(RestatementTest, ItsNameIsItsOwn) {
  table(1, TableState::kNormal, 21, {{0, kLast, 4}}).name = "t9";
  owns(1, 9, 40, 0, kLast);
  ASSERT_EQ(outcome(), "NORMAL 0-f=1");
  EXPECT_EQ(owned_.tables[0].name, "t9-restored-9");
  // Unless the other one goes.
  dropped(2, 1, 30);
  owned_ = owned_by(state_, said_, outlived_);
  ASSERT_EQ(owned_.tables.size(), 2u);
  EXPECT_EQ(owned_.tables[1].name, "t9");
  said_[1].tables[0].name = "a\nb";
  EXPECT_EQ(owned_by(state_, said_, outlived_).tables[1].name, "table-restored-9");
}

/// Otherwise a part of it would look empty.
TEST_F(RestatementTest, APartThatNobodyKnowsIsACrashedServers) {
  owns(1, 9, 40, 0, kHalf - 1);
  EXPECT_EQ(outcome(), "NORMAL 0-7=1 8-f=4");
  EXPECT_THAT(owned_.notes,
              ElementsAre(HasSubstr("was created since"), HasSubstr("no server reports")));
  server(2, wire::ServerState::kCrashed);
  EXPECT_EQ(outcome(), "NORMAL 0-7=1 8-f=4") << "2 said before it died that it has nothing";
  said_.erase(2);
  EXPECT_EQ(outcome(), "NORMAL 0-7=1 8-f=2");
  // All servers answered, so the table was still being created.
  said_[2].server_id = 2;
  server(2, wire::ServerState::kUp);
  state_.servers.erase(4);
  EXPECT_EQ(outcome(), "CREATING 0-7=1 8-f=1");
}

TEST_F(RestatementTest, ATableThatWasBeingCreatedIsNotTakenForEmpty) {
  table(1, TableState::kCreating, 20, {{0, kHalf - 1, 1}, {kHalf, kLast, 2}});
  EXPECT_EQ(outcome(), "") << "nobody has taken any of it";
  owns(1, 1, 20, 0, kHalf - 1);
  EXPECT_EQ(outcome(), "") << "the other says that it has not";
  owns(2, 1, 20, kHalf, kLast);
  EXPECT_EQ(outcome(), "NORMAL 0-7=1 8-f=2");
  table(1, TableState::kCreating, 20, {{0, kHalf - 1, 1}, {kHalf, kLast, 4}});
  said_[2].tables.clear();
  EXPECT_EQ(outcome(), "NORMAL 0-7=1 8-f=4") << "the silent one may have objects";
}

/// It was placed elsewhere since; the order for it would be older than what servers have seen.
TEST_F(RestatementTest, OfWhatWasOrderedSinceTheMetadataIsNoWitness) {
  table(1, TableState::kCreating, 20, {{0, kHalf - 1, 1}, {kHalf, kLast, 2}});
  owns(1, 1, 25, 0, kHalf - 1);
  EXPECT_EQ(outcome(), "NORMAL 0-7=1 8-f=4") << "the silent one may have objects";
  table(1, TableState::kNormal, 20, {{0, kHalf - 1, 1}, {kHalf, kLast, 2}});
  EXPECT_EQ(outcome(), "NORMAL 0-7=1 8-f=4");
  // No other server could have them.
  state_.servers.erase(4);
  table(1, TableState::kCreating, 20, {{0, kHalf - 1, 1}, {kHalf, kLast, 2}});
  EXPECT_EQ(outcome(), "CREATING 0-7=1 8-f=2") << "with a revision that servers follow";
}

TEST_F(RestatementTest, ListsOfLiveServersSayWhoCrashedAndWhoCame) {
  const auto entry = [](uint64_t id, wire::ServerState how) {
    wire::ServerListEntry e;
    e.server_id = id;
    e.state = how;
    e.name = fmt::format("s{}", id);
    return e;
  };
  using enum wire::ServerState;
  wire::ServerList list{3, 150, {entry(1, kUp), entry(2, kCrashed), entry(3, kUp)}};
  list.servers.push_back(entry(6, kCrashed));
  list.servers.push_back(entry(7, kUp));
  const auto ids = [&] {
    std::vector<uint64_t> all;
    for (const auto& record : listed_since(state_, list).crashed) {
      EXPECT_EQ(record.state, kCrashed);
      all.push_back(record.id);
    }
    return all;
  };
  EXPECT_THAT(ids(), ElementsAre(2, 6, 4)) << "4 has left the list";
  ASSERT_EQ(listed_since(state_, list).unknown.size(), 1u);
  EXPECT_EQ(listed_since(state_, list).unknown[0].server_id, 7u);
  // A list from before the export, or from after the import, does not show which servers left.
  for (const uint64_t version : {uint64_t{100}, (uint64_t{1} << 32) + 100}) {
    list.version = version;
    EXPECT_THAT(ids(), ElementsAre(2, 6));
  }
  list.version = 150;
  state_.restate->last_server_id = 3;
  EXPECT_THAT(ids(), ElementsAre(2, 6)) << "4 has enlisted since the import";
}

/// Server 4 had the table when the metadata was exported, and is dead.
class DeadOwnerTest : public RestatementTest {
 protected:
  DeadOwnerTest() {
    table(1, TableState::kNormal, 21, {{0, kLast, 4}});
    server(4, wire::ServerState::kCrashed);
    outlived_ = {1, 2, 3, 4};
    hear_that(4, wire::ServerState::kCrashed);
  }
  /// Server 1 reports it as crashed, and all others as UP.
  void hear_that(uint64_t about, wire::ServerState how) {
    said_[1].list = {3, 150, std::vector<wire::ServerListEntry>(4)};
    for (uint64_t id = 1; id <= 4; ++id) {
      said_[1].list.servers[id - 1].server_id = id;
      if (id == about) said_[1].list.servers[id - 1].state = how;
    }
  }
  void dies(uint64_t id) {
    said_.erase(id);
    server(id, wire::ServerState::kCrashed);
  }
  bool its_log_is_read() { return outcome().empty(); }
};

TEST_F(DeadOwnerTest, WhatNobodyElseCanHaveIsInItsLog) {
  EXPECT_TRUE(its_log_is_read()) << "all others say that they have none of it";
  dies(3);
  outlived_.erase(3);
  EXPECT_TRUE(its_log_is_read()) << "3 died before the export";
  outlived_.insert(3);
  state_.servers[3].record.state = wire::ServerState::kRemoved;
  EXPECT_TRUE(its_log_is_read()) << "3 had nothing when it left";
}

TEST_F(DeadOwnerTest, WhatADeadServerMayHaveRecoveredSinceIsInNoKnownLog) {
  dies(3);
  EXPECT_EQ(outcome(), "NORMAL 0-f=4");
  EXPECT_EQ(owned_.tables.at(0).tablets.at(0).creation_position, kNobodysPosition);
  EXPECT_THAT(owned_.notes, Contains(HasSubstr("it is not known whose log is newer")));
  owns(2, 1, 30, 0, kLast);
  EXPECT_EQ(outcome(), "NORMAL 0-f=2") << "who has it says so";
  EXPECT_EQ(owned_.tables.at(0).tablets.at(0).creation_position, 0u);
}

/// A server that answers late has the present leader's list: with verdicts that no server has acted
/// on yet.
TEST_F(DeadOwnerTest, TheListOfWhoAsksSaysNothingOfTheTimeBefore) {
  dies(3);
  state_.term = said_[1].list.term;
  EXPECT_TRUE(its_log_is_read());
  state_.term = said_[1].list.term + 1;
  EXPECT_FALSE(its_log_is_read());
}

/// A server that was not given up is not recovered.
TEST_F(DeadOwnerTest, WhoeverDiedWithTheCoordinatorHasNoHeir) {
  dies(3);
  hear_that(2, wire::ServerState::kUp);
  EXPECT_TRUE(its_log_is_read());
}

/// A server of an earlier version reports none: then the position in the metadata holds, as long as
/// the tablet is the same.
TEST_F(RestatementTest, PositionsAreThoseThatServersSay) {
  table(1, TableState::kNormal, 21, {{0, kHalf - 1, 1}, {kHalf, kLast, 2}}).tablets[0] = {
      .start_hash = 0, .end_hash = kHalf - 1, .server_id = 1, .creation_position = 5};
  owns(1, 1, 20, 0, kHalf - 1);
  owns(2, 1, 20, kHalf, kLast);
  EXPECT_EQ(outcome(), "");
  said_[1].tables[0].tablets[0].creation_position = 9;
  EXPECT_EQ(outcome(), "NORMAL 0-7=1 8-f=2");
  EXPECT_EQ(owned_.tables[0].tablets[0].creation_position, 9u);
  said_[1].tables[0].tablets[0].creation_position = 0;
  said_[1].tables[0].revision = 30;
  EXPECT_EQ(outcome(), "NORMAL 0-7=1 8-f=2");
  EXPECT_EQ(owned_.tables[0].tablets[0].creation_position, 5u);
}

TEST_F(RestatementTest, WhatIsBeingRecoveredStaysSoAndAttemptsDoNotFall) {
  said_.erase(3);
  server(3, wire::ServerState::kCrashed);
  TableRecord& t = table(1, TableState::kNormal, 21, {{0, kHalf - 1, 3}, {kHalf, kLast, 3}});
  for (TabletRecord& tablet : t.tablets) {
    tablet.status = TabletStatus::kRecovering;
    tablet.attempt = 7;
  }
  owns(1, 1, 30, kHalf, kLast);  // it was handed over since the export
  EXPECT_EQ(outcome(), "NORMAL 0-7=3 8-f=1");
  const auto& tablets = owned_.tables[0].tablets;
  EXPECT_EQ(tablets[0].status, TabletStatus::kRecovering);
  EXPECT_EQ(tablets[1].status, TabletStatus::kNormal);
  EXPECT_EQ(tablets[0].attempt, 7u);
  EXPECT_EQ(tablets[1].attempt, 7u);
}

/// Orders for other tablets of the table are no later orders for this one.
TEST_F(RestatementTest, OneTabletsRevisionIsTheTables) {
  TableRecord& t = table(1, TableState::kNormal, 21, {{0, kHalf - 1, 1}, {kHalf, kLast, 2}});
  t.tablets[1].revision = 40;
  owns(1, 1, 20, 0, kHalf - 1);
  owns(2, 1, 40, kHalf, kLast);
  EXPECT_EQ(outcome(), "");
}

/// The leader died before it had told any server.
TEST_F(RestatementTest, ATableThatWasNotPlacedIsPlacedUnlessSomebodyIsMissing) {
  table(1, TableState::kCreating, 21, {{0, kHalf - 1, 0}, {kHalf, kLast, 0}});
  said_[4].server_id = 4;
  EXPECT_EQ(outcome(), "");
  owns(2, 1, 30, kHalf, kLast);  // another leader had begun to
  EXPECT_EQ(outcome(), "CREATING 0-7=2 8-f=2");
  said_.erase(3);
  server(3, wire::ServerState::kCrashed);
  EXPECT_EQ(outcome(), "NORMAL 0-7=3 8-f=2") << "it may have been made, and written to";
}

TEST_F(RestatementTest, ImpossibleNumbersAreRefused) {
  wire::Restatement good;
  good.tables.push_back({1, 5, false, "", {{0, kLast}}});
  EXPECT_TRUE(check(good).ok());
  wire::Restatement bad = good;
  bad.tables[0].revision = ~uint64_t{0};
  EXPECT_EQ(check(bad), StatusCode::kInvalidArgument);
  bad = good;
  bad.tables[0].tablets[0] = {7, 6};
  EXPECT_EQ(check(bad), StatusCode::kInvalidArgument);
  bad = good;
  bad.list.servers.emplace_back().server_id = ~uint64_t{0};
  EXPECT_EQ(check(bad), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ramcloud
