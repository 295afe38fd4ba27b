// Recovery: its status (phase, times, parts, and what it waits for).
#include <algorithm>
#include <utility>

#include "base/logging.h"
#include "base/sometimes.h"
#include "coordinator/core/cluster_view.h"
#include "coordinator/core/lost_ranges.h"
#include "coordinator/core/recovery.h"
#include "coordinator/core/volumes.h"

namespace ramcloud {
namespace {

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

/// Servers that are UP and cannot say which replicas they have; empty if there are none.
std::string unable_text(const std::map<uint64_t, Status>& unable, const ClusterState& state) {
  constexpr size_t kNamed = 3;
  std::string text;
  size_t named = 0;
  for (const auto& [id, why] : unable) {
    if (++named > kNamed) break;
    text += fmt::format("{}{} is UP and cannot say which replicas it has{}: {}",
                        text.empty() ? "" : "; ", server_text(state, id),
                        why == StatusCode::kIoError ? ", because its device failed" : "",
                        why.to_string());
  }
  if (unable.size() > kNamed) text += fmt::format("; and {} more", unable.size() - kNamed);
  return text;
}

/// Crashed servers that may have what is missing, if it is not known who has it; empty if there are
/// none.
std::string away_text(const log::LogEnd& end, const std::vector<uint64_t>& away,
                      const ClusterState& state) {
  constexpr size_t kNamed = 5;
  const bool known = std::ranges::all_of(
      end.missing, [](const log::MissingSegment& one) { return !one.holders.empty(); });
  std::string text;
  if (known) return text;
  for (size_t i = 0; i < std::min(away.size(), kNamed); ++i) {
    text += (text.empty() ? "not back: " : ", ") + server_text(state, away[i]);
  }
  if (away.size() > kNamed) text += fmt::format(", and {} more", away.size() - kNamed);
  return text;
}

/// Servers that are UP and silent; empty if there are none.
std::string silent_text(const std::set<uint64_t>& silent, const ClusterState& state) {
  constexpr size_t kNamed = 3;
  std::string text;
  size_t named = 0;
  for (const uint64_t id : silent) {
    if (++named > kNamed) break;
    text += (text.empty() ? "" : ", ") + server_text(state, id);
  }
  if (text.empty()) return text;
  if (silent.size() > kNamed) text += fmt::format(" and {} more", silent.size() - kNamed);
  return "an answer of " + text + ": UP, and silent when asked which replicas it has";
}

}  // namespace

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

/// Sets a time of the timeline, unless it is set already.
void Recovery::reached(std::optional<uint64_t> RecoveryProgress::Timeline::* moment) {
  auto& at = state_.recoveries[master_id_].timeline.*moment;
  if (!at) at = ms_between(crashed_, shared_.reactor.now());
}

/// Estimates the progress by the share of hashes that remain of those in the first plan.
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
  progress.needed_bytes = bytes_of(left);
  if (!left.empty()) return;
  reached(&Timeline::served);
  // A part reports READY when everything is on the devices of its backups.
  Time last{};
  for (const Running& one : parts_) last = std::max(last, one.part.ready_at());
  if (!progress.timeline.replicated) progress.timeline.replicated = ms_between(crashed_, last);
}

