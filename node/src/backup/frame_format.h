// The bytes of a backup's frames file, DIR/frames. See docs/formats.md ("Replica"). Little-endian,
// packed; values are never changed or reused.
//
//   file       := superblock frame*
//   superblock := two slots, at 0 and 4096; each 512 bytes, zero-filled to 4 KiB
//   frame i    := at 8192 + i * (4096 + 8 MiB): metadata block, then the segment's bytes
//   metadata   := 4 KiB: two slots, at 0 and 2048; each 512 bytes, zero between
//
// Of two valid slots the one with the higher sequence is current; a change writes the other one. A
// slot is one 512-byte sector, which a device writes whole or not at all: so a slot that is neither
// zero nor valid is damage, never a torn write. The segment's bytes are those of log/format.h, from
// offset 0, zero after the last written byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "log/format.h"
#include "wire/control_messages.h"
#include "wire/replica_messages.h"

namespace ramcloud {

inline constexpr char kFramesFileName[] = "frames";
inline constexpr uint16_t kFrameFormatVersion = 1;
inline constexpr char kSuperblockMagic[8] = {'R', 'C', 'F', 'R', 'A', 'M', 'E', 'S'};
inline constexpr char kFrameMagic[8] = {'R', 'C', 'R', 'E', 'P', 'L', 'I', 'C'};

inline constexpr uint64_t kSlotBytes = 512;
inline constexpr uint64_t kSuperblockSlotStride = 4096;
inline constexpr uint64_t kSuperblockBytes = 2 * kSuperblockSlotStride;
inline constexpr uint64_t kFrameMetadataBytes = 4096;
inline constexpr uint64_t kFrameSlotStride = kFrameMetadataBytes / 2;
inline constexpr uint64_t kFrameStride = kFrameMetadataBytes + log::kSegmentBytes;
/// The most frames that a superblock may claim: 64 TiB in 8 MiB frames.
inline constexpr uint32_t kMaxFrames = 8u << 20;

inline constexpr uint64_t frame_metadata_offset(uint32_t frame) {
  return kSuperblockBytes + frame * kFrameStride;
}
inline constexpr uint64_t frame_data_offset(uint32_t frame) {
  return frame_metadata_offset(frame) + kFrameMetadataBytes;
}
inline constexpr uint64_t frames_file_bytes(uint32_t frames) {
  return frame_metadata_offset(frames);
}

/// Aligned, as are the fields in it, so that a field can be passed by reference.
/// The place of magic, format_version and crc is the same in every format version, so that a newer
/// volume is recognised as such.
struct __attribute__((packed, aligned(8))) SuperblockSlot {
  char magic[8];
  uint16_t format_version;
  uint16_t reserved0;
  uint32_t frame_bytes;  // segment bytes a frame holds
  uint64_t sequence;
  uint8_t cluster_uuid[16];  // zero: not enlisted yet
  uint64_t server_id;        // of the backup; 0: not enlisted yet
  uint64_t list_term;        // highest server list seen
  uint64_t list_version;
  uint32_t frame_count;
  uint8_t reserved1[440];
  uint32_t crc;  // CRC32C of the 508 bytes before
};
static_assert(sizeof(SuperblockSlot) == kSlotBytes);

enum class FrameState : uint8_t { kFree = 1, kOpen = 2, kClosed = 3 };

struct __attribute__((packed, aligned(8))) FrameSlot {
  enum Flag : uint8_t {
    kPrimary = 1,
    kIncomplete = 2,   // a copy that is not complete yet: does not count as a replica
    kLengthKnown = 4,  // `length` bytes were written for certain; all of them must be valid
    kSynced = 8,       // its bytes were on the device before they were acknowledged
  };
  char magic[8];
  uint16_t format_version;
  FrameState state;
  uint8_t flags;
  uint32_t epoch;  // replication epoch of the segment
  uint64_t sequence;
  uint8_t cluster_uuid[16];
  uint64_t backup_id;  // server id of the backup that wrote this
  uint64_t master_id;
  uint64_t segment_id;
  uint32_t capacity;  // bytes of the segment
  uint32_t length;    // with kLengthKnown; else 0
  // The fields from here on are zero in frames of earlier versions.
  uint8_t boot_id[16];  // of the host that wrote this; zero: not known
  uint8_t holder_count;
  uint8_t reserved0[7];
  uint64_t holders[wire::kMaxHolders];  // holders of the segment, `holder_count` of them
  uint8_t reserved1[348];
  uint32_t crc;  // CRC32C of the 508 bytes before
};
static_assert(sizeof(FrameSlot) == kSlotBytes);

/// Sets magic, version and checksum.
void seal(SuperblockSlot& slot);
void seal(FrameSlot& slot);

enum class SlotVerdict : uint8_t {
  kEmpty,  // all zero: never written
  kValid,
  kNewer,  // valid, of a later format version
  kCorrupt,
};

/// Checks 512 bytes; fills `slot` on kValid and kNewer.
SlotVerdict parse_slot(ByteView bytes, SuperblockSlot& slot);
SlotVerdict parse_slot(ByteView bytes, FrameSlot& slot);

/// The damage of a corrupt slot, for people; `flipped` gets the offset in the slot of the one
/// byte whose change explains it, or stays -1.
struct SlotDamage {
  std::string what;
  int64_t flipped = -1;
};
SlotDamage explain_slot(ByteView bytes);

const char* frame_state_name(FrameState state);

}  // namespace ramcloud
