// Membership of the cluster: servers enlist, and are marked CRASHED, which is final [Ousterhout15
// §7.3].
#pragma once

#include <functional>

#include "coordinator/core/changes.h"
#include "coordinator/metadata/ledger.h"
#include "wire/recovery_messages.h"

namespace ramcloud {

/// A server's record from its enlist request; without an id.
ServerRecord record_of(const wire::EnlistRequest& request);

/// The result of probing a server's address, by the coordinator and by a peer.
struct Examination {
  /// kAnswered if it answered one of them; kVoid if it is not UP, or there was no result.
  wire::PeerState state = wire::PeerState::kVoid;
  std::string by;       // the peer that it answered
  Duration unheard{};   // since its last sign of life, as far as we know
  Duration patience{};  // how long silence must last for a verdict
};

class Membership {
 public:
  /// Probes a server that is UP.
  using Examine = std::function<Task<Examination>(uint64_t server_id)>;
  void set_examine(Examine examine) { examine_ = std::move(examine); }

  /// `on_list_changed` is called after every change of the server list.
  Membership(Reactor& reactor, ClusterState& state, Ledger& ledger, Changes& changes,
             std::function<void()> on_list_changed)
      : reactor_(reactor),
        state_(state),
        ledger_(ledger),
        changes_(changes),
        on_list_changed_(std::move(on_list_changed)) {}

  /// Gives the server a new id, which was never given before. A repeated request with the same
  /// nonce (one process start) and the same locator gets the same id. The previous server of the
  /// volume becomes CRASHED. If that server is alive, the volume is a copy, and the request is
  /// refused. WRONG_CLUSTER names both clusters; INVALID_ARGUMENT names field, value and what is
  /// accepted, or both servers of a copied volume; RETRY while the previous server is silent but
  /// may be alive; DEADLINE_EXCEEDED.
  Task<Result<wire::EnlistReply>> enlist(wire::EnlistRequest request, Time deadline);

  /// For a planned stop: the server has ended its lease. It becomes CRASHED, and its recovery need
  /// not wait for the lease. INVALID_ARGUMENT names the wrong field; UNSUPPORTED if no other server
  /// is UP, or the metadata do not have its nonce; also the errors of Ledger::commit().
  Task<Result<wire::Empty>> stop_serving(wire::StopServingRequest request, Time deadline);

  struct Verdict {
    uint64_t server_id = 0;
    std::string reason;  // shown to people
  };
  /// Writes verdicts in one transaction, except those about servers that are not UP. `verdicts` is
  /// called when the transaction is built. Until it is written, an error from `objection` withdraws
  /// all of them, and is the result.
  Task<Status> mark_crashed(std::function<std::vector<Verdict>()> verdicts,
                            Ledger::Objection objection);

 private:
  Status check(const wire::EnlistRequest& request) const;
  bool is_retry(const wire::EnlistRequest& request) const;
  Task<Status> former_is_gone(const wire::EnlistRequest& request);
  wire::EnlistReply reply_for(uint64_t server_id) const;
  void apply_crash(const ServerRecord& crashed);
  Reactor& reactor_;
  ClusterState& state_;
  Ledger& ledger_;
  Changes& changes_;
  std::function<void()> on_list_changed_;
  Examine examine_;
};

}  // namespace ramcloud
