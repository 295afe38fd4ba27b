// Writes groups into a segment: assigns the place, builds the header, and copies the bytes. The
// owner of the segment (the Log under its head lock, or a SideLog) publishes complete groups.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "log/format.h"
#include "log/segment.h"

namespace ramcloud::log {

/// The body of one entry in up to four pieces; the writer adds header and checksum.
struct EntrySource {
  static constexpr int kMostPieces = 4;
  EntryType type = EntryType::kInvalid;
  uint8_t piece_count = 0;
  Slice pieces[kMostPieces];
  /// Of a copy: the checksum with which the original was verified. It stays with the bytes, so a
  /// copy is not the place where damage gets a new, good checksum. Otherwise it is computed.
  std::optional<uint32_t> verified_crc = {};
};
/// The maximum of entries in one group.
inline constexpr uint32_t kMaxGroupEntries = 8;
/// Larger groups are refused, so that a group always fits into an empty segment with any digest.
inline constexpr uint32_t kMaxGroupBytes = 4u << 20;

/// A group before it has a place in a segment: its length and checksums are computed first.
struct GroupSource {
  explicit GroupSource(std::span<const EntrySource> sources);
  bool too_large() const { return length > kMaxGroupBytes; }  // then without checksums

  std::span<const EntrySource> entries;
  EntryHeader headers[kMaxGroupEntries];
  uint32_t length = sizeof(GroupHeader);  // with fill
  uint32_t entry_bytes = 0;
  GroupHeader header{};  // set when the group has its place
  uint32_t offset = 0;
};

class SegmentWriter {
 public:
  explicit SegmentWriter(Segment& segment) : segment_(segment) {}

  /// There is room for the group, the padding before it, and a footer.
  bool has_room(const GroupSource& group) const { return fits(group, kSegmentBytes); }
  /// The same for a segment with so much memory.
  bool fits(const GroupSource& group, uint32_t memory_bytes) const;
  /// Bytes of padding before a group of this length at `at`, so that small groups do not straddle.
  static uint32_t padding_before(uint32_t at, uint32_t length) {
    const uint32_t room = kSegletBytes - at % kSegletBytes;
    return length <= kMaxContiguousGroupBytes && room < length ? room : 0;
  }
  /// Gives the group the next place, and with it its header. refs[i] is where entry i will stand.
  void place(GroupSource& group, uint32_t durable_up_to, const char* refs[]);
  /// Copies a group to its place, with or without the lock that place() was called under.
  void copy(const GroupSource& group);
  /// A group of this length follows soon: asks for its memory. Otherwise whoever copies it, and
  /// then takes a lock, waits for all of that memory.
  void prefetch_next(uint32_t length) const;
  /// The first group: of a head with its digest, safe version and owned tablets (empty: no such
  /// entry), of a side segment without. Published at once.
  void write_head_header(ByteView digest, uint64_t safe_version, ByteView owned_tablets);
  /// How long the owned tablets may be in the header of this head, with a digest of this length.
  size_t room_for_tablets(size_t digest_bytes) const;
  void write_side_header();
  /// Copies the first group of a segment with the same id.
  void copy_header(const Segment& from);
  /// The last group, published at once. The segment is closed then, and its length final.
  void write_footer(uint32_t durable_up_to);

 private:
  /// The position of the next bytes.
  struct Cursor {
    Segment& segment;
    uint32_t at;
    void write(const void* data, size_t n);
    void zero_until(uint32_t end);
  };
  void copy_contiguous(const GroupSource& group);
  void pad(uint32_t length);
  void write_header(uint16_t flags, std::span<EntrySource> entries);

  Segment& segment_;
};

}  // namespace ramcloud::log
