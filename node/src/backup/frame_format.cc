#include "backup/frame_format.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checksum.h"

namespace ramcloud {
namespace {

constexpr size_t kCrcOffset = kSlotBytes - sizeof(uint32_t);

template <typename Slot>
void seal_slot(Slot& slot, const char (&magic)[8]) {
  std::memcpy(slot.magic, magic, sizeof slot.magic);
  slot.format_version = kFrameFormatVersion;
  slot.crc = crc32c(bytes_of(slot).substr(0, kCrcOffset));
}

bool all_zero(ByteView bytes) {
  return std::ranges::all_of(bytes, [](char c) { return c == 0; });
}

template <typename Slot>
SlotVerdict parse_any(ByteView bytes, Slot& slot, const char (&magic)[8]) {
  if (bytes.size() != kSlotBytes) return SlotVerdict::kCorrupt;
  if (all_zero(bytes)) return SlotVerdict::kEmpty;
  slot = load<Slot>(bytes.data());
  if (std::memcmp(slot.magic, magic, sizeof slot.magic) != 0) return SlotVerdict::kCorrupt;
  if (slot.crc != crc32c(bytes.substr(0, kCrcOffset))) return SlotVerdict::kCorrupt;
  if (slot.format_version > kFrameFormatVersion) return SlotVerdict::kNewer;
  return SlotVerdict::kValid;
}

}  // namespace

void seal(SuperblockSlot& slot) {
  seal_slot(slot, kSuperblockMagic);
}
void seal(FrameSlot& slot) {
  seal_slot(slot, kFrameMagic);
}

SlotVerdict parse_slot(ByteView bytes, SuperblockSlot& slot) {
  const SlotVerdict verdict = parse_any(bytes, slot, kSuperblockMagic);
  if (verdict != SlotVerdict::kValid) return verdict;
  // Impossible values with a valid checksum come from a broken writer: do not use them.
  if (slot.frame_count > kMaxFrames) return SlotVerdict::kCorrupt;
  return verdict;
}

SlotVerdict parse_slot(ByteView bytes, FrameSlot& slot) {
  const SlotVerdict verdict = parse_any(bytes, slot, kFrameMagic);
  if (verdict != SlotVerdict::kValid) return verdict;
  const bool known_state = slot.state == FrameState::kFree || slot.state == FrameState::kOpen ||
                           slot.state == FrameState::kClosed;
  if (!known_state || slot.capacity > log::kSegmentBytes || slot.length > slot.capacity ||
      slot.holder_count > wire::kMaxHolders) {
    return SlotVerdict::kCorrupt;
  }
  return verdict;
}

SlotDamage explain_slot(ByteView bytes) {
  SlotDamage damage;
  // An empty slot with one byte in it.
  const auto nonzero = std::ranges::count_if(bytes, [](char c) { return c != 0; });
  if (nonzero == 1) {
    damage.what = "a byte in a slot that was never written";
    damage.flipped = static_cast<int64_t>(bytes.find_first_not_of('\0'));
    return damage;
  }
  damage.what = "checksum does not hold";
  const uint32_t stored = load<uint32_t>(bytes.data() + kCrcOffset);
  const uint32_t computed = crc32c(bytes.substr(0, kCrcOffset));
  if (stored == computed) {
    damage.what = "impossible values under a checksum that holds";
    return damage;
  }
  const uint32_t difference = stored ^ computed;
  const int lowest = std::countr_zero(difference) / 8;
  if ((difference & ~(0xffu << (8 * lowest))) == 0) {
    damage.flipped = static_cast<int64_t>(kCrcOffset) + lowest;  // a byte of the checksum itself
  } else if (const auto at = find_flipped_byte(bytes.substr(0, kCrcOffset), stored)) {
    damage.flipped = static_cast<int64_t>(*at);
  }
  return damage;
}

const char* frame_state_name(FrameState state) {
  switch (state) {
    case FrameState::kFree:
      return "free";
    case FrameState::kOpen:
      return "open";
    case FrameState::kClosed:
      return "closed";
  }
  return "invalid";
}

}  // namespace ramcloud
