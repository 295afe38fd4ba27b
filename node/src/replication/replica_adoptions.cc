// ReplicaManager: former replicas of settled segments, which a backup still has after it came back,
// are adopted instead of copied (docs/design/recovery.md#adopting-former-frames). If a backup stopped
// by a plan, copies wait for it (docs/design/recovery.md#grace-period). All of it runs on the first
// reactor, without the lock.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "log/group_reader.h"
#include "replication/replica_manager.h"
#include "wire/codec.h"

namespace ramcloud {
namespace {

/// In this time after it came, a backup offers what it has (server/former_frames.h).
constexpr Duration kOfferTime = std::chrono::milliseconds(200);
/// Offers that are looked at in one turn.
constexpr uint64_t kMostOffersAtOnce = 64;
/// How often a request without an answer is sent.
constexpr uint32_t kAttempts = 3;
/// How long a backup may answer RETRY.
constexpr Duration kMostPutOff = std::chrono::seconds(30);

}  // namespace

// ---- backups that stopped by a plan

/// The list shows for the first time that the backup is not UP.
void ReplicaManager::expect_return(uint64_t server_id) {
  const ListedServer* server = servers_.find(server_id);
  if (server == nullptr || !server->stopped_by_plan || options_.restart_grace <= Duration{}) return;
  RC_SOMETIMES("replication.backup_is_awaited");
  log_info(
      "replication.awaits",
      {{"server", server_id}, {"for_ms", options_.restart_grace / std::chrono::milliseconds(1)}});
  awaited_.expect(server_id, reactor_.now() + options_.restart_grace);
}

void ReplicaManager::expect_no_return(std::span<const uint64_t> server_ids) {
  first_.assert_here();
  for (const uint64_t id : server_ids) awaited_.give_up(id);
  due_ = true;
  timer_.start_at(reactor_.now());
}

/// A further backup is being lost, and that was no planned stop: no more copies are put off.
void ReplicaManager::give_up_returns() {
  const auto unplanned = [this](uint64_t server_id) {
    first_.assert_here();
    return !awaited_.expects(server_id);
  };
  if (std::ranges::any_of(backups_.losing(), unplanned)) awaited_.give_up_all();
}

/// Not if it lacks another replica as well, or more than writes may lack.
bool ReplicaManager::may_put_off(const SegmentReplicas& replicas, uint64_t server_id) const {
  if (!awaited_.expects(server_id) || replicas.repairing) return false;
  if (replicas.segment->abandoned()) return false;  // it gets no more replicas
  const auto closed =
      std::ranges::count_if(replicas.slots, [](const auto& slot) { return slot->closed(); });
  return closed >= std::max({1u, options_.replicas - 1, options_.min_replicas});
}

/// The segment lacks a replica, and nothing is expected of a backup that stopped.
void ReplicaManager::repair(SegmentReplicas& replicas) {
  replicas.awaits = 0;
  repairs_.add(replicas);
}

/// Copies of what did not come back in time begin, a slice each turn.
bool ReplicaManager::drive_awaited() {
  awaited_.end_until(reactor_.now());
  uint64_t looks = 0;
  for (; looks < kMostOffersAtOnce; ++looks) {
    const auto put_off = awaited_.take();
    if (!put_off) break;
    const auto found = segments_.find(put_off->segment_id);
    if (found == segments_.end() || found->second.awaits != put_off->server_id) continue;
    RC_SOMETIMES("replication.copy_is_put_off_no_longer");
    repair(found->second);
  }
  effort_.segments += looks;
  if (const Time next = awaited_.next_end(); next != kNever) wake_at(next);
  return looks > 0;
}

// ---- offers

/// The list may show a backup that came back. Without this wait the first copies would begin before
/// it can say what it has; and the only backup that can take them may be the one that has them. At
/// most a sixth of the time is waited, however many servers come.
void ReplicaManager::expect_offers() {
  uint64_t newest = newest_server_;
  for (const ListedServer& server : servers_.servers()) newest = std::max(newest, server.server_id);
  const bool came = newest > newest_server_;
  newest_server_ = newest;
  if (came && reactor_.now() >= copies_from_ + 5 * kOfferTime) {
    copies_from_ = reactor_.now() + kOfferTime;
  }
}

void ReplicaManager::offered(uint64_t backup_id, std::span<const uint64_t> segment_ids) {
  first_.assert_here();
  if (stopped_ || log_ == nullptr) return;
  for (const uint64_t id : segment_ids) {
    if (may_be_offered(id)) adoptions_.add(segments_.at(id), backup_id);
  }
  if (adoptions_.empty()) return;
  due_ = true;
  timer_.start_at(reactor_.now());
}

/// It is settled, and lacks a replica or soon will: the list may show a loss that is not handled
/// yet.
bool ReplicaManager::may_be_offered(uint64_t segment_id) {
  const auto found = segments_.find(segment_id);
  if (found == segments_.end()) return false;
  const SegmentReplicas& replicas = found->second;
  if (!replicas.settled() || replicas.segment->abandoned()) return false;
  return replicas.any([&](const ReplicaSlot& slot) {
    first_.assert_here();
    return !slot.placed() || !servers_.is_live(slot.server_id()) ||
           backups_.is_being_lost(slot.server_id());
  });
}

/// Only once all losses are handled: until then lost replicas seem to be there.
bool ReplicaManager::drive_adoptions() {
  if (list_changed_ || !backups_.losing().empty()) return false;
  bool worked = false;
  uint64_t looks = 0;
  for (const uint64_t server_id : adoptions_.backups()) {
    if (!servers_.is_live(server_id)) adoptions_.give_up(server_id);
    const bool given_up = adoptions_.is_given_up(server_id);
    for (; looks < kMostOffersAtOnce; ++looks) {
      const auto id = given_up ? adoptions_.take_any(server_id) : adoptions_.take(server_id);
      if (!id) break;
      worked = true;
      const auto found = segments_.find(*id);
      if (found == segments_.end()) continue;
      Adoptions::release(found->second, server_id);
      if (given_up) {
        RC_SOMETIMES("replication.offers_of_a_backup_are_given_up");
      } else {
        begin_adoption(found->second, *servers_.find(server_id));
      }
    }
  }
  effort_.segments += looks;
  return worked;
}

/// The replica that the backup may take over; null if there is none.
ReplicaSlot* ReplicaManager::slot_to_adopt(SegmentReplicas& replicas, const ListedServer& backup) {
  const auto& domain = backup.failure_domain;
  if (!backup.locator || replicas.takes_none_from(backup.server_id)) return nullptr;
  if (domain == options_.failure_domain || backup.server_id == options_.master_id) return nullptr;
  ReplicaSlot* lacking = nullptr;
  for (const auto& slot : replicas.slots) {
    if (slot->placed() && slot->failure_domain() == domain) return nullptr;
    if (!slot->placed() && lacking == nullptr) lacking = slot.get();
  }
  return lacking;
}

void ReplicaManager::begin_adoption(SegmentReplicas& replicas, const ListedServer& backup) {
  ReplicaSlot* slot = slot_to_adopt(replicas, backup);
  if (slot == nullptr) {
    RC_SOMETIMES("replication.offer_is_not_needed_any_more");
    return;
  }
  const log::Segment& segment = *replicas.segment;
  const uint64_t number = adoptions_.asked(backup.server_id);
  if (slot->state().placement_failed) shortage_.end();
  slot->ask_to_adopt(backup.server_id, *backup.locator, backup.failure_domain, number);
  backups_.add(*slot);
  replicas.update_holders();
  wire::AdoptRequest request{
      .master_id = options_.master_id,
      .segment_id = segment.id(),
      .epoch = segment.replication_epoch(),
      .length = segment.published(),
      .certificate = log::certificate_of(segment.bytes(), segment.published()),
      .primary = slot->primary(),
      .holders = {},
      .list_version = servers_.version()};
  for (const auto& one : replicas.slots) {
    if (one->placed()) request.holders.push_back(one->server_id());
  }
  AdoptionAnswer answer;
  answer.segment_id = segment.id();
  answer.server_id = backup.server_id;
  answer.number = number;
  scope_.spawn(ask_to_adopt(*backup.locator, std::move(request), std::move(answer)));
}

// ---- requests

/// The replica that waits for the answer. Null if it does not wait any more: it was given up, or
/// its segment is gone.
ReplicaSlot* ReplicaManager::slot_waiting_for(const AdoptionAnswer& answer) {
  const auto found = segments_.find(answer.segment_id);
  if (found == segments_.end()) return nullptr;
  for (const auto& slot : found->second.slots) {
    if (slot->adopting() && slot->adoption_number() == answer.number) return slot.get();
  }
  return nullptr;
}

/// Notes the outcome; take_adoptions() acts on it.
Task<void> ReplicaManager::ask_to_adopt(Locator locator, wire::AdoptRequest request,
                                        AdoptionAnswer answer) {
  const Time until = reactor_.now() + kMostPutOff;
  for (uint32_t unanswered = 0;;) {
    const Time sent = reactor_.clock().lease_now();
    const RpcReply reply = co_await rpc_.call_with(
        locator, answer.server_id, wire::Opcode::kReplicaAdopt, RpcClient::body_of(request),
        reactor_.now() + options_.open_timeout);
    first_.assert_here();
    RC_FAILPOINT("replication.adoption.answered");
    note_answer(answer.server_id, reply.status, sent);
    answer.note(reply, request.length);
    const bool silent = is_silence(reply.status);
    const bool again = reply.status == StatusCode::kRetry || (silent && ++unanswered < kAttempts);
    const Duration pause =
        std::max<Duration>(std::chrono::microseconds(reply.retry_after_us),
                           silent ? options_.max_retry_delay : options_.retry_delay);
    if (!again || reactor_.now() + pause > until) break;
    RC_SOMETIMES("replication.adoption_is_asked_for_again");
    co_await reactor_.sleep(pause);
    first_.assert_here();
    if (slot_waiting_for(answer) == nullptr) break;
  }
  adoption_answers_.push_back(std::move(answer));
  due_ = true;
  timer_.start_at(reactor_.now());
}

/// A backup of an earlier version does not know the request, so it wrote nothing.
void ReplicaManager::AdoptionAnswer::note(const RpcReply& reply, uint32_t least) {
  status = reply.status;
  const bool proved = (reply.details.flags & wire::ErrorDetails::kNothingWritten) != 0 ||
                      status == StatusCode::kUnsupported || !reply.sent;
  nothing_written = nothing_written && proved;
  if (!status.ok()) return;
  const auto adopted = decode_message<wire::Adopted>(reply);
  if (!adopted) {
    status = adopted.error();
  } else if (adopted->length < least) {
    status = {StatusCode::kProtocolError,
              fmt::format("adopted {} bytes, the segment has {}", adopted->length, least)};
  } else {
    acked = {adopted->length, adopted->epoch};
  }
}

bool ReplicaManager::take_adoptions() {
  const auto answers = std::exchange(adoption_answers_, {});
  for (const AdoptionAnswer& answer : answers) take_adoption(answer);
  return !answers.empty();
}

void ReplicaManager::take_adoption(const AdoptionAnswer& answer) {
  adoptions_.answered(answer.server_id);
  // What else it offers is copied, unless it offers that again.
  if (is_silence(answer.status)) adoptions_.give_up(answer.server_id);
  ReplicaSlot* slot = slot_waiting_for(answer);
  if (slot == nullptr) {
    RC_SOMETIMES("replication.adoption_ends_without_its_replica");
    return;
  }
  SegmentReplicas& replicas = replicas_of(*slot);
  if (answer.status.ok()) {
    RC_SOMETIMES("replication.replica_is_adopted");
    slot->adopted(answer.acked);
    replicas.awaits = 0;
    use_compacted(replicas);
    backups_.accepted(answer.server_id);
    ++adopted_;
    if (options_.adopted != nullptr) options_.adopted->add();
    log_info("replication.adopted", {{"segment", answer.segment_id}, {"server", answer.server_id}});
  } else {
    adoption_failed(*slot, answer);
    repair(replicas);
  }
  recount(replicas);
}

/// A refusal does not keep other replicas from that backup: one frame that is unfit says nothing of
/// the rest.
void ReplicaManager::adoption_failed(ReplicaSlot& slot, const AdoptionAnswer& answer) {
  log_info("replication.not_adopted",
           {{"segment", answer.segment_id}, {"server", answer.server_id}, {"why", answer.status}});
  if (!answer.nothing_written) slot.adoption_is_unclear();
  switch (reaction_to(answer.status.code(), slot.state())) {
    case Reaction::kStop:
      RC_SOMETIMES("replication.adoption_tells_a_zombie");
      stop_serving(answer.status);
      break;
    case Reaction::kReportBroken:
      if (std::ranges::find(broken_, answer.server_id) == broken_.end()) {
        broken_.push_back(answer.server_id);
      }
      [[fallthrough]];
    case Reaction::kSendWhenTold:
    case Reaction::kBackOff:
    case Reaction::kPlaceElsewhere:
    case Reaction::kGiveUp:
      if (slot.state().may_exist) {
        RC_SOMETIMES("replication.adoption_is_given_up");
        note_given_up(slot);
        lose_refused(slot, answer.status);
      } else {
        RC_SOMETIMES("replication.adoption_is_refused");
        unplace(slot, ReplicaEvent::kRefused);
        if (answer.status == StatusCode::kIoError) {
          backups_.begin_losing(answer.server_id, answer.status);
        }
      }
      break;
    case Reaction::kLose:
      lose_refused(slot, answer.status);
      break;
  }
}

}  // namespace ramcloud
