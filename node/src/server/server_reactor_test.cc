#include "server/server_reactor.h"

#include <gtest/gtest.h>

#include <string>

#include "server/testing/reactors_fixture.h"

namespace ramcloud::server {
namespace {

using testing::kBackup;
using testing::kMaster;
using ServerReactorTest = testing::ReactorsTest;

TEST_P(ServerReactorTest, WhatATurnAppendedIsSentInItAndWhatItMadeDurableIsAnsweredInIt) {
  const uint64_t sent = last().reactor.replica_messages().value();
  const uint64_t call = write(last(), "key");
  const log::LogPosition before = master_->log().head();
  ASSERT_TRUE(scheduler_.run_until([&] { return master_->log().head() > before; }, 10s));
  EXPECT_EQ(last().reactor.replica_messages().value(), sent + 1) << "the turn is over";
  EXPECT_FALSE(last().transport.by_call.contains(call)) << "no backup has it";
  run_until_durable();
  ASSERT_TRUE(last().transport.by_call.contains(call)) << "the turn that made it durable is over";
  EXPECT_EQ(last().transport.by_call[call], StatusCode::kOk);
}

/// A write costs its reactor four turns: one appends and sends, one takes the answer and replies,
/// and after each comes one that finds nothing.
TEST_P(ServerReactorTest, AReplyThatTheTurnSendsWakesNoFurtherTurn) {
  write(last(), "first");
  run_until_durable();
  scheduler_.run_for(1ms);
  const uint64_t before = last().reactor.reactor().turns();
  write(last(), "key");
  run_until_durable();
  scheduler_.run_for(100us);
  EXPECT_EQ(last().reactor.reactor().turns() - before, 4u);
}

TEST_P(ServerReactorTest, WritesOfATurnShareAMessage) {
  const int sent = backup_->writes;
  for (int i = 0; i < 10; ++i) write(last(), "key " + std::to_string(i));
  run_until_durable();
  EXPECT_EQ(last().transport.by_call.size(), 10u);
  EXPECT_EQ(backup_->writes, sent + 1);
}

TEST_P(ServerReactorTest, DeletesAreSweptOnceTheyAreDurable) {
  write(last(), "key");
  run_until_durable();
  remove(last(), "key");
  run_until_durable();
  // With one reactor it is the same turn; else the first reactor's next.
  if (GetParam() > 1) {
    first().reactor().nudge();
    scheduler_.run_for(1ms);
  }
  EXPECT_EQ(master_->store().pending_deletes(), 0u);
}

TEST_P(ServerReactorTest, ABackupWhoseConnectionBreaksIsReportedToTheCoordinator) {
  first().reactor().post([this] { peers_->start(kMaster); });
  scheduler_.run_for(1ms);
  scheduler_.kill(backup_->node);
  backup_.reset();
  write(*all_[0], "key");
  ASSERT_TRUE(scheduler_.run_until([this] { return !reported_.empty(); }, 10s));
  EXPECT_EQ(reported_.front(), kBackup);
}

INSTANTIATE_TEST_SUITE_P(Reactors, ServerReactorTest, ::testing::Values(1u, 3u));

}  // namespace
}  // namespace ramcloud::server
