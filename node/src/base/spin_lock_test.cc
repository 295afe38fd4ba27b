#include "base/spin_lock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ramcloud {
namespace {

TEST(SpinLock, ExcludesOtherThreads) {
  struct {
    SpinLock lock;
    int count RC_GUARDED_BY(lock) = 0;
  } shared;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        SpinGuard guard(shared.lock);
        ++shared.count;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  SpinGuard guard(shared.lock);
  EXPECT_EQ(shared.count, 80'000);
}

TEST(SpinLock, TryLock) {
  SpinLock lock;
  bool second = true;
  {
    SpinGuard guard(lock);
    std::thread other([&]() RC_NO_THREAD_SAFETY_ANALYSIS { second = lock.try_lock(); });
    other.join();
  }
  EXPECT_FALSE(second);
  const bool third = lock.try_lock();
  EXPECT_TRUE(third);
  if (third) lock.unlock();
}

}  // namespace
}  // namespace ramcloud
