// Bodies of the operations that ask a master what it needs of a volume, in codec.h's encoding. A
// coordinator asks before it releases the volume (docs/design/coordinator.md#releasing-a-volume).
// The backup with the volume asks to free frames
// (docs/design/recovery.md#former-frames-of-masters-that-live). A master asks it to adopt a frame
// (docs/design/recovery.md#adopting-former-frames).
#pragma once

#include <cstdint>
#include <vector>

namespace ramcloud::wire {

/// kGetReplicasOn (coordinator -> server): GetReplicasOnRequest -> ReplicasOn. Asks what this
/// master's log needs of these backups, which all had the same volume. A server that is not
/// enlisted yet answers RETRY. A server of an earlier version answers UNSUPPORTED: then it is not
/// known.
struct GetReplicasOnRequest {
  uint64_t term = 0;
  std::vector<uint64_t> server_ids;  // ids of the backups
  template <class V>
  void fields(V& v) {
    v(term, server_ids);
  }
};

struct ReplicasOn {
  // The version of the master's server list: it places no replica on a backup that is not UP there.
  uint64_t list_version = 0;
  uint64_t counted = 0;  // replicas placed there, acknowledged or not
  uint64_t missed = 0;   // lost replicas there whose segments do not yet have all R replicas
                         // elsewhere
  template <class V>
  void fields(V& v) {
    v(list_version, counted, missed);
  }
};

/// kGetUnneeded (backup -> master): GetUnneededRequest -> Unneeded. Asks which replicas of this
/// master's segments, left on the backup's volume by an earlier incarnation, are not needed. RETRY
/// while the master has not handled the end of that incarnation. INVALID_ARGUMENT above
/// kMaxIdsAtOnce.
struct GetUnneededRequest {
  static constexpr size_t kMaxIdsAtOnce = 256;
  uint64_t backup_id = 0;  // of the present incarnation
  // Of the backup's server list: the master's must not be older.
  uint64_t list_term = 0;
  uint64_t list_version = 0;
  std::vector<uint64_t> segment_ids;
  // Those of them that the backup can adopt, if the master lacks a replica.
  std::vector<uint64_t> adoptable_ids;
  template <class V>
  void fields(V& v) {
    v(backup_id, list_term, list_version, segment_ids);
    v.since(2, adoptable_ids);
  }
};

struct Unneeded {
  std::vector<uint64_t> segment_ids;
  template <class V>
  void fields(V& v) {
    v(segment_ids);
  }
};

/// kReplicaAdopt (master -> backup): AdoptRequest -> Adopted. Makes a frame of an earlier
/// incarnation a closed replica of this one, if all its bytes are the segment's. Answered when its
/// metadata are on the device. Idempotent. NOT_FOUND: no such frame is here, or it is unfit. RETRY:
/// too many requests are in progress. CRASHED: a recovery of the master has begun.
struct AdoptRequest {
  uint64_t master_id = 0;
  uint64_t segment_id = 0;
  uint32_t epoch = 0;  // replication epoch with which the segment was closed
  // Of the segment in the master's memory. The frame may be longer, if that was compacted since.
  uint32_t length = 0;
  uint32_t certificate = 0;  // checksum in its footer; a frame of that length must have the same
  bool primary = false;
  std::vector<uint64_t> holders;  // ids of all backups of the segment
  uint64_t list_version = 0;      // server-list version the master acts on
  template <class V>
  void fields(V& v) {
    v(master_id, segment_id, epoch, length, certificate, primary, holders, list_version);
  }
};

struct Adopted {
  uint32_t length = 0;  // of the replica, footer included
  uint32_t epoch = 0;   // in its metadata
  template <class V>
  void fields(V& v) {
    v(length, epoch);
  }
};

}  // namespace ramcloud::wire
