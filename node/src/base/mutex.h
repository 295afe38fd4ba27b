// A lock for critical sections that may block: who has to wait sleeps. Known to the analysis of
// locks and to the scheduler of interleavings, which std::mutex is not.
#pragma once

#include <mutex>
#include <utility>

#include "base/spin_lock.h"

namespace ramcloud {

#ifdef RAMCLOUD_MODEL

/// Nothing sleeps there, so both kinds are alike.
using Mutex = SpinLock;
using MutexGuard = SpinGuard;

#else

class RC_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() RC_ACQUIRE() { mutex_.lock(); }
  void unlock() RC_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class RC_SCOPED_CAPABILITY MutexGuard {
 public:
  explicit MutexGuard(Mutex& mutex) RC_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexGuard() RC_RELEASE() { mutex_.unlock(); }
  MutexGuard(const MutexGuard&) = delete;
  MutexGuard& operator=(const MutexGuard&) = delete;

 private:
  Mutex& mutex_;
};

#endif

}  // namespace ramcloud
