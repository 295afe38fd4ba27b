#include "coordinator/core/notifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "coordinator/core/testing/coordinator_fixture.h"

namespace ramcloud {
namespace {

using testing::CoordinatorTest;

TEST_F(CoordinatorTest, EveryServerLearnsOfEveryOther) {
  start(4);
  ASSERT_TRUE(cluster.run_until([&] {
    return std::ranges::all_of(cluster.servers,
                               [](const auto& s) { return s->list.servers.size() == 4; });
  }));
  const uint64_t term = server(0).list.term;
  const uint64_t version = server(0).list.version;
  restart();
  ASSERT_TRUE(cluster.run_until([&] {
    return std::ranges::all_of(cluster.servers, [&](const auto& s) { return s->list.term > term; });
  })) << "the list is pushed again with the new term";
  EXPECT_GT(server(0).list.version, version);
}

TEST_F(CoordinatorTest, ServersAreToldWhatChangedOnly) {
  start(20);
  cluster.run_for(5s);
  for (const auto& s : cluster.servers) s->pushed_entries = 0;
  cluster.add_server();
  cluster.kill_server(server(3));
  ASSERT_TRUE(cluster.run_until([&] { return crashed(4); }));
  cluster.run_for(5s);
  for (const auto& s : cluster.servers) {
    if (s == nullptr || s->id == 4 || s->id == 21) continue;
    // Two changes; one may come twice, when a probe's answer was behind the acknowledgement.
    EXPECT_GE(s->pushed_entries, 2u) << "server " << s->id;
    EXPECT_LE(s->pushed_entries, 4u) << "server " << s->id;
    EXPECT_EQ(s->list.servers.size(), 21u);
    EXPECT_EQ(s->list.version, state().list_version);
  }
  // A server that has another version than it reported gets the whole list.
  server(0).list.version -= 1;
  server(0).list.servers.clear();
  cluster.add_server();
  ASSERT_TRUE(cluster.run_until([&] { return server(0).list.version == state().list_version; }));
  EXPECT_EQ(server(0).list.servers.size(), 22u);
}

}  // namespace
}  // namespace ramcloud
