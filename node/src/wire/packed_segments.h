// The segments of a dead master's log, as the coordinator tells recovery masters, and an encoding
// that packs many of them (docs/formats.md#packed-segments). A log of 500 GB has 60,000 segments,
// and each of 1,000 recovery masters gets them all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/bits.h"

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

/// Packs segments: about 10 bytes for one with three sources in a large cluster, instead of 68.
/// Precondition: they are ordered by falling id.
std::string pack_segments(std::span<const RecoverySegment> segments);

/// Packed segments, some at a time.
class PackedSegments {
 public:
  static constexpr uint64_t kMostSegments = 1u << 20;
  static constexpr uint64_t kMostServers = 1u << 16;

  /// `packed` outlives it.
  explicit PackedSegments(std::string_view packed);
  /// How many are left; 0 if the bytes are no packed segments.
  uint64_t left() const { return left_; }
  /// Appends the next ones, at most `most`. False: the bytes are no packed segments.
  [[nodiscard]] bool take(size_t most, std::vector<RecoverySegment>& segments);

 private:
  bool begin(std::string_view packed);
  bool take_one(RecoverySegment& segment);
  bool take_shape();
  bool take_sources(std::vector<RecoverySource>& sources);

  std::vector<uint64_t> servers_;
  BitReader bits_{{}};
  uint32_t server_bits_ = 0;
  uint32_t frame_bits_ = 0;
  uint64_t above_ = 0;  // the id of the segment before
  uint32_t length_ = 0;
  uint64_t sources_ = 0;
  uint64_t left_ = 0;
  bool ok_ = false;
};

/// Appends all of them. False: the bytes are no packed segments.
[[nodiscard]] bool unpack_segments(std::string_view packed, std::vector<RecoverySegment>& segments);

}  // namespace ramcloud::wire
