// Bodies of the control operations by which others ask a master what it needs of a volume, in
// codec.h's encoding: a coordinator, before the volume is released (docs/design/coordinator.md,
// "Releasing a volume"), and the backup that has it, to free frames (docs/design/recovery.md,
// "Former frames of masters that live").
#pragma once

#include <cstdint>
#include <vector>

namespace ramcloud::wire {

/// kGetReplicasOn (coordinator -> server): GetReplicasOnRequest -> ReplicasOn. What this master's
/// log needs of the backups named, all of them of one volume. A server that is not enlisted yet
/// answers RETRY; a former build answers UNSUPPORTED, which says nothing.
struct GetReplicasOnRequest {
  uint64_t term = 0;
  std::vector<uint64_t> server_ids;  // of the backups
  template <class V>
  void fields(V& v) {
    v(term, server_ids);
  }
};

struct ReplicasOn {
  // Of the server list that the master has: it puts no replica on a backup that is not UP there.
  uint64_t list_version = 0;
  uint64_t counted = 0;  // replicas that are there, or on their way there
  uint64_t missed = 0;   // that were there, of segments that do not have all replicas elsewhere yet
  template <class V>
  void fields(V& v) {
    v(list_version, counted, missed);
  }
};

/// kGetUnneeded (backup -> master): GetUnneededRequest -> Unneeded. Which replicas of this master's
/// segments, left on the backup's volume by an earlier incarnation of it, nobody needs. RETRY as
/// long as the master has not dealt with the end of that incarnation. INVALID_ARGUMENT above
/// kMaxIdsAtOnce.
struct GetUnneededRequest {
  static constexpr size_t kMaxIdsAtOnce = 256;
  uint64_t backup_id = 0;  // of the present incarnation
  // Of the backup's server list: the master's must not be older.
  uint64_t list_term = 0;
  uint64_t list_version = 0;
  std::vector<uint64_t> segment_ids;
  template <class V>
  void fields(V& v) {
    v(backup_id, list_term, list_version, segment_ids);
  }
};

struct Unneeded {
  std::vector<uint64_t> segment_ids;
  template <class V>
  void fields(V& v) {
    v(segment_ids);
  }
};

}  // namespace ramcloud::wire
