#include "base/spin_lock.h"

#include <sched.h>

#include <algorithm>

#ifndef RAMCLOUD_MODEL
namespace ramcloud {

namespace {
/// Tells the core that this is a spin loop.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // `yield` does nothing on most cores
#endif
}
}  // namespace

/// Tries less and less often (exponential back-off). When two cores take a lock in turn, its cache
/// line and the data that it guards move between them with each critical section. With back-off the
/// holder runs several sections in a row, and the total throughput is higher (docs/design/log.md
/// has figures).
void SpinLock::lock_slow() {
  constexpr int kFirstWait = 8, kLongestWait = 64;  // in `pause`s, of 20 to 60 ns
  constexpr int kPausesBeforeYield = 120;
  int paused = 0;
  for (int wait = kFirstWait;; wait = std::min(2 * wait, kLongestWait)) {
    for (int i = 0; i < wait; ++i) cpu_relax();
    if (try_lock()) return;
    paused += wait;
    if (paused >= kPausesBeforeYield) {
      sched_yield();
      paused = 0;
    }
  }
}

}  // namespace ramcloud
#endif
