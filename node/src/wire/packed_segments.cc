#include "wire/packed_segments.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/leb128.h"

namespace ramcloud::wire {
namespace {

/// Takes a number that is at most `most`.
template <typename T>
bool take(std::string_view& in, T& value, uint64_t most = std::numeric_limits<T>::max()) {
  uint64_t number = 0;
  if (!take_leb128(in, number) || number > most) return false;
  value = static_cast<T>(number);
  return true;
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

bool take_servers(std::string_view& in, std::vector<uint64_t>& ids) {
  uint64_t count = 0, id = 0;
  if (!take(in, count, in.size())) return false;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t more = 0;
    if (!take(in, more, std::numeric_limits<uint64_t>::max() - id)) return false;
    ids.push_back(id += more);
  }
  return true;
}

constexpr uint32_t kLeastFrameBits = 8;
constexpr uint64_t kMostSegments = 1u << 20;

uint32_t bits_of(uint64_t largest) {
  return static_cast<uint32_t>(std::bit_width(largest));
}

/// Appends numbers of so many bits each, the lowest bit first.
class BitWriter {
 public:
  explicit BitWriter(std::string& out) : out_(out) {}
  /// At most 32 bits.
  void put(uint64_t value, uint32_t bits) {
    held_ |= value << count_;
    for (count_ += bits; count_ >= 8; count_ -= 8, held_ >>= 8) {
      out_.push_back(static_cast<char>(held_));
    }
  }
  /// Small numbers take few bits: the width of value + 1 in unary, then its bits after the highest.
  void put_small(uint64_t value) {
    const uint32_t width = bits_of(value + 1) - 1;
    for (uint32_t i = 0; i < width; ++i) put(1, 1);
    put(0, 1);
    for (uint32_t i = 0; i < width; ++i) put((value + 1) >> i & 1, 1);
  }
  void end() {
    if (count_ > 0) put(0, 8 - count_);
  }

 private:
  std::string& out_;
  uint64_t held_ = 0;
  uint32_t count_ = 0;  // bits in held_, below 8
};

class BitReader {
 public:
  explicit BitReader(std::string_view in) : in_(in) {}
  /// At most 32 bits.
  bool take(uint64_t& value, uint32_t bits) {
    for (; count_ < bits; count_ += 8) {
      if (in_.empty()) return false;
      held_ |= uint64_t{static_cast<uint8_t>(in_.front())} << count_;
      in_.remove_prefix(1);
    }
    value = held_ & ((uint64_t{1} << bits) - 1);
    held_ >>= bits;
    count_ -= bits;
    return true;
  }
  bool take_small(uint64_t& value) {
    uint32_t width = 0;
    uint64_t bit = 1;
    while (take(bit, 1) && bit == 1) ++width;
    if (bit == 1 || width >= 64) return false;
    value = uint64_t{1} << width;
    for (uint32_t i = 0; i < width; ++i) {
      if (!take(bit, 1)) return false;
      value |= bit << i;
    }
    --value;
    return true;
  }
  uint64_t bits_left() const { return in_.size() * 8 + count_; }
  /// Only the rest of the last byte is left, and it is zero.
  bool at_end() const { return in_.empty() && held_ == 0; }

 private:
  std::string_view in_;
  uint64_t held_ = 0;
  uint32_t count_ = 0;
};

/// Of one segment; the next one has the same, most of the time.
struct Shape {
  uint32_t length = 0;
  uint64_t sources = 0;
};

bool take_sources(BitReader& in, std::span<const uint64_t> servers, uint32_t frame_bits,
                  uint64_t count, std::vector<RecoverySource>& sources) {
  if (count > in.bits_left() / frame_bits) return false;
  sources.reserve(count);
  const uint32_t server_bits = bits_of(servers.size());
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t server = 0, frame = 0;
    if (!in.take(server, server_bits) || server >= servers.size()) return false;
    if (!in.take(frame, frame_bits)) return false;
    sources.push_back({servers[server], static_cast<uint32_t>(frame)});
  }
  return true;
}

bool take_shape(BitReader& in, Shape& shape) {
  uint64_t changed = 0, length = 0;
  if (!in.take(changed, 1)) return false;
  if (changed == 0) return true;
  if (!in.take(length, 32) || !in.take_small(shape.sources)) return false;
  shape.length = static_cast<uint32_t>(length);
  return true;
}

uint32_t frame_bits_of(std::span<const RecoverySegment> segments) {
  uint32_t largest = 0;
  for (const RecoverySegment& segment : segments) {
    for (const RecoverySource& source : segment.sources) largest = std::max(largest, source.frame);
  }
  return std::max(bits_of(largest), kLeastFrameBits);
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
  Shape shape;
  for (const RecoverySegment& segment : segments) {
    bits.put_small(std::exchange(above, segment.segment_id) - segment.segment_id - 1);
    const bool same = segment.length == shape.length && segment.sources.size() == shape.sources;
    bits.put(same ? 0 : 1, 1);
    if (!same) {
      shape = {segment.length, segment.sources.size()};
      bits.put(shape.length, 32);
      bits.put_small(shape.sources);
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

bool unpack_segments(std::string_view packed, std::vector<RecoverySegment>& segments) {
  std::vector<uint64_t> servers;
  if (!take_servers(packed, servers)) return false;
  uint64_t count = 0, above = 0;
  uint32_t frame_bits = 0;
  if (!take(packed, count, kMostSegments) || !take(packed, above)) return false;
  if (!take(packed, frame_bits, 32) || frame_bits < kLeastFrameBits) return false;
  BitReader bits(packed);
  Shape shape;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t between = 0;
    if (!bits.take_small(between) || between >= above || !take_shape(bits, shape)) return false;
    above -= between + 1;
    RecoverySegment& segment = segments.emplace_back();
    segment.segment_id = above;
    segment.length = shape.length;
    if (!take_sources(bits, servers, frame_bits, shape.sources, segment.sources)) return false;
  }
  return bits.at_end();
}

}  // namespace ramcloud::wire
