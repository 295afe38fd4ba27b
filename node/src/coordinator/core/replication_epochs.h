// Which replicas of open segments still count (docs/design/replication.md#losing-a-backup): a
// master that lost such a replica raises its epoch here before it acknowledges anything more, so
// that recovery does not use the lost one.
#pragma once

#include "coordinator/metadata/ledger.h"
#include "wire/control_messages.h"

namespace ramcloud {

class ReplicationEpochs {
 public:
  ReplicationEpochs(ClusterState& state, Ledger& ledger) : state_(state), ledger_(ledger) {}

  /// Durable when OK. CRASHED: the server is not UP, and its recovery uses the present values;
  /// STALE_TERM: the segment or the epoch is lower than before; NOT_LEADER; DEADLINE_EXCEEDED.
  Task<Result<wire::Empty>> raise(wire::RaiseReplicationEpochRequest request, Time deadline);

 private:
  Status check(const wire::RaiseReplicationEpochRequest& request) const;
  ClusterState& state_;
  Ledger& ledger_;
};

}  // namespace ramcloud
