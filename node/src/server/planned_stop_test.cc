#include "server/planned_stop.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "server/testing/reactors_fixture.h"

namespace ramcloud::server {
namespace {

class PlannedStopTest : public testing::ReactorsTest {
 protected:
  static constexpr Duration kFlush = 200ms;

  void stop() {
    std::vector<ServerReactor*> reactors;
    for (const auto& one : all_) reactors.push_back(&one->reactor);
    stop_.emplace(*master_, *enlistment_, std::move(reactors),
                  PlannedStop::Limits{.flush = kFlush, .announce = 3s});
    first().reactor().post([this] { tasks_.spawn(run()); });
  }
  Task<void> run() { outcome_ = co_await stop_->run(); }
  bool answered(uint64_t call) { return last().transport.by_call.contains(call); }
  /// Not only run out.
  bool lease_ended() { return !master_->lease().holds(Time{}); }
  /// A write that no backup acknowledges, and a read that waits for it.
  void hold_a_write_and_a_read() {
    backup_->holds = true;
    write_ = write(last(), "key");
    read_ = read(last(), "key");
    scheduler_.run_for(10ms);
    ASSERT_FALSE(answered(write_) || answered(read_));
  }

  std::optional<PlannedStop> stop_;
  std::optional<Status> outcome_;
  uint64_t write_ = 0;
  uint64_t read_ = 0;
  TaskScope tasks_{first().reactor()};  // last: it ends before what it uses
};

TEST_P(PlannedStopTest, WhatIsAppendedIsAcknowledgedBeforeTheCoordinatorHears) {
  hold_a_write_and_a_read();
  stop();
  scheduler_.run_for(kFlush / 2);
  EXPECT_EQ(stopped_, 0);
  backup_->release();
  ASSERT_TRUE(scheduler_.run_until([this] { return outcome_.has_value(); }, 10s));
  EXPECT_TRUE(outcome_->ok());
  EXPECT_EQ(stopped_, 1);
  EXPECT_TRUE(answered(write_));
  EXPECT_TRUE(answered(read_)) << "it came before, and the lease held";
  EXPECT_TRUE(lease_ended());
}

/// Another server may have overwritten the object by then: the reply of a read must not leave,
/// although the lease of its backup would still hold.
TEST_P(PlannedStopTest, AReadThatWaitsIsNotAnsweredAfterTheCoordinatorHeard) {
  hold_a_write_and_a_read();
  stop();
  ASSERT_TRUE(scheduler_.run_until([this] { return stopped_ > 0; }, 10s));
  EXPECT_FALSE(answered(read_));
  backup_->release();
  scheduler_.run_for(1s);
  EXPECT_TRUE(answered(write_)) << "its backup had not frozen the master: it needs no lease";
  EXPECT_FALSE(answered(read_));
}

/// The same read without a stop: nothing else holds it back.
TEST_P(PlannedStopTest, AReadThatWaitsIsAnsweredIfTheServerGoesOn) {
  hold_a_write_and_a_read();
  scheduler_.run_for(2 * kFlush);
  backup_->release();
  scheduler_.run_for(1s);
  EXPECT_TRUE(answered(write_));
  EXPECT_TRUE(answered(read_));
}

/// After RETRY clients would send to this server again until it has ended.
TEST_P(PlannedStopTest, ClientsAreSentToWhoeverServesNext) {
  stop();
  scheduler_.run_for(10ms);
  const uint64_t reads = read(last(), "key"), writes = write(last(), "key");
  scheduler_.run_for(10ms);
  EXPECT_EQ(last().transport.by_call.at(reads), StatusCode::kUnknownTablet);
  EXPECT_EQ(last().transport.by_call.at(writes), StatusCode::kUnknownTablet);
}

/// A client with a request on a connection that ends does not know its outcome.
TEST_P(PlannedStopTest, ItEndsWhenNoClientHasComeForAWhile) {
  stop();
  for (int i = 0; i < 20; ++i) {
    scheduler_.run_for(100ms);
    ASSERT_FALSE(outcome_.has_value()) << "a client came 100 ms ago";
    (void)read(last(), "key");
  }
  EXPECT_EQ(stopped_, 1) << "the coordinator has heard it long ago";
  ASSERT_TRUE(scheduler_.run_until([this] { return outcome_.has_value(); }, 1s));
}

TEST_P(PlannedStopTest, ClientsThatGoOnForEverDoNotKeepIt) {
  stop();
  for (int i = 0; i < 100 && !outcome_; ++i) {
    scheduler_.run_for(100ms);
    (void)read(last(), "key");
  }
  EXPECT_TRUE(outcome_.has_value());
}

using PlannedStopOfManyTest = PlannedStopTest;

/// A reactor in the middle of a turn may have looked at the lease before it ended.
TEST_P(PlannedStopOfManyTest, TheCoordinatorHearsWhenEveryReactorHasTurnedSinceTheLeaseEnded) {
  hold_a_write_and_a_read();
  stop();
  scheduler_.run_for(kFlush / 2);
  const Time until = scheduler_.now() + 5 * kFlush;
  scheduler_.pause(last().node, until);
  ASSERT_TRUE(scheduler_.run_until([this] { return lease_ended(); }, 2 * kFlush));
  scheduler_.run_for(kFlush);
  EXPECT_EQ(stopped_, 0) << "one reactor has not turned";
  ASSERT_TRUE(scheduler_.run_until([this] { return stopped_ > 0; }, 10s));
  EXPECT_GE(scheduler_.now(), until);
}

INSTANTIATE_TEST_SUITE_P(Reactors, PlannedStopTest, ::testing::Values(1u, 3u));
INSTANTIATE_TEST_SUITE_P(Reactors, PlannedStopOfManyTest, ::testing::Values(2u, 3u));

}  // namespace
}  // namespace ramcloud::server
