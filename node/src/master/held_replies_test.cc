#include "master/held_replies.h"

#include <gtest/gtest.h>

#include <vector>

#include "log/log_test_support.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/testing/only_replies.h"

namespace ramcloud::master {
namespace {

/// The calls in the order they were answered.
class Order final : public ramcloud::testing::OnlyReplies {
 public:
  void reply(const ReplyHandle& handle, StatusCode, std::span<const Slice>) override {
    answered.push_back(handle.call_id);
  }
  std::vector<uint64_t> answered;
};

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
  void send(uint64_t call, log::LogPosition depends_on) {
    Reply reply;
    reply.handle.call_id = call;
    reply.depends_on = depends_on;
    replies_.send(reply);
  }

  SimScheduler sim_{1};
  SimNode& node_ = sim_.add_node("m");
  log::TestLog parts_{6, false, 1, false};
  Order transport_;
  MetricsRegistry metrics_;
  HeldReplies replies_{node_.reactor(), transport_, metrics_};
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

TEST_F(HeldRepliesTest, AFreshReplyWaitsEvenIfNothingElseIsHeld) {
  send(1, append());
  EXPECT_TRUE(transport_.answered.empty());
  EXPECT_EQ(replies_.size(), 1u);
}

}  // namespace
}  // namespace ramcloud::master
