// What one phase of a reactor's turn may still do.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ramcloud {

/// Work is counted in units, each about a nanosecond of a current core. They are estimates, not
/// measurements: a simulation spends the same units whenever it runs. A phase may overdraw by its
/// last item, which is always done whole; so every item must be small.
class TurnBudget {
 public:
  /// Outside events, and work that was continued, posted or deferred: each has this much a turn.
  static constexpr int64_t kEvents = 40'000;
  static constexpr int64_t kPosted = 20'000;
  /// What costs what.
  static constexpr int64_t kReceive = 2'000;  // a system call
  static constexpr int64_t kSend = 6'000;     // a system call that wakes the peer
  static constexpr int64_t kRequest = 500;
  static constexpr int64_t kReply = 100;
  static constexpr int64_t of_bytes(size_t bytes) { return static_cast<int64_t>(bytes / 8); }

  void begin(int64_t units) { begun_with_ = left_ = units; }
  void spend(int64_t units) { left_ -= units; }
  bool spent() const { return left_ <= 0; }
  /// Since begin().
  int64_t used() const { return begun_with_ - left_; }

 private:
  int64_t begun_with_ = kEvents;
  int64_t left_ = kEvents;
};

}  // namespace ramcloud
