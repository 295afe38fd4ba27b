// Bodies of the control operation by which a coordinator finds out whether a volume is needed
// (docs/design/coordinator.md, "Releasing a volume"), in codec.h's encoding.
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

}  // namespace ramcloud::wire
