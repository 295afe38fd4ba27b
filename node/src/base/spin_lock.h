// A lock for short critical sections that never block. A waiting thread yields the core after some
// microseconds, so that having more threads than cores is harmless.
#pragma once

#include <atomic>
#include <utility>

#ifdef RAMCLOUD_MODEL
#include "base/model_schedule.h"
#endif

#if defined(__clang__)
#define RC_CAPABILITY(x) __attribute__((capability(x)))
#define RC_SCOPED_CAPABILITY __attribute__((scoped_lockable))
#define RC_GUARDED_BY(x) __attribute__((guarded_by(x)))
#define RC_REQUIRES(...) __attribute__((requires_capability(__VA_ARGS__)))
#define RC_ACQUIRE(...) __attribute__((acquire_capability(__VA_ARGS__)))
#define RC_TRY_ACQUIRE(...) __attribute__((try_acquire_capability(__VA_ARGS__)))
#define RC_RELEASE(...) __attribute__((release_capability(__VA_ARGS__)))
#define RC_NO_THREAD_SAFETY_ANALYSIS __attribute__((no_thread_safety_analysis))
#else
#define RC_CAPABILITY(x)
#define RC_SCOPED_CAPABILITY
#define RC_GUARDED_BY(x)
#define RC_REQUIRES(...)
#define RC_ACQUIRE(...)
#define RC_TRY_ACQUIRE(...)
#define RC_RELEASE(...)
#define RC_NO_THREAD_SAFETY_ANALYSIS
#endif

namespace ramcloud {

/// Words that different threads write are on separate cache lines.
inline constexpr size_t kCacheLineBytes = 64;

#ifdef RAMCLOUD_MODEL

/// The lock for the scheduler of interleavings (base/atomic.h).
class RC_CAPABILITY("mutex") SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() RC_ACQUIRE() {
    model::point();
    while (locked_) model::wait_for(this);
    locked_ = true;
  }
  bool try_lock() RC_TRY_ACQUIRE(true) {
    model::point();
    return !std::exchange(locked_, true);
  }
  void unlock() RC_RELEASE() {
    locked_ = false;
    model::wake(this);
    model::point();
  }

 private:
  bool locked_ = false;
};

#else

class RC_CAPABILITY("mutex") SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() RC_ACQUIRE() {
    if (locked_.exchange(true, std::memory_order_acquire)) lock_slow();
  }
  bool try_lock() RC_TRY_ACQUIRE(true) {
    return !locked_.load(std::memory_order_relaxed) &&
           !locked_.exchange(true, std::memory_order_acquire);
  }
  void unlock() RC_RELEASE() { locked_.store(false, std::memory_order_release); }

 private:
  void lock_slow() RC_NO_THREAD_SAFETY_ANALYSIS;
  std::atomic<bool> locked_{false};
};

#endif

class RC_SCOPED_CAPABILITY SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) RC_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~SpinGuard() RC_RELEASE() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace ramcloud
