// Spreads work over time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/reactor.h"
#include "runtime/task.h"

namespace ramcloud {

/// At most so many units a second, in the long run: what was done is paid for before more begins. Those
/// that wait at the same time may begin at the same time. On the reactor's thread.
class Pace {
 public:
  /// `per_second` 0: no limit.
  Pace(Reactor& reactor, uint64_t per_second) : reactor_(reactor), per_second_(per_second) {}

  /// Until all that was charged is paid for.
  Task<void> wait() {
    while (paid_ > reactor_.now()) co_await reactor_.sleep(paid_ - reactor_.now());
  }
  void charge(uint64_t units) {
    if (per_second_ == 0) return;
    const double seconds = static_cast<double>(units) / static_cast<double>(per_second_);
    paid_ = std::max(paid_, reactor_.now()) +
            std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }

 private:
  Reactor& reactor_;
  uint64_t per_second_;
  Time paid_{};  // when all that was charged is
};

}  // namespace ramcloud
