#include "replication/replica_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "rpc/back_off.h"

namespace ramcloud {
namespace {

/// How often placement is tried again when no backup can take a replica. A new server list triggers
/// it, too.
constexpr Duration kPlacementInterval = 100ms;

}  // namespace

ReplicaManager::ReplicaManager(RpcClient& rpc, ServerList& servers, Options options)
    : rpc_(rpc),
      reactor_(rpc.reactor()),
      servers_(servers),
      options_(std::move(options)),
      first_reactor_inbox_(reactor_),
      repairs_(options_.concurrent_repairs),
      newest_server_(options_.master_id),
      backups_({options_.refused_delay, options_.max_refused_delay, options_.max_no_frame_delay}),
      silence_to_first_(options_.backup_silence),
      timer_(reactor_,
             [this] {
               first_.assert_here();
               due_ = true;
             }),
      silence_(options_.backup_silence),
      subscription_(servers.subscribe([this] {
        first_.assert_here();
        list_changed_ = due_ = true;
        timer_.start_at(reactor_.now());
      })),
      scope_(reactor_) {
  if (options_.failure_domain.empty()) {
    options_.failure_domain = fmt::format("server:{}", options_.master_id);
  }
  if (options_.lease != nullptr) lease_.emplace(*options_.lease, options_.read_lease);
  if (options_.min_replicas == 0) options_.min_replicas = std::max(2u, options_.replicas) - 1;
}

ReplicaManager::~ReplicaManager() {
  detach();
}

ReplicaLane& ReplicaManager::add_lane(RpcClient& rpc, Counter& messages) {
  lanes_.push_back(
      std::make_unique<ReplicaLane>(rpc, messages, options_.replicas, options_.write_timeout));
  return *lanes_.back();
}

void ReplicaManager::attach(log::Log& log) {
  log_ = &log;
  reactor_.add_hook(this);
}

void ReplicaManager::detach() {
  first_.assert_here();
  if (log_ == nullptr) return;
  reactor_.remove_hook(this);
  timer_.stop();
  for (auto& [id, replicas] : segments_) {
    for (auto& slot : replicas.slots) slot->drop_call();
  }
  for (auto& lane : lanes_) lane->stop();
  log_ = nullptr;
}

void ReplicaManager::segment_opened(log::Segment& segment) {
  if (!replicates()) return;
  {
    const MutexGuard guard(opened_mutex_);
    opened_.push_back(&segment);
  }
  has_opened_.store(true, std::memory_order_release);
  ask_first_reactor();
}

/// Only the first reactor sends the close; this may be called on any thread that appends or cleans.
void ReplicaManager::segment_closed(log::Segment&) {
  ask_first_reactor();
}

void ReplicaManager::segment_removed(log::Segment& segment) {
  {
    const MutexGuard guard(opened_mutex_);
    removed_.push_back(&segment);
  }
  has_reported_.store(true, std::memory_order_release);
  ask_first_reactor();
}

void ReplicaManager::segment_compacted(log::Segment& before, log::Segment& after) {
  {
    const MutexGuard guard(opened_mutex_);
    compacted_.push_back({&before, &after});
  }
  has_reported_.store(true, std::memory_order_release);
  ask_first_reactor();
}

// ---- placement

bool ReplicaManager::place(SegmentReplicas& replicas, ReplicaSlot& slot) {
  if (replicas.only_adopts()) return false;  // drive_adoptions() places it
  const Time now = reactor_.now();
  if (replicas.settled() && now < copies_from_) {
    wake_at(copies_from_);
    return false;
  }
  if (now < slot.not_before()) {
    wake_at(slot.not_before());
    return false;
  }
  const auto candidates = placement_servers(replicas);
  std::vector<std::string> taken = {options_.failure_domain};
  for (const auto& other : replicas.slots) {
    if (other->placed()) taken.push_back(other->failure_domain());
  }
  const auto chosen = choose_backup(candidates, taken, slot.primary(), reactor_.random());
  if (!chosen) {
    no_backup_available(replicas, slot,
                        check_domains(candidates, options_.failure_domain, options_.replicas));
    return false;
  }
  if (slot.state().placement_failed) shortage_.end();
  const PlacementServer& server = candidates[*chosen];
  slot.place(server.server_id, *servers_.find(server.server_id)->locator, server.failure_domain);
  backups_.add(slot);
  replicas.update_holders();
  return true;
}

/// No backup can take the replica now. After `degrade_after` the segment goes on without it.
void ReplicaManager::no_backup_available(const SegmentReplicas& replicas, ReplicaSlot& slot,
                                         Status why) {
  const Time now = reactor_.now();
  if (why.ok()) {
    why = {StatusCode::kNoSpace, "the backups in other failure domains refuse new replicas"};
  }
  if (shortage_.note(why, now)) {
    log_warn("replication.waiting", {{"segment", replicas.segment->id()}, {"why", why}});
  }
  const bool was_optional = slot.state().optional;
  slot.placement_failed(shortage_.lasted(now) >= options_.degrade_after);
  if (!was_optional && slot.state().optional) note_progress(slot);
  slot.wait_until(now + kPlacementInterval);
  wake_at(slot.not_before());
}

Status ReplicaManager::shortage_of(const log::Segment& segment) {
  first_.assert_here();
  const auto found = segments_.find(segment.id());
  if (found == segments_.end()) return {};
  if (needs_no_lock(segment)) return shortage_in(found->second);
  const Hold hold(*this);
  return shortage_in(found->second);
}

Status ReplicaManager::shortage_in(const SegmentReplicas& replicas) const {
  const auto placed =
      std::ranges::count_if(replicas.slots, [](const auto& slot) { return slot->placed(); });
  const bool failed = replicas.any(
      [](const ReplicaSlot& slot) { return !slot.placed() && slot.state().placement_failed; });
  return failed && placed < options_.min_replicas ? shortage_.why() : Status();
}

std::vector<PlacementServer> ReplicaManager::placement_servers(
    const SegmentReplicas& replicas) const {
  const auto kind = replicas.gets_copies() ? BackupTable::Kind::kCopy : BackupTable::Kind::kHead;
  std::vector<PlacementServer> candidates;
  for (const ListedServer& server : servers_.servers()) {
    if (!server.live() || server.server_id == options_.master_id) continue;
    PlacementServer candidate;
    candidate.server_id = server.server_id;
    candidate.failure_domain = server.failure_domain;
    candidate.read_bytes_per_second = server.disk_read_bytes_per_second;
    candidate.usable = server.locator.has_value() && !replicas.takes_none_from(server.server_id);
    backups_.describe(candidate, kind, reactor_.now());
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

// ---- outcomes of calls

void ReplicaManager::take_answer_of(ReplicaSlot& slot) {
  RC_FAILPOINT("replication.message.answered");
  const bool leases = slot.may_end_log();
  const bool was_closed = slot.closed();
  const uint64_t server_id = slot.server_id();
  const Time sent = slot.call()->sent();
  const ReplicaSlot::Answer answer = slot.take_answer();
  note_answer(server_id, answer.status, sent);
  if (leases) {
    lock_.assert_held();
    if (answer.status.ok()) lease_confirmed(server_id, sent);
    if (!slot.may_end_log()) lease_released(server_id);
  }
  if (answer.status.ok()) {
    replica_advanced(slot, was_closed);
  } else {
    replica_failed(slot, answer);
  }
  if (slot.segment().closed_durable()) recount(replicas_of(slot));
}

/// The outcome of a message that was sent at `sent`, a time of the lease clock.
void ReplicaManager::note_answer(uint64_t server_id, const Status& status, Time sent) {
  if (is_silence(status)) {
    if (servers_.is_live(server_id)) silence_to_first_.unanswered(server_id, sent);
    return;
  }
  silence_to_first_.heard(server_id);
  if (!cut_off_.empty()) cut_off_.erase(server_id);
}

/// A replica that was closed before (`was_closed`) was only asked whether it is still there.
void ReplicaManager::replica_advanced(ReplicaSlot& slot, bool was_closed) {
  backups_.accepted(slot.server_id());
  if (!slot.segment().closed_durable()) {
    note_progress(slot);
  } else if (slot.closed() && !was_closed) {
    ++recreated_;
    if (options_.copied != nullptr) options_.copied->add();
  }
}

/// The durable position may be higher now: more was acknowledged, or a replica became optional.
void ReplicaManager::note_progress(const ReplicaSlot& slot) {
  if (needs_no_lock(slot.segment())) return;
  lock_.assert_held();
  progress_ = true;
}

void ReplicaManager::back_off(ReplicaSlot& slot) {
  const auto doublings = std::min<uint32_t>(slot.failures(), 10);
  slot.count_failure();
  const Duration delay =
      std::min(options_.retry_delay * (1 << doublings), options_.max_retry_delay);
  slot.wait_until(reactor_.now() + delay);
}

void ReplicaManager::replica_failed(ReplicaSlot& slot, const ReplicaSlot::Answer& answer) {
  const Status& status = answer.status;
  switch (reaction_to(status.code(), slot.state())) {
    case Reaction::kSendWhenTold:
      slot.wait_until(reactor_.now() +
                      std::clamp<Duration>(std::chrono::microseconds(answer.retry_after_us),
                                           options_.retry_delay, BackOff::kMostAsked));
      break;
    case Reaction::kReportBroken:
      if (std::ranges::find(broken_, slot.server_id()) == broken_.end()) {
        broken_.push_back(slot.server_id());
      }
      back_off(slot);
      break;
    case Reaction::kBackOff:
      back_off(slot);
      break;
    case Reaction::kStop:
      RC_SOMETIMES("replication.backup_tells_a_zombie");
      stop_serving(status);
      break;
    case Reaction::kPlaceElsewhere:
      place_elsewhere(slot, status);
      break;
    case Reaction::kGiveUp:
      note_given_up(slot);
      [[fallthrough]];
    case Reaction::kLose:
      lose_refused(slot, status);
      break;
  }
  // In each case there is something to do later, for which no other timer may be set.
  wake_at(std::max(reactor_.now(), slot.not_before()));
}

/// The backup refused and says that it wrote nothing: choose another one.
void ReplicaManager::place_elsewhere(ReplicaSlot& slot, const Status& status) {
  RC_SOMETIMES("replication.backup_refuses_an_open");
  const uint64_t server_id = slot.server_id();
  log_debug("replication.refused",
            {{"server", server_id}, {"segment", slot.segment().id()}, {"why", status}});
  if (replicas_of(slot).gets_copies() && status == StatusCode::kNoSpace) {
    backups_.has_no_frame_for_copies(server_id, reactor_.now());
  } else {
    backups_.refused(server_id, reactor_.now());
  }
  unplace(slot, ReplicaEvent::kRefused);
  note_progress(slot);
  if (status == StatusCode::kIoError) backups_.begin_losing(server_id, status);
}

/// The backup may still have the replica. It is told to free the replica once R others count, and
/// may have this segment again when it has done so.
void ReplicaManager::note_given_up(const ReplicaSlot& slot) {
  SegmentReplicas& replicas = replicas_of(slot);
  std::erase(replicas.freed, slot.server_id());
  replicas.banned.push_back(slot.server_id());
  given_up_.push_back({slot.segment().id(), slot.server_id()});
}

/// The backup's answer means that the replica is lost.
void ReplicaManager::lose_refused(ReplicaSlot& slot, const Status& status) {
  const uint64_t server_id = slot.server_id();
  backups_.refused(server_id, reactor_.now());
  lose(replicas_of(slot), slot, status);
  if (status == StatusCode::kIoError) backups_.begin_losing(server_id, status);
}

/// A replica that had (or may have) been opened is no longer there. If the segment is not settled,
/// the other replicas get a higher epoch. If the lost replica comes back, its lower epoch shows
/// that it lacks what was acknowledged since.
void ReplicaManager::lose(SegmentReplicas& replicas, ReplicaSlot& slot, const Status& why) {
  log_warn("replication.replica_lost",
           {{"server", slot.server_id()}, {"segment", replicas.segment->id()}, {"why", why}});
  ++lost_;
  ++effort_.losses;
  if (std::ranges::find(replicas.lost_backups, slot.server_id()) == replicas.lost_backups.end()) {
    replicas.lost_backups.push_back(slot.server_id());
    backups_.missed(slot.server_id());
  }
  const uint64_t server_id = slot.server_id();
  const log::Segment& segment = *replicas.segment;
  const bool settled = segment.closed_durable();
  if (segment.side() && !settled) {
    RC_SOMETIMES("replication.replica_of_a_side_segment_is_lost");
    return unplace(slot, ReplicaEvent::kLost);
  }
  const bool head = !settled && !segment.closed() && log_->head().segment_id() == segment.id();
  const LossAction action = action_on_loss(slot.state(), settled, head);
  unplace(slot, ReplicaEvent::kLost);
  if (action == LossAction::kRepair) {
    RC_SOMETIMES("replication.replica_of_closed_segment_is_lost");
    recount(replicas);
    if (!may_put_off(replicas, server_id)) return repair(replicas);
    RC_SOMETIMES("replication.copy_is_put_off");
    return awaited_.put_off(replicas, server_id);
  }
  lock_.assert_held();
  raise_epoch();
  // New data goes into a new head that has all its replicas; the old head is closed and copied.
  if (action == LossAction::kRaiseEpochAndRoll) roll_wanted_ = true;
}

void ReplicaManager::unplace(ReplicaSlot& slot, ReplicaEvent why) {
  const uint64_t server_id = slot.server_id();
  const bool leases = slot.may_end_log();
  backups_.remove(slot);
  slot.unplace(why);
  if (leases) {
    lock_.assert_held();
    lease_lost(server_id);
  }
  slot.wait_until(reactor_.now());
}

SegmentReplicas& ReplicaManager::replicas_of(const ReplicaSlot& slot) {
  return segments_.at(slot.segment().id());
}

void ReplicaManager::stop_serving(const Status& why) {
  if (stopped_) return;
  stopped_ = true;  // a lane that sees it late sends messages that the backups refuse
  condemned_why_ = why;
  if (options_.lease != nullptr) options_.lease->end();
  log_error("replication.condemned", {{"master", options_.master_id}, {"why", why}});
}

// ---- the fence

void ReplicaManager::raise_epoch() {
  if (!fence_.holds()) RC_SOMETIMES("replication.another_replica_is_lost_behind_the_fence");
  if (!log_->takes_data()) RC_SOMETIMES("replication.fence_is_raised_while_the_head_rolls");
  RC_FAILPOINT("replication.epoch.before_raise");
  fence_.raise();
  for (SegmentReplicas* replicas : unsettled_) {
    replicas->segment->set_replication_epoch(fence_.epoch());
  }
}

/// True if the coordinator may get the new epoch, as far as this segment matters. No replica may be
/// behind. If recovery may need the segment, at least one replica must count: if none does, the lost
/// replicas are its only copies, and the fence would make recovery refuse them. A head that was
/// opened ahead is not needed if the log then waits for it to be open again before it closes the
/// present head.
bool ReplicaManager::may_be_fenced(const SegmentReplicas& replicas) {
  if (replicas.any([](const ReplicaSlot& slot) { return slot.behind(); })) return false;
  log::Segment& segment = *replicas.segment;
  if (segment.abandoned() || !segment.opened_durable()) return true;
  if (replicas.any([](const ReplicaSlot& slot) { return slot.counts(); })) return true;
  if (log_->withdraw_opened(segment)) {
    RC_SOMETIMES("replication.all_replicas_of_the_head_opened_ahead_are_lost");
    return true;
  }
  RC_SOMETIMES("replication.fence_waits_for_a_replica_that_counts");
  return false;
}

void ReplicaManager::drive_fence() {
  if (fence_.holds()) {
    if (std::exchange(roll_wanted_, false)) {
      RC_SOMETIMES("replication.head_rolls_after_a_loss");
      roll_head();
    }
    return;
  }
  for (const SegmentReplicas* replicas : unsettled_) {
    if (!may_be_fenced(*replicas)) return;
  }
  if (unsettled_.empty()) return;
  if (const auto epoch = fence_.begin_telling()) {
    fence_to_raise_ = {unsettled_.front()->segment->id(), *epoch};
  }
}

void ReplicaManager::take_fence_answer() {
  RC_FAILPOINT("replication.epoch.confirmed");
  const FenceAnswer answer = *std::exchange(fence_answer_, std::nullopt);
  if (!answer.status.ok()) return stop_serving(answer.status);
  fence_.confirm(answer.epoch);
  if (lease_) lease_->fenced(answer.epoch);
  log_info("replication.fenced", {{"epoch", fence_.epoch()}, {"holds", fence_.holds()}});
  progress_ = true;
  wake_at(reactor_.now());
}

/// Switches to a new head, unless that would take the last free memory. Then the head stays, and
/// its lost replica is copied while it grows.
void ReplicaManager::roll_head() {
  RC_FAILPOINT("replication.head.before_roll");
  const log::Segment& last = *unsettled_.back()->segment;
  const bool ahead = last.id() > log_->head().segment_id() && !last.from_reserve();
  if (ahead || log_->has_segment_for(log::MemoryPurpose::kWrites)) (void)log_->roll_head();
}

// ---- the server list

void ReplicaManager::apply_server_list() {
  const ListedServer* self = servers_.find(options_.master_id);
  if (self != nullptr && !self->live()) {
    return stop_serving(
        {StatusCode::kCrashed, fmt::format("server list {} says that server {} crashed",
                                           servers_.version(), options_.master_id)});
  }
  expect_offers();
  // A new backup may take replicas that no other could. (Only the first few repairs are tried now;
  // the others when it is their turn.)
  const auto try_again = [this](SegmentReplicas& replicas) {
    for (auto& slot : replicas.slots) {
      if (!slot->placed()) slot->wait_until(reactor_.now());
    }
  };
  for (SegmentReplicas* replicas : unsettled_) try_again(*replicas);
  repairs_.for_next(try_again);
  const auto is_live = [this](uint64_t server_id) { return servers_.is_live(server_id); };
  silence_.forget_unless(is_live);
  silence_to_first_.forget_unless(is_live);
  std::erase_if(next_free_, [&](const auto& one) { return !is_live(one.first); });
  for (auto at = backups_.first_from(0); at; at = backups_.first_from(*at + 1)) {
    if (servers_.is_live(*at)) continue;
    if (!backups_.is_being_lost(*at)) expect_return(*at);
    backups_.begin_losing(
        *at, {StatusCode::kCrashed, fmt::format("server list {}", servers_.version())});
  }
}

// ---- statistics

/// Called after each change of a replica of a settled segment, and in each turn for segments that
/// are not settled.
void ReplicaManager::recount(SegmentReplicas& replicas) {
  if (!replicas.lost_backups.empty()) forget_lost_backups(replicas);
  if (!replicas.settled()) return;
  settled_counts_.take_away(std::exchange(replicas.counted, replicas.compute_counts()));
  settled_counts_.add(replicas.counted);
}

/// When all R replicas count, each has all acknowledged bytes: the lost replicas are no longer
/// needed.
void ReplicaManager::forget_lost_backups(SegmentReplicas& replicas) {
  if (!replicas.fully_replicated()) return;
  for (const uint64_t server_id : replicas.lost_backups) backups_.not_missed(server_id);
  replicas.lost_backups.clear();
}

ReplicationStats ReplicaManager::stats() {
  first_.assert_here();
  ReplicationStats stats;
  stats.replicas_wanted = options_.replicas;
  stats.replicas_lost = lost_;
  stats.replicas_recreated = recreated_;
  stats.replicas_adopted = adopted_;
  stats.epoch = fence().epoch();
  stats.waiting = shortage_.why();
  SegmentCounts counts = settled_counts_;
  stats.writes_wait = !fence().holds();
  {
    const Hold hold(*this);
    stats.messages = messages_ + lane_messages_;
    for (const SegmentReplicas* open : unsettled_) {
      counts.add(open->compute_counts());
      const auto placed =
          std::ranges::count_if(open->slots, [](const auto& slot) { return slot->placed(); });
      stats.writes_wait = stats.writes_wait || placed < options_.min_replicas;
    }
    most_under_lock_.raise({.segments = unsettled_.size()});
  }
  stats.segments = counts.segments;
  stats.fully_replicated = counts.fully_replicated;
  stats.under_replicated = counts.segments - counts.fully_replicated;
  stats.degraded = counts.degraded;
  stats.unreplicated_bytes = counts.unreplicated_bytes;
  if (!replicates() && log_ != nullptr) {
    stats.segments = stats.fully_replicated = log_->segments().size();
  }
  return stats;
}

std::string ReplicaManager::check_counts() const {
  first_.assert_here();
  SegmentCounts counts;
  std::map<uint64_t, uint64_t> on_backups, left_on;
  for (const auto& [id, replicas] : segments_) {
    for (const uint64_t server_id : replicas.lost_backups) ++left_on[server_id];
    for (const auto& slot : replicas.slots) {
      if (!slot->placed()) continue;
      ++on_backups[slot->server_id()];
      if (!backups_.knows(*slot)) {
        return fmt::format("server {} does not know that a replica of segment {} is there",
                           slot->server_id(), id);
      }
    }
    if (!replicas.settled()) continue;
    const bool lacks = !replicas.segment->abandoned() && !replicas.all_closed();
    if (lacks ? replicas.repairing == (replicas.awaits != 0) : replicas.awaits != 0) {
      return fmt::format("segment {} {}, is {}in the queue of repairs and waits for server {}", id,
                         lacks ? "lacks a replica" : "is whole", replicas.repairing ? "" : "not ",
                         replicas.awaits);
    }
    const SegmentCounts now = replicas.compute_counts();
    if (now != replicas.counted) return fmt::format("segment {} changed and was not counted", id);
    counts.add(now);
  }
  if (counts != settled_counts_) {
    return fmt::format(
        "{} segments are settled, {} of them with all replicas; counted are {} and "
        "{}",
        counts.segments, counts.fully_replicated, settled_counts_.segments,
        settled_counts_.fully_replicated);
  }
  if (left_on != backups_.missed_by())
    return "backups that had replicas of segments are not counted right";
  for (auto at = backups_.first_from(0); at; at = backups_.first_from(*at + 1)) {
    if (backups_.replicas_on(*at) == on_backups[*at]) continue;
    return fmt::format("server {} has {} replicas; counted are {}", *at, on_backups[*at],
                       backups_.replicas_on(*at));
  }
  return {};
}

std::vector<uint64_t> ReplicaManager::replica_servers(uint64_t segment_id) {
  first_.assert_here();
  const Hold hold(*this);
  std::vector<uint64_t> servers;
  const auto found = segments_.find(segment_id);
  if (found == segments_.end()) return servers;
  for (const auto& slot : found->second.slots) {
    if (slot->counts()) servers.push_back(slot->server_id());
  }
  return servers;
}

void ReplicaManager::for_each_slot(uint64_t first_segment,
                                   const std::function<void(const ReplicaSlot&)>& fn) {
  first_.assert_here();
  const Hold hold(*this);
  for (auto at = segments_.lower_bound(first_segment); at != segments_.end(); ++at) {
    for (const auto& slot : at->second.slots) fn(*slot);
  }
}

}  // namespace ramcloud
