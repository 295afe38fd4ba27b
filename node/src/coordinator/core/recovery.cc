#include "coordinator/core/recovery.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "coordinator/core/checks.h"
#include "coordinator/core/cluster_view.h"
#include "coordinator/core/volumes.h"

namespace ramcloud {
namespace {

LostRange range_of(uint64_t table_id, const TabletRecord& tablet) {
  return {table_id, tablet.start_hash, tablet.end_hash};
}

double hashes_of(const std::vector<LostRange>& ranges) {
  double hashes = 0;
  for (const LostRange& range : ranges) {
    hashes += static_cast<double>(range.end_hash - range.start_hash) + 1;
  }
  return hashes;
}

uint64_t ms_between(Time from, Time to) {
  return to <= from ? 0 : static_cast<uint64_t>((to - from) / 1ms);
}

std::string names_of(const std::vector<log::MissingSegment>& missing, const ClusterState& state) {
  constexpr size_t kNamed = 3;
  std::string text;
  for (size_t i = 0; i < std::min(missing.size(), kNamed); ++i) {
    const auto& segment = missing[i];
    text += text.empty() ? "" : "; ";
    if (segment.segment_id != 0) text += fmt::format("segment {}: ", segment.segment_id);
    text += segment.why;
    for (size_t h = 0; h < segment.holders.size(); ++h) {
      text += (h == 0 ? ", held by " : ", ") + server_text(state, segment.holders[h]);
    }
  }
  if (missing.size() > kNamed) text += fmt::format("; and {} more", missing.size() - kNamed);
  return text;
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
      back_off_(shared.options.again_min, shared.options.again_max),
      news_(shared.reactor),
      ended_(shared.reactor),
      scope_(shared.reactor) {}

void Recovery::news() {
  if (query_) query_->membership_changed();
  news_.set();
  news_.reset();
}

std::vector<LostRange> Recovery::lost() const {
  std::vector<LostRange> ranges;
  for (const auto& [id, table] : state_.tables) {
    // Those that are being created or dropped are seen to elsewhere.
    if (table.state != TableState::kNormal) continue;
    for (const TabletRecord& tablet : table.tablets) {
      const bool has_log = tablet.creation_position != kNobodysPosition;
      if (tablet.server_id == master_id_ && has_log) ranges.push_back(range_of(id, tablet));
    }
  }
  return ranges;
}

/// Which tables have tablets that only count as this server's; empty if there are none.
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
           fmt::format("the metadata has format {}, which has no place for recoveries: it must be "
                       "upgraded",
                       state_.format));
      co_await pause();
      continue;
    }
    if (lost().empty()) {
      show(Phase::kBlocked,
           fmt::format("nobody owned a part of {} when the metadata was imported, and no log is "
                       "known to have it",
                       nobodys()));
      co_await pause();
      continue;
    }
    const std::optional<FoundLog> log = co_await find_log();
    if (!log) continue;
    if (co_await attempt(*log)) {
      back_off_.reset();
    } else if (wanted()) {
      if (!failures_.empty()) show(Phase::kWaiting, failed_text());
      co_await pause();
    }
  }
  log_info("recovery.ended", {{"master", master_id_}, {"leading", !shared_.ledger.fenced()}});
  end_to_tell();
  shared_.changes.status_changed();
}

// ---- what is told of it ---------------------------------------------------------------------------

void Recovery::begin_to_tell() {
  const ServerEntry& dead = state_.servers.at(master_id_);
  const Time now = shared_.reactor.now();
  const Time crashed = dead.heard == Time{} ? dead.crashed_since : std::min(dead.heard, now);
  RecoveryProgress& progress = state_.recoveries[master_id_];
  const uint64_t unix_ms = shared_.reactor.clock().unix_ms();
  progress.begun_at_ms = unix_ms;
  progress.reason = dead.record.state_reason;
  progress.crashed_at_ms = unix_ms - std::min(unix_ms, ms_between(crashed, now));
  crashed_ = crashed;
  progress.timeline.verdict = ms_between(crashed, dead.crashed_since);
}

