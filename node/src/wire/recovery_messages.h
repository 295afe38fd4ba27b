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
    kSynced = 8192,  // its bytes were on the device before they were acknowledged
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

/// A range of a table's key hashes.
struct HashRange {
  uint64_t table_id = 0;
  uint64_t start_hash = 0;  // inclusive
  uint64_t end_hash = 0;    // inclusive
  template <class V>
  void fields(V& v) {
    v(table_id, start_hash, end_hash);
  }
  bool contains(uint64_t table, uint64_t hash) const {
    return table_id == table && start_hash <= hash && hash <= end_hash;
  }
};

/// kRecoveryFetch (recovery master -> backup): of a replica of a master for which a kRecoveryQuery
/// came, the entries whose keys are in these ranges, their checksums verified. RecoveryFetchRequest
/// in codec.h's encoding; the errors of kRecoveryRead.
struct RecoveryFetchRequest {
  uint64_t master_id = 0;
  uint64_t segment_id = 0;
  uint32_t frame = 0;
  uint32_t offset = 0;     // where a group begins: 0, then next_offset of the page before
  uint32_t end = 0;        // of the segment, as it was decided
  uint32_t max_bytes = 0;  // of entries in the answer; at least one group's always fit
  std::vector<HashRange> ranges;
  template <class V>
  void fields(V& v) {
    v(master_id, segment_id, frame, offset, end, max_bytes, ranges);
  }
};

/// Followed by so many bytes of entries, each its log::EntryHeader and its body as they stand in
/// the log, objects and tombstones only.
struct __attribute__((packed)) RecoveryFetchReply {
  uint32_t bytes;
  uint32_t entries;
  uint32_t next_offset;  // `end`: these were the last
  uint32_t reserved;
};
static_assert(sizeof(RecoveryFetchReply) == 16);

// ---- recovery masters (docs/design/recovery.md, "Recovery of one server") ----------------------

/// A tablet that a dead master had, or a part of one.
struct LostTablet {
  HashRange range;
  uint64_t creation_position = 0;  // entries of the dead log from before are not the tablet's
  std::string table_name;
  template <class V>
  void fields(V& v) {
    v(range, creation_position, table_name);
  }
};

/// A replica that has all of a segment of the dead log.
struct RecoverySource {
  uint64_t server_id = 0;  // of a backup that is UP
  uint32_t frame = 0;
  template <class V>
  void fields(V& v) {
    v(server_id, frame);
  }
};

struct RecoverySegment {
  uint64_t segment_id = 0;
  uint32_t length = 0;                  // as it was decided
  std::vector<RecoverySource> sources;  // the first is to be tried first
  template <class V>
  void fields(V& v) {
    v(segment_id, length, sources);
  }
};

/// kRecover (coordinator -> recovery master): RecoverRequest -> RecoveryState. Begins to recover
/// these tablets of a dead master; nothing of them is served yet. The same attempt again changes
/// nothing. A higher one first gives up what lower ones recovered of the same ranges and do not
/// serve. STALE_TERM: a higher attempt came before; RETRY: others are still being given up.
struct RecoverRequest {
  uint64_t term = 0;
  uint64_t master_id = 0;  // the dead one
  uint64_t attempt = 0;
  std::vector<LostTablet> tablets;
  std::vector<RecoverySegment> segments;  // of the whole dead log, by falling id
  uint64_t safe_version = 0;              // above every version that the dead master assigned
  template <class V>
  void fields(V& v) {
    v(term, master_id, attempt, tablets, segments, safe_version);
  }
};

enum class RecoveryPhase : uint8_t {
  kReplaying = 1,   // fetches entries
  kCommitting = 2,  // waits until they are durable, and part of its log
  kReady = 3,       // owns all of it but for the coordinator's word
  kServing = 4,
  kFailed = 5,  // has nothing of it any more
};

