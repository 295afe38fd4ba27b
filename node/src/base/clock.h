// Time comes from a Clock that is passed in, never from the system directly, so that a whole
// cluster can run on virtual time.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace ramcloud {

using Duration = std::chrono::nanoseconds;
using namespace std::chrono_literals;

/// A point on a Clock's monotonic axis; its origin has no meaning.
struct MonotonicTag {
  using duration = Duration;
  using rep = Duration::rep;
  using period = Duration::period;
  static constexpr bool is_steady = true;
};
using Time = std::chrono::time_point<MonotonicTag, Duration>;

inline constexpr Time kNever = Time::max();

class Clock {
 public:
  virtual ~Clock() = default;
  /// Monotonic time.
  virtual Time now() const = 0;
  /// Monotonic time for leases, which continues while the machine is suspended. It has another
  /// origin than now(): never compare the two.
  virtual Time lease_now() const { return now(); }
  /// Unix time in milliseconds, for people and coarse object ages; may jump.
  virtual uint64_t unix_ms() const = 0;
};

/// CLOCK_MONOTONIC, for leases CLOCK_BOOTTIME, and the system's wall clock.
class SystemClock final : public Clock {
 public:
  Time now() const override { return Time(std::chrono::steady_clock::now().time_since_epoch()); }
  Time lease_now() const override {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return Time(std::chrono::seconds(now.tv_sec) + Duration(now.tv_nsec));
  }
  /// Exact to a few milliseconds. Every write reads it, and reading the exact time would be 5 % of
  /// a small write.
  uint64_t unix_ms() const override {
    timespec now{};
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000 +
           static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
  }
};

/// A clock that moves only when a test or the simulation moves it.
class VirtualClock final : public Clock {
 public:
  Time now() const override { return now_; }
  uint64_t unix_ms() const override {
    constexpr uint64_t kOrigin = 1'700'000'000'000;  // a fixed date: the same in every run
    return kOrigin + static_cast<uint64_t>(now_.time_since_epoch() / 1ms);
  }
  void advance_to(Time t) {
    if (t > now_) now_ = t;
  }
  void advance(Duration d) { now_ += d; }

 private:
  Time now_{Duration(1s)};
};

}  // namespace ramcloud