/// Only the first time counts.
void Recovery::reached(std::optional<uint64_t> RecoveryProgress::Timeline::* moment) {
  auto& at = state_.recoveries[master_id_].timeline.*moment;
  if (!at) at = ms_between(crashed_, shared_.reactor.now());
}

/// By what is left of the hashes that there were when it was first planned.
void Recovery::note_hand_overs() {
  using Timeline = RecoveryProgress::Timeline;
  const auto done = [](const Running& one) {
    return one.part.phase() == RecoveryPart::Phase::kDone;
  };
  if (std::ranges::none_of(parts_, done)) return;
  const std::vector<LostRange> left = lost();
  const double hashes = hashes_of(left);
  reached(&Timeline::first_key);
  if (hashes <= hashes_at_first_ / 2) reached(&Timeline::half);
  RecoveryProgress& progress = state_.recoveries[master_id_];
  progress.needed_bytes = static_cast<uint64_t>(static_cast<double>(progress.bytes_total) * hashes /
                                                std::max(hashes_at_first_, 1.0));
  if (!left.empty()) return;
  reached(&Timeline::served);
  // A part says READY when all of it is on the devices of its backups.
  Time last{};
  for (const Running& one : parts_) last = std::max(last, one.part.ready_at());
  if (!progress.timeline.replicated) progress.timeline.replicated = ms_between(crashed_, last);
}

void Recovery::note_parts(RecoveryProgress& progress) const {
  progress.entries = 0;
  progress.partitions.clear();
  for (const auto& [part, over] : parts_) {
    progress.entries += part.objects();
    progress.partitions.push_back({progress.partitions.size() + 1, part.server_id(),
                                   RecoveryPart::phase_name(part.phase()), part.planned().bytes,
                                   part.bytes_fetched()});
  }
}

void Recovery::end_to_tell() {
  RecoveryProgress ended = std::move(state_.recoveries[master_id_]);
  state_.recoveries.erase(master_id_);
  if (shared_.ledger.fenced()) return;
  ended.done = true;
  ended.waits_for.clear();
  ended.missing.clear();
  auto& all = state_.ended_recoveries;
  std::erase_if(all, [this](const EndedRecovery& one) { return one.server_id == master_id_; });
  all.push_back({master_id_, state_.servers.at(master_id_).record.name, std::move(ended)});
  if (all.size() > kEndedRecoveries) all.pop_front();
}

/// Why the parts of the last attempt failed.
std::string Recovery::failed_text() const {
  constexpr size_t kNamed = 3;
  std::string text;
  size_t named = 0;
  for (const auto& [id, why] : failures_) {
    if (++named > kNamed) break;
    text +=
        fmt::format("{}{}: {}", text.empty() ? "" : "; ", server_text(state_, id), why.to_string());
  }
  if (failures_.size() > kNamed) text += fmt::format("; and {} more", failures_.size() - kNamed);
  return text;
}

Task<void> Recovery::pause() {
  const Duration wait = back_off_.next(shared_.reactor.random());
  (void)co_await wait_until(shared_.reactor, news_, shared_.reactor.now() + wait);
}

void Recovery::show(Phase phase, std::string waits_for) {
  RecoveryProgress& progress = state_.recoveries[master_id_];
  RecoveryProgress now = progress;
  now.phase = phase;
  now.waits_for = std::move(waits_for);
  if (phase != Phase::kWaiting && phase != Phase::kBlocked) now.missing.clear();
  if (now == progress) return;
  if (now.phase != progress.phase || now.waits_for != progress.waits_for) {
    log_info("recovery.phase", {{"master", master_id_},
                                {"phase", recovery_phase_name(now.phase)},
                                {"waits_for", now.waits_for}});
  }
  progress = std::move(now);
  shared_.changes.status_changed();
}

// ---- the log --------------------------------------------------------------------------------------

