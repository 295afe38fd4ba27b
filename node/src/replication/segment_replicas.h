// The R replicas of one segment, and what they add up to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "log/segment.h"
#include "replication/replica_slot.h"

namespace ramcloud {

/// What segments add to the statistics.
struct SegmentCounts {
  uint64_t segments = 0;
  uint64_t fully_replicated = 0;
  uint64_t degraded = 0;
  uint64_t unreplicated_bytes = 0;
  bool operator==(const SegmentCounts&) const = default;
  void add(const SegmentCounts& more);
  void take_away(const SegmentCounts& less);
};

struct SegmentReplicas {
  log::Segment* segment = nullptr;
  log::Segment* compacted = nullptr;  // to take its place once no replica is made from its bytes
  std::vector<std::unique_ptr<ReplicaSlot>> slots;  // R of them; slot 0 is the primary
  std::vector<uint64_t> banned;  // backups that may have a stale replica of it: not asked again
  std::vector<uint64_t> left;    // backups whose replica was lost, until all replicas count
  bool repairing = false;        // is in the queue of repairs, which sets it
  SegmentCounts counted;         // in the sum of settled segments; nothing before it is settled

  /// Closed on its replicas, and the next head counts: the first reactor's alone from then on.
  bool settled() const { return segment->closed_durable(); }
  /// All that is there is closed: no replica is being made, and no digest of it can decide.
  bool none_open() const {
    return all([](const ReplicaSlot& slot) { return slot.closed() || !slot.placed(); });
  }
  bool takes_none_from(uint64_t server_id) const {
    return std::ranges::find(banned, server_id) != banned.end();
  }
  template <typename Is>
  bool all(Is is) const {
    return std::ranges::all_of(slots, [&](const auto& slot) { return is(*slot); });
  }
  template <typename Is>
  bool any(Is is) const {
    return std::ranges::any_of(slots, [&](const auto& slot) { return is(*slot); });
  }
  bool all_count() const {
    return all([](const ReplicaSlot& slot) { return slot.counts(); });
  }
  bool all_closed() const {
    return all([](const ReplicaSlot& slot) { return slot.closed(); });
  }
  /// True if `has` is so of every replica that is required, and of `min_replicas`.
  template <typename Has>
  bool on_enough(uint32_t min_replicas, Has has) const {
    uint32_t have = 0;
    for (const auto& slot : slots) {
      if (slot->counts() && has(*slot)) {
        ++have;
      } else if (!slot->state().optional) {
        return false;
      }
    }
    return have >= min_replicas;
  }
  /// Gives every replica the present list of holders.
  void update_holders();
  /// Bytes from the start that enough replicas have, all of which know the holders; none if not
  /// enough count.
  std::optional<uint32_t> durable_bytes(uint32_t min_replicas) const;
  SegmentCounts counts() const;
};

}  // namespace ramcloud
