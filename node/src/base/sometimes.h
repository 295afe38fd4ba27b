// Points that tests must reach at least once ("sometimes": over all seeds of a run). If a change
// makes a rare case unreachable, its test finds nothing and still passes. So the code marks rare
// cases, and node/sim/expected.h lists those that the simulations must reach.
//
//   RC_SOMETIMES("replication.degraded_segment_repaired");
//
// One relaxed increment; in builds without tests (preset `release`) nothing at all. The name is a
// literal, and is used at one place only.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string_view>

namespace ramcloud {

class SometimesPoint {
 public:
  constexpr explicit SometimesPoint(const char* name) : name_(name) {}
  SometimesPoint(const SometimesPoint&) = delete;
  SometimesPoint& operator=(const SometimesPoint&) = delete;

  /// Any thread.
  void reached() {
    if (count_.fetch_add(1, std::memory_order_relaxed) == 0) enter();
  }

 private:
  friend std::map<std::string_view, uint64_t> sometimes_counts();
  void enter();
  const char* name_;
  std::atomic<uint64_t> count_{0};
  const SometimesPoint* next_ = nullptr;  // next point that was reached
};

/// How often each point was reached since the process began; points that were never reached are not
/// included. Any thread.
std::map<std::string_view, uint64_t> sometimes_counts();

}  // namespace ramcloud

#ifdef RAMCLOUD_COUNT_SOMETIMES
#define RC_SOMETIMES(name)                                      \
  do {                                                          \
    static constinit ::ramcloud::SometimesPoint rc_point{name}; \
    rc_point.reached();                                         \
  } while (false)
#else
#define RC_SOMETIMES(name) \
  do {                     \
  } while (false)
#endif