Task<std::optional<FoundLog>> Recovery::find_log() {
  const ServerRecord& master = state_.servers.at(master_id_).record;
  // A record that others told of after an import says nothing of replicas.
  if (master.replicas == 0 && master.nonce != 0) co_return empty_log();
  show(Phase::kQuerying, "");
  query_ = std::make_unique<LogQuery>(shared_.reactor, state_, shared_.calls, shared_.options.query,
                                      master_id_, bad_segment_, [this] { return show_query(); });
  std::optional<FoundLog> log = co_await query_->find();
  query_.reset();
  if (log) tell(*log);
  if (log) reached(&RecoveryProgress::Timeline::queried);
  if (log) state_.recoveries[master_id_].outcome = log::outcome_name(log->end.outcome);
  RC_FAILPOINT("coordinator.recovery.log_found");
  co_return log;
}

/// There is none anywhere: the tablets come back empty.
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

void Recovery::tell(const FoundLog& log) const {
  log_info("recovery.log_found", {{"master", master_id_},
                                  {"outcome", log::outcome_name(log.end.outcome)},
                                  {"segments", log.segments.size()},
                                  {"bytes", log.bytes},
                                  {"digest_segment", log.end.digest_segment},
                                  {"safe_version", log.end.safe_version}});
  if (log.end.outcome != log::LogEnd::Outcome::kTailLost) return;
  RC_SOMETIMES("coordinator.recovers_a_log_whose_tail_is_lost");
  uint32_t length = 0;
  for (const auto& segment : log.segments) {
    if (segment.segment_id == log.end.digest_segment) length = segment.length;
  }
  log_error("recovery.tail_lost",
            {{"master", master_id_},
             {"name", state_.servers.at(master_id_).record.name},
             {"lost", "what was written last: power cuts took it from all replicas"},
             {"segment", log.end.digest_segment},
             {"ends_at", length},
             {"safe_version", log.end.safe_version}});
}

/// False: nobody wants it any more.
bool Recovery::show_query() {
  const log::LogEnd& end = query_->latest();
  RecoveryProgress& progress = state_.recoveries[master_id_];
  std::vector<RecoveryProgress::Missing> missing;
  for (const auto& segment : end.missing) {
    missing.push_back({segment.segment_id, segment.why, segment.holders});
  }
  const bool known = end.outcome == log::LogEnd::Outcome::kComplete ||
                     end.outcome == log::LogEnd::Outcome::kTailLost;
  // Known, and not done: a closed head is being read.
  const bool asking = known || query_->answered() == 0 || !query_->all_heard();
  const bool blocked = end.outcome == log::LogEnd::Outcome::kBlocked;
  progress.missing = std::move(missing);
  if (blocked || !asking) {
    if (blocked) RC_SOMETIMES("coordinator.recovery_is_blocked");
    if (!blocked) RC_SOMETIMES("coordinator.recovery_waits_for_holders");
    show(blocked ? Phase::kBlocked : Phase::kWaiting, names_of(end.missing, state_));
  } else {
    show(Phase::kQuerying, "");
  }
  return wanted();
}

// ---- an attempt -----------------------------------------------------------------------------------

/// True: nothing failed. What failed is planned again while others go on, unless the log has to be
/// found again.
Task<bool> Recovery::attempt(const FoundLog& log) {
  bad_segment_ = ~uint64_t{0};
  failures_.clear();
  bool well = co_await order_parts(log);
  while (running() > 0) {
    co_await ended_;
    ended_.reset();
    if (learn_from_parts()) continue;
    well = false;
    if (running() == 0 || bad_segment_ != ~uint64_t{0}) continue;
    co_await pause();
    if (running() == 0 || !wanted() || nobody_recovers().empty()) continue;
    RC_SOMETIMES("coordinator.recovery_plans_a_failed_part_while_others_go_on");
    (void)co_await order_parts(log);
  }
  well = learn_from_parts() && well;
  parts_.clear();
  co_return well;
}

size_t Recovery::running() const {
  return static_cast<size_t>(std::ranges::count(parts_, false, &Running::over));
}

