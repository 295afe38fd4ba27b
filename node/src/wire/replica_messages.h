// Bodies of the replication operations (master -> backup): packed structs, then segment bytes.
// Aligned, as are their fields, so that a field can be passed by reference.
// Paper §4.2, §4.5. See docs/formats.md ("Wire").
#pragma once

#include <cstdint>

namespace ramcloud::wire {

/// kReplicaOpen: takes a frame for a segment and stores its first bytes (segment header, digest).
/// The answer comes when these are synced to the device. Idempotent for the same master, segment,
/// epoch. Errors: NO_SPACE (no free frame), CRASHED (the master is listed as crashed), STALE_TERM
/// (a higher epoch of this replica exists). Followed by `length` bytes, from offset 0.
struct __attribute__((packed, aligned(8))) ReplicaOpenRequest {
  enum Flag : uint32_t {
    kPrimary = 1,     // the replica that recovery reads first
    kRecreation = 2,  // copies what other replicas have: invisible until kWriteComplete
  };
  uint64_t master_id;
  uint64_t segment_id;
  uint32_t epoch;  // replication epoch of the segment
  uint32_t flags;
  uint32_t capacity;  // segment bytes
  uint32_t length;
  uint64_t list_version;  // server-list version the master acts on
};
static_assert(sizeof(ReplicaOpenRequest) == 40);

/// kReplicaWrite: appends to an open replica; offset must be at most what the replica holds (bytes
/// it has already are ignored: resending is harmless). Followed by `length` bytes; none raise only
/// the epoch, which is synced before the answer, as is kWriteComplete.
struct __attribute__((packed, aligned(8))) ReplicaWriteRequest {
  enum Flag : uint32_t {
    kClose = 1,          // the footer is in it: no more bytes come
    kWriteComplete = 2,  // of a re-creation: it has all that there is yet, and is now visible
  };
  uint64_t master_id;
  uint64_t segment_id;
  uint32_t epoch;
  uint32_t offset;
  uint32_t length;
  uint32_t flags;
};
static_assert(sizeof(ReplicaWriteRequest) == 32);

/// Answer to both.
struct __attribute__((packed)) ReplicaReply {
  uint32_t held;  // bytes of the segment the backup has, from offset 0
  uint32_t reserved;
};
static_assert(sizeof(ReplicaReply) == 8);

/// kReplicaFree: the master says that it needs this replica no more. Idempotent.
struct __attribute__((packed, aligned(8))) ReplicaFreeRequest {
  uint64_t master_id;
  uint64_t segment_id;
};
static_assert(sizeof(ReplicaFreeRequest) == 16);

}  // namespace ramcloud::wire
