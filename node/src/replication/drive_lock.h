// The lock under which one reactor drives replication, at the end of its turn. No reactor waits for
// it: one that does not get it leaves a note, and the holder then drives once more, or tells the
// first reactor.
#pragma once

#include <sched.h>

#include <cstdint>

#include "base/atomic.h"
#include "base/logging.h"
#include "base/spin_lock.h"
#include "replication/reactor_role.h"

namespace ramcloud {

/// One word holds the lock and the notes. So the holder cannot leave between another reactor's
/// failed attempt and its note. Each change is a read-modify-write: the holder that takes a note
/// sees what was published before the note.
class RC_CAPABILITY("drive lock") alignas(kCacheLineBytes) DriveLock {
 public:
  DriveLock() = default;
  DriveLock(const DriveLock&) = delete;
  DriveLock& operator=(const DriveLock&) = delete;

  enum class Note : uint32_t {
    kAgain = 2,  // the holder drives once more before it leaves
    kFirst = 4,  // the first reactor wants the lock, and is told when it is free
  };
  /// True: it is ours. False: another reactor has it, and will see the note.
  bool try_enter(Note note) RC_TRY_ACQUIRE(true) {
    uint32_t seen = word_.load(std::memory_order_relaxed);
    for (;;) {
      const uint32_t wanted = seen == 0 ? kHeld : seen | static_cast<uint32_t>(note);
      if (word_.compare_exchange_weak(seen, wanted, std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
        return seen == 0;
      }
    }
  }

  /// Waits for the lock. Only for rare work (statistics).
  void enter() RC_ACQUIRE() {
    for (;;) {
      uint32_t seen = 0;
      if (word_.compare_exchange_strong(seen, kHeld, std::memory_order_acq_rel,
                                        std::memory_order_relaxed)) {
        return;
      }
      sched_yield();
    }
  }

  /// Leaves. `again` is called first, still under the lock, for each note kAgain. True: the first
  /// reactor wants to be told that the lock is free.
  template <typename Again>
  bool leave(Again again) RC_RELEASE() RC_NO_THREAD_SAFETY_ANALYSIS {
    for (;;) {
      switch (try_leave()) {
        case Left::kFree:
          return false;
        case Left::kFreeTellFirst:
          return true;
        case Left::kAgain:
          again();
      }
    }
  }

  /// For code whose caller holds the lock without the compiler's knowledge. Ends the process if
  /// nobody holds it.
  void assert_held() const RC_ASSERT_CAPABILITY() {
    if (word_.load(std::memory_order_relaxed) == 0) fatal("replication.lock_is_not_held");
  }

 private:
  enum class Left : uint8_t {
    kFree,
    kFreeTellFirst,
    kAgain,  // the lock is still held: look again
  };
  Left try_leave() {
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

  static constexpr uint32_t kHeld = 1;
  Atomic<uint32_t> word_{0};
};

}  // namespace ramcloud
