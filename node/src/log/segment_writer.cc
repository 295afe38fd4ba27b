#include "log/segment_writer.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/checksum.h"
#include "log/owned_tablets.h"

namespace ramcloud::log {
namespace {

constexpr uint32_t kFooterGroupBytes =
    sizeof(GroupHeader) + sizeof(EntryHeader) + sizeof(FooterBody);
// Footer and the padding before it: the padding is smaller than the footer's group, otherwise that
// would have fitted.
static_assert(kFooterGroupBytes % kGroupAlignment == 0);
static_assert(2 * kFooterGroupBytes - kGroupAlignment <= kFooterReserveBytes);

constexpr uint16_t kHeadFlag = 1;

uint32_t body_length(const EntrySource& entry) {
  uint64_t n = 0;
  for (int i = 0; i < entry.piece_count; ++i) n += entry.pieces[i].size;
  return static_cast<uint32_t>(std::min<uint64_t>(n, kSegmentBytes));
}

uint32_t checksum_of(const EntrySource& entry) {
  if (entry.verified_crc) return *entry.verified_crc;
  const auto type = static_cast<char>(entry.type);
  ByteView pieces[1 + EntrySource::kMostPieces] = {ByteView(&type, 1)};
  for (int i = 0; i < entry.piece_count; ++i) {
    pieces[1 + i] = {static_cast<const char*>(entry.pieces[i].data), entry.pieces[i].size};
  }
  return crc32c(std::span(pieces, 1 + entry.piece_count));
}

EntryHeader header_of(const EntrySource& entry) {
  return {.length_and_type = body_length(entry) | static_cast<uint32_t>(entry.type) << 24,
          .body_crc = checksum_of(entry)};
}

}  // namespace

GroupSource::GroupSource(std::span<const EntrySource> sources) : entries(sources) {
  for (size_t i = 0; i < entries.size(); ++i) {
    length += sizeof(EntryHeader) + body_length(entries[i]);
    if (too_large()) return;
    headers[i] = header_of(entries[i]);
  }
  entry_bytes = length - sizeof(GroupHeader);
  length = static_cast<uint32_t>(align_up(length, kGroupAlignment));
}

void SegmentWriter::Cursor::write(const void* data, size_t n) {
  const auto* from = static_cast<const char*>(data);
  while (n > 0) {
    const size_t room = std::min<size_t>(n, kSegletBytes - at % kSegletBytes);
    std::memcpy(segment.address(at), from, room);
    from += room;
    at += static_cast<uint32_t>(room);
    n -= room;
  }
}

void SegmentWriter::Cursor::zero_until(uint32_t end) {
  while (at < end) {
    const uint32_t room = std::min(end - at, kSegletBytes - at % kSegletBytes);
    std::memset(segment.address(at), 0, room);
    at += room;
  }
}

bool SegmentWriter::fits(const GroupSource& group, uint32_t memory_bytes) const {
  const uint32_t padding = padding_before(segment_.reserved_, group.length);
  return segment_.reserved_ + padding + group.length <= memory_bytes - kFooterReserveBytes;
}

void SegmentWriter::place(GroupSource& group, uint32_t durable_up_to, const char* refs[]) {
  const uint32_t padding = padding_before(segment_.reserved_, group.length);
  if (padding > 0) pad(padding);
  group.offset = segment_.reserved_;
  segment_.reserved_ += group.length;
  GroupHeader& header = group.header;
  header.length_and_magic = group.length | uint32_t{kGroupMagic} << 24;
  header.replication_epoch = segment_.replication_epoch();
  header.durable_up_to = durable_up_to;
  const ByteView summed[] = {
      bytes_of(group.offset),
      bytes_of(header).substr(0, offsetof(GroupHeader, crc)),
      {reinterpret_cast<const char*>(group.headers), group.entries.size() * sizeof(EntryHeader)}};
  header.crc = crc32c(summed, segment_.checksum_seed_);
  segment_.footer_crc_ = crc32c(bytes_of(header.crc), segment_.footer_crc_);
  uint32_t at = group.offset + sizeof(GroupHeader);
  for (size_t i = 0; i < group.entries.size(); ++i) {
    refs[i] = segment_.address(at);
    at += sizeof(EntryHeader) + group.headers[i].length();
  }
}

void SegmentWriter::pad(uint32_t length) {
  const uint32_t offset = segment_.reserved_;
  segment_.reserved_ += length;
  PaddingHeader header{.length_and_magic = length | uint32_t{kPaddingMagic} << 24, .crc = 0};
  uint32_t crc = crc32c(bytes_of(offset), segment_.checksum_seed_);
  crc = crc32c(bytes_of(header).substr(0, offsetof(PaddingHeader, crc)), crc);
  header.crc = crc;
  segment_.footer_crc_ = crc32c(bytes_of(crc), segment_.footer_crc_);
  Cursor cursor{segment_, offset};
  cursor.write(&header, sizeof header);
  cursor.zero_until(offset + length);
}

void SegmentWriter::copy(const GroupSource& group) {
  if (group.length <= kMaxContiguousGroupBytes) return copy_contiguous(group);
  Cursor cursor{segment_, group.offset};
  cursor.write(&group.header, sizeof group.header);
  for (size_t i = 0; i < group.entries.size(); ++i) {
    cursor.write(&group.headers[i], sizeof group.headers[i]);
    const EntrySource& entry = group.entries[i];
    for (int p = 0; p < entry.piece_count; ++p) {
      cursor.write(entry.pieces[p].data, entry.pieces[p].size);
    }
  }
  cursor.zero_until(group.offset + group.length);
}

/// A small group is in one seglet, so nothing but the sizes of its pieces varies.
void SegmentWriter::copy_contiguous(const GroupSource& group) {
  char* const start = segment_.address(group.offset);
  char* at = start;
  const auto write = [&at](const void* data, size_t n) {
    std::memcpy(at, data, n);
    at += n;
  };
  write(&group.header, sizeof group.header);
  for (size_t i = 0; i < group.entries.size(); ++i) {
    write(&group.headers[i], sizeof group.headers[i]);
    const EntrySource& entry = group.entries[i];
    for (int p = 0; p < entry.piece_count; ++p) {
      if (entry.pieces[p].size > 0) write(entry.pieces[p].data, entry.pieces[p].size);
    }
  }
  std::fill(at, start + group.length, '\0');
}

void SegmentWriter::prefetch_next(uint32_t length) const {
  const uint32_t in_seglet = kSegletBytes - segment_.reserved_ % kSegletBytes;
  const uint32_t bytes = std::min({length, in_seglet, kMaxContiguousGroupBytes});
  char* const at = segment_.address(segment_.reserved_);
  for (uint32_t i = 0; i < bytes; i += kCacheLineBytes) __builtin_prefetch(at + i, 1);
}

void SegmentWriter::write_head_header(ByteView digest, uint64_t safe_version,
                                      ByteView owned_tablets) {
  const SafeVersionBody safe{safe_version};
  EntrySource entries[] = {
      {},
      {EntryType::kLogDigest, 1, {Slice(digest)}},
      {EntryType::kSafeVersion, 1, {Slice(&safe, sizeof safe)}},
      {EntryType::kOwnedTablets, 1, {Slice(owned_tablets)}},
  };
  write_header(kHeadFlag, std::span(entries).first(owned_tablets.empty() ? 3 : 4));
}

/// An emergency head has less memory than a whole segment.
size_t SegmentWriter::room_for_tablets(size_t digest_bytes) const {
  constexpr size_t kBeside = sizeof(GroupHeader) + 4 * sizeof(EntryHeader) +
                             sizeof(SegmentHeaderBody) + sizeof(SafeVersionBody) + kGroupAlignment +
                             kFooterReserveBytes;
  const size_t memory = std::min(segment_.memory_bytes(), kMaxGroupBytes);
  const size_t room = memory - std::min(memory, kBeside + digest_bytes);
  return std::min<size_t>(room, kMaxOwnedTabletsBytes);
}

void SegmentWriter::write_side_header() {
  EntrySource entries[1];
  write_header(0, entries);
}

void SegmentWriter::copy_header(const Segment& from) {
  const uint32_t length = from.header_length();
  Cursor cursor{segment_, 0};
  from.bytes().for_each_piece(0, length, [&](ByteView piece) {
    cursor.write(piece.data(), piece.size());
    return true;
  });
  const auto header = from.bytes().load_at<GroupHeader>(0);
  segment_.footer_crc_ = crc32c(bytes_of(header.crc));
  segment_.reserved_ = segment_.header_length_ = length;
  segment_.published_.store(length, std::memory_order_release);
}

/// `entries`: the first of them is the segment header.
void SegmentWriter::write_header(uint16_t flags, std::span<EntrySource> entries) {
  const SegmentIdentity& identity = segment_.identity();
  SegmentHeaderBody header{.format_version = kFormatVersion,
                           .flags = flags,
                           .segment_bytes = kSegmentBytes,
                           .cluster_uuid = {},
                           .master_id = identity.master_id,
                           .segment_id = identity.segment_id};
  std::copy(identity.cluster_uuid.begin(), identity.cluster_uuid.end(), header.cluster_uuid);
  entries[0] = {EntryType::kSegmentHeader, 1, {Slice(&header, sizeof header)}};
  GroupSource group(entries);
  const char* refs[kMaxGroupEntries];
  place(group, 0, refs);
  copy(group);
  segment_.header_length_ = segment_.reserved_;
  segment_.published_.store(segment_.reserved_, std::memory_order_release);
}

void SegmentWriter::write_footer(uint32_t durable_up_to) {
  const uint32_t padding = padding_before(segment_.reserved_, kFooterGroupBytes);
  if (padding > 0) pad(padding);
  const FooterBody body{.length = segment_.reserved_, .crc = segment_.footer_crc_};
  const EntrySource entry{
      .type = EntryType::kFooter, .piece_count = 1, .pieces = {Slice(&body, sizeof body)}};
  GroupSource group(std::span(&entry, 1));
  const char* ref = nullptr;
  place(group, durable_up_to, &ref);
  copy(group);
  // In this order: once closed is seen, published() is the final length.
  segment_.published_.store(segment_.reserved_, std::memory_order_release);
  segment_.closed_.store(true, std::memory_order_release);
}

}  // namespace ramcloud::log