bool Recovery::runs_on(uint64_t server_id) const {
  return std::ranges::any_of(parts_, [server_id](const Running& one) {
    return !one.over && one.part.server_id() == server_id;
  });
}

/// Of what is lost, that which is in no part that runs.
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
  co_await running.part.run(not_before);
  running.over = true;
  ended_.set();
}

/// False: nothing was ordered.
Task<bool> Recovery::order_parts(const FoundLog& log) {
  const LostLog lost_log = estimate(log);
  PlanLimits limits = shared_.options.plan;
  size_t tablets = 0;
  for (const auto& [id, table] : state_.tables) tablets += table.tablets.size();
  limits.splits = std::min(limits.splits, kMaxTablets - std::min(kMaxTablets, tablets));
  RecoveryPlan plan = plan_recovery(lost_log, limits);
  if (plan.parts.empty()) {
    if (running() == 0) show(Phase::kWaiting, "no server that is UP can take tablets");
    co_return false;
  }
  if (!co_await split(plan)) co_return false;
  drop_what_is_gone(plan);
  if (plan.parts.empty()) co_return true;
  const uint64_t attempt = shared_.next_attempt();
  if (!co_await begin(plan, attempt)) co_return false;
  const Time not_before = lease_is_over(log);
  for (PlannedPart& part : plan.parts) {
    wire::RecoverRequest order = order_for(part, log, attempt);
    Running& running = parts_.emplace_back(RecoveryPart(
        shared_.reactor, state_, shared_.tablets, shared_.calls, shared_.orders,
        shared_.options.part, std::move(part), std::move(order), [this] { show_parts(); }));
    scope_.spawn(run_part(running, not_before));
  }
  reached(&RecoveryProgress::Timeline::planned);
  RecoveryProgress& progress = state_.recoveries[master_id_];
  progress.bytes_total = log.bytes;
  progress.needed_bytes = lost_log.bytes;
  progress.free_bytes = 0;
  for (const RecoveryMaster& master : lost_log.masters) progress.free_bytes += master.free_bytes;
  show_parts();
  co_return true;
}

/// When the dead master answers nothing any more, whatever it knows.
Time Recovery::lease_is_over(const FoundLog& log) const {
  const ServerEntry& dead = state_.servers.at(master_id_);
  if (dead.answers_nothing) {
    RC_SOMETIMES("coordinator.recovery_waits_for_no_lease");
    return {};
  }
  return std::max(log.digest_at, dead.crashed_since) + shared_.options.lease_is_over(dead.record);
}

/// What is left counts by its share of the hashes that there were at first.
LostLog Recovery::estimate(const FoundLog& log) {
  LostLog estimated{nobody_recovers(), log.bytes, state_.servers.at(master_id_).stats.objects,
                    masters()};
  const double hashes = hashes_of(estimated.tablets);
  hashes_at_first_ = std::max(hashes_at_first_, hashes);
  const double share = hashes / hashes_at_first_;
  estimated.bytes = static_cast<uint64_t>(static_cast<double>(estimated.bytes) * share);
  estimated.entries = static_cast<uint64_t>(static_cast<double>(estimated.entries) * share);
  return estimated;
}

/// UP, the one with the most memory first. Those that failed only if there is nobody else.
std::vector<RecoveryMaster> Recovery::masters() {
  std::vector<RecoveryMaster> fresh, avoided;
  for (const auto& [id, server] : state_.servers) {
    if (!server.up() || server.refuses_term || shared_.cannot.contains(id)) continue;
    // One part of a dead master at a time: an order to give up is for all of them.
    if (runs_on(id)) continue;
    const wire::ServerStats& stats = server.stats;
    RecoveryMaster master{.server_id = id, .free_bytes = server.record.log_bytes};
    if (stats.log_bytes_total > 0) {
      master.free_bytes =
          stats.log_bytes_total - std::min(stats.log_bytes_used, stats.log_bytes_total);
    }
    const auto most = most_bytes_.find(id);
    if (most != most_bytes_.end()) master.most_bytes = most->second;
    (avoided_.contains(id) ? avoided : fresh).push_back(master);
  }
  if (fresh.empty()) avoided_.clear();
  std::vector<RecoveryMaster>& all = fresh.empty() ? avoided : fresh;
  std::ranges::sort(all, {}, [](const RecoveryMaster& master) {
    return std::tuple(~master.free_bytes, master.server_id);
  });
  return all;
}

