// Points that tests must have come by at least once ("sometimes": over all seeds of a run). A test
// of rare cases finds nothing when a change has made them unreachable, and stays green; so the code
// marks them where they happen, and node/sim/expected.h lists those that the simulations reach.
//
//   RC_SOMETIMES("replication.degraded_segment_repaired");
//
// One relaxed increment; in builds without tests (preset `release`) nothing at all. The name is a
// literal, and stands at one place only.
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
  const SometimesPoint* next_ = nullptr;  // of those that were reached
};

/// How often each point was reached since the process began; those that never were are not in it.
/// Any thread.
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
