// ReplicaManager, the lease: which backups hold it, and asking those to which nothing else was sent
// (docs/design/recovery.md, "Leases"). The bookkeeping is in read_lease.h.
#include <algorithm>
#include <utility>

#include "base/sometimes.h"
#include "replication/replica_manager.h"
#include "wire/control_messages.h"
#include "wire/recovery_messages.h"

namespace ramcloud {

/// The message that makes the replica one that recovery may use has left, for the first time.
void ReplicaManager::lease_held(const ReplicaSlot& slot) {
  if (lease_) lease_->hold(slot.server_id(), slot.call()->sent());
}

void ReplicaManager::lease_confirmed(uint64_t server_id, Time sent) {
  if (lease_) lease_->confirmed(server_id, sent);
}

void ReplicaManager::lease_released(uint64_t server_id) {
  if (lease_) lease_->release(server_id);
}

/// The epoch that rises now is the one that recovery will ask of it.
void ReplicaManager::lease_lost(uint64_t server_id) {
  if (lease_) lease_->lost(server_id, fence_.epoch() + 1);
}

/// What holders said that were asked.
void ReplicaManager::take_renewals() {
  for (const Renewal& renewal : std::exchange(renewals_, {})) {
    if (renewal.status.ok()) {
      lease_confirmed(renewal.server_id, renewal.sent);
    } else if (renewal.status == StatusCode::kCrashed) {
      RC_SOMETIMES("replication.holder_ends_the_lease");
      return stop_serving(renewal.status);
    }
  }
}

/// At least every quarter of the lease, so that holders which came since are asked in time.
void ReplicaManager::renew_leases() {
  if (!lease_ || stopped_) return;
  const Time now = reactor_.now();
  if (now >= lease_look_at_) {
    const Time lease_now = reactor_.clock().lease_now();
    for (const uint64_t server_id : lease_->take_due(lease_now)) {
      const ListedServer* server = servers_.find(server_id);
      if (server == nullptr || !server->locator) continue;
      scope_.spawn(renew_lease(*server->locator, server_id));
    }
    const Duration quarter = lease_->length() / ReadLease::kAskedAfter;
    const bool any = lease_->holders() > 0;
    lease_look_at_ = now + (any ? std::min(lease_->next_due() - lease_now, quarter) : quarter);
  }
  wake_at(lease_look_at_);
}

/// A backup from before there were leases says that it does not know the message. It does not freeze
/// either, so that it answers is all that can be known of it.
Task<void> ReplicaManager::renew_lease(Locator locator, uint64_t server_id) {
  first_.assert_here();
  Renewal renewal{server_id, reactor_.clock().lease_now(), {}};
  const Time deadline = reactor_.now() + options_.read_lease;
  if (!former_peers_.contains(server_id)) {
    const auto reply =
        co_await rpc_.call<wire::Empty>(locator, server_id, wire::Opcode::kRenewLease,
                                        wire::RenewLeaseRequest{options_.master_id}, deadline);
    first_.assert_here();
    if (!reply) renewal.status = reply.error();
    if (renewal.status == StatusCode::kUnsupported) former_peers_.insert(server_id);
  }
  if (former_peers_.contains(server_id)) {
    RC_SOMETIMES("replication.former_backup_leases_by_a_ping");
    renewal.sent = reactor_.clock().lease_now();
    const RpcReply reply =
        co_await rpc_.call(locator, server_id, wire::Opcode::kPing, {}, deadline);
    first_.assert_here();
    renewal.status = reply.status;
  }
  renewals_.push_back(std::move(renewal));
  due_ = true;
  timer_.start_at(reactor_.now());
}

}  // namespace ramcloud
