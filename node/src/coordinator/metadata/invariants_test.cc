#include "coordinator/metadata/invariants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ramcloud {
namespace {

using ::testing::HasSubstr;

TEST(InvariantsTest, FindsWhatIsBroken) {
  ClusterState good;
  good.term = 1;
  good.list_version = 5;
  good.ids = {2, 1};
  good.servers[1].record.id = 1;
  good.tables[1] = {1, "t", TableState::kNormal, 1, {{0, 99, 1}, {100, ~uint64_t{0}, 1}}};
  const auto broken = [&](auto&& damage) {
    Invariants invariants;
    EXPECT_TRUE(invariants.check(good).ok());
    ClusterState bad = good;
    damage(bad);
    return invariants.check(bad).message();
  };
  EXPECT_THAT(broken([](auto& s) { s.tables[1].tablets[1].start_hash = 101; }),
              HasSubstr("does not follow on"));
  EXPECT_THAT(broken([](auto& s) { s.tables[1].tablets.pop_back(); }), HasSubstr("covered by no"));
  EXPECT_THAT(broken([](auto& s) { s.tables[1].tablets[0].server_id = 9; }),
              HasSubstr("unknown server"));
  EXPECT_THAT(broken([](auto& s) { s.tables[1].tablets[0].server_id = 0; }),
              HasSubstr("is not placed"));
  EXPECT_THAT(broken([](auto& s) { s.tables[1].tablets[0].status = TabletStatus::kRecovering; }),
              HasSubstr("is recovered from server 1, which is UP"));
  EXPECT_THAT(broken([](auto& s) { s.tables[1].tablets[0].creation_position = 8; }),
              HasSubstr("changed from revision 0 to 0"));
  EXPECT_THAT(broken([](auto& s) { s.list_version = 4; }), HasSubstr("fell"));
  EXPECT_THAT(broken([](auto& s) { s.servers[2].record.id = 2; }), HasSubstr("without a new list"));
  EXPECT_THAT(broken([](auto& s) { s.ids.last_server_id = 0; }), HasSubstr("above the last id"));
  EXPECT_THAT(broken([](auto& s) {
                s.list_version = 6;
                s.servers[1].record.nonce = 7;
              }),
              HasSubstr("reused"));
}

}  // namespace
}  // namespace ramcloud
