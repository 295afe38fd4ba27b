// The budget of one phase of a reactor's turn.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace ramcloud {

/// Work is counted in units, each about a nanosecond of a current core. They are estimates, not
/// measurements: a simulation spends the same units whenever it runs. Estimates are worst for
/// system calls: to wake a peer takes 2 to 40 us, depending on the machine. So after a call that
/// sends the clock decides, too; a simulation's stands still within a turn. A phase may overdraw by
/// its last item, which is always done whole; so every item must be small.
class TurnBudget {
 public:
  /// Outside events, and work that was continued, posted or deferred: each has this much a turn.
  static constexpr int64_t kEvents = 40'000;
  static constexpr int64_t kPosted = 20'000;
  /// When these phases, and hooks, end at the latest: so long after the turn began.
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
  bool look_ = false;  // at the clock
  bool late_ = false;
};

}  // namespace ramcloud
