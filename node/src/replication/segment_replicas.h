// The R replicas of one segment, and what follows from all of them together (durable bytes,
// counts).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "log/segment.h"
#include "replication/replica_slot.h"

namespace ramcloud {

/// The part of the statistics that comes from one or more segments.
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
  log::Segment* compacted = nullptr;  // replaces `segment` once no replica is being copied from its
                                      // bytes
  std::vector<std::unique_ptr<ReplicaSlot>> slots;  // R of them; slot 0 is the primary
  wire::Holders known_holders;                      // what every slot was told
  std::vector<uint64_t> named;                      // all that were ever among them
  std::vector<uint64_t> banned;  // backups that may have a stale replica, or may get late messages
                                 // of one; not asked again for this segment
  std::vector<uint64_t> freed;   // those of them that freed it; they may have it again when this
                                 // segment is settled
  bool form_changed = false;  // it was compacted after some replicas were made: their bytes differ
  std::vector<uint64_t> lost_backups;  // backups that lost a replica of it; empty once all R count
  std::vector<uint64_t> offered_by;    // backups that may have a former replica: Adoptions sets it
  bool repairing = false;              // it is in the RepairQueue, which sets this
  uint64_t awaits = 0;    // it lacks a replica and waits for this backup to return with
                          // it, instead of a repair. 0: none
  SegmentCounts counted;  // its part of the sum of settled segments; zero until it is
                          // settled

  /// Closed on its replicas. From then on only the first reactor touches it.
  bool settled() const { return segment->closed_durable(); }
  /// A new replica of it is opened as a copy, which takes no frame that is kept for heads.
  bool gets_copies() const {
    return segment->side() || segment->closed() || segment->published() > kMaxReplicaMessageBytes;
  }
  /// Each placed replica is closed: none is being copied, and recovery takes no digest from any.
  bool none_open() const {
    return all([](const ReplicaSlot& slot) { return slot.closed() || !slot.placed(); });
  }
  /// Its replicas have all that is published, as far as they can be placed: nothing is to be sent,
  /// and no answer is to come.
  bool rests() const {
    return all([](const ReplicaSlot& slot) {
      if (!slot.placed()) return slot.state().optional;
      return slot.call() == nullptr && !slot.wants_to_send();
    });
  }
  /// Each replica that it lacks was offered by a backup that has it, so none is to be copied.
  bool only_adopts() const {
    const auto lacking =
        std::ranges::count_if(slots, [](const auto& slot) { return !slot->placed(); });
    return static_cast<size_t>(lacking) <= offered_by.size();
  }
  bool takes_none_from(uint64_t server_id) const {
    const auto in = [&](const auto& list) {
      return std::ranges::find(list, server_id) != list.end();
    };
    return in(banned) && !(settled() && in(freed));
  }
  template <typename Is>
  bool all(Is is) const {
    return std::ranges::all_of(slots, [&](const auto& slot) { return is(*slot); });
  }
  template <typename Is>
  bool any(Is is) const {
    return std::ranges::any_of(slots, [&](const auto& slot) { return is(*slot); });
  }
  bool fully_replicated() const {
    return all([](const ReplicaSlot& slot) { return slot.counts(); });
  }
  bool all_closed() const {
    return all([](const ReplicaSlot& slot) { return slot.closed(); });
  }
  /// True if every required replica counts and has `has`, and at least `min_replicas` replicas do.
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
  /// Replicas that count.
  uint32_t counting() const {
    const auto counts = [](const auto& slot) { return slot->counts(); };
    return static_cast<uint32_t>(std::ranges::count_if(slots, counts));
  }
  /// As many holders as its frames may name, R at most: LogEnd expects so many of the next head.
  uint32_t holders_named() const {
    return static_cast<uint32_t>(std::min(named.size(), slots.size()));
  }
  /// Tells every slot the present list of holders, if it has changed.
  void update_holders();
  /// The number of bytes from the start that enough replicas have, if all of these know the
  /// holders. None if not enough count.
  std::optional<uint32_t> durable_bytes(uint32_t min_replicas) const;
  SegmentCounts compute_counts() const;
};

}  // namespace ramcloud
