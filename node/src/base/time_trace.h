// Time-trace: the last events of one reactor, stamped with the processor's time-stamp counter, kept
// in a ring that is always on (docs/design/runtime.md#time-trace). Recording is four relaxed stores
// by the thread that owns the ring; any thread may take a snapshot at the same time.
//
// The counter is read directly, not through Clock: stamps are only displayed, and no decision
// depends on them, so simulation stays deterministic (it uses no trace anyway).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#if !defined(__x86_64__)
#include <time.h>
#endif

namespace ramcloud {

/// Ticks of the time-stamp counter, or nanoseconds where there is none.
inline uint64_t trace_ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
#endif
}

struct TraceEvent {
  int64_t unix_ns = 0;  // wall-clock time
  std::string what;
  uint64_t id = 0;     // id of the operation or call; 0: none
  uint64_t value = 0;  // bytes, an opcode, ...: `what` says which
};

class TimeTrace {
 public:
  static constexpr size_t kEvents = 8192;

  TimeTrace();
  TimeTrace(const TimeTrace&) = delete;
  TimeTrace& operator=(const TimeTrace&) = delete;

  /// `what` must be a string literal. Owner's thread only.
  void record(const char* what, uint64_t id, uint64_t value) {
    const uint64_t at = next_.load(std::memory_order_relaxed);
    Slot& slot = (*slots_)[at % kEvents];
    slot.ticks.store(trace_ticks(), std::memory_order_relaxed);
    slot.what.store(what, std::memory_order_relaxed);
    slot.id.store(id, std::memory_order_relaxed);
    slot.value.store(value, std::memory_order_relaxed);
    next_.store(at + 1, std::memory_order_release);
  }

  /// The events still in the ring, oldest first. Any thread.
  std::vector<TraceEvent> snapshot() const;
  /// As JSON: {"events": [{"unix_ns", "what", "id", "value"}, ...]}. Any thread.
  std::string json() const { return json_of({this}); }
  /// Like json(), for the events of several rings, sorted by time.
  static std::string json_of(const std::vector<const TimeTrace*>& traces);

 private:
  struct Slot {
    std::atomic<uint64_t> ticks{0};
    std::atomic<const char*> what{nullptr};
    std::atomic<uint64_t> id{0};
    std::atomic<uint64_t> value{0};
  };
  /// A point in time on both clocks.
  struct Moment {
    uint64_t ticks;
    std::chrono::system_clock::time_point wall;
    static Moment now();
  };
  std::unique_ptr<std::array<Slot, kEvents>> slots_;
  std::atomic<uint64_t> next_{0};
  Moment started_;
};

}  // namespace ramcloud
