// How long to wait before trying again: exponential with jitter, so that many clients that met the
// same failure do not come back together.
#pragma once

#include <algorithm>

#include "base/clock.h"
#include "base/random.h"

namespace ramcloud {

class BackOff {
 public:
  static constexpr Duration kFirst = 1ms;
  static constexpr Duration kLast = 250ms;
  explicit BackOff(Duration first = kFirst, Duration last = kLast)
      : first_(first), last_(last), step_(first) {}

  /// Between one half and the whole of the current step, which then doubles; at least `at_least`
  /// (what the server asked for).
  Duration next(Random& random, Duration at_least = {}) {
    const auto half = static_cast<uint64_t>(step_.count()) / 2;
    const Duration jittered(static_cast<int64_t>(half + random.below(half + 1)));
    step_ = std::min(step_ * 2, last_);
    return std::max(at_least, jittered);
  }
  void reset() { step_ = first_; }

 private:
  Duration first_;
  Duration last_;
  Duration step_;
};

}  // namespace ramcloud
