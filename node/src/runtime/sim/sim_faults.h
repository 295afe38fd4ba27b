// Counts the faults of a simulation. A fault counts when it changed something: a message was lost,
// a sync failed, bytes were dropped. A fault that affected no operation does not count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"

namespace ramcloud {

enum class Fault : uint8_t {
  kMessageLost,       // by random loss
  kMessageCut,        // by a partition of both directions
  kMessageCutOneWay,  // by a partition of one direction
  kMessageSlow,       // by a slow link
  kCallRepeated,      // an idempotent request arrived once more, over another session
  kSessionBroken,     // although both ends are alive
  kProcessKilled,
  kHostRebooted,  // unsynced sectors were dropped
  kProcessPaused,
  kDiskSlow,
  kSyncFailed,        // written sectors are not on the device, although later syncs succeed
  kWriteLost,         // the device reported success but did not write
  kWriteMisdirected,  // the device wrote to another place
  kClockRate,         // a timer ran on a fast or slow clock
  kClockJumped,       // CLOCK_REALTIME
  kDiskDamaged,       // bytes at rest changed
  kCount
};

/// As in JSON: "message_lost", …
const char* fault_name(Fault fault);

class FaultCounts {
 public:
  /// Two kinds count as combined if one changed something at most this long after the other.
  static constexpr Duration kMeet = std::chrono::seconds(1);

  void add(Fault fault, Time now);
  uint64_t of(Fault fault) const { return counts_[static_cast<size_t>(fault)]; }
  /// By name; without those that are 0.
  std::map<std::string, uint64_t> by_kind() const;
  /// By "first+second" (in the order of the kinds): how often two kinds were combined.
  std::map<std::string, uint64_t> by_pair() const;

 private:
  static constexpr size_t kKinds = static_cast<size_t>(Fault::kCount);
  std::array<uint64_t, kKinds> counts_{};
  std::array<Time, kKinds> last_{};
  std::array<std::array<uint64_t, kKinds>, kKinds> pairs_{};
};

}  // namespace ramcloud
