#include "coordinator/core/recovery.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "coordinator/core/checks.h"
#include "coordinator/core/lost_ranges.h"
#include "coordinator/core/volumes.h"

namespace ramcloud {
namespace {

/// A source did not answer, or not in time. It may answer others: reading its replica again tells
/// nothing, but another recovery master may get it.
bool no_answer(const Status& why) {
  switch (why.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kConnectionLost:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kWrongServer:
    case StatusCode::kRetry:
      return true;
    default:
      return false;
  }
}

}  // namespace

uint64_t version_floor(uint64_t unix_ms) {
  return unix_ms << 16;
}

uint64_t RecoveryShared::next_attempt() {
  last_attempt = std::max(last_attempt + 1, ledger.next_revision());
  for (const auto& [id, table] : state.tables) {
    for (const TabletRecord& tablet : table.tablets) {
      last_attempt = std::max(last_attempt, tablet.attempt + 1);
    }
  }
  return last_attempt;
}

Recovery::Recovery(RecoveryShared& shared, uint64_t master_id)
    : shared_(shared),
      state_(shared.state),
      master_id_(master_id),
      others_begin_(shared.reactor),
      frames_(shared.options.plan.part_bytes),
      in_vain_back_off_(shared.options.in_vain_min, shared.options.in_vain_max),
      back_off_(shared.options.again_min, shared.options.again_max),
      news_(shared.reactor),
      parts_moved_(shared.reactor),
      scope_(shared.reactor) {}

void Recovery::news() {
  if (query_) query_->membership_changed();
  if (replayed_ != nullptr && may_have_what_is_lost(*replayed_)) look_again();
  news_.set();
  news_.reset();
}

/// A volume has come back that was not considered when the end of this log was decided.
bool Recovery::may_have_what_is_lost(const FoundLog& log) const {
  if (!log.lacks_something()) return false;
  const auto considered = [&log](uint64_t id) { return log.considered.contains(id); };
  return std::ranges::any_of(state_.servers, [&](const auto& entry) {
    const auto& [id, server] = entry;
    if (!server.up() || considered(id)) return false;
    const std::vector<uint64_t> ids = servers_of_volume(state_, id);
    const bool fresh = ids.size() == 1 && server.record.volume == id;
    return !fresh && std::ranges::none_of(ids, considered);
  });
}

/// What was not handed over is recovered again, from a log that lacks less.
void Recovery::look_again() {
  RC_SOMETIMES("coordinator.recovery_looks_again_when_a_volume_comes_back");
  log_info("recovery.looks_again",
           {{"master", master_id_}, {"why", "a volume came back, and a part of the log is lost"}});
  replayed_ = nullptr;
  query_again_ = true;
  for (Running& one : parts_) {
    one.part.abandon({StatusCode::kRetry, "a volume came back that may have more of the log"});
  }
}

std::vector<LostRange> Recovery::lost() const {
  std::vector<LostRange> ranges;
  for (const auto& [id, table] : state_.tables) {
    // Tables that are being created or dropped are handled by Tables.
    if (table.state != TableState::kNormal) continue;
    for (const TabletRecord& tablet : table.tablets) {
      const bool has_log = tablet.creation_position != kNobodysPosition;
      if (tablet.server_id == master_id_ && has_log) ranges.push_back(range_of(id, tablet));
    }
  }
  return ranges;
}

/// The tables with tablets that are recorded as this server's only because no server claims them;
/// empty if there are none.
std::string Recovery::nobodys() const {
  std::string names;
  for (const auto& [id, table] : state_.tables) {
    const bool has = std::ranges::any_of(table.tablets, [this](const TabletRecord& tablet) {
      return tablet.server_id == master_id_ && tablet.creation_position == kNobodysPosition;
    });
    if (has && table.state == TableState::kNormal) {
      names += (names.empty() ? "" : ", ") + quoted(table.name);
    }
  }
  return names;
}

bool Recovery::wanted() const {
  return !shared_.ledger.fenced() && (!lost().empty() || !nobodys().empty());
}

Task<void> Recovery::run() {
  begin_to_tell();
  log_info("recovery.begun", {{"master", master_id_}, {"tablets", lost().size()}});
  RC_FAILPOINT("coordinator.recovery.begun");
  while (wanted()) {
    if (state_.format < kTabletsInChunks) {
      show(Phase::kBlocked,
           fmt::format("the metadata has format {}, which cannot record recoveries: it must be "
                       "upgraded with `ramcloud metadata upgrade`",
                       state_.format));
      co_await pause();
      continue;
    }
    if (lost().empty()) {
      show(Phase::kBlocked,
           fmt::format("it is not known who owned a part of {} last when the metadata was "
                       "imported, so no log can be chosen for it; a newer export may show it",
                       nobodys()));
      co_await pause();
      continue;
    }
    if (lacks_frames()) {
      RC_SOMETIMES("coordinator.recovery_waits_for_frames");
      shared_.frame_line.leave(master_id_);
      show(Phase::kWaiting, waits_for_frames());
      co_await pause();
      continue;
    }
    const std::optional<FoundLog> log = co_await find_log();
    if (!log || !co_await its_turn(*log)) continue;
    served_ = false;
    const bool well = co_await attempt(*log);
    shared_.frame_line.end(master_id_, served_);
    if (well) {
      back_off_.reset();
    } else if (wanted()) {
      if (!failures_.empty()) show(Phase::kWaiting, failed_text());
      co_await pause();
    }
  }
  shared_.frame_line.leave(master_id_);
  log_info("recovery.ended", {{"master", master_id_}, {"leading", !shared_.ledger.fenced()}});
  end_to_tell();
  shared_.changes.status_changed();
}

Task<void> Recovery::pause() {
  const Duration wait = back_off_.next(shared_.reactor.random());
  (void)co_await wait_until(shared_.reactor, news_, shared_.reactor.now() + wait);
}

// ---- the log

Task<std::optional<FoundLog>> Recovery::find_log() {
  const ServerRecord& master = state_.servers.at(master_id_).record;
  // A record that only other servers reported after an import does not tell R.
  if (master.replicas == 0 && master.nonce != 0) {
    state_.recoveries[master_id_].outcome = kAllLost;
    co_return empty_log();
  }
  show(Phase::kQuerying, "");
  query_ = std::make_unique<LogQuery>(shared_.reactor, state_, shared_.calls, shared_.options.query,
                                      master_id_, bad_segment_, unable_since_,
                                      [this] { return show_query(); });
  std::optional<FoundLog> log = co_await query_->find();
  query_.reset();
  if (log) tell(*log);
  if (log) reached(&RecoveryProgress::Timeline::queried);
  if (log) state_.recoveries[master_id_].outcome = log::outcome_name(log->end.outcome);
  RC_FAILPOINT("coordinator.recovery.log_found");
  co_return log;
}

/// R = 0: there is no log, so the tablets are served empty.
FoundLog Recovery::empty_log() const {
  FoundLog log;
  log.end.outcome = log::LogEnd::Outcome::kComplete;
  log.end.safe_version = version_floor(shared_.reactor.clock().unix_ms());
  log.digest_at = state_.servers.at(master_id_).crashed_since;
  RC_SOMETIMES("coordinator.tablets_without_replicas_come_back_empty");
  log_warn("recovery.without_a_log", {{"master", master_id_},
                                      {"name", state_.servers.at(master_id_).record.name},
                                      {"lost", "all objects of its tablets: it had no replicas"},
                                      {"tablets", lost().size()},
                                      {"safe_version", log.end.safe_version}});
  return log;
}

// ---- an attempt

/// One attempt. True: nothing failed. Parts that failed are planned again while others continue,
/// unless the log must be queried again.
Task<bool> Recovery::attempt(const FoundLog& log) {
  bad_segment_ = ~uint64_t{0};
  query_again_ = false;
  held_back_ = false;
  failures_.clear();
  replayed_ = &log;
  bool well = co_await order_parts(log, false);
  while (running() > 0) {
    co_await parts_moved_;
    parts_moved_.reset();
    if (learn_from_parts()) {
      if (rest_is_due()) (void)co_await order_parts(log, true);
      continue;
    }
    well = false;
    if (running() == 0 || query_again_) continue;
    co_await pause();
    if (running() == 0 || !wanted() || nobody_recovers().empty()) continue;
    RC_SOMETIMES("coordinator.recovery_plans_a_failed_part_while_others_go_on");
    (void)co_await order_parts(log, false);
  }
  well = learn_from_parts() && well;
  replayed_ = nullptr;
  parts_.clear();
  co_return well;
}

/// What was held back can be ordered: the first part has fetched, or nobody else has anything to do.
bool Recovery::rest_is_due() const {
  if (!held_back_ || query_again_ || nobody_recovers().empty()) return false;
  return first_ == nullptr || running() == 1;
}

size_t Recovery::running() const {
  return static_cast<size_t>(std::ranges::count(parts_, false, &Running::over));
}

/// True if the server has a part that fetches. (A first part that has fetched does not count.)
bool Recovery::fetches(uint64_t server_id) const {
  return std::ranges::any_of(parts_, [server_id](const Running& one) {
    const bool ready_soon = one.part.planned().first && one.part.fetched();
    return !one.over && one.part.server_id() == server_id && !ready_soon;
  });
}

/// Lost ranges that are in no running part.
std::vector<LostRange> Recovery::nobody_recovers() const {
  std::vector<LostRange> ranges = lost();
  std::erase_if(ranges, [this](const LostRange& range) {
    return std::ranges::any_of(parts_, [&range](const Running& one) {
      return !one.over && std::ranges::count(one.part.planned().ranges, range) > 0;
    });
  });
  return ranges;
}

Task<void> Recovery::run_part(Running& running, Time not_before) {
  if (&running.part != first_) {
    const Time limit = shared_.reactor.now() + shared_.options.first_alone;
    (void)co_await wait_until(shared_.reactor, others_begin_, limit);
  }
  co_await running.part.run(not_before);
  if (running.part.phase() == RecoveryPart::Phase::kDone) {
    part_was_served();
    // A first part is small: it tells nothing about the server's memory.
    if (!running.part.planned().first) had_memory(running.part.server_id());
  }
  running.over = true;
  if (running.part.must_give_up()) {
    failed_.emplace(running.part.server_id(), running.part.attempt());
  }
  give_up_failed(running.part.server_id());
  parts_moved_.set();
}

/// Orders the server to give up its failed parts. An order applies to all attempts up to its own, so
/// it is not sent while such a part of the server runs: it may be handed over at this moment. And a
/// former leader does not know what was handed over.
void Recovery::give_up_failed(uint64_t server_id) {
  if (shared_.ledger.fenced()) return;
  std::erase_if(failed_, [&](const auto& failed) {
    const auto& [server, attempt] = failed;
    const auto forbids = [&](const Running& one) {
      return !one.over && one.part.server_id() == server && one.part.attempt() <= attempt;
    };
    if (server != server_id || std::ranges::any_of(parts_, forbids)) return false;
    shared_.orders.abort(server, master_id_, attempt);
    return true;
  });
}

void Recovery::on_part_news() {
  if (first_ != nullptr && first_->fetched()) {
    first_ = nullptr;
    others_begin_.set();
    parts_moved_.set();
  }
  show_parts();
}

/// Plans and orders parts. `continued`: of what was held back of an attempt. False: nothing was
/// ordered.
Task<bool> Recovery::order_parts(const FoundLog& log, bool continued) {
  if (nobody_recovers().empty()) co_return true;  // what is left was dropped in the meantime
  const PlanInput input = estimate(log);
  PlanLimits limits = shared_.options.plan;
  size_t tablets = 0;
  for (const auto& [id, table] : state_.tables) tablets += table.tablets.size();
  const auto left_of = [tablets](size_t most) { return most - std::min(most, tablets); };
  limits.splits = std::min(limits.splits, left_of(kMaxTablets));
  limits.splits_for_speed = left_of(kMaxTablets / 4 * 3);
  // A piece that is a little larger than its part may be would need another frame.
  if (frames_.limited()) limits.piece_bytes = FrameBudget::kLeast / 2;
  RecoveryPlan plan = plan_recovery(input, limits);
  const FrameBudget::Limit frames = frames_.limit();
  if (plan.parts.empty()) {
    if (running() == 0) show(Phase::kWaiting, "no server that is UP can take tablets");
    co_return false;
  }
  if (!co_await split(plan)) co_return false;
  drop_what_is_gone(plan);
  if (plan.parts.empty()) {
    held_back_ = false;
    co_return true;
  }
  const uint64_t attempt = shared_.next_attempt();
  if (!co_await begin(plan, attempt, continued)) co_return false;
  if (query_again_) co_return false;  // news came meanwhile: this log lacks something
  held_back_ = plan.held_back > 0;
  others_begin_.set();
  if (std::ranges::any_of(plan.parts, &PlannedPart::first)) {
    RC_SOMETIMES("coordinator.recovery_has_a_first_part");
    others_begin_.reset();
  }
  const Time not_before = lease_over_at(log);
  for (PlannedPart& part : plan.parts) {
    wire::RecoverRequest order = order_for(part, log, attempt);
    const uint64_t room = room_for_copies(state_, part.server_id);
    Running& running =
        parts_.emplace_back(RecoveryPart(shared_.reactor, state_, shared_.tablets, shared_.calls,
                                         shared_.orders, shared_.options.part, std::move(part),
                                         std::move(order), log.dead, [this] { on_part_news(); }),
                            frames, room);
    if (running.part.planned().first) first_ = &running.part;
    scope_.spawn(run_part(running, not_before));
  }
  reached(&RecoveryProgress::Timeline::planned);
  RecoveryProgress& progress = state_.recoveries[master_id_];
  progress.bytes_total = log.bytes;
  progress.needed_bytes = bytes_of(lost());
  if (!continued) {
    progress.free_bytes = 0;
    for (const RecoveryMaster& master : input.masters) progress.free_bytes += master.free_bytes;
  }
  show_parts();
  co_return true;
}

/// The time from which the dead master's lease has ended for certain.
Time Recovery::lease_over_at(const FoundLog& log) const {
  const ServerEntry& dead = state_.servers.at(master_id_);
  if (dead.answers_nothing) {
    RC_SOMETIMES("coordinator.recovery_waits_for_no_lease");
    return {};
  }
  return std::max(log.digest_at, dead.crashed_since) + shared_.options.lease_bound(dead.record);
}

/// Estimates the log of the remaining ranges by their share of the hashes that were lost at first.
PlanInput Recovery::estimate(const FoundLog& log) {
  PlanInput estimated{nobody_recovers(), log.bytes, state_.servers.at(master_id_).stats.objects,
                      masters(log), weights_};
  const double hashes = hashes_of(estimated.tablets);
  hashes_at_first_ = std::max(hashes_at_first_, hashes);
  const double share = hashes / hashes_at_first_;
  // Once the lease is over, a first part would make everything later than it makes itself earlier.
  const bool waits = shared_.reactor.clock().now() < lease_over_at(log);
  estimated.first_part = share == 1 && waits && !frames_.limited();
  estimated.bytes = static_cast<uint64_t>(static_cast<double>(estimated.bytes) * share);
  estimated.entries = static_cast<uint64_t>(static_cast<double>(estimated.entries) * share);
  return estimated;
}

/// Servers that are UP, those with the most memory first. Servers that failed before are used only
/// if there are no others.
std::vector<RecoveryMaster> Recovery::masters(const FoundLog& log) {
  std::vector<RecoveryMaster> fresh, avoided;
  for (const auto& [id, server] : state_.servers) {
    if (!server.up() || server.refuses_term || shared_.cannot.contains(id)) continue;
    // A server fetches only one part of a dead master at a time.
    if (fetches(id)) continue;
    const wire::ServerStats& stats = server.stats;
    RecoveryMaster master{.server_id = id, .free_bytes = server.record.log_bytes};
    if (stats.log_bytes_total > 0) {
      // Dead entries do not count: they are cleaned when the part needs their memory.
      const uint64_t lasting = stats.log_bytes_lasting();
      master.free_bytes = lasting - std::min(stats.kept_bytes(), lasting);
    }
    const auto most = most_bytes_.find(id);
    if (most != most_bytes_.end()) master.most_bytes = most->second;
    if (frames_.limited()) {
      if (!may_find_frames(id)) continue;
      master.most_bytes =
          std::min({master.most_bytes, frames_.limit().bytes, room_for_copies(state_, id)});
    }
    (avoided_.contains(id) ? avoided : fresh).push_back(master);
  }
  if (fresh.empty()) avoided_.clear();
  std::vector<RecoveryMaster>& all = fresh.empty() ? avoided : fresh;
  std::ranges::sort(all, {}, [](const RecoveryMaster& master) {
    return std::tuple(~master.free_bytes, master.server_id);
  });
  const size_t most = frames_.limit().parts - std::min(running(), frames_.limit().parts);
  if (frames_.limited() && all.size() > most) all.resize(most);
  all.resize(masters_by_frames(log, all.size()));
  return all;
}

Task<bool> Recovery::split(const RecoveryPlan& plan) {
  std::map<uint64_t, std::vector<uint64_t>> by_table;
  for (const auto& [table_id, at] : plan.splits) by_table[table_id].push_back(at);
  for (auto& [table_id, at] : by_table) {
    RC_SOMETIMES("coordinator.recovery_splits_a_tablet");
    const Status done = co_await shared_.tablets.split(table_id, std::move(at));
    if (done.ok() || done == StatusCode::kNotFound) continue;
    log_warn("recovery.not_split", {{"master", master_id_}, {"table", table_id}, {"error", done}});
    co_return false;
  }
  co_return true;
}

/// Removes ranges of tables that were dropped since the plan was made.
void Recovery::drop_what_is_gone(RecoveryPlan& plan) const {
  const std::vector<LostRange> there = lost();
  for (PlannedPart& part : plan.parts) {
    std::erase_if(part.ranges, [&](const LostRange& range) {
      return std::ranges::find(there, range) == there.end();
    });
  }
  std::erase_if(plan.parts, [](const PlannedPart& part) { return part.ranges.empty(); });
}

/// `continued`: what was held back of an attempt; it has a number of its own.
Task<bool> Recovery::begin(RecoveryPlan& plan, uint64_t attempt, bool continued) {
  std::vector<TabletRange> ranges;
  for (const PlannedPart& part : plan.parts) {
    for (const LostRange& range : part.ranges) {
      ranges.push_back({range.table_id, range.start_hash, range.end_hash});
    }
  }
  const size_t tablets = ranges.size();
  const Status begun = co_await shared_.tablets.set_recovering(std::move(ranges), attempt);
  if (!begun.ok()) {
    RC_SOMETIMES("coordinator.recovery_attempt_is_refused");
    log_warn("recovery.attempt_refused",
             {{"master", master_id_}, {"attempt", attempt}, {"error", begun}});
    co_return false;
  }
  if (continued) {
    RC_FAILPOINT("coordinator.recovery.attempt_continued");
  } else {
    RC_FAILPOINT("coordinator.recovery.attempt_recorded");
    shared_.attempts.add();
  }
  state_.recoveries[master_id_].attempt = attempt;
  log_info(continued ? "recovery.attempt_continued" : "recovery.attempt",
           {{"master", master_id_},
            {"attempt", attempt},
            {"parts", plan.parts.size()},
            {"tablets", tablets},
            {"left_over", plan.left_over},
            {"held_back", plan.held_back}});
  co_return true;
}

wire::RecoverRequest Recovery::order_for(const PlannedPart& part, const FoundLog& log,
                                         uint64_t attempt) const {
  wire::RecoverRequest order;
  order.master_id = master_id_;
  order.attempt = attempt;
  order.safe_version = log.end.safe_version;
  for (const LostRange& range : part.ranges) {
    const auto table = state_.tables.find(range.table_id);
    if (table == state_.tables.end()) continue;
    for (const TabletRecord& tablet : table->second.tablets) {
      if (tablet.start_hash != range.start_hash) continue;
      order.tablets.push_back({{range.table_id, range.start_hash, range.end_hash},
                               tablet.creation_position,
                               table->second.name});
    }
  }
  return order;
}

/// Evaluates finished parts: failed ones are noted for the next plan and removed here. True if
/// nothing failed.
bool Recovery::learn_from_parts() {
  bool well = true;
  for (auto one = parts_.begin(); one != parts_.end();) {
    const RecoveryPart& part = one->part;
    if (!one->over) {
      ++one;
    } else if (part.phase() == RecoveryPart::Phase::kDone) {
      avoided_.erase(part.server_id());
      ++one;
    } else {
      learn_from(*one);
      one = parts_.erase(one);
      well = false;
    }
  }
  return well;
}

/// Memory has come back, or is not as short as it seemed: the server's next part may be twice as
/// large, until there is no limit any more.
void Recovery::had_memory(uint64_t server_id) {
  const auto most = most_bytes_.find(server_id);
  if (most == most_bytes_.end()) return;
  most->second *= 2;
  if (most->second >= shared_.options.plan.part_bytes) most_bytes_.erase(most);
}

void Recovery::learn_from(const Running& running) {
  const RecoveryPart& failed = running.part;
  if (failed.abandoned()) return;
  const uint64_t id = failed.server_id();
  learn_weights(weights_, failed.planned(), failed.bytes_fetched());
  failures_[id] = failed.why();
  query_again_ = query_again_ || failed.bad_segment() != 0;
  if (failed.bad_segment() != 0 && !no_answer(failed.why())) {
    RC_SOMETIMES("coordinator.recovery_looks_at_a_segment_again");
    bad_segment_ = std::min(bad_segment_, failed.bad_segment());
    return;
  }
  if (failed.why() == StatusCode::kUnsupported) shared_.cannot.insert(id);
  if (failed.why() == StatusCode::kOutOfMemory) {
    RC_SOMETIMES("coordinator.recovery_master_is_out_of_memory");
    // A server had no memory for a piece of the smallest size: allow smaller pieces for it.
    const PlanLimits& plan = shared_.options.plan;
    const bool again = most_bytes_.contains(id);
    most_bytes_[id] = std::max(again ? plan.least_piece_bytes : plan.piece_bytes,
                               std::max(failed.planned().bytes, failed.bytes_fetched()) / 2);
  }
  if (failed.why() == StatusCode::kNoSpace) learn_of_frames(running);
  if (failed.why() != StatusCode::kNotFound) avoided_.insert(id);
}

}  // namespace ramcloud
