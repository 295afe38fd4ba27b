// ReplicaManager, settled segments and side segments: losses, repairs, replicas that are not needed
// any more, side segments that are being written, and checks that closed replicas are still there.
// (Syncs to devices are in replica_syncs.cc.) All of it runs on the first reactor, without the
// lock, and in slices: one server may hold thousands of replicas.
#include <algorithm>
#include <utility>

#include "base/logging.h"
#include "base/sometimes.h"
#include "replication/replica_manager.h"

namespace ramcloud {
namespace {

constexpr uint32_t kFreeAttempts = 10;
/// Limits of one turn, so that other work has its turn.
constexpr uint64_t kMostLossesAtOnce = 64;
constexpr size_t kMostFreedAtOnce = 16;
constexpr size_t kMostCheckedAtOnce = 8;
/// At most so many replicas of a backup are looked at to find one that can be checked.
constexpr size_t kMostTriedOnBackup = 32;
constexpr size_t kMostRemovedAtOnce = 16;
/// Side segments that are sent at the same time, in the order in which they were opened. Those of
/// which nothing is to be sent do not count: their owners may wait long before they fill them.
constexpr size_t kSideAtOnce = 8;

}  // namespace

/// The steps that need no lock, because only the first reactor touches settled segments and side
/// segments.
bool ReplicaManager::drive_settled() {
  effort_ = {};
  put_off_ = false;
  bool worked = take_settled_answers();
  // Most turns have nothing for most of these steps.
  if (has_reported_.load(std::memory_order_acquire)) worked = take_reported() || worked;
  if (!backups_.losing().empty()) worked = lose_settled() || worked;
  if (!cut_off_.empty()) worked = lose_silent_copies() || worked;
  if (!side_.empty()) worked = drive_side() || worked;
  if (!adoption_answers_.empty()) worked = take_adoptions() || worked;
  if (!adoptions_.empty()) worked = drive_adoptions() || worked;
  if (!awaited_.empty()) worked = drive_awaited() || worked;
  if (repairs_.size() > 0) worked = drive_repairs() || worked;
  if (!given_up_.empty()) worked = free_given_up() || worked;
  worked = drive_sync() || worked;
  worked = check_closed_replicas() || worked;
  most_in_a_turn_.raise(effort_);
  return worked || put_off_;
}

/// Takes the answers of the first reactor's calls that take_first_reactor_answers() left: those for
/// settled and side segments.
bool ReplicaManager::take_settled_answers() {
  const bool any = !first_reactor_inbox_.answered().empty();
  for (ReplicaCall* call : first_reactor_inbox_.answered()) {
    if (call->answered() && call->slot() != nullptr) take_answer_of(*call->slot());
  }
  first_reactor_inbox_.answered().clear();
  return any;
}

// ---- removed segments

/// Handles segments that other threads reported as compacted or removed: compacted ones first,
/// because a segment is compacted before it is removed. Of the removed ones it handles some. True
/// if there are more, or if one of them has not been taken by take_opened() yet.
bool ReplicaManager::take_reported() {
  has_reported_.store(false, std::memory_order_relaxed);
  std::vector<log::Segment*> removed;
  std::vector<Compacted> compacted;
  bool more = false;
  {
    const MutexGuard guard(opened_mutex_);
    compacted.swap(compacted_);
    while (!removed_.empty() && removed.size() < kMostRemovedAtOnce) {
      removed.push_back(removed_.back());
      removed_.pop_back();
    }
    more = !removed_.empty();
  }
  for (const Compacted& one : compacted) take_compacted(one);
  for (log::Segment* segment : removed) {
    const auto found = segments_.find(segment->id());
    if (found == segments_.end()) {  // take_opened() has it in the next turn
      const MutexGuard guard(opened_mutex_);
      removed_.push_back(segment);
      more = true;
      continue;
    }
    forget(found->second);
    // The removed segment may be a compacted one whose original is still in use: then that is
    // released, too.
    if (found->second.segment != segment) found->second.segment->mark_released();
    segments_.erase(found);
    segment->mark_released();
  }
  if (more) has_reported_.store(true, std::memory_order_relaxed);
  return more || !removed.empty() || !compacted.empty();
}

// ---- what is compacted

/// A segment may be compacted again before its first compacted form came into use.
void ReplicaManager::take_compacted(const Compacted& compacted) {
  SegmentReplicas& replicas = segments_.at(compacted.before->id());
  if (replicas.segment != compacted.before) compacted.before->mark_released();
  replicas.compacted = compacted.after;
  use_compacted(replicas);
}

/// Not while a replica is being copied: it would get bytes of both forms.
void ReplicaManager::use_compacted(SegmentReplicas& replicas) {
  if (replicas.compacted == nullptr || !replicas.none_open()) return;
  replicas.form_changed = true;
  replicas.freed.clear();  // late messages have bytes of the former form
  for (auto& slot : replicas.slots) slot->set_segment(*replicas.compacted);
  std::exchange(replicas.segment, std::exchange(replicas.compacted, nullptr))->mark_released();
  recount(replicas);
}

/// Compaction dropped entries because newer entries replace them. Those may be in page caches only:
/// a power cut could lose them. Then the dropped entries are needed, and only replicas of the
/// original bytes have them. So no replica is made from compacted bytes before the log is synced up
/// to `judged`.
bool ReplicaManager::may_copy(const SegmentReplicas& replicas) {
  const log::LogPosition judged = replicas.segment->judged();
  if (log_->synced() >= judged) return true;
  RC_SOMETIMES("replication.copy_of_a_compacted_segment_waits_for_sync");
  log_->want_synced(judged);
  wake_at(reactor_.now() + options_.retry_delay);
  return false;
}

/// The segment left the log: its backups are told to free their replicas of it.
void ReplicaManager::forget(SegmentReplicas& replicas) {
  RC_SOMETIMES("replication.segment_is_removed");
  // If others lack backups as well, they say so when they are tried again.
  const auto lacks = [](const ReplicaSlot& slot) { return slot.state().placement_failed; };
  if (replicas.any(lacks)) shortage_.end();
  for (auto& slot : replicas.slots) {
    if (slot->placed()) {
      given_up_.push_back({replicas.segment->id(), slot->server_id()});
      unplace(*slot, ReplicaEvent::kLost);
    }
    std::erase(first_reactor_inbox_.answered(), &slot->first_reactor_call());
  }
  for (const uint64_t server_id : replicas.lost_backups) backups_.not_missed(server_id);
  settled_counts_.take_away(replicas.counted);
  repairs_.remove(replicas);
  std::erase(side_, &replicas);
}

// ---- side segments

/// Side segments are sent like copies: in small messages, after the data that clients wait for.
bool ReplicaManager::drive_side() {
  bool worked = false;
  bool settled = false;
  size_t sending = 0;
  for (SegmentReplicas* replicas : side_) {
    worked = drive(*replicas) || worked;
    if (!replicas->rests() && ++sending == kSideAtOnce) break;
  }
  std::erase_if(side_, [&](SegmentReplicas* replicas) {
    first_.assert_here();
    return settle_side(*replicas) && (settled = true);
  });
  if (settled) log_->on_replication_progress();
  return worked || settled;
}

bool ReplicaManager::settle_side(SegmentReplicas& replicas) {
  const auto is_closed = [](const ReplicaSlot& slot) { return slot.closed(); };
  if (!replicas.segment->closed() || !replicas.on_enough(options_.min_replicas, is_closed)) {
    return false;
  }
  replicas.segment->mark_closed_durable();
  recount(replicas);
  if (!replicas.all_closed()) repairs_.add(replicas);
  return true;
}

// ---- repairs

bool ReplicaManager::drive_repairs() {
  bool worked = false;
  RepairQueue::Pass pass(repairs_);
  while (SegmentReplicas* replicas = pass.next()) {
    use_compacted(*replicas);  // also when the last copy failed
    if (may_copy(*replicas)) worked = drive(*replicas) || worked;
    use_compacted(*replicas);
    if (pass.driven()) {
      RC_SOMETIMES("replication.closed_segment_is_repaired");
      log_info("replication.repaired", {{"segment", replicas->segment->id()}});
    }
  }
  // The others get their turn when one of these is done (its reply wakes the reactor), or when a
  // segment that could not be placed may be tried again.
  if (pass.others_wait()) wake_at(reactor_.now() + options_.retry_delay);
  return worked;
}

// ---- losses

/// Under the lock and all at once: nothing may be acknowledged that relies on these replicas.
void ReplicaManager::lose_unsettled() {
  for (const uint64_t server_id : backups_.losing()) {
    const Status& why = backups_.why_lost(server_id);
    for (SegmentReplicas* replicas : unsettled_) {
      for (auto& slot : replicas->slots) {
        if (!slot->placed() || slot->server_id() != server_id) continue;
        if (why == StatusCode::kIoError) {
          RC_SOMETIMES("replication.all_replicas_of_a_broken_device_are_lost");
        }
        lose(*replicas, *slot, why);
      }
    }
  }
}

/// Losses of settled segments, a slice each turn. True if there were any.
bool ReplicaManager::lose_settled() {
  give_up_returns();
  while (!backups_.losing().empty() && effort_.losses < kMostLossesAtOnce) {
    const uint64_t server_id = backups_.losing().front();
    if (ReplicaSlot* slot = backups_.any_on(server_id)) {
      if (!needs_no_lock(slot->segment())) break;  // lose_unsettled() must handle it first
      lose(replicas_of(*slot), *slot, backups_.why_lost(server_id));
    } else {
      backups_.end_losing(!servers_.is_live(server_id));
    }
  }
  return true;
}

/// A backup may live, and be unreachable for this master alone: then nobody condemns it. Replicas
/// there that cleaning waits for are made elsewhere, a slice each turn. No fence is needed: none of
/// them is open. (Those of open segments were lost already: lose_silent().)
bool ReplicaManager::lose_silent_copies() {
  const uint64_t server_id = cut_off_.begin()->first;
  uint64_t& left = cut_off_.begin()->second.left;
  left = std::min(left, backups_.replicas_on(server_id));
  for (uint64_t looks = 0; left > 0 && looks < kMostLossesAtOnce; ++looks) {
    if (effort_.losses >= kMostLossesAtOnce) return true;
    // The last take the places of those that are lost, and were looked at before.
    ReplicaSlot& slot = backups_.replica_on(server_id, --left);
    if (!holds_up_cleaning(slot) || !may_be_elsewhere(slot)) continue;
    RC_SOMETIMES("replication.silent_backup_of_copies_is_given_up");
    refuse_cut_off(server_id);
    give_up_silent(replicas_of(slot), slot);
  }
  if (left == 0) cut_off_.erase(server_id);
  return true;
}

/// Copies that are being made: of side segments (among them survivors of cleaning), and of settled
/// ones, where one that stands holds up other copies. And what a sync waits for.
bool ReplicaManager::holds_up_cleaning(const ReplicaSlot& slot) {
  const log::Segment& segment = slot.segment();
  if (!needs_no_lock(segment)) return false;
  return !slot.closed() || (wants_sync() && sync_needs(segment, log_->durable()));
}

/// A compacted segment gets its new replica only after the next sync, which relies on the others
/// (may_copy()).
bool ReplicaManager::may_be_elsewhere(const ReplicaSlot& slot) {
  const SegmentReplicas& replicas = replicas_of(slot);
  const auto others = std::ranges::count_if(
      replicas.slots, [&](const auto& other) { return other.get() != &slot && other->counts(); });
  const bool waits = replicas.segment->judged() > log_->synced();
  return (!waits || others >= options_.min_replicas) && has_successor(replicas, slot, {});
}

// ---- replicas that were given up

/// A replica that was given up may be the only copy of its segment on any disk. So its backup is
/// told to free it only when R others count, and the fence holds: the coordinator knows that this
/// one does not count.
bool ReplicaManager::free_given_up() {
  // Lost replicas seem to count until lose_settled() has handled them.
  if (!fence().holds() || !backups_.losing().empty()) return false;
  bool any = false;
  const size_t looks = std::min(given_up_.size(), kMostFreedAtOnce);
  for (size_t i = 0; i < looks; ++i) {
    const GivenUp replica = given_up_.front();
    given_up_.pop_front();
    if (is_freed(replica)) {
      any = true;
    } else {
      given_up_.push_back(replica);
    }
  }
  if (looks < given_up_.size()) wake_at(reactor_.now() + options_.retry_delay);
  return any;
}

/// Its R replicas do not all count yet.
bool ReplicaManager::is_needed(uint64_t segment_id) {
  const auto found = segments_.find(segment_id);
  if (found == segments_.end()) return false;
  const SegmentReplicas& replicas = found->second;
  if (needs_no_lock(*replicas.segment)) return !replicas.fully_replicated();
  const Hold hold(*this);
  return !replicas.fully_replicated();
}

/// No other backup can take a missing replica of a settled segment, but one that has a stale one
/// might. As many count as writes need, so the stale one is not the last.
bool ReplicaManager::makes_room(uint64_t segment_id) {
  const SegmentReplicas& replicas = segments_.at(segment_id);
  if (!replicas.settled()) return false;
  const auto counting =
      std::ranges::count_if(replicas.slots, [](const auto& slot) { return slot->counts(); });
  return counting >= options_.min_replicas && replicas.any([](const ReplicaSlot& slot) {
    return !slot.placed() && slot.state().placement_failed;
  });
}

/// The backup has nothing of the segment any more. It may have it again if it was asked only once: no
/// request that arrives late can free the new replica. Other late messages of the former one have
/// bytes that the new one has as well (docs/design/replication.md#losing-a-backup).
void ReplicaManager::note_freed(const GivenUp& replica) {
  const auto found = segments_.find(replica.segment_id);
  if (found == segments_.end() || found->second.form_changed || replica.unanswered) return;
  RC_SOMETIMES("replication.backup_that_freed_a_replica_may_have_another");
  found->second.freed.push_back(replica.server_id);
}

/// The incarnation that left them is not UP, so none of the counting replicas is on it. One may be
/// adopted from the same volume: then its frame is not among those that the backup frees.
Result<std::vector<uint64_t>> ReplicaManager::unneeded(std::span<const uint64_t> segment_ids) {
  first_.assert_here();
  if (condemned_why_) return fail(*condemned_why_);
  if (list_changed_ || !fence().holds() || !backups_.losing().empty()) {
    return fail(StatusCode::kRetry, "a lost replica is not dealt with yet");
  }
  std::vector<uint64_t> unneeded;
  for (const uint64_t id : segment_ids) {
    if (!is_needed(id)) unneeded.push_back(id);
  }
  return unneeded;
}

/// True if its backup is asked to free it, or has crashed. A backup that did not answer is asked
/// for one replica at a time: there may be thousands, and it may be cut off for long.
bool ReplicaManager::is_freed(const GivenUp& replica) {
  const ListedServer* server = servers_.find(replica.server_id);
  if (server == nullptr || !server->live() || !server->locator) return true;
  const Time now = reactor_.now();
  const auto next = next_free_.find(replica.server_id);
  if (next != next_free_.end() && now < next->second) {
    wake_at(next->second);
    return false;
  }
  if (is_needed(replica.segment_id) && !makes_room(replica.segment_id)) return false;
  if (next != next_free_.end()) next->second = now + options_.max_refused_delay;
  scope_.spawn(free_replica(*server->locator, replica));
  return true;
}

/// Tells a backup to free a replica that this master has given up. If it does not, it is told again
/// later: until it answers, and a few times if it refuses. Asks first whether it answers at all: a
/// request that is not sent cannot arrive late.
Task<void> ReplicaManager::free_replica(Locator locator, GivenUp replica) {
  const Time sent = reactor_.clock().lease_now();
  const RpcReply answers = co_await rpc_.call(locator, replica.server_id, wire::Opcode::kPing, {},
                                              reactor_.now() + options_.write_timeout);
  Status outcome = answers.status;
  if (!is_silence(outcome)) {
    const wire::ReplicaFreeRequest request{options_.master_id, replica.segment_id};
    const RpcReply freed =
        co_await rpc_.call(locator, replica.server_id, wire::Opcode::kReplicaFree,
                           std::string(bytes_of(request)), reactor_.now() + options_.write_timeout);
    outcome = freed.status;
    replica.unanswered = replica.unanswered || is_silence(outcome);
  }
  first_.assert_here();
  note_answer(replica.server_id, outcome, sent);
  if (is_silence(outcome)) {
    next_free_[replica.server_id] = reactor_.now() + options_.max_refused_delay;
  } else {
    next_free_.erase(replica.server_id);
    if (outcome.ok()) note_freed(replica);
    if (outcome.ok() || ++replica.refusals == kFreeAttempts) co_return;
    co_await reactor_.sleep(options_.refused_delay);
    first_.assert_here();
  }
  given_up_.push_back(replica);
  due_ = true;
  timer_.start_at(reactor_.now());
}

// ---- checks of closed replicas

/// Asks each backup for one of the replicas that are closed there. Each round asks for the next
/// replica of each backup, so all are checked in time. True if the round goes on in the next turn.
bool ReplicaManager::check_closed_replicas() {
  const Time now = reactor_.now();
  if (now >= next_check_ && !segments_.empty() && check_from_ == kAllChecked) {
    next_check_ = now + options_.check_interval;
    check_from_ = 0;
  }
  wake_at(next_check_);
  if (check_from_ == kAllChecked) return false;
  size_t asked = 0;
  auto at = backups_.first_from(check_from_);
  for (; at && asked < kMostCheckedAtOnce; at = backups_.first_from(*at + 1), ++asked) {
    check_backup(*at);
  }
  check_from_ = at.value_or(kAllChecked);
  return check_from_ != kAllChecked;
}

void ReplicaManager::check_backup(uint64_t server_id) {
  if (backups_.is_being_lost(server_id)) return;
  const size_t looks = std::min<size_t>(backups_.replicas_on(server_id), kMostTriedOnBackup);
  for (size_t i = 0; i < looks; ++i) {
    ReplicaSlot& slot = *backups_.next_on(server_id);
    if (!slot.closed() || !slot.segment().closed_durable()) continue;
    if (slot.call() == &slot.first_reactor_call() && !slot.call()->answered() &&
        reactor_.now() >= slot.call()->deadline()) {
      slot.drop_call();  // unanswered since the last round; whether the backup is dead is for the
                         // coordinator to decide
    }
    if (slot.call() == nullptr && send(slot)) return;
  }
}

}  // namespace ramcloud
