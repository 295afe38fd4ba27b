// A leader's reaction to a server that refuses it because it knows a higher term: it raises its
// term above that one by a change of the metadata, which proves that it leads. If another
// coordinator leads, the change is refused, and this one steps down. So one server with a wrong
// term can neither stop a leader nor cause a series of new leaders
// (docs/design/coordinator.md#terms-that-cannot-be-poisoned).
#pragma once

#include "coordinator/core/changes.h"
#include "coordinator/metadata/cluster_state.h"
#include "coordinator/metadata/ledger.h"
#include "rpc/rpc.h"

namespace ramcloud {

class TermClaims {
 public:
  /// Higher terms are ignored: servers refuse terms above wire::kMaxTerm, and later leaders must be
  /// able to raise theirs.
  static constexpr uint64_t kHighestFollowed = wire::kMaxTerm / 2;

  TermClaims(Reactor& reactor, ClusterState& state, Ledger& ledger, Changes& changes)
      : reactor_(reactor), state_(state), ledger_(ledger), changes_(changes), scope_(reactor) {}

  /// True if the reply refuses our message because of its term, `sent_term`. Then the term is being
  /// raised, and the message must be sent again. `server_id` is from the peer's hello, so the
  /// server belongs to this cluster.
  bool refused(uint64_t server_id, uint64_t sent_term, const RpcReply& reply);

 private:
  Task<void> rise();
  Reactor& reactor_;
  ClusterState& state_;
  Ledger& ledger_;
  Changes& changes_;
  uint64_t claimed_ = 0;  // the highest term to follow
  bool rising_ = false;
  TaskScope scope_;
};

}  // namespace ramcloud
