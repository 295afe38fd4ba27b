// The fence around lost replicas (docs/design/replication.md#losing-a-backup). A backup that drops
// out may come back with a replica of an open segment that misses what was acknowledged since. So
// after every such loss, before anything more is acknowledged:
//
//   1. the master's replication epoch rises, and every backup that still has an open replica makes
//      that durable for it;
//   2. the coordinator durably raises (lowest open segment, epoch) of this master.
//
// From then on a replica that is not closed counts only if its segment and its epoch are at least
// these. Why this order: if the master dies between the steps, all remaining replicas count, and
// none of them lacks anything that was acknowledged.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"

namespace ramcloud {

/// The coordinator's definite answer about a raised epoch. OK: it has the epoch durably. Any other
/// answer is final (CRASHED: the cluster has given this master up).
struct FenceAnswer {
  uint32_t epoch = 0;
  Status status;
};

/// The state of the fence. Its owner, the ReplicaManager, decides when the coordinator must be
/// told; the server tells it.
class EpochFence {
 public:
  /// The replication epoch of this master. It is in every replica request and in every group
  /// header.
  uint32_t epoch() const { return epoch_; }
  /// The coordinator has the epoch durably. Nothing may be acknowledged while this is false.
  bool holds() const { return confirmed_ == epoch_; }
  /// An open replica was lost.
  void raise() { ++epoch_; }
  /// Step 2: the remaining open replicas have the epoch. Returns the epoch that the coordinator
  /// must be told; none if the fence holds, or if an answer is outstanding.
  std::optional<uint32_t> begin_telling() {
    if (holds() || telling_) return std::nullopt;
    telling_ = true;
    return epoch_;
  }
  /// The coordinator has that epoch. It may have risen again since.
  void confirm(uint32_t epoch) {
    telling_ = false;
    confirmed_ = epoch;
  }

 private:
  uint32_t epoch_ = 0;
  uint32_t confirmed_ = 0;
  bool telling_ = false;
};

}  // namespace ramcloud