void Recovery::note_parts(RecoveryProgress& progress) const {
  progress.entries = 0;
  progress.partitions.clear();
  for (const auto& [part, limit, room, over] : parts_) {
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

void Recovery::show(Phase phase, std::string waits_for) {
  if (phase == Phase::kBlocked) shared_.frame_line.leave(master_id_);
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

void Recovery::tell(const FoundLog& log) const {
  log_info("recovery.log_found", {{"master", master_id_},
                                  {"outcome", log::outcome_name(log.end.outcome)},
                                  {"segments", log.dead->segments.size()},
                                  {"bytes", log.bytes},
                                  {"digest_segment", log.end.digest_segment},
                                  {"safe_version", log.end.safe_version}});
  if (log.end.outcome == log::LogEnd::Outcome::kLossAccepted) {
    RC_SOMETIMES("coordinator.recovers_a_log_whose_loss_was_accepted");
    log_error("recovery.without_what_was_given_up",
              {{"master", master_id_},
               {"name", state_.servers.at(master_id_).record.name},
               {"lost", "the data whose loss an operator accepted"},
               {"segments", log.dead->segments.size()},
               {"safe_version", log.end.safe_version}});
  }
  if (log.end.outcome != log::LogEnd::Outcome::kTailLost) return;
  RC_SOMETIMES("coordinator.recovers_a_log_whose_tail_is_lost");
  uint32_t length = 0;
  for (const auto& segment : log.dead->segments) {
    if (segment.segment_id == log.end.digest_segment) length = segment.length;
  }
  log_error("recovery.tail_lost",
            {{"master", master_id_},
             {"name", state_.servers.at(master_id_).record.name},
             {"lost", "the last writes: power failures destroyed them on all replicas"},
             {"segment", log.end.digest_segment},
             {"ends_at", length},
             {"safe_version", log.end.safe_version}});
}

/// False: the query is not needed any more.
bool Recovery::show_query() {
  const log::LogEnd& end = query_->latest();
  RecoveryProgress& progress = state_.recoveries[master_id_];
  std::vector<RecoveryProgress::Missing> missing;
  for (const auto& segment : end.missing) {
    missing.push_back({segment.segment_id, segment.why, segment.holders});
  }
  // If the end is known but the query is not done, a closed head is being read.
  const bool asking = end.known() || query_->answered() == 0 || !query_->all_heard();
  const bool blocked = end.outcome == log::LogEnd::Outcome::kBlocked;
  progress.missing = std::move(missing);
  if (blocked || !asking) {
    if (blocked) RC_SOMETIMES("coordinator.recovery_is_blocked");
    if (!blocked) RC_SOMETIMES("coordinator.recovery_waits_for_holders");
    std::string waits_for;
    for (const std::string& text :
         {names_of(end.missing, state_), away_text(end, query_->away(), state_),
          unable_text(query_->unable(), state_)}) {
      waits_for += (waits_for.empty() || text.empty() ? "" : "; ") + text;
    }
    show(blocked ? Phase::kBlocked : Phase::kWaiting, std::move(waits_for));
  } else {
    show(Phase::kQuerying, silent_text(query_->silent(), state_));
  }
  return wanted();
}

Result<LossPreview> Recovery::preview_loss() const {
  const auto told = state_.recoveries.find(master_id_);
  if (told == state_.recoveries.end()) {
    return fail(
        StatusCode::kRetry,
        fmt::format("the recovery of {} is just beginning or ending; ask again in a few seconds",
                    server_text(state_, master_id_)));
  }
  const RecoveryProgress& progress = told->second;
  if (progress.phase != Phase::kBlocked) return fail(not_blocked());
  if (!query_) {
    return fail(StatusCode::kInvalidArgument,
                fmt::format("the recovery of {} is BLOCKED, but not by a part of its log that is "
                            "missing: {}; no loss can be accepted for that",
                            server_text(state_, master_id_), progress.waits_for));
  }
  auto shown = query_->loss_to_accept(kMostGivenUpAtOnce);
  if (shown) {
    LossPreview preview = preview_of(state_, master_id_, std::move(*shown), lost());
    preview.unable = unable_text(query_->unable(), state_);
    return preview;
  }
  if (!query_->reads_digests()) return fail(not_blocked());
  return fail(StatusCode::kRetry,
              fmt::format("backups are reading closed segments of {} for the newest digest that "
                          "is left; ask again in a few seconds",
                          server_text(state_, master_id_)));
}

Status Recovery::not_blocked() const {
  const RecoveryProgress& progress = state_.recoveries.at(master_id_);
  const std::string waits = progress.waits_for.empty() ? "" : ": " + progress.waits_for;
  const bool waiting = progress.phase == Phase::kWaiting;
  return {
      StatusCode::kInvalidArgument,
      fmt::format(
          "the recovery of {} is {}{}; a loss can be accepted only while a recovery is BLOCKED{}",
          server_text(state_, master_id_), recovery_phase_name(progress.phase), waits,
          waiting ? ", which it will be when nobody is expected any more" : "")};
}

void Recovery::show_parts() {
  RecoveryProgress& progress = state_.recoveries[master_id_];
  progress.parts = static_cast<uint32_t>(parts_.size());
  progress.parts_done = 0;
  progress.bytes_done = 0;
  bool handing_over = false;
  for (const auto& [part, limit, room, over] : parts_) {
    progress.parts_done += part.phase() == RecoveryPart::Phase::kDone ? 1 : 0;
    progress.bytes_done += part.bytes_fetched();
    handing_over = handing_over || part.phase() == RecoveryPart::Phase::kHandingOver;
  }
  note_parts(progress);
  note_hand_overs();
  show(handing_over ? Phase::kHandingOver : Phase::kReplaying, parts_wait_for());
  shared_.changes.status_changed();
}

/// What running parts wait for.
std::string Recovery::parts_wait_for() const {
  std::string text;
  for (const auto& [part, limit, room, over] : parts_) {
    const std::string waits = over ? "" : part.waits_for();
    if (waits.empty()) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", server_text(state_, part.server_id()),
                        waits);
  }
  return text;
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
  if (frames_.limited()) {
    text = waits_for_frames() + "; " + text;
  }
  return text;
}

}  // namespace ramcloud
