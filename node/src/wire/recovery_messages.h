// Bodies of the operations by which a dead master's log is found and read on backups
// (docs/design/recovery.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ramcloud::wire {

/// kRecoveryQuery (coordinator -> backup): RecoveryQueryRequest -> RecoveryQueryReply, in codec.h's
/// encoding. From the first one on the backup takes nothing of this master any more. RETRY: ask
/// again; STALE_TERM; IO_ERROR: its device failed.
struct RecoveryQueryRequest {
  uint64_t term = 0;
  uint64_t master_id = 0;
  uint32_t first_frame = 0;  // 0, then next_frame of the page before
  // Closed replicas of segments from this one on are read as well, not only described.
  uint64_t scan_closed_from = ~uint64_t{0};
  template <class V>
  void fields(V& v) {
    v(term, master_id, first_frame, scan_closed_from);
  }
};

/// One replica of the master. What the fields mean to recovery is said in log/log_end.h.
struct RecoveryReplica {
  enum Flag : uint32_t {
    kClosed = 1,
    kFooter = 2,
    kFooterBehind = 4,
    kCleanEnd = 8,
    kCorrupt = 16,
    kIncomplete = 32,
    kDamaged = 64,
    kPowerSafe = 128,
    kScanned = 256,
    kIsHead = 512,
    kHasData = 1024,
    kPrimary = 2048,
    kRebooted =
        4096,        // its host has another boot id now than when it was written, or none is known
    kSynced = 8192,  // what was acknowledged of it was on the device before
  };
  uint64_t segment_id = 0;
  uint32_t frame = 0;      // of the backup, for reading it
  uint64_t backup_id = 0;  // of the backup, or the incarnation of it, that wrote the metadata
  uint32_t epoch = 0;
  uint32_t length = 0;
  uint32_t header_length = 0;
  uint32_t durable_up_to = 0;
  uint32_t flags = 0;
  std::string digest;  // the body of the log digest in it; empty if there is none
  uint64_t safe_version = 0;
  std::vector<uint64_t> holders;
  template <class V>
  void fields(V& v) {
    v(segment_id, frame, backup_id, epoch, length, header_length, durable_up_to, flags, digest,
      safe_version, holders);
  }
};

struct RecoveryQueryReply {
  uint64_t former_server_id = 0;          // that had the backup's volume before; 0: nobody
  std::vector<RecoveryReplica> replicas;  // by rising frame
  uint32_t next_frame = 0;                // 0: these were the last
  template <class V>
  void fields(V& v) {
    v(former_server_id, replicas, next_frame);
  }
};

/// Bytes that one kRecoveryRead gives at most.
inline constexpr uint32_t kMaxRecoveryReadBytes = (4u << 20) - 4096;

/// kRecoveryRead (recovery master -> backup): whole groups of a replica of a master for which a
/// kRecoveryQuery came, their checksums verified. NOT_FOUND: no such replica is here, or no query
/// came to this incarnation of the backup; CORRUPT: the bytes at `offset` do not hold, use another
/// replica; RETRY: too many reads are in flight.
struct __attribute__((packed, aligned(8))) RecoveryReadRequest {
  uint64_t master_id;
  uint64_t segment_id;
  uint32_t frame;
  uint32_t offset;     // where a group begins
  uint32_t end;        // of the segment, as it was decided
  uint32_t max_bytes;  // at least those of the largest group
  uint32_t flags;      // 0, or kExtended
  uint32_t reserved;
};
static_assert(sizeof(RecoveryReadRequest) == 40);

/// Followed by so many bytes, which end where a group ends.
struct __attribute__((packed)) RecoveryReadReply {
  uint32_t bytes;
  uint32_t reserved;
};
static_assert(sizeof(RecoveryReadReply) == 8);

}  // namespace ramcloud::wire
