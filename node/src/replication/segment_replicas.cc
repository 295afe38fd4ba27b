#include "replication/segment_replicas.h"

#include <algorithm>

namespace ramcloud {

void SegmentCounts::add(const SegmentCounts& more) {
  segments += more.segments;
  fully_replicated += more.fully_replicated;
  degraded += more.degraded;
  unreplicated_bytes += more.unreplicated_bytes;
}

void SegmentCounts::take_away(const SegmentCounts& less) {
  segments -= less.segments;
  fully_replicated -= less.fully_replicated;
  degraded -= less.degraded;
  unreplicated_bytes -= less.unreplicated_bytes;
}

void SegmentReplicas::update_holders() {
  wire::Holders holders;
  for (const auto& slot : slots) {
    if (slot->placed() && holders.count < holders.ids.size()) {
      holders.ids[holders.count++] = slot->server_id();
    }
  }
  if (holders == known_holders) return;
  known_holders = holders;
  for (const uint64_t id : holders.all()) {
    if (std::ranges::find(named, id) == named.end()) named.push_back(id);
  }
  for (const auto& slot : slots) slot->set_holders(holders);
}

std::optional<uint32_t> SegmentReplicas::durable_bytes(uint32_t min_replicas) const {
  uint32_t acked = ~uint32_t{0};
  // Also computes the minimum of the acknowledged bytes.
  const auto knows_holders = [&](const ReplicaSlot& slot) {
    acked = std::min(acked, slot.acked());
    return slot.knows_holders();
  };
  if (!on_enough(min_replicas, knows_holders)) return std::nullopt;
  return acked;
}

SegmentCounts SegmentReplicas::compute_counts() const {
  const uint32_t published = segment->published();
  uint32_t acked = published;
  bool degraded = false;
  for (const auto& slot : slots) {
    if (!slot->state().optional) acked = std::min(acked, slot->acked());
    degraded = degraded || slot->state().optional;
  }
  return {.segments = 1,
          .fully_replicated = fully_replicated(),
          .degraded = degraded,
          .unreplicated_bytes = published - acked};
}

}  // namespace ramcloud
