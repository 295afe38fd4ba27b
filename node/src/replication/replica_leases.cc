// ReplicaManager, the lease: which backups are its holders, and RENEW_LEASE to those to which
// nothing else was sent (docs/design/recovery.md#leases). The bookkeeping is in read_lease.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/sometimes.h"
#include "base/text.h"
#include "replication/replica_manager.h"
#include "wire/control_messages.h"
#include "wire/recovery_messages.h"

namespace ramcloud {
namespace {

/// If a lease check runs this much later than it was due, this process was suspended or overloaded.
constexpr Duration kLateness = 100ms;

}  // namespace

/// The first message after which recovery may use the replica has been sent.
void ReplicaManager::lease_held(const ReplicaSlot& slot) {
  if (lease_) lease_->hold(slot.server_id(), slot.call()->sent());
}

void ReplicaManager::lease_confirmed(uint64_t server_id, Time sent) {
  if (!lease_) return;
  lease_->confirmed(server_id, sent);
  silence_.heard(server_id);
}

void ReplicaManager::lease_released(uint64_t server_id) {
  if (lease_) lease_->release(server_id);
}

/// The loss raises the epoch by one, so the replica counts for the lease until the coordinator has
/// that epoch.
void ReplicaManager::lease_lost(uint64_t server_id) {
  if (lease_) lease_->lost(server_id, fence_.epoch() + 1);
}

/// Takes the answers to RENEW_LEASE. If this check is late, this process was suspended, and that
/// may be why answers seem late: they do not count as silence.
void ReplicaManager::take_renewals() {
  if (next_lease_check_ != Time{} && reactor_.now() - next_lease_check_ > kLateness) {
    RC_SOMETIMES("replication.silence_of_others_is_our_own");
    silence_.discard(reactor_.clock().lease_now());
    silence_to_first_.discard(reactor_.clock().lease_now());
  }
  if (renewals_.empty()) return;
  for (const Renewal& renewal : std::exchange(renewals_, {})) {
    if (renewal.status.ok()) {
      lease_confirmed(renewal.server_id, renewal.sent);
    } else if (renewal.status == StatusCode::kCrashed) {
      RC_SOMETIMES("replication.holder_ends_the_lease");
      return stop_serving(renewal.status);
    } else if (is_silence(renewal.status)) {
      silence_.unanswered(renewal.server_id, renewal.sent);
      continue;
    }
    silence_.heard(renewal.server_id);
    note_answer(renewal.server_id, {}, renewal.sent);
  }
}

/// A holder that does not answer stops reads (no lease) and writes (not durable). So the master
/// gives up the replicas of open segments on it; the epoch fence makes that safe even if the backup
/// is alive. Closed replicas there stay.
void ReplicaManager::lose_silent() {
  if (!lease_) return;
  const Time now = reactor_.clock().lease_now();
  const auto holders = silence_.take_silent(now);
  const auto cut_off = silence_to_first_.take_silent(now);
  for (const uint64_t server_id : cut_off) {
    cut_off_[server_id] = {.left = backups_.replicas_on(server_id)};
  }
  if (holders.empty() && cut_off.empty()) return;
  std::set<uint64_t> silent(holders.begin(), holders.end());
  silent.insert(cut_off.begin(), cut_off.end());
  // Chosen before any loss, because a loss raises the epoch: then none counts for a while.
  const auto able = able_to_lose(silent);
  for (const uint64_t server_id : holders) {
    if (lose_open_on(server_id, /*all=*/true, able, silent))
      backups_.refused(server_id, reactor_.now());
  }
  for (const uint64_t server_id : cut_off) {
    if (lose_open_on(server_id, /*all=*/false, able, silent)) refuse_cut_off(server_id);
  }
}

/// The unsettled segments that may lose replicas on silent backups. Those that took data keep all,
/// unless a replica that counts is on a backup that answers: without one the fence could not be
/// told, and if no holder answers, it is probably the master that is cut off.
std::vector<SegmentReplicas*> ReplicaManager::able_to_lose(const std::set<uint64_t>& silent) {
  std::vector<SegmentReplicas*> able;
  for (SegmentReplicas* replicas : unsettled_) {
    const bool stays = replicas->any([&](const ReplicaSlot& slot) {
      return slot.counts() && !silent.contains(slot.server_id());
    });
    if (!stays && replicas->segment->opened_durable() && !replicas->segment->abandoned()) {
      RC_SOMETIMES("replication.all_holders_of_a_segment_are_silent");
      continue;
    }
    able.push_back(replicas);
  }
  return able;
}

/// `all`: or only copies that are being made, for which a backup is not asked for a lease. True if
/// any was lost.
bool ReplicaManager::lose_open_on(uint64_t server_id, bool all,
                                  std::span<SegmentReplicas* const> able,
                                  const std::set<uint64_t>& silent) {
  bool any = false;
  for (SegmentReplicas* replicas : able) {
    for (auto& slot : replicas->slots) {
      if (!slot->placed() || slot->server_id() != server_id) continue;
      if (!all && (slot->may_end_log() || slot->closed())) continue;
      if (!has_successor(*replicas, *slot, silent)) continue;
      RC_SOMETIMES("replication.silent_backup_is_given_up");
      any = true;
      give_up_silent(*replicas, *slot);
    }
  }
  return any;
}

/// It gets no new replicas for a while. (Only if another backup took the place of one: where there
/// is none, it is used again as soon as it answers.)
void ReplicaManager::refuse_cut_off(uint64_t server_id) {
  if (std::exchange(cut_off_.at(server_id).given_up, true)) return;
  backups_.refused(server_id, reactor_.now());
}

void ReplicaManager::give_up_silent(SegmentReplicas& replicas, ReplicaSlot& slot) {
  note_given_up(slot);
  lose(replicas, slot,
       {StatusCode::kDeadlineExceeded,
        fmt::format("it has not answered for {}", format_duration(options_.backup_silence))});
}

/// Another backup can take the place of this replica, and others the places of those that are not
/// placed now. If none can, keep the replica: its backup may answer again. Backups that are `silent`
/// take none over.
bool ReplicaManager::has_successor(const SegmentReplicas& replicas, const ReplicaSlot& slot,
                                   const std::set<uint64_t>& silent) {
  if (replicas.segment->abandoned()) return true;
  auto candidates = placement_servers(replicas);
  for (PlacementServer& candidate : candidates) {
    const uint64_t id = candidate.server_id;
    if (id == slot.server_id() || silent.contains(id) || cut_off_.contains(id)) {
      candidate.usable = false;
    }
  }
  std::vector<std::string> taken = {options_.failure_domain};
  size_t successors = 1;
  for (const auto& other : replicas.slots) {
    if (other.get() == &slot) continue;
    if (other->placed()) {
      taken.push_back(other->failure_domain());
    } else {
      ++successors;
    }
  }
  for (; successors > 0; --successors) {
    const auto chosen = choose_backup(candidates, taken, slot.primary(), reactor_.random());
    if (!chosen) return false;
    taken.push_back(candidates[*chosen].failure_domain);
  }
  return true;
}

/// Runs often enough that new holders are asked in time.
void ReplicaManager::renew_leases() {
  if (!lease_ || stopped_) return;
  const Time now = reactor_.now();
  if (now >= next_lease_check_) {
    const Time lease_now = reactor_.clock().lease_now();
    for (const uint64_t server_id : lease_->take_due(lease_now)) {
      const ListedServer* server = servers_.find(server_id);
      if (server == nullptr || !server->locator) continue;
      scope_.spawn(renew_lease(*server->locator, server_id));
    }
    const Duration most = ReadLease::ask_after(lease_->length());
    const bool any = lease_->holders() > 0;
    next_lease_check_ = now + (any ? std::min(lease_->next_due() - lease_now, most) : most);
  }
  wake_at(next_lease_check_);
}

/// A backup of an earlier version answers that it does not know RENEW_LEASE. Such a backup cannot
/// freeze a master either, so a ping that it answers is enough.
Task<void> ReplicaManager::renew_lease(Locator locator, uint64_t server_id) {
  first_.assert_here();
  Renewal renewal{server_id, reactor_.clock().lease_now(), {}};
  const Time deadline = reactor_.now() + options_.read_lease;
  if (backups_.knows_leases(server_id)) {
    const auto reply =
        co_await rpc_.call<wire::Empty>(locator, server_id, wire::Opcode::kRenewLease,
                                        wire::RenewLeaseRequest{options_.master_id}, deadline);
    first_.assert_here();
    if (!reply) renewal.status = reply.error();
    if (renewal.status == StatusCode::kUnsupported) backups_.has_no_leases(server_id);
  }
  if (!backups_.knows_leases(server_id)) {
    RC_SOMETIMES("replication.backup_without_leases_answers_pings");
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
