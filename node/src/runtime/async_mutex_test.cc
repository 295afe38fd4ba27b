#include "runtime/async_mutex.h"

#include <gtest/gtest.h>

#include "runtime/manual_source.h"

namespace ramcloud {
namespace {

class AsyncMutexTest : public ::testing::Test {
 protected:
  void run_until_idle() {
    while (reactor.turn()) {
    }
  }
  Task<void> hold(int id, Duration how_long) {
    const AsyncMutex::Lock lock = co_await mutex->lock();
    order.push_back(id);
    EXPECT_EQ(++inside, 1);
    co_await reactor.sleep(how_long);
    --inside;
  }
  VirtualClock clock;
  ManualSource events;
  Reactor reactor{clock, events, 1, {}};
  std::unique_ptr<AsyncMutex> mutex = std::make_unique<AsyncMutex>(reactor);
  std::vector<int> order;
  int inside = 0;
};

TEST_F(AsyncMutexTest, OneAtATimeInTheOrderTheyCame) {
  TaskScope scope(reactor);
  for (int i = 0; i < 4; ++i) scope.spawn(hold(i, 1ms));
  for (int i = 0; i < 4; ++i) {
    run_until_idle();
    EXPECT_EQ(order.size(), static_cast<size_t>(i) + 1);
    clock.advance(1ms);
  }
  run_until_idle();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
  EXPECT_FALSE(mutex->is_locked());
}

TEST_F(AsyncMutexTest, ADestroyedWaiterGivesUpItsPlaceAndADestroyedHolderItsLock) {
  TaskScope scope(reactor);
  auto holder = std::make_unique<TaskScope>(reactor);
  auto waiter = std::make_unique<TaskScope>(reactor);
  holder->spawn(hold(1, 1s));
  waiter->spawn(hold(2, 1s));
  scope.spawn(hold(3, 1ms));
  waiter.reset();
  --inside;  // the holder dies without leaving
  holder.reset();
  run_until_idle();
  EXPECT_EQ(order, (std::vector{1, 3}));
}

TEST_F(AsyncMutexTest, AWaiterDestroyedAfterItWasGivenTheLockPassesItOn) {
  TaskScope scope(reactor);
  auto waiter = std::make_unique<TaskScope>(reactor);
  auto holder = std::make_unique<TaskScope>(reactor);
  holder->spawn(hold(1, 1s));
  waiter->spawn(hold(2, 1s));
  scope.spawn(hold(3, 1ms));
  --inside;
  holder.reset();  // the second has the lock now, but was not resumed yet
  waiter.reset();
  run_until_idle();
  EXPECT_EQ(order, (std::vector{1, 3}));
}

TEST_F(AsyncMutexTest, SoManyMayHoldItAtOnce) {
  AsyncMutex two(reactor, 2);
  std::vector<int> entered;
  const auto enter = [&](int i, Duration stay) -> Task<void> {
    const AsyncMutex::Lock lock = co_await two.lock();
    entered.push_back(i);
    co_await reactor.sleep(stay);
  };
  TaskScope scope(reactor);
  scope.spawn(enter(1, 2ms));
  EXPECT_FALSE(two.is_locked());
  scope.spawn(enter(2, 1ms));
  EXPECT_TRUE(two.is_locked());
  auto dies = std::make_unique<TaskScope>(reactor);
  dies->spawn(enter(3, 1ms));
  scope.spawn(enter(4, 1ms));
  dies.reset();
  EXPECT_EQ(entered, (std::vector{1, 2}));
  clock.advance(1ms);
  run_until_idle();
  EXPECT_EQ(entered, (std::vector{1, 2, 4}));
  clock.advance(1ms);
  run_until_idle();
  EXPECT_FALSE(two.is_locked());
  scope.spawn(enter(5, 1ms));
  EXPECT_EQ(entered, (std::vector{1, 2, 4, 5}));
}

TEST_F(AsyncMutexTest, MayDieBeforeItsLocksAndWaiters) {
  TaskScope scope(reactor);
  scope.spawn(hold(1, 1ms));
  scope.spawn(hold(2, 1ms));
  mutex.reset();
  clock.advance(1ms);
  run_until_idle();
  EXPECT_EQ(order, std::vector{1});
  EXPECT_EQ(scope.running(), 1u);
}

}  // namespace
}  // namespace ramcloud
