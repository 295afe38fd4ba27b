// Replies and the lease: which replies may be sent from memory, and when
// (docs/design/recovery.md#leases).
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "log/log_test_support.h"
#include "master/held_replies.h"
#include "runtime/sim/sim_scheduler.h"
#include "runtime/testing/each_turn.h"
#include "transport/testing/recorded_replies.h"

namespace ramcloud::master {
namespace {

using wire::Opcode;

/// The held replies of one reactor.
struct Held {
  Held(SimScheduler& sim, const char* name, log::Log& log, LeaseTerm& term)
      : node(sim.add_node(name)) {
    replies.attach(log, &term);
  }
  SimNode& node;
  ramcloud::testing::RecordedReplies transport;
  MetricsRegistry metrics;
  HeldReplies replies{node.reactor(), transport, metrics};
  ramcloud::testing::EachTurn<HeldReplies> turns{node.reactor(), replies};
};

class HeldLeasesTest : public ::testing::Test {
 protected:
  explicit HeldLeasesTest(bool replicated = true) : term_(replicated) {
    parts_.log.start();
    parts_.replicator.finish_all();
    held_ = std::make_unique<Held>(sim_, "m", parts_.log, term_);
  }
  Time now() { return held_->node.clock().lease_now(); }
  log::LogPosition append() {
    const log::EntrySource source{log::EntryType::kObject, 1, {Slice(ByteView("an object"))}};
    log::Appended where;
    const char* ref = nullptr;
    EXPECT_EQ(parts_.log.append(std::span(&source, 1), false, where, &ref), StatusCode::kOk);
    return where.end;
  }
  struct What {
    Opcode opcode = Opcode::kRead;
    StatusCode status = StatusCode::kOk;
    log::LogPosition depends_on = {};
    bool appended = false;
    uint32_t connection = 0;
    uint16_t timeout_s = 0;
  };
  static void send(Held& to, uint64_t call, const What& what) {
    Reply reply;
    reply.handle.call_id = call;
    reply.handle.opcode = static_cast<uint16_t>(what.opcode);
    reply.handle.connection = what.connection;
    reply.handle.timeout_s = what.timeout_s;
    reply.status = what.status;
    reply.depends_on = what.depends_on;
    reply.appended = what.appended;
    reply.owned.assign(100, 'p');
    to.replies.send(std::move(reply));
  }
  void send(uint64_t call, const What& what) { send(*held_, call, what); }
  void turn() { held_->node.reactor().turn(); }
  using Calls = std::vector<uint64_t>;

