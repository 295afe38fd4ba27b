// ReplicaManager, the drive: turns and lanes, sending, and raising the durable position.
#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "replication/replica_manager.h"

namespace ramcloud {
namespace {

/// Each lane sends what its reactor appended. If published bytes make no progress for this long,
/// that reactor's thread may not be scheduled, and the first reactor sends for it.
constexpr Duration kStalled = 1ms;
/// Bytes of copies that are sent in one turn (the last message may exceed it), so that other work
/// has its turn.
constexpr uint64_t kMostCopiedAtOnce = 256u << 10;

}  // namespace

// ---- the turn

bool ReplicaManager::on_turn() {
  first_.assert_here();
  if (log_ == nullptr || !due() || !lock_.try_enter(DriveLock::Note::kFirst)) return false;
  due_ = false;
  ++turns_with_work_;
  wake_ = kNever;
  bool worked = drive_unsettled();
  (void)lock_.leave([&] {
    first_.assert_here();
    lock_.assert_held();
    worked = drive_unsettled() || worked;
  });
  if (!stopped_) worked = drive_settled() || worked;
  const bool set = timer_.running() && timer_.when() == wake_;
  if (wake_ != kNever && !stopped_ && !set) timer_.start_at(wake_);
  due_ = due_ || worked;  // until there is nothing left to do
  return worked;
}

/// Most turns have no work for the first reactor. Then it looks at no replica, and does not take the
/// lock, which the lanes need.
bool ReplicaManager::due() {
  if (wanted_.load(std::memory_order_relaxed)) {
    due_ = wanted_.exchange(false, std::memory_order_acquire) || due_;
  }
  if (lanes_.empty() && was_appended()) due_ = true;
  return due_ || !first_reactor_inbox_.answered().empty() || stalled();
}

/// Without lanes only the first reactor sends, and nobody tells it what was appended: to the head, or
/// perhaps to a side segment.
bool ReplicaManager::was_appended() {
  const log::LogPosition before = std::exchange(seen_head_, log_->head());
  return seen_head_ != before || !side_.empty();
}

/// Published bytes are not durable, and the durable position did not move. True once for each
/// kStalled.
bool ReplicaManager::stalled() {
  const Time now = reactor_.now();
  const log::LogPosition durable = log_->durable();
  const bool moves = durable != stalled_at_ || durable >= log_->head();
  if (!moves && now - stalled_since_ < kStalled) return false;
  stalled_at_ = durable;
  stalled_since_ = now;
  return !moves;
}

void ReplicaManager::ask_first_reactor() {
  wanted_.store(true, std::memory_order_release);
  reactor_.nudge();
}

bool ReplicaManager::drive_unsettled() {
  effort_ = {};
  const bool worked = drive_unsettled_once();
  most_under_lock_.raise(effort_);
  return worked;
}

/// The first reactor's steps for segments that are not settled, in order.
bool ReplicaManager::drive_unsettled_once() {
  if (stopped_) return false;
  put_off_ = false;
  if (has_opened_.load(std::memory_order_acquire)) take_opened();
  bool worked = take_first_reactor_answers();
  if (fence_answer_) take_fence_answer();
  take_renewals();
  if (stopped_) return true;
  if (std::exchange(list_changed_, false)) {
    apply_server_list();
    worked = true;
    if (stopped_) return true;
  }
  if (!backups_.losing().empty()) lose_unsettled();
  if (silence_.size() + silence_to_first_.size() > 0) lose_silent();
  for (SegmentReplicas* replicas : unsettled_) worked = drive(*replicas) || worked;
  if (!backups_.losing().empty()) lose_unsettled();
  note_lost_abandoned();
  drive_fence();
  if (stopped_) return true;
  if (std::exchange(close_sync_.answered, false)) progress_ = true;
  if (fence_.holds() && std::exchange(progress_, false)) {
    report_progress();
    worked = true;
  }
  drive_close_sync();
  renew_leases();
  return worked || put_off_;
}

/// An abandoned head whose replicas are all lost gets no more answers that would mark progress:
/// note that it is settled.
void ReplicaManager::note_lost_abandoned() {
  for (const SegmentReplicas* replicas : unsettled_) {
    const log::Segment& segment = *replicas->segment;
    if (segment.abandoned() && segment.closed() && replicas->none_open()) progress_ = true;
  }
}

/// Heads come in the order of their ids: the log opens one when the last was reported open.
void ReplicaManager::take_opened() {
  has_opened_.store(false, std::memory_order_relaxed);  // before it looks: what comes later is seen
  const MutexGuard guard(opened_mutex_);
  for (log::Segment* segment : opened_) {
    // The segment takes no data before it is open on its replicas, so no group has an older epoch.
    segment->set_replication_epoch(fence_.epoch());
    SegmentReplicas& replicas = segments_[segment->id()];
    replicas.segment = segment;
    for (uint32_t i = 0; i < options_.replicas; ++i) {
      replicas.slots.push_back(
          std::make_unique<ReplicaSlot>(first_reactor_inbox_, *segment, i == 0));
    }
    if (segment->side()) {
      side_.push_back(&replicas);
    } else {
      unsettled_.push_back(&replicas);
    }
  }
  opened_.clear();
}

/// Takes the answers of the first reactor's calls for segments that are not settled. Another
/// reactor may have taken some already.
bool ReplicaManager::take_first_reactor_answers() {
  bool any = false;
  std::erase_if(first_reactor_inbox_.answered(), [&](ReplicaCall* call) {
    first_.assert_here();
    if (!call->answered() || call->slot() == nullptr) return true;
    if (needs_no_lock(call->slot()->segment())) return false;
    take_answer_of(*call->slot());
    any = true;
    return true;
  });
  return any;
}

void ReplicaManager::wake_at(Time when) {
  wake_ = std::min(wake_, when);
}

bool ReplicaManager::drive(SegmentReplicas& replicas) {
  bool worked = false;
  ++effort_.segments;
  // Place all replicas first: each open message names the backups of all of them.
  for (auto& slot : replicas.slots) {
    if (!slot->placed() && !slot->segment().abandoned()) (void)place(replicas, *slot);
  }
  replicas.update_holders();
  for (auto& slot : replicas.slots) worked = drive_slot(replicas, *slot) || worked;
  recount(replicas);
  return worked;
}

bool ReplicaManager::drive_slot(SegmentReplicas& replicas, ReplicaSlot& slot) {
  const Time now = reactor_.now();
  bool worked = false;
  if (ReplicaCall* call = slot.call()) {
    if (call->answered()) {
      take_answer_of(slot);
      worked = true;
    } else if (call != &slot.first_reactor_call()) {
      return false;  // the call's own reactor watches its deadline
    } else if (now < call->deadline()) {
      wake_at(call->deadline());
      return false;
    } else {
      RC_SOMETIMES("replication.call_is_sent_again");
      note_answer(slot.server_id(), StatusCode::kDeadlineExceeded, call->sent());
      slot.drop_call();
      back_off(slot);
    }
  }
  if (!slot.placed() && (slot.segment().abandoned() || !place(replicas, slot))) return worked;
  if (!slot.wants_to_send()) return worked;
  if (now < slot.not_before()) {
    wake_at(slot.not_before());
    return worked;
  }
  if (slot.copies() && effort_.copied >= kMostCopiedAtOnce) {
    put_off_ = true;
    return worked;
  }
  return send(slot) || worked;
}

bool ReplicaManager::send(ReplicaSlot& slot) {
  const ListedServer* server = servers_.find(slot.server_id());
  if (server == nullptr || !server->locator) return false;  // apply_server_list() unplaces it
  ReplicaCall& call = slot.first_reactor_call();
  if (call.session() == nullptr || call.session()->broken()) {
    call.set_session(rpc_.session(*server->locator, slot.server_id()));
  }
  // An optional replica becomes required when its open is sent. So do not send it without a
  // connection: that may take long (the backup's name does not resolve yet), and writes would wait
  // for it.
  if (slot.state().optional && slot.state().opening() && call.session()->version() == 0) {
    RC_SOMETIMES("replication.optional_replica_waits_for_its_connection");
    wake_at(reactor_.now() + options_.retry_delay);
    return false;
  }
  const Duration timeout = slot.state().opening() ? options_.open_timeout : options_.write_timeout;
  const bool copies = slot.copies();
  const bool leased = slot.may_end_log();
  const uint32_t bytes = slot.send(call, servers_.version(), reactor_.now(), timeout);
  if (slot.may_end_log() && !leased) {
    lock_.assert_held();
    lease_held(slot);
  }
  if (copies) effort_.copied += bytes;
  ++messages_;
  if (options_.messages != nullptr) options_.messages->add();
  wake_at(call.deadline());
  return true;
}

// ---- lanes

bool ReplicaManager::drive(ReplicaLane& lane, bool wanted) {
  const bool news = lane.take_news();
  if ((!wanted && !news) || !lock_.try_enter(DriveLock::Note::kAgain)) return false;
  Driven driven = drive_head(lane);
  const bool tell_first = lock_.leave([&] {
    lock_.assert_held();
    driven.add(drive_head(lane));
  });
  if (driven.ask_first) {
    ask_first_reactor();
  } else if (tell_first) {
    reactor_.nudge();
  }
  return driven.worked;
}

/// New data is in the oldest segment that is not settled: the next one takes none before this one
/// is closed on its replicas. Postcondition: each published byte of the head is acknowledged, or in
/// flight, or queued behind a call in flight, or the first reactor was asked to send it.
ReplicaManager::Driven ReplicaManager::drive_head(ReplicaLane& lane) {
  lane.retract_dropped();
  if (log_ == nullptr || stopped_ || unsettled_.empty()) return {};
  SegmentReplicas& head = *unsettled_.front();
  Driven driven = take_plain_answers(head);
  const bool advanced = driven.worked;
  for (size_t i = 0; i < head.slots.size(); ++i) {
    ReplicaSlot& slot = *head.slots[i];
    if (slot.call() != nullptr || !slot.wants_to_send()) continue;
    if (slot.wants_plain(lane.now()) && lane.send(i, slot)) {
      ++lane_messages_;
      driven.worked = true;
    } else {
      driven.ask_first = true;
    }
  }
  if (!advanced) return driven;
  if (fence_.holds()) {
    (void)raise_durable(head);
  } else {
    progress_ = true;  // the first reactor reports it when the fence holds
  }
  return driven;
}

/// Takes clean acknowledgements, whichever reactor sent the calls. Other answers are left to the
/// first reactor.
ReplicaManager::Driven ReplicaManager::take_plain_answers(SegmentReplicas& head) {
  Driven taken;
  for (const auto& slot : head.slots) {
    const ReplicaCall* call = slot->call();
    if (call == nullptr || !call->answered()) continue;
    if (call->status().ok() && call->message().plain) {
      RC_FAILPOINT("replication.message.answered");
      lease_confirmed(slot->server_id(), call->sent());
      (void)slot->take_answer();
      progress_ = taken.worked = true;
    } else {
      taken.ask_first = true;
    }
  }
  return taken;
}

// ---- durability

/// Reports progress to the log: which segments are open on their backups, which are closed there,
/// and the durable position (docs/design/log.md#replies).
void ReplicaManager::report_progress() {
  bool changed = false;
  for (SegmentReplicas* replicas : unsettled_) {
    log::Segment& segment = *replicas->segment;
    if (segment.opened_durable()) continue;
    const auto has_header = [&](const ReplicaSlot& slot) {
      return slot.acked() >= segment.header_length();
    };
    if (replicas->on_enough(options_.min_replicas, has_header)) {
      segment.mark_opened_durable();
      changed = true;
    }
  }
  changed = settle_abandoned() || changed;
  while (!unsettled_.empty() && settle_front()) changed = true;
  if (changed) log_->on_replication_progress();
}

/// An abandoned head holds no data that must be on R backups, but it must not stay open on any
/// backup. Each of its replicas has confirmed the close or is lost. The fence holds:
/// report_progress() is called only then.
bool ReplicaManager::settle_abandoned() {
  return std::erase_if(unsettled_, [this](SegmentReplicas* replicas) {
           first_.assert_here();
           log::Segment& segment = *replicas->segment;
           if (!segment.abandoned() || !segment.closed() || !replicas->none_open()) return false;
           segment.mark_closed_durable();
           recount(*replicas);
           return true;
         }) > 0;
}

/// Raises the durable position in the oldest segment that is not closed on its replicas. True if it
/// is closed on them now: the next segment is then the oldest.
bool ReplicaManager::settle_front() {
  SegmentReplicas& front = *unsettled_.front();
  log::Segment& segment = *front.segment;
  if (!raise_durable(front) || !segment.closed()) return false;
  const auto is_closed = [](const ReplicaSlot& slot) { return slot.closed(); };
  if (!front.on_enough(options_.min_replicas, is_closed) || !close_will_last(front)) return false;
  segment.mark_closed_durable();
  unsettled_.pop_front();
  recount(front);
  if (!front.all_closed()) repairs_.add(front);
  return true;
}

/// Raises the durable position to the last byte that enough replicas have. False if not enough
/// replicas count.
bool ReplicaManager::raise_durable(const SegmentReplicas& front) {
  const auto acked = front.durable_bytes(options_.min_replicas);
  if (!acked) return false;
  if (*acked > 0) log_->set_durable(front.segment->position(*acked));
  return true;
}

}  // namespace ramcloud