Task<bool> Recovery::split(const RecoveryPlan& plan) {
  for (const auto& [table_id, at] : plan.splits) {
    RC_SOMETIMES("coordinator.recovery_splits_a_tablet");
    const Status done = co_await shared_.tablets.split(table_id, at);
    if (done.ok() || done == StatusCode::kNotFound) continue;
    log_warn("recovery.not_split", {{"master", master_id_}, {"table", table_id}, {"error", done}});
    co_return false;
  }
  co_return true;
}

/// Tables may have been dropped since it was planned.
void Recovery::drop_what_is_gone(RecoveryPlan& plan) const {
  const std::vector<LostRange> there = lost();
  for (PlannedPart& part : plan.parts) {
    std::erase_if(part.ranges, [&](const LostRange& range) {
      return std::ranges::find(there, range) == there.end();
    });
  }
  std::erase_if(plan.parts, [](const PlannedPart& part) { return part.ranges.empty(); });
}

Task<bool> Recovery::begin(RecoveryPlan& plan, uint64_t attempt) {
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
  RC_FAILPOINT("coordinator.recovery.attempt_recorded");
  shared_.attempts.add();
  state_.recoveries[master_id_].attempt = attempt;
  log_info("recovery.attempt", {{"master", master_id_},
                                {"attempt", attempt},
                                {"parts", plan.parts.size()},
                                {"tablets", tablets},
                                {"left_over", plan.left_over}});
  co_return true;
}

wire::RecoverRequest Recovery::order_for(const PlannedPart& part, const FoundLog& log,
                                         uint64_t attempt) const {
  wire::RecoverRequest order;
  order.master_id = master_id_;
  order.attempt = attempt;
  order.segments = log.segments;
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

void Recovery::show_parts() {
  RecoveryProgress& progress = state_.recoveries[master_id_];
  progress.parts = static_cast<uint32_t>(parts_.size());
  progress.parts_done = 0;
  progress.bytes_done = 0;
  bool handing_over = false;
  for (const auto& [part, over] : parts_) {
    progress.parts_done += part.phase() == RecoveryPart::Phase::kDone ? 1 : 0;
    progress.bytes_done += part.bytes_fetched();
    handing_over = handing_over || part.phase() == RecoveryPart::Phase::kHandingOver;
  }
  note_parts(progress);
  note_hand_overs();
  show(handing_over ? Phase::kHandingOver : Phase::kReplaying, "");
  shared_.changes.status_changed();
}

/// What failed is planned otherwise, and forgotten here. True if nothing failed.
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
      learn_from(part);
      one = parts_.erase(one);
      well = false;
    }
  }
  return well;
}

void Recovery::learn_from(const RecoveryPart& failed) {
  const uint64_t id = failed.server_id();
  failures_[id] = failed.why();
  if (failed.bad_segment() != 0) {
    RC_SOMETIMES("coordinator.recovery_looks_at_a_segment_again");
    bad_segment_ = std::min(bad_segment_, failed.bad_segment());
    return;
  }
  if (failed.why() == StatusCode::kUnsupported) shared_.cannot.insert(id);
  if (failed.why() == StatusCode::kOutOfMemory) {
    RC_SOMETIMES("coordinator.recovery_master_is_out_of_memory");
    // Who had no memory for a piece that is not split any further may have some for a part of it.
    const PlanLimits& plan = shared_.options.plan;
    const bool again = most_bytes_.contains(id);
    most_bytes_[id] =
        std::max(again ? plan.least_piece_bytes : plan.piece_bytes, failed.planned().bytes / 2);
  }
  if (failed.why() != StatusCode::kNotFound) avoided_.insert(id);
}

}  // namespace ramcloud
