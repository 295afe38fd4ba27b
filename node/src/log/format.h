// The bytes of the log: the same in memory, on the wire to backups, and in replicas on disk. See
// docs/formats.md ("Log"). Little-endian, packed. Values here are never changed or reused; later
// additions get a new entry type or a new format version.
//
//   segment  := group*                            at most kSegmentBytes; first group: SegmentHeader
//                                                 entry (and in a head: log digest, safe version,
//                                                 owned tablets); last group of a closed segment:
//                                                 one Footer entry
//   group    := GroupHeader entry+ fill           zeros up to 8 bytes; the unit of append, of
//                                                 replication and of torn-tail detection
//   padding  := PaddingHeader, skipped bytes      stands where a group could
//   entry    := EntryHeader body
#pragma once

#include <compare>
#include <cstdint>

namespace ramcloud::log {

inline constexpr uint16_t kFormatVersion = 1;
#ifdef RAMCLOUD_SMALL_SEGMENTS  // only in a test that fills very many (cleaning_rounds_test)
inline constexpr uint32_t kSegmentBytes = 2u << 20;
#else
inline constexpr uint32_t kSegmentBytes = 8u << 20;
#endif
inline constexpr uint32_t kSegletBytes = 64u << 10;
inline constexpr uint32_t kSegletsPerSegment = kSegmentBytes / kSegletBytes;
/// Groups up to this size do not straddle seglets, so most entries are contiguous in memory.
inline constexpr uint32_t kMaxContiguousGroupBytes = 4u << 10;
inline constexpr uint32_t kGroupAlignment = 8;
/// Kept free at the end of every segment, so that the footer always fits.
inline constexpr uint32_t kFooterReserveBytes = 64;

/// A place in a master's log; ordered as the log is. Also "everything before here".
struct LogPosition {
  uint64_t value = 0;  // segment id << 24 | offset in the segment
  constexpr LogPosition() = default;
  constexpr LogPosition(uint64_t segment_id, uint32_t offset) : value(segment_id << 24 | offset) {}
  constexpr uint64_t segment_id() const { return value >> 24; }
  constexpr uint32_t offset() const { return static_cast<uint32_t>(value & 0xffffff); }
  constexpr auto operator<=>(const LogPosition&) const = default;
};
static_assert(kSegmentBytes < (1u << 24));

enum class EntryType : uint8_t {
  kInvalid = 0,
  kSegmentHeader = 1,
  kLogDigest = 2,
  kSafeVersion = 3,
  kFooter = 4,
  kObject = 5,
  kTombstone = 6,
  kOwnedTablets = 7,  // former builds had reserved it, never wrote it, and skip it
  kRpcResult = 8,     // reserved: exactly-once results
  kPreparedOp = 9,    // reserved: transactions
  kPreparedOpTombstone = 10,
  kTransactionDecision = 11,
  kParticipantList = 12,
};

inline constexpr uint8_t kGroupMagic = 0xa5;
inline constexpr uint8_t kPaddingMagic = 0x5a;

/// 16 bytes. `crc` is the CRC32C of: cluster uuid, master id (8), segment id (8), offset of this
/// header in the segment (4), then this header's first 12 bytes, then every EntryHeader of the
/// group in order (which hold the bodies' checksums). So a group is valid only at the place where
/// it was written.
struct __attribute__((packed)) GroupHeader {
  uint32_t length_and_magic;  // bytes of the whole group incl. header and fill, | kGroupMagic << 24
  uint32_t replication_epoch;  // of the segment when this was written
  uint32_t durable_up_to;      // offset in this segment that was known to be durable
  uint32_t crc;
  uint32_t length() const { return length_and_magic & 0xffffff; }
  uint8_t magic() const { return static_cast<uint8_t>(length_and_magic >> 24); }
};
static_assert(sizeof(GroupHeader) == 16);

/// 8 bytes; `length` (a multiple of 8, at least 8) counts this header. crc: as a group's, over
/// cluster, master, segment, offset and the first word. The skipped bytes are zero.
struct __attribute__((packed)) PaddingHeader {
  uint32_t length_and_magic;
  uint32_t crc;
  uint32_t length() const { return length_and_magic & 0xffffff; }
  uint8_t magic() const { return static_cast<uint8_t>(length_and_magic >> 24); }
};
static_assert(sizeof(PaddingHeader) == 8);

/// 8 bytes. The body's checksum is independent of the place, so entries can move.
struct __attribute__((packed)) EntryHeader {
  uint32_t length_and_type;  // bytes of the body | type << 24
  uint32_t body_crc;         // CRC32C of the type byte, then the body
  uint32_t length() const { return length_and_type & 0xffffff; }
  EntryType type() const { return static_cast<EntryType>(length_and_type >> 24); }
};
static_assert(sizeof(EntryHeader) == 8);

struct __attribute__((packed)) SegmentHeaderBody {
  uint16_t format_version;
  uint16_t flags;  // bit 0: a head segment (digest follows), clear: survivor or side segment
  uint32_t segment_bytes;  // capacity
  uint8_t cluster_uuid[16];
  uint64_t master_id;
  uint64_t segment_id;
};
static_assert(sizeof(SegmentHeaderBody) == 40);

/// Body of kLogDigest: u32 count of runs, then per run two LEB128 numbers: gap to the previous
/// run's end (the first: the id itself), and length - 1. Ids rise. The new segment itself is
/// included.

struct __attribute__((packed)) SafeVersionBody {
  uint64_t safe_version;  // above every version ever assigned by this master
};
static_assert(sizeof(SafeVersionBody) == 8);

/// Body of kOwnedTablets, in the first group of a head: this, then for each tablet, by table and
/// start, four LEB128 numbers: table id minus the one before, start hash (in the same table as the
/// one before: minus its end, minus 1), end hash (inclusive) minus start hash, and the id of the
/// segment with which the tablet begins (its creation position; 0: none).
struct __attribute__((packed)) OwnedTabletsBody {
  uint16_t format_version;
  uint16_t reserved;
  uint32_t count;
};
static_assert(sizeof(OwnedTabletsBody) == 8);

struct __attribute__((packed)) FooterBody {
  uint32_t length;  // bytes of the segment before the footer's group
  uint32_t crc;     // CRC32C of the crc fields of all groups and paddings before, in order
};
static_assert(sizeof(FooterBody) == 8);

/// Body of kObject: this, the primary key, then for each extra key u16 length and the bytes, then
/// the value (what is left).
struct __attribute__((packed)) ObjectBody {
  uint64_t table_id;
  uint64_t version;
  uint32_t timestamp_s;  // Unix time of the write, for the cleaner
  uint16_t key_length;
  uint8_t extra_keys;
  uint8_t flags;  // 0
};
static_assert(sizeof(ObjectBody) == 24);

/// Body of kTombstone: this, then the key. Says that `version` of the object, and all before, is
/// dead.
struct __attribute__((packed)) TombstoneBody {
  uint64_t table_id;
  uint64_t version;
  uint64_t log_id;      // master id of the log that holds the victim
  uint64_t segment_id;  // of the victim, in that log
  uint32_t timestamp_s;
  uint16_t key_length;
  uint16_t flags;  // bit 0: a delete (not an overwrite)
};
static_assert(sizeof(TombstoneBody) == 40);

}  // namespace ramcloud::log
