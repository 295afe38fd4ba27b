#include "master/held_replies.h"

#include <gtest/gtest.h>

#include <vector>

#include "log/log_test_support.h"
#include "runtime/sim/sim_scheduler.h"
#include "runtime/testing/each_turn.h"
#include "transport/testing/recorded_replies.h"

namespace ramcloud::master {
namespace {

class HeldRepliesTest : public ::testing::Test {
 protected:
  HeldRepliesTest() {
    parts_.log.start();
    parts_.replicator.finish_all();
    replies_.attach(parts_.log);
  }
  /// A position that is not durable until the replicator has finished.
  log::LogPosition append() {
    const log::EntrySource source{log::EntryType::kObject, 1, {Slice(ByteView("an object"))}};
    log::Appended where;
    const char* ref = nullptr;
    EXPECT_EQ(parts_.log.append(std::span(&source, 1), false, where, &ref), StatusCode::kOk);
    return where.end;
  }
  void send(uint64_t call, log::LogPosition depends_on, uint32_t connection = 0, size_t owned = 0,
            uint16_t timeout_s = 0) {
    Reply reply;
    reply.handle.call_id = call;
    reply.handle.connection = connection;
    reply.handle.timeout_s = timeout_s;
    reply.owned.assign(owned, 'p');
    reply.depends_on = depends_on;
    replies_.send(std::move(reply));
  }