/// How far the recovery of one (dead master, attempt) is on this server.
struct RecoveryState {
  RecoveryPhase phase = RecoveryPhase::kReplaying;
  uint64_t segments_done = 0;
  uint64_t bytes_fetched = 0;  // of entries
  uint64_t objects = 0;        // that are there now
  /// Of kReady: where in this server's log the tablets begin (as TakeTabletReply's).
  uint64_t creation_position = 0;
  // Of kFailed:
  uint16_t status = 0;   // StatusCode
  std::string why;       // for people
  uint64_t segment = 0;  // that no source gave; 0: it was not that
  template <class V>
  void fields(V& v) {
    v(phase, segments_done, bytes_fetched, objects, creation_position, status, why, segment);
  }
};

/// kGetRecoveryState (coordinator -> recovery master): -> RecoveryState, at once if the phase is
/// another than `known`, else when it changes, or after `wait_ms`. NOT_FOUND: it has no such
/// recovery, because it never began or was given up.
struct GetRecoveryStateRequest {
  uint64_t term = 0;
  uint64_t master_id = 0;
  uint64_t attempt = 0;
  RecoveryPhase known = RecoveryPhase::kReplaying;
  uint32_t wait_ms = 0;  // at most 1,000
  template <class V>
  void fields(V& v) {
    v(term, master_id, attempt, known, wait_ms);
  }
};

/// kServeRecovered (coordinator -> recovery master): -> Empty, once they are served. The metadata
/// name this server as the owner. Again: nothing changes. NOT_FOUND: it does not have them, or not
/// by this attempt; STALE_TERM: a later order about the table came.
struct ServeRecoveredRequest {
  uint64_t term = 0;
  uint64_t revision = 0;  // of the table's metadata
  uint64_t attempt = 0;
  std::vector<HashRange> tablets;  // of one table
  template <class V>
  void fields(V& v) {
    v(term, revision, attempt, tablets);
  }
};

/// kAbortRecovery (coordinator -> recovery master): -> Empty. Gives up whatever was recovered of
/// this dead master by attempts up to this one and is not served. Leaves no tombstones.
struct AbortRecoveryRequest {
  uint64_t term = 0;
  uint64_t master_id = 0;
  uint64_t attempt = 0;
  template <class V>
  void fields(V& v) {
    v(term, master_id, attempt);
  }
};

/// kSyncReplicas (master -> backup): SyncReplicasRequest -> Empty. What this backup had
/// acknowledged of the master's replicas when it was asked is on the device. Beside the writes,
/// which do not wait.
struct SyncReplicasRequest {
  uint64_t master_id = 0;
  template <class V>
  void fields(V& v) {
    v(master_id);
  }
};

// ---- leases (docs/design/recovery.md, "Leases") -------------------------------------------------

/// kRenewLease (master -> backup): RenewLeaseRequest -> Empty. The backup has not frozen this
/// master, and does not know that it crashed. CRASHED: it has, or does.
struct RenewLeaseRequest {
  uint64_t master_id = 0;
  template <class V>
  void fields(V& v) {
    v(master_id);
  }
};

/// kGrantLease (master without replicas that count -> coordinator): GrantLeaseRequest -> Empty.
/// This coordinator led when the request had come, and lists the server as UP. CRASHED; NOT_LEADER.
struct GrantLeaseRequest {
  uint64_t server_id = 0;
  template <class V>
  void fields(V& v) {
    v(server_id);
  }
};

/// kStopServing (server -> coordinator): StopServingRequest -> Empty. The server ends by a plan: it
/// has answered its last request, and will tell nothing from memory any more. It is CRASHED from
/// the answer on, and nobody waits for its lease. INVALID_ARGUMENT; UNSUPPORTED: nobody else is UP,
/// or its nonce is not known.
struct StopServingRequest {
  uint64_t server_id = 0;
  uint64_t nonce = 0;  // that it enlisted with: no other process speaks for it
  template <class V>
  void fields(V& v) {
    v(server_id, nonce);
  }
};

}  // namespace ramcloud::wire
