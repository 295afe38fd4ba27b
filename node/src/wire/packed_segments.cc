#include "wire/packed_segments.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/leb128.h"
#include "base/logging.h"

namespace ramcloud::wire {
namespace {

constexpr uint32_t kLeastFrameBits = 8;

uint32_t bits_of(uint64_t largest) {
  return static_cast<uint32_t>(std::bit_width(largest));
}

std::vector<uint64_t> servers_of(std::span<const RecoverySegment> segments) {
  std::vector<uint64_t> ids;
  for (const RecoverySegment& segment : segments) {
    for (const RecoverySource& source : segment.sources) ids.push_back(source.server_id);
  }
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

uint32_t frame_bits_of(std::span<const RecoverySegment> segments) {
  uint32_t largest = 0;
  for (const RecoverySegment& segment : segments) {
    for (const RecoverySource& source : segment.sources) largest = std::max(largest, source.frame);
  }
  return std::max(bits_of(largest), kLeastFrameBits);
}

/// Takes a number that is at most `most`.
bool take_number(std::string_view& in, uint64_t& value, uint64_t most) {
  return take_leb128(in, value) && value <= most;
}

bool take_servers(std::string_view& in, std::vector<uint64_t>& ids) {
  uint64_t count = 0, id = 0;
  if (!take_number(in, count, PackedSegments::kMostServers)) return false;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t more = 0;
    if (!take_number(in, more, std::numeric_limits<uint64_t>::max() - id)) return false;
    ids.push_back(id += more);
  }
  return true;
}

}  // namespace

std::string pack_segments(std::span<const RecoverySegment> segments) {
  std::string out;
  const std::vector<uint64_t> servers = servers_of(segments);
  put_leb128(out, servers.size());
  uint64_t before = 0;
  for (const uint64_t id : servers) put_leb128(out, id - std::exchange(before, id));
  put_leb128(out, segments.size());
  uint64_t above = segments.empty() ? 0 : segments.front().segment_id + 1;
  put_leb128(out, above);
  const uint32_t server_bits = bits_of(servers.size()), frame_bits = frame_bits_of(segments);
  put_leb128(out, frame_bits);
  BitWriter bits(out);
  uint32_t length = 0;
  size_t sources = 0;
  for (const RecoverySegment& segment : segments) {
    if (segment.segment_id >= above) {
      fatal("wire.segments_are_not_ordered", {{"segment", segment.segment_id}, {"above", above}});
    }
    bits.put_small(std::exchange(above, segment.segment_id) - segment.segment_id - 1);
    const bool same = segment.length == length && segment.sources.size() == sources;
    bits.put(same ? 0 : 1, 1);
    if (!same) {
      bits.put(length = segment.length, 32);
      bits.put_small(sources = segment.sources.size());
    }
    for (const RecoverySource& source : segment.sources) {
      const auto at = std::ranges::lower_bound(servers, source.server_id) - servers.begin();
      bits.put(static_cast<uint64_t>(at), server_bits);
      bits.put(source.frame, frame_bits);
    }
  }
  bits.end();
  return out;
}

PackedSegments::PackedSegments(std::string_view packed) {
  ok_ = begin(packed);
  if (!ok_) left_ = 0;
}

bool PackedSegments::begin(std::string_view packed) {
  uint64_t frame_bits = 0;
  if (!take_servers(packed, servers_)) return false;
  if (!take_number(packed, left_, kMostSegments)) return false;
  if (!take_number(packed, above_, std::numeric_limits<uint64_t>::max())) return false;
  if (!take_number(packed, frame_bits, 32) || frame_bits < kLeastFrameBits) return false;
  server_bits_ = bits_of(servers_.size());
  frame_bits_ = static_cast<uint32_t>(frame_bits);
  bits_ = BitReader(packed);
  return left_ > 0 || bits_.at_end();
}

bool PackedSegments::take(size_t most, std::vector<RecoverySegment>& segments) {
  for (; ok_ && left_ > 0 && most > 0; --left_, --most) {
    ok_ = take_one(segments.emplace_back());
    if (ok_ && left_ == 1) ok_ = bits_.at_end();
  }
  return ok_;
}

bool PackedSegments::take_one(RecoverySegment& segment) {
  uint64_t between = 0;
  if (!bits_.take_small(between) || between >= above_ || !take_shape()) return false;
  above_ -= between + 1;
  segment.segment_id = above_;
  segment.length = length_;
  return take_sources(segment.sources);
}

/// Length and number of sources, which most segments share with the one before.
bool PackedSegments::take_shape() {
  uint64_t changed = 0, length = 0;
  if (!bits_.take(changed, 1)) return false;
  if (changed == 0) return true;
  if (!bits_.take(length, 32) || !bits_.take_small(sources_)) return false;
  length_ = static_cast<uint32_t>(length);
  return true;
}

bool PackedSegments::take_sources(std::vector<RecoverySource>& sources) {
  if (sources_ > bits_.bits_left() / frame_bits_) return false;
  sources.reserve(sources_);
  for (uint64_t i = 0; i < sources_; ++i) {
    uint64_t server = 0, frame = 0;
    if (!bits_.take(server, server_bits_) || server >= servers_.size()) return false;
    if (!bits_.take(frame, frame_bits_)) return false;
    sources.push_back({servers_[server], static_cast<uint32_t>(frame)});
  }
  return true;
}

bool unpack_segments(std::string_view packed, std::vector<RecoverySegment>& segments) {
  PackedSegments all(packed);
  return all.take(all.left(), segments);
}

}  // namespace ramcloud::wire
