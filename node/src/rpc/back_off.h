// How long to wait before trying again: exponential with jitter, so that clients that saw the same
// failure do not all retry at the same time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "base/random.h"

namespace ramcloud {

class BackOff {
 public:
  static constexpr Duration kFirst = 1ms;
  static constexpr Duration kLast = 250ms;
  /// The longest wait that a peer may ask for. A wrong value must not put a caller to sleep.
  static constexpr Duration kMostAsked = 1s;
  explicit BackOff(Duration first = kFirst, Duration last = kLast)
      : first_(first), last_(last), step_(first) {}

  /// A random time between half the current step and all of it; the step then doubles. At least
  /// `at_least`.
  Duration next(Random& random, Duration at_least = {}) {
    const auto half = static_cast<uint64_t>(step_.count()) / 2;
    const Duration jittered(static_cast<int64_t>(half + random.below(half + 1)));
    step_ = std::min(step_ * 2, last_);
    return std::max(at_least, jittered);
  }
  /// The same, at least as long as the peer asks; at most kMostAsked of that counts.
  Duration next_asked(Random& random, uint32_t retry_after_us) {
    const Duration asked = std::chrono::microseconds(retry_after_us);
    return next(random, std::min(asked, kMostAsked));
  }
  void reset() { step_ = first_; }

 private:
  Duration first_;
  Duration last_;
  Duration step_;
};

}  // namespace ramcloud
