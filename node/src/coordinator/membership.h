// Who belongs to the cluster: servers enlist, and are marked CRASHED, once and for ever (paper
// §7.3).
#pragma once

#include <functional>

#include "coordinator/changes.h"
#include "coordinator/ledger.h"

namespace ramcloud {

class Membership {
 public:
  /// `on_list_changed` is called after every change of the server list.
  Membership(Reactor& reactor, ClusterState& state, Ledger& ledger, Changes& changes,
             std::function<void()> on_list_changed)
      : reactor_(reactor),
        state_(state),
        ledger_(ledger),
        changes_(changes),
        on_list_changed_(std::move(on_list_changed)) {}

  /// Gives the server an id that was never given before; asked again with the nonce of one start
  /// (and the same locator), the same id. The server that the volume belonged to becomes CRASHED.
  /// WRONG_CLUSTER names both clusters; INVALID_ARGUMENT names field, value and what is accepted;
  /// DEADLINE_EXCEEDED.
  Task<Result<wire::EnlistReply>> enlist(wire::EnlistRequest request, Time deadline);

  /// A verdict about servers; those not UP are left as they are. `reason` is shown to people. As
  /// long as it is not written `objection` can take it back, and is then the result.
  Task<Status> mark_crashed(uint64_t server_id, std::string reason, Ledger::Objection objection);

 private:
  Status check(const wire::EnlistRequest& request) const;
  wire::EnlistReply reply_for(uint64_t server_id) const;
  void apply_crash(const ServerRecord& crashed);
  Reactor& reactor_;
  ClusterState& state_;
  Ledger& ledger_;
  Changes& changes_;
  std::function<void()> on_list_changed_;
};

}  // namespace ramcloud
