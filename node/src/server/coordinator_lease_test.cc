#include "server/coordinator_lease.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/sim/sim_scheduler.h"

namespace ramcloud::server {
namespace {

constexpr Duration kLength = 400ms;

class CoordinatorLeaseTest : public ::testing::Test {
 protected:
  void begin(bool with_replicas) {
    term_ = std::make_unique<LeaseTerm>(with_replicas);
    lease_ = std::make_unique<CoordinatorLease>(
        node_.reactor(), *term_, kLength, [this](Time deadline) { return ask(deadline); },
        [this](const Status& why) { condemned_.push_back(why.code()); });
  }
  Task<Status> ask(Time deadline) {
    asked_.push_back(sim_.now());
    if (answer_after_ > deadline - sim_.now()) {
      co_await node_.reactor().sleep(deadline - sim_.now());
      co_return StatusCode::kDeadlineExceeded;
    }
    co_await node_.reactor().sleep(answer_after_);
    co_return answer_;
  }
  bool leased() { return term_->holds(node_.clock().lease_now()); }

  SimScheduler sim_{1};
  SimNode& node_ = sim_.add_node("m");
  StatusCode answer_ = StatusCode::kOk;
  Duration answer_after_ = 1ms;
  std::vector<Time> asked_;
  std::vector<StatusCode> condemned_;
  std::unique_ptr<LeaseTerm> term_;
  std::unique_ptr<CoordinatorLease> lease_;
};

TEST_F(CoordinatorLeaseTest, WithoutReplicasItAsksAtOnceAndEveryQuarter) {
  begin(false);
  sim_.run_for(5ms);
  EXPECT_TRUE(leased());
  sim_.run_for(10 * kLength);
  EXPECT_TRUE(leased());
  EXPECT_GE(asked_.size(), 40u);
  EXPECT_LE(asked_.size(), 42u);
}

TEST_F(CoordinatorLeaseTest, TheLeaseBeginsWithTheSending) {
  begin(false);
  answer_after_ = 300ms;
  sim_.run_for(1s);
  ASSERT_TRUE(leased());
  answer_after_ = 10s;
  const Time sent = asked_.back();
  answer_after_ = 10s;
  while (asked_.back() == sent) sim_.run_for(1ms);
  const Time last_granted = sent + kLength;
  while (sim_.now() < last_granted) sim_.run_for(1ms);
  EXPECT_FALSE(leased());
  EXPECT_TRUE(term_->holds(last_granted - 1ms));
}

TEST_F(CoordinatorLeaseTest, ACoordinatorThatDoesNotLeadGrantsNothing) {
  answer_ = StatusCode::kNotLeader;
  begin(false);
  sim_.run_for(2s);
  EXPECT_FALSE(leased());
  answer_ = StatusCode::kOk;
  sim_.run_for(kLength / 2);
  EXPECT_TRUE(leased()) << "somebody leads again";
}

TEST_F(CoordinatorLeaseTest, AFormerCoordinatorRecoversNobody) {
  answer_ = StatusCode::kUnsupported;
  begin(false);
  sim_.run_for(10ms);
  EXPECT_TRUE(leased());
}

TEST_F(CoordinatorLeaseTest, WhoIsCrashedThereEnds) {
  begin(false);
  sim_.run_for(1s);
  answer_ = StatusCode::kCrashed;
  sim_.run_for(kLength / 2);
  EXPECT_FALSE(leased());
  EXPECT_EQ(condemned_, std::vector{StatusCode::kCrashed});
  const size_t asked = asked_.size();
  sim_.run_for(2s);
  EXPECT_EQ(asked_.size(), asked);
}

TEST_F(CoordinatorLeaseTest, WithHoldersNobodyIsAsked) {
  begin(true);
  term_->hold_until(sim_.now() + 1h);
  sim_.run_for(10s);
  EXPECT_TRUE(asked_.empty());
  term_->no_holder();
  sim_.run_for(kLength / 2);
  EXPECT_TRUE(leased());
}

}  // namespace
}  // namespace ramcloud::server
