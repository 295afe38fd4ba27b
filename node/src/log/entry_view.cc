#include "log/entry_view.h"

#include "base/hash.h"

namespace ramcloud::log {

std::optional<uint32_t> offset_behind_extra_keys(const EntryView& entry, uint8_t extra_keys,
                                                 uint32_t at) {
  for (int i = 0; i < extra_keys; ++i) {
    if (at + sizeof(uint16_t) > entry.body_length()) return std::nullopt;
    at += sizeof(uint16_t) + entry.load_at<uint16_t>(at);
  }
  if (at > entry.body_length()) return std::nullopt;
  return at;
}

std::optional<TombstoneView> parse_tombstone(const EntryView& entry) {
  if (entry.type() != EntryType::kTombstone || entry.body_length() < sizeof(TombstoneBody)) {
    return std::nullopt;
  }
  const auto body = entry.load_at<TombstoneBody>(0);
  if (sizeof(TombstoneBody) + body.key_length != entry.body_length()) return std::nullopt;
  return TombstoneView{.entry = entry,
                       .table_id = body.table_id,
                       .version = body.version,
                       .log_id = body.log_id,
                       .segment_id = body.segment_id,
                       .key_length = body.key_length,
                       .is_delete = (body.flags & 1) != 0};
}

uint64_t hash_of_key(uint64_t table_id, const EntryView& entry, uint32_t key_offset,
                     uint16_t key_length) {
  const ByteView key = entry.contiguous(key_offset, key_length);
  if (key.data() != nullptr) return key_hash(table_id, key);
  char copy[kMaxKeyBytes];
  entry.read(key_offset, copy, key_length);
  return key_hash(table_id, ByteView(copy, key_length));
}

}  // namespace ramcloud::log