  SimScheduler sim_{1};
  log::TestLog parts_{6, false, 1, false};
  LeaseTerm term_;
  std::unique_ptr<Held> held_;
};
struct HeldLeasesWithoutReplicasTest : HeldLeasesTest {
  HeldLeasesWithoutReplicasTest() : HeldLeasesTest(false) {}
};

TEST_F(HeldLeasesTest, WithALeaseReadsLeaveAtOnce) {
  term_.hold_until(now() + 1ms);
  send(1, {});
  EXPECT_EQ(held_->transport.answered, Calls{1});
  EXPECT_EQ(held_->transport.charged, 0);
}

TEST_F(HeldLeasesTest, WithoutOneTheyWaitAndLeaveInTheirOrder) {
  send(1, {});
  sim_.run_for(100ms);
  send(2, {.status = StatusCode::kNotFound});
  turn();
  EXPECT_TRUE(held_->transport.answered.empty());
  EXPECT_TRUE(held_->replies.waiting());
  EXPECT_FALSE(held_->replies.waits_for_log());
  term_.hold_until(now() + 1ms);
  turn();
  EXPECT_EQ(held_->transport.answered, (Calls{1, 2}));
  EXPECT_FALSE(held_->replies.waiting());
  EXPECT_EQ(held_->transport.charged, 0);
}

/// The process is suspended between the operation and its reply: the turn's clock does not show it.
TEST_F(HeldLeasesTest, ALeaseThatEndedWithinTheTurnIsNone) {
  term_.hold_until(now() + 400ms);
  held_->node.reactor().post([this] {
    sim_.pause(held_->node, sim_.now() + 500ms);
    send(1, {});
  });
  sim_.run_for(10s);
  EXPECT_TRUE(held_->transport.answered.empty());
  term_.hold_until(now() + 1ms);
  turn();
  EXPECT_EQ(held_->transport.answered, Calls{1});
}

TEST_F(HeldLeasesTest, WhatWasHeldForTheLogIsJudgedWhenItLeaves) {
  term_.hold_until(now() + 400ms);
  const log::LogPosition fresh = append();
  send(1, {.depends_on = fresh});
  parts_.replicator.finish_all();
  held_->node.reactor().post([this] { sim_.pause(held_->node, sim_.now() + 500ms); });
  sim_.run_for(10s);
  EXPECT_TRUE(held_->transport.answered.empty());
}

/// The backups acknowledged what this operation appended, so they had not given the master up when
/// it was carried out. They may have acknowledged other reactors' bytes long before.
TEST_F(HeldLeasesTest, OwnAppendsProveWhatALeaseWould) {
  const log::LogPosition fresh = append();
  send(1, {.depends_on = fresh});
  send(2, {.opcode = Opcode::kWrite, .depends_on = fresh, .appended = true});
  send(3, {.opcode = Opcode::kWrite, .status = StatusCode::kWrongVersion, .depends_on = fresh});
  parts_.replicator.finish_all();
  turn();
  EXPECT_EQ(held_->transport.answered, Calls{2});
  term_.hold_until(now() + 1ms);
  turn();
  EXPECT_EQ(held_->transport.answered, (Calls{2, 1, 3}));
  EXPECT_EQ(held_->transport.charged, 0);
}

TEST_F(HeldLeasesWithoutReplicasTest, WithoutReplicasEverythingNeedsALease) {
  const log::LogPosition fresh = append();
  parts_.replicator.finish_all();
  send(1, {.opcode = Opcode::kWrite, .depends_on = fresh, .appended = true});
  send(2, {.opcode = Opcode::kMultiWrite, .appended = true});
  turn();
  EXPECT_TRUE(held_->transport.answered.empty());
  term_.grant_until(now() + 1ms);
  turn();
  EXPECT_EQ(held_->transport.answered, (Calls{1, 2}));
}

TEST_F(HeldLeasesTest, WhatTellsNothingNeedsNone) {
  send(1, {.status = StatusCode::kRetry});
  send(2, {.opcode = Opcode::kWrite, .status = StatusCode::kUnknownTablet});
  send(3, {.opcode = Opcode::kTakeTablet});
  EXPECT_EQ(held_->transport.answered, (Calls{1, 2, 3}));
}

TEST_F(HeldLeasesTest, WhatWaitsForALeaseIsSweptLikeWhatWaitsForTheLog) {
  const log::LogPosition fresh = append();
  send(1, {.connection = 1, .timeout_s = 1});
  send(2, {.connection = 2});
  send(3, {.depends_on = fresh, .connection = 2});
  send(4, {.connection = 3});
  held_->transport.closed.insert(2);
  sim_.run_for(HeldReplies::kSweepInterval + 10ms);
  turn();
  EXPECT_EQ(held_->transport.answered, Calls{1});
  EXPECT_EQ(held_->transport.with(StatusCode::kDeadlineExceeded), Calls{1});
  EXPECT_EQ(held_->replies.size(), 1u);
  term_.hold_until(now() + 1ms);
  turn();
  EXPECT_EQ(held_->transport.answered, (Calls{1, 4}));
  EXPECT_EQ(held_->transport.charged, 0);
}

/// When a server ends, its log is destroyed before its held replies.
TEST_F(HeldLeasesTest, WhatIsHeldWhenTheServerEndsLetsGoOfTheLog) {
  const char* ref = nullptr;
  log::Appended where;
  ASSERT_EQ(log::append_object(parts_.log, 1, 1, "key", "value", &where, &ref), StatusCode::kOk);
  for (const log::LogPosition depends_on : {log::LogPosition(), where.end}) {
    Reply reply;
    reply.handle.opcode = static_cast<uint16_t>(Opcode::kRead);
    reply.depends_on = depends_on;
    reply.entry = parts_.log.entry(ref);
    reply.entry_size = 5;
    held_->replies.send(std::move(reply));
  }
  const log::Segment& segment = *parts_.log.find_segment(1);
  EXPECT_EQ(segment.pins(), 2u);
  held_->replies.drop_all();
  EXPECT_EQ(segment.pins(), 0u);
  EXPECT_EQ(held_->transport.charged, 0);
  EXPECT_TRUE(held_->transport.answered.empty());
  EXPECT_FALSE(held_->replies.waiting());
}

TEST_F(HeldLeasesTest, AMasterThatIsGivenUpAnswersNothing) {
  term_.hold_until(now() + 1h);
  send(1, {});
  term_.end();
  send(2, {});
  turn();
  EXPECT_EQ(held_->transport.answered, Calls{1});
}

/// As ServerNode connects them: another reactor's answer extends the lease.
TEST_F(HeldLeasesTest, EveryReactorThatHoldsRepliesIsWoken) {
  Held other(sim_, "m-1", parts_.log, term_);
  term_.set_listener([&] {
    for (Held* one : {held_.get(), &other}) {
      if (one->replies.waiting()) one->node.reactor().nudge();
    }
  });
  sim_.run_for(1s);
  send(1, {});
  send(other, 2, {});
  sim_.run_for(1s);
  EXPECT_TRUE(held_->transport.answered.empty());
  EXPECT_TRUE(other.transport.answered.empty());
  term_.hold_until(now() + 10ms);
  sim_.run_for(5ms);
  EXPECT_EQ(held_->transport.answered, Calls{1});
  EXPECT_EQ(other.transport.answered, Calls{2});
}

}  // namespace
}  // namespace ramcloud::master
