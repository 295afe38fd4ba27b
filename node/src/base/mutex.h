// A lock for critical sections that may block: a waiting thread sleeps. Unlike std::mutex it
// supports the compiler's lock analysis and the scheduler of interleavings.
#pragma once

#include <mutex>
#include <utility>

#include "base/spin_lock.h"

namespace ramcloud {

#ifdef RAMCLOUD_MODEL

/// In the model nothing sleeps, so both kinds of lock are the same.
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
