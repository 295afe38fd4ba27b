// A leader's reaction to a server that refuses it because it knows a higher term: it proves that it
// leads, by a change of the metadata, and rises above that term. If another leads, the change is
// refused, and this one steps down as after any such refusal. So one server with a wrong term
// neither stops a leader nor sets off a row of them (docs/design/coordinator.md, "Terms that cannot
// be poisoned").
#pragma once

#include "coordinator/core/changes.h"
#include "coordinator/metadata/cluster_state.h"
#include "coordinator/metadata/ledger.h"
#include "rpc/rpc.h"

namespace ramcloud {

class TermClaims {
 public:
  /// Higher claims are not followed: servers refuse terms above wire::kMaxTerm, and later leaders
  /// must be able to rise as well.
  static constexpr uint64_t kHighestFollowed = wire::kMaxTerm / 2;

  TermClaims(Reactor& reactor, ClusterState& state, Ledger& ledger, Changes& changes)
      : reactor_(reactor), state_(state), ledger_(ledger), changes_(changes), scope_(reactor) {}

  /// True if this refuses a message of ours for its term, `sent_term`: that is seen to, and the
  /// message is to be sent again. `server_id` is what the peer's hello said, so it is one of ours.
  bool refused(uint64_t server_id, uint64_t sent_term, const RpcReply& reply);

 private:
  Task<void> rise();
  Reactor& reactor_;
  ClusterState& state_;
  Ledger& ledger_;
  Changes& changes_;
  uint64_t claimed_ = 0;  // the highest that is to be followed
  bool rising_ = false;
  TaskScope scope_;
};

}  // namespace ramcloud
