// Who drives replication: whoever comes at the end of a turn. Nobody waits for the lock; who does
// not get it leaves a note, and whoever has it looks once more, or tells the first reactor.
#pragma once

#include <sched.h>

#include <cstdint>

#include "base/atomic.h"
#include "base/spin_lock.h"

namespace ramcloud {

/// One word, so that there is no moment between "not free" and "noted" in which the holder goes
/// away without having seen the note. Each change of it is a read-modify-write: what was published
/// before a note is seen by the holder that takes the note.
class alignas(kCacheLineBytes) DriveLock {
 public:
  enum class Note : uint32_t {
    kAgain = 2,  // the holder looks at everything again before it goes
    kFirst = 4,  // the first reactor wants the lock, and is told when it is free
  };
  enum class Left : uint8_t {
    kFree,
    kFreeTellFirst,
    kAgain,  // the lock is still held: look again
  };

  /// True: it is ours. False: somebody has it, and will see the note.
  bool try_enter(Note note) {
    uint32_t seen = word_.load(std::memory_order_relaxed);
    for (;;) {
      const uint32_t wanted = seen == 0 ? kHeld : seen | static_cast<uint32_t>(note);
      if (word_.compare_exchange_weak(seen, wanted, std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
        return seen == 0;
      }
    }
  }

  /// Waits, for what happens rarely (statistics).
  void enter() {
    for (;;) {
      uint32_t seen = 0;
      if (word_.compare_exchange_strong(seen, kHeld, std::memory_order_acq_rel,
                                        std::memory_order_relaxed)) {
        return;
      }
      sched_yield();
    }
  }

  Left leave() {
    constexpr auto kAgain = static_cast<uint32_t>(Note::kAgain);
    uint32_t seen = word_.load(std::memory_order_relaxed);
    for (;;) {
      const bool again = (seen & kAgain) != 0;
      const uint32_t wanted = again ? seen & ~kAgain : 0;
      if (word_.compare_exchange_weak(seen, wanted, std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
        if (again) return Left::kAgain;
        return seen == kHeld ? Left::kFree : Left::kFreeTellFirst;
      }
    }
  }

 private:
  static constexpr uint32_t kHeld = 1;
  Atomic<uint32_t> word_{0};
};

}  // namespace ramcloud
