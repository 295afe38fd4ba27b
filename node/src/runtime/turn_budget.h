// The budget of one phase of a reactor's turn.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace ramcloud {

/// Work is counted in units, each about a nanosecond of a current core. They are estimates, not
/// measurements, so that a simulation spends the same units in every run. Estimates are worst for
/// system calls: waking a peer takes 2 to 40 us, depending on the machine. So after a call that
/// sends, the clock is checked, too (in simulation it does not move within a turn). The last item
/// of a phase is always completed and may exceed the budget; so every item must be small.
class TurnBudget {
 public:
  /// The budget in each turn for outside events, and again for work that was continued, posted or
  /// deferred.
  static constexpr int64_t kEvents = 40'000;
  static constexpr int64_t kPosted = 20'000;
  /// The latest end of these phases and of hooks, after the turn began.
  static constexpr Duration kEventsUntil = std::chrono::microseconds(30);
  static constexpr Duration kPostedUntil = std::chrono::microseconds(45);
  static constexpr Duration kHooksUntil = std::chrono::microseconds(60);
  /// The costs of operations.
  static constexpr int64_t kReceive = 2'000;  // a system call
  static constexpr int64_t kSend = 6'000;     // a system call that wakes the peer
  static constexpr int64_t kRequest = 500;
  static constexpr int64_t kReply = 100;
  static constexpr int64_t of_bytes(size_t bytes) { return static_cast<int64_t>(bytes / 8); }

  explicit TurnBudget(const Clock& clock) : clock_(clock) {}

  void begin(int64_t units, Time until) {
    begun_with_ = left_ = units;
    until_ = until;
    look_ = late_ = false;
  }
  void spend(int64_t units) { left_ -= units; }
  /// For a system call that sends: from now on the clock decides, too.
  void spend_on_call(int64_t units) {
    spend(units);
    look_ = true;
  }
  bool spent() {
    if (look_) {
      look_ = false;
      late_ = clock_.now() >= until_;
    }
    return late_ || left_ <= 0;
  }
  /// Since begin().
  int64_t used() const { return begun_with_ - left_; }

 private:
  const Clock& clock_;
  int64_t begun_with_ = kEvents;
  int64_t left_ = kEvents;
  Time until_ = kNever;
  bool look_ = false;  // check the clock
  bool late_ = false;
};

}  // namespace ramcloud
