// Membership of the cluster: servers enlist, and are marked CRASHED, once and for ever
// [Ousterhout15 §7.3].
#pragma once

#include <functional>

#include "coordinator/core/changes.h"
#include "coordinator/metadata/ledger.h"
#include "wire/recovery_messages.h"

namespace ramcloud {

/// What a server says of itself; without an id.
ServerRecord record_of(const wire::EnlistRequest& request);

/// What a look at a server's address showed, by the coordinator and by a peer.
struct Examination {
  /// kAnswered if it answered one of them; kVoid if it is not UP, or nothing was learnt.
  wire::PeerState state = wire::PeerState::kVoid;
  std::string by;       // the peer that it answered
  Duration unheard{};   // since its last sign of life, as far as we know
  Duration patience{};  // so long a silent server is waited for
};

class Membership {
 public:
  /// Looks at a server that is UP.
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

  /// Gives the server an id that was never given before; asked again with the nonce of one start
  /// (and the same locator), the same id. The server that the volume belonged to becomes CRASHED,
  /// unless it lives: then the volume is a copy, and is refused. WRONG_CLUSTER names both clusters;
  /// INVALID_ARGUMENT names field, value and what is accepted, or both servers of a copied volume;
  /// RETRY while the former server is silent but may live; DEADLINE_EXCEEDED.
  Task<Result<wire::EnlistReply>> enlist(wire::EnlistRequest request, Time deadline);

  /// For a planned stop: the server has ended its lease. It becomes CRASHED, and its recovery waits
  /// for no lease. INVALID_ARGUMENT names what does not fit; UNSUPPORTED if no other server is UP,
  /// or the metadata do not know its nonce; else the errors of Ledger::commit().
  Task<Result<wire::Empty>> stop_serving(wire::StopServingRequest request, Time deadline);

  struct Verdict {
    uint64_t server_id = 0;
    std::string reason;  // shown to people
  };
  /// Writes verdicts in one change; those about servers that are not UP are left out. `verdicts` is
  /// called when the change is made. Until it is written, `objection` can take all of them back,
  /// and is then the result.
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
