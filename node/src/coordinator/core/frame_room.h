// How much a recovery may order while backups have few free frames: pure functions and values
// (docs/design/recovery.md#when-volumes-are-full).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "coordinator/metadata/cluster_state.h"
#include "log/format.h"

namespace ramcloud {

/// Segments of which each can have `replicas` replicas on different backups, by the number of free
/// frames of each backup.
uint64_t segments_with_room(std::span<const uint64_t> free, uint32_t replicas);

/// The replicas without which a recovered segment is not served: the default of --min-replicas.
inline uint32_t replicas_to_serve(uint32_t replicas) {
  return replicas > 1 ? replicas - 1 : replicas;
}

/// Bytes of recovered segments for which backups have frames, if this server recovers them. No limit
/// while a backup has not said how many frames it has.
uint64_t room_for_copies(const ClusterState& state, uint64_t recovery_master);

/// The same, whoever recovers them; somewhat less, because no server's own frames count. None while a
/// backup has not said how many it has.
std::optional<uint64_t> room_for_copies(const ClusterState& state);

/// For people: the frames that recovering so many bytes needs, and those that are free.
std::string frames_text(const ClusterState& state, uint64_t bytes);

/// How much is ordered at a time. Unlimited until a part finds no frames. Then there is one part with
/// half as many bytes; with each part that is served twice as much is ordered again. So parts that
/// hold frames that others need become fewer and smaller until one has all that it needs.
class FrameBudget {
 public:
  /// A part with so little fits into one segment, even if it has more than was estimated.
  static constexpr uint64_t kLeast = log::kSegmentBytes / 2;
  struct Limit {
    uint64_t bytes = 0;  // the most of a part
    size_t parts = 0;    // the most at a time
    /// With less than that no part needs fewer frames.
    bool is_least() const { return bytes <= kLeast && parts == 1; }
  };
  /// `unlimited`: the bytes from which on there is no limit any more.
  explicit FrameBudget(uint64_t unlimited) : unlimited_(unlimited), limit_{unlimited, 1} {}
  /// A part with about so many bytes found no frames; it was ordered within this limit.
  void lacked(const Limit& ordered, uint64_t bytes);
  void served();
  bool limited() const { return limit_.bytes < unlimited_; }
  const Limit& limit() const { return limit_; }

 private:
  uint64_t unlimited_;
  Limit limit_;
};

}  // namespace ramcloud
