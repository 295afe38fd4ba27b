// The segments of a dead master's log, as the coordinator tells recovery masters, and an encoding
// that packs many of them (docs/formats.md#packed-segments). A log of 500 GB has 60,000 segments,
// and each of 1,000 recovery masters gets them all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ramcloud::wire {

/// The first version of the protocol in which the order to recover packs its segments.
inline constexpr uint16_t kPackedSegments = 3;

/// A replica that has a whole segment of the dead log.
struct RecoverySource {
  uint64_t server_id = 0;  // of a backup that is UP
  uint32_t frame = 0;
  template <class V>
  void fields(V& v) {
    v(server_id, frame);
  }
  bool operator==(const RecoverySource&) const = default;
};

struct RecoverySegment {
  uint64_t segment_id = 0;
  uint32_t length = 0;                  // as it was decided
  std::vector<RecoverySource> sources;  // in the order in which they should be tried
  template <class V>
  void fields(V& v) {
    v(segment_id, length, sources);
  }
  bool operator==(const RecoverySegment&) const = default;
};

/// Packs segments, which are ordered by falling id: about 10 bytes for one with three sources in a
/// large cluster, instead of 68. Precondition: at most 2^20 segments.
std::string pack_segments(std::span<const RecoverySegment> segments);

/// Appends the segments. False if the bytes are not exactly a list of packed segments.
[[nodiscard]] bool unpack_segments(std::string_view packed, std::vector<RecoverySegment>& segments);

}  // namespace ramcloud::wire
