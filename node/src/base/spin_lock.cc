#include "base/spin_lock.h"

#include <sched.h>

#ifndef RAMCLOUD_MODEL
namespace ramcloud {

void SpinLock::lock_slow() {
  constexpr int kSpinsBeforeYield = 40;  // about a microsecond of `pause`
  for (int spins = 0;; ++spins) {
    while (locked_.load(std::memory_order_relaxed)) {
      if (++spins >= kSpinsBeforeYield) {
        sched_yield();
        spins = 0;
      } else {
        __builtin_ia32_pause();
      }
    }
    if (!locked_.exchange(true, std::memory_order_acquire)) return;
  }
}

}  // namespace ramcloud
#endif
