// Views of log entries: any entry (EntryView), and the contents of objects and tombstones
// (ObjectView, TombstoneView). Nothing is copied; the bytes must stay where they are while a view
// is used (in memory: until the end of the turn, or while the segment is pinned).
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "log/format.h"
#include "log/segment_bytes.h"

namespace ramcloud::log {

/// The most pieces that an entry can have (1 MiB value, 64 KiB key): EntryView::slices().
inline constexpr int kMaxEntrySlices = 20;
inline constexpr uint32_t kMaxKeyBytes = 65'535;
inline constexpr uint32_t kMaxValueBytes = 1'048'576;
static_assert((kMaxKeyBytes + kMaxValueBytes + sizeof(ObjectBody)) / kSegletBytes + 2 <=
              kMaxEntrySlices);

/// An entry: its header at `offset` of `bytes`, its body after that. Created by Arena::entry (in
/// memory) and GroupReader (anywhere); both have checked that it lies inside the bytes.
class EntryView {
 public:
  EntryView() = default;
  EntryView(SegmentBytes bytes, uint32_t offset, EntryHeader header)
      : bytes_(bytes), offset_(offset), header_(header) {}

  EntryType type() const { return header_.type(); }
  uint32_t body_length() const { return header_.length(); }
  /// Bytes in the log, header and body. Live bytes are counted with this length.
  uint32_t total_length() const { return header_.length() + sizeof(EntryHeader); }

  /// Copies n bytes of the body from `offset`. Requires offset + n <= body_length(), as do all
  /// below.
  void read(uint32_t offset, void* to, uint32_t n) const { bytes_.read(at(offset), to, n); }
  template <typename T>
  T load_at(uint32_t offset) const {
    return bytes_.load_at<T>(at(offset));
  }
  /// The pieces of n bytes of the body in order, at most kMaxEntrySlices; returns how many.
  int slices(uint32_t offset, uint32_t n, Slice out[]) const {
    return bytes_.slices(at(offset), n, out);
  }
  /// The address of the first byte of its body, which must not be empty.
  const char* address() const { return bytes_.piece(at(0), 1).data(); }
  /// n bytes of the body as one view; empty data() if they are not contiguous in memory.
  ByteView contiguous(uint32_t offset, uint32_t n) const {
    if (n == 0) return ByteView("", 0);
    const ByteView piece = bytes_.piece(at(offset), n);
    return piece.size() == n ? piece : ByteView();
  }
  bool equals(uint32_t offset, ByteView expected) const {
    return bytes_.equals(at(offset), expected);
  }
  /// Whether the body has the checksum its header names.
  bool verify() const { return checksum() == header_.body_crc; }
  /// CRC32C of the type byte, then the body.
  uint32_t checksum() const {
    const auto type = static_cast<char>(header_.type());
    return bytes_.checksum(at(0), body_length(), crc32c(ByteView(&type, 1)));
  }
  uint32_t stored_checksum() const { return header_.body_crc; }

 private:
  uint32_t at(uint32_t offset) const { return offset_ + sizeof(EntryHeader) + offset; }
  SegmentBytes bytes_;
  uint32_t offset_ = 0;
  EntryHeader header_{};
};

/// The contents of an object entry; offsets and lengths are in the entry's body.
struct ObjectView {
  EntryView entry;
  uint64_t table_id = 0;
  uint64_t version = 0;
  uint32_t timestamp_s = 0;
  uint16_t key_length = 0;
  uint32_t value_offset = 0;
  uint32_t value_length = 0;
  static constexpr uint32_t key_offset = sizeof(ObjectBody);

  bool has_key(uint64_t table, ByteView key) const {
    return table_id == table && key_length == key.size() && entry.equals(key_offset, key);
  }
};

/// The contents of a tombstone entry.
struct TombstoneView {
  EntryView entry;
  uint64_t table_id = 0;
  uint64_t version = 0;  // this version of the object, and all before, is dead
  uint64_t log_id = 0;
  uint64_t segment_id = 0;
  uint16_t key_length = 0;
  bool is_delete = false;  // written by a delete, not by an overwrite
  static constexpr uint32_t key_offset = sizeof(TombstoneBody);

  bool has_key(uint64_t table, ByteView key) const {
    return table_id == table && key_length == key.size() && entry.equals(key_offset, key);
  }
};

/// Offset of the first byte behind the extra keys of an object's body, which begin at `at`. None if a
/// length does not fit.
std::optional<uint32_t> offset_behind_extra_keys(const EntryView& entry, uint8_t extra_keys,
                                                 uint32_t at);
/// Offset of the value in an object's body: behind the primary key and the extra keys. None if a
/// length does not fit.
inline std::optional<uint32_t> offset_behind_keys(const EntryView& entry, const ObjectBody& body) {
  const uint32_t at = sizeof(ObjectBody) + body.key_length;
  if (at > entry.body_length()) return std::nullopt;
  return body.extra_keys == 0 ? at : offset_behind_extra_keys(entry, body.extra_keys, at);
}

/// None if the entry is of another type or its lengths do not fit its body. Does not verify the
/// checksum. Inline, because every read creates a view: out of line, the result would be passed
/// through memory.
inline std::optional<ObjectView> parse_object(const EntryView& entry) {
  if (entry.type() != EntryType::kObject || entry.body_length() < sizeof(ObjectBody)) {
    return std::nullopt;
  }
  const auto body = entry.load_at<ObjectBody>(0);
  const auto value = offset_behind_keys(entry, body);
  if (!value) return std::nullopt;
  return ObjectView{.entry = entry,
                    .table_id = body.table_id,
                    .version = body.version,
                    .timestamp_s = body.timestamp_s,
                    .key_length = body.key_length,
                    .value_offset = *value,
                    .value_length = entry.body_length() - *value};
}
/// As parse_object().
std::optional<TombstoneView> parse_tombstone(const EntryView& entry);

/// XXH3 of the key of an object or tombstone, as key_hash(); copies the key if it is not
/// contiguous.
uint64_t hash_of_key(uint64_t table_id, const EntryView& entry, uint32_t key_offset,
                     uint16_t key_length);

}  // namespace ramcloud::log
