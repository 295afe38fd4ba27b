// The fence around lost replicas (docs/design/replication.md#losing-a-backup). A backup that
// drops out may come back with a replica of an open segment that misses what was acknowledged
// since. So after every such loss, before anything more is acknowledged:
//
//   1. the master's replication epoch rises, and every backup that still has an open replica makes
//      that durable for it;
//   2. the coordinator durably raises (lowest open segment, epoch) of this master.
//
// From then on a replica that is not closed counts only if its segment and its epoch are at least
// these. In this order: a master that dies in between leaves replicas that all count, and nothing
// was acknowledged that one of them lacks.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "runtime/reactor.h"

namespace ramcloud {

class EpochFence {
 public:
  /// Tells the coordinator, and waits for its definite answer however long that takes: OK once it
  /// is durable; anything else is final (CRASHED: the cluster has given this master up).
  using Raise = std::function<Task<Status>(uint64_t lowest_open_segment, uint32_t epoch)>;

  /// `done` is called with each definite answer. Without a `raise` (tests of single parts) the
  /// answer is OK.
  EpochFence(Reactor& reactor, Raise raise, std::function<void(const Status&)> done);

  /// Of this master; goes with every replica request and into every group.
  uint32_t epoch() const { return epoch_; }
  /// Nothing may be acknowledged while this is false.
  bool holds() const { return confirmed_ == epoch_; }
  /// An open replica was lost.
  void raise() { ++epoch_; }
  /// The open replicas that are left have the epoch: step 2. Does nothing while the coordinator is
  /// being told, or when the fence holds.
  void confirm(uint64_t lowest_open_segment);

 private:
  Task<void> tell(uint64_t lowest_open_segment, uint32_t epoch);

  Raise raise_;
  std::function<void(const Status&)> done_;
  uint32_t epoch_ = 0;
  uint32_t confirmed_ = 0;
  bool telling_ = false;
  TaskScope scope_;
};

}  // namespace ramcloud