  SimScheduler sim_{1};
  SimNode& node_ = sim_.add_node("m");
  log::TestLog parts_{6, false, 1, false};
  ramcloud::testing::RecordedReplies transport_;
  MetricsRegistry metrics_;
  HeldReplies replies_{node_.reactor(), transport_, metrics_};
  ramcloud::testing::EachTurn<HeldReplies> turns_{node_.reactor(), replies_};
};

TEST_F(HeldRepliesTest, WhatDependsOnNothingFreshPassesWhatDoes) {
  const log::LogPosition durable = parts_.log.durable();
  const log::LogPosition fresh = append();
  send(1, fresh);
  EXPECT_TRUE(replies_.waiting());
  send(2, durable);
  send(3, {});
  EXPECT_EQ(transport_.answered, (std::vector<uint64_t>{2, 3}));
  node_.reactor().turn();
  EXPECT_EQ(replies_.size(), 1u);
  parts_.replicator.finish_all();
  node_.reactor().turn();
  EXPECT_EQ(transport_.answered, (std::vector<uint64_t>{2, 3, 1}));
  EXPECT_FALSE(replies_.waiting());
}

TEST_F(HeldRepliesTest, HeldOnesLeaveInTheOrderTheyCame) {
  const log::LogPosition first = append();
  const log::LogPosition second = append();
  send(1, second);
  send(2, first);
  parts_.replicator.finish_data(1, 1);  // as far as the first group
  node_.reactor().turn();
  EXPECT_TRUE(transport_.answered.empty());
  parts_.replicator.finish_all();
  node_.reactor().turn();
  EXPECT_EQ(transport_.answered, (std::vector<uint64_t>{1, 2}));
}

/// The entry of a held reply stays in memory until the reply leaves or is dropped, even if its
/// segment is released.
TEST_F(HeldRepliesTest, AHeldReplyPinsTheEntryThatItShows) {
  const char* ref = nullptr;
  log::Appended where;
  ASSERT_EQ(log::append_object(parts_.log, 1, 1, "key", "value", &where, &ref), StatusCode::kOk);
  const log::Segment& segment = *parts_.log.find_segment(1);
  for (uint32_t connection = 0; connection < 2; ++connection) {
    Reply reply;
    reply.handle.connection = connection;
    reply.depends_on = where.end;
    reply.entry = parts_.log.entry(ref);
    reply.entry_size = 5;
    replies_.send(std::move(reply));
  }
  send(3, where.end);
  EXPECT_EQ(segment.pins(), 2u);
  transport_.closed.insert(1);
  while (replies_.on_turn()) {
  }
  EXPECT_EQ(segment.pins(), 1u);
  parts_.replicator.finish_all();
  while (replies_.on_turn()) {
  }
  EXPECT_EQ(replies_.size(), 0u);
  EXPECT_EQ(segment.pins(), 0u);
}

TEST_F(HeldRepliesTest, AFreshReplyWaitsEvenIfNothingElseIsHeld) {
  send(1, append());
  EXPECT_TRUE(transport_.answered.empty());
  EXPECT_EQ(replies_.size(), 1u);
}

TEST_F(HeldRepliesTest, WhatClosedConnectionsHoldIsGivenBackAndTheOrderStays) {
  const log::LogPosition fresh = append();
  constexpr uint32_t kClients = 10'000;
  std::vector<uint64_t> expected;
  for (uint32_t i = 0; i < kClients; ++i) {
    send(i, fresh, i, 4096);
    if (i % 100 == 0) expected.push_back(i);
  }
  EXPECT_GE(transport_.charged, int64_t{kClients} * 4096);
  for (uint32_t i = 0; i < kClients; ++i) {
    if (i % 100 != 0) transport_.closed.insert(i);
  }
  size_t turns = 0;
  int64_t before = transport_.charged;
  const int64_t one = before / kClients;
  while (replies_.on_turn()) {
    ++turns;
    EXPECT_LE(before - transport_.charged, one * static_cast<int64_t>(HeldReplies::kSweptPerTurn));
    before = transport_.charged;
    if (turns == 10) {
      send(kClients, fresh, kClients + 1);
      expected.push_back(kClients);
    }
  }
  EXPECT_EQ(turns, (kClients + HeldReplies::kSweptPerTurn - 1) / HeldReplies::kSweptPerTurn);
  EXPECT_EQ(replies_.size(), expected.size());
  EXPECT_LT(transport_.charged, static_cast<int64_t>(expected.size()) * 8192);
  parts_.replicator.finish_all();
  while (replies_.on_turn()) {
  }
  EXPECT_EQ(transport_.answered, expected);
  EXPECT_EQ(transport_.charged, 0);
  EXPECT_FALSE(replies_.waiting());
}

TEST_F(HeldRepliesTest, RepliesMayLeaveWhileASweepIsNotDone) {
  for (const size_t turns : {1u, 2u, 3u, 5u, 8u}) {
    const log::LogPosition fresh = append();
    std::vector<uint64_t> expected;
    transport_.closed.clear();
    transport_.answered.clear();
    for (uint32_t i = 0; i < 1000; ++i) {
      send(i, fresh, i);
      if (i % 3 == 0) expected.push_back(i);
    }
    for (uint32_t i = 0; i < 1000; ++i) {
      if (i % 3 != 0) transport_.closed.insert(i);
    }
    for (size_t n = 0; n < turns; ++n) (void)replies_.on_turn();
    parts_.replicator.finish_all();
    while (replies_.on_turn()) {
    }
    std::erase_if(transport_.answered, [](uint64_t i) { return i % 3 != 0; });
    EXPECT_EQ(transport_.answered, expected) << turns;
    EXPECT_EQ(transport_.charged, 0);
    EXPECT_EQ(replies_.size(), 0u);
  }
}

TEST_F(HeldRepliesTest, AReplyThatNobodyWaitsForIsAnsweredDeadlineExceeded) {
  const log::LogPosition fresh = append();
  send(1, fresh, 1, 100'000, 1);
  send(2, fresh, 2, 100'000);
  sim_.run_for(HeldReplies::kSweepInterval + 10ms);
  EXPECT_EQ(transport_.with(StatusCode::kDeadlineExceeded), std::vector<uint64_t>{1});
  EXPECT_EQ(replies_.size(), 1u);
  EXPECT_LT(transport_.charged, 110'000);
  parts_.replicator.finish_all();
  node_.reactor().turn();
  EXPECT_EQ(transport_.answered, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(transport_.charged, 0);
}

}  // namespace
}  // namespace ramcloud::master
