// Bodies of the operations that find and read a dead master's log on backups, and recover it
// (docs/design/recovery.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/packed_segments.h"

namespace ramcloud::wire {

/// kRecoveryQuery (coordinator -> backup): RecoveryQueryRequest -> RecoveryQueryReply, in codec.h's
/// encoding. After the first query the backup takes no writes of this master any more (freeze).
/// RETRY: ask again; STALE_TERM; IO_ERROR: its device failed.
struct RecoveryQueryRequest {
  uint64_t term = 0;
  uint64_t master_id = 0;
  uint32_t first_frame = 0;  // 0, then next_frame of the previous page
  // Closed replicas of segments from this one on are scanned as well, not only described.
  uint64_t scan_closed_from = ~uint64_t{0};
  template <class V>
  void fields(V& v) {
    v(term, master_id, first_frame, scan_closed_from);
  }
};

/// One replica of the master. log/log_end.h explains the fields.
struct RecoveryReplica {
  enum Flag : uint32_t {
    kClosed = 1,
    kFooter = 2,
    kFooterAfterHole = 4,
    kCleanEnd = 8,
    kCorrupt = 16,
    kIncomplete = 32,
    kDamaged = 64,
    kPowerSafe = 128,
    kScanned = 256,
    kIsHead = 512,
    kHasData = 1024,
    kPrimary = 2048,
    kRebooted = 4096,  // the host's boot id has changed since it was written, or is not known
    kSynced = 8192,    // its bytes were on the device before they were acknowledged
  };
  uint64_t segment_id = 0;
  uint32_t frame = 0;      // frame on the backup, for reading
  uint64_t backup_id = 0;  // the backup, or its earlier incarnation, that wrote the metadata
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
  uint64_t former_server_id = 0;          // previous server of the backup's volume; 0: none
  std::vector<RecoveryReplica> replicas;  // by rising frame
  uint32_t next_frame = 0;                // 0: these were the last
  template <class V>
  void fields(V& v) {
    v(former_server_id, replicas, next_frame);
  }
};

/// A range of a table's key hashes.
struct HashRange {
  uint64_t table_id = 0;
  uint64_t start_hash = 0;  // inclusive
  uint64_t end_hash = 0;    // inclusive
  template <class V>
  void fields(V& v) {
    v(table_id, start_hash, end_hash);
  }
  bool operator==(const HashRange&) const = default;
  bool contains(uint64_t table, uint64_t hash) const {
    return table_id == table && start_hash <= hash && hash <= end_hash;
  }
};

/// Another segment of the same master, with a replica on the same backup.
struct FurtherSegment {
  uint64_t segment_id = 0;
  uint32_t frame = 0;
  uint32_t end = 0;
  template <class V>
  void fields(V& v) {
    v(segment_id, frame, end);
  }
};

/// kRecoveryFetch (recovery master -> backup): reads the entries whose keys are in these ranges
/// from a replica of a frozen master, with verified checksums. RecoveryFetchRequest in codec.h's
/// encoding. NOT_FOUND: there is no such replica, or this incarnation of the backup got no
/// kRecoveryQuery for the master; CORRUPT: its bytes are damaged, use another replica; RETRY: too
/// many fetches are in progress, or no room for the segment.
struct RecoveryFetchRequest {
  uint64_t master_id = 0;
  uint64_t segment_id = 0;
  uint32_t frame = 0;
  uint32_t offset = 0;     // the start of a group: 0, then next_offset of the previous page
  uint32_t end = 0;        // of the segment, as it was decided
  uint32_t max_bytes = 0;  // bytes of entries in the answer; one group always fits
  std::vector<HashRange> ranges;
  /// Further segments. If the first one's entries end in this page, the backup may add those of the
  /// next ones, as long as it has them in memory. The first kMostFurther count.
  std::vector<FurtherSegment> further;
  static constexpr size_t kMostFurther = 15;
  /// The most bytes of entries in an answer.
  static constexpr uint32_t kMostBytes = (4u << 20) - 4096;
  /// About so many bytes of entries are worth a message.
  static constexpr uint32_t kBytesAtOnce = 128u << 10;
  template <class V>
  void fields(V& v) {
    v(master_id, segment_id, frame, offset, end, max_bytes, ranges);
    v.since(kPackedSegments, further);
  }
};

/// Followed by the bytes of entries: each with its log::EntryHeader and its body, as in the log.
/// Only objects and tombstones.
struct __attribute__((packed)) RecoveryFetchReply {
  uint32_t bytes;
  uint32_t entries;
  uint32_t next_offset;  // equal to `end`: these were the last
  uint32_t further;      // so many of the request's further segments have all their entries here
};
static_assert(sizeof(RecoveryFetchReply) == 16);

// ---- recovery masters (docs/design/recovery.md, "Recovery of one server") ----------------------

/// A tablet of a dead master, or a part of one.
struct LostTablet {
  HashRange range;
  uint64_t creation_position = 0;  // entries before it in the dead log do not belong to the tablet
  std::string table_name;
  template <class V>
  void fields(V& v) {
    v(range, creation_position, table_name);
  }
};

/// kRecover (coordinator -> recovery master): RecoverRequest -> RecoveryState. Starts to recover
/// these tablets of a dead master; they are not served yet. A repeated order changes nothing. A
/// higher attempt first gives up what lower attempts recovered of the same ranges, if it is not
/// served. STALE_TERM: there was a higher attempt; RETRY: other attempts are still being given up.
struct RecoverRequest {
  uint64_t term = 0;
  uint64_t master_id = 0;  // the dead one
  uint64_t attempt = 0;
  std::vector<LostTablet> tablets;
  /// All segments of the dead log, by falling id. From version 3 on they are sent as
  /// packed_segments instead, because every recovery master gets all of them.
  std::vector<RecoverySegment> segments;
  uint64_t safe_version = 0;  // above every version that the dead master assigned
  std::string packed_segments;
  template <class V>
  void fields(V& v) {
    v(term, master_id, attempt, tablets, segments, safe_version);
    v.since(kPackedSegments, packed_segments);
  }
};

enum class RecoveryPhase : uint8_t {
  kReplaying = 1,   // fetches entries
  kCommitting = 2,  // waits until they are durable, and part of its log
  kReady = 3,       // has everything; waits for the hand-over
  kServing = 4,
  kFailed = 5,  // failed, and has removed everything
};

/// The progress of one (dead master, attempt) on this server.
struct RecoveryState {
  RecoveryPhase phase = RecoveryPhase::kReplaying;
  uint64_t segments_done = 0;
  uint64_t bytes_fetched = 0;  // of entries
  uint64_t objects = 0;        // live objects now
  /// For kReady: the tablets' first position in this server's log, as in TakeTabletReply.
  uint64_t creation_position = 0;
  /// StatusCode. Of kFailed the error. In other phases why it waits: RETRY: other parts are fetched
  /// first; UNAVAILABLE: there are too few backups for what it recovered. Otherwise OK, also without
  /// frames, for which it waits only a short time.
  uint16_t status = 0;
  std::string why;                // for people: the error, or what it lacks
  uint64_t segment = 0;           // of kFailed: which no source could send; 0: another error
  uint64_t segments_durable = 0;  // recovered segments that have all their replicas
  template <class V>
  void fields(V& v) {
    v(phase, segments_done, bytes_fetched, objects, creation_position, status, why, segment);
    v.since(2, segments_durable);
  }
};

/// kGetRecoveryState (coordinator -> recovery master): -> RecoveryState: at once if the phase is
/// not `known`; otherwise when it changes, or after `wait_ms`. NOT_FOUND: there is no such
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

/// kServeRecovered (coordinator -> recovery master): -> Empty, answered once they are served. The
/// metadata name this server as the owner. Idempotent. NOT_FOUND: the server does not have them by
/// this attempt; STALE_TERM: there was a later order about the table.
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

/// kAbortRecovery (coordinator -> recovery master): -> Empty. Gives up everything that attempts up
/// to this one recovered of this dead master, if it is not served. Leaves no tombstones.
struct AbortRecoveryRequest {
  /// Of all dead masters. Servers of earlier versions then give up nothing.
  static constexpr uint64_t kAllMasters = 0;
  uint64_t term = 0;
  uint64_t master_id = 0;
  uint64_t attempt = 0;
  template <class V>
  void fields(V& v) {
    v(term, master_id, attempt);
  }
};

/// kSyncReplicas (master -> backup): SyncReplicasRequest -> Empty. The answer means that all bytes
/// which this backup had acknowledged before the request are on the device. Writes do not wait for
/// it.
struct SyncReplicasRequest {
  uint64_t master_id = 0;
  template <class V>
  void fields(V& v) {
    v(master_id);
  }
};

// ---- leases (docs/design/recovery.md, "Leases") -------------------------------------------------

/// kRenewLease (master -> backup): RenewLeaseRequest -> Empty. OK: the backup has not frozen this
/// master, and its list does not show it as crashed. CRASHED: otherwise.
struct RenewLeaseRequest {
  uint64_t master_id = 0;
  template <class V>
  void fields(V& v) {
    v(master_id);
  }
};

/// kGrantLease (master without replicas that count -> coordinator): GrantLeaseRequest -> Empty. OK:
/// this coordinator led after the request had arrived, and lists the server as UP. CRASHED;
/// NOT_LEADER.
struct GrantLeaseRequest {
  uint64_t server_id = 0;
  template <class V>
  void fields(V& v) {
    v(server_id);
  }
};

/// kStopServing (server -> coordinator): StopServingRequest -> Empty. A planned stop: the server
/// has answered its last request, and will answer nothing from memory any more. It is CRASHED from
/// the answer on, and its recovery need not wait for its lease. INVALID_ARGUMENT; UNSUPPORTED: no
/// other server is UP, or its nonce is not known.
struct StopServingRequest {
  uint64_t server_id = 0;
  uint64_t nonce = 0;  // the nonce of its enlist request, which proves that it is the same process
  template <class V>
  void fields(V& v) {
    v(server_id, nonce);
  }
};

}  // namespace ramcloud::wire
