#include "coordinator/core/log_query.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "coordinator/core/accepted_loss.h"
#include "coordinator/core/volumes.h"
#include "log/found_replica.h"
#include "rpc/back_off.h"

namespace ramcloud {

using Outcome = log::LogEnd::Outcome;

namespace {

/// The server answered, and will hardly answer otherwise when it is asked again: its device failed,
/// its version does not know the question, or its answer is malformed.
bool is_unable(const Status& why) {
  switch (why.code()) {
    case StatusCode::kIoError:
    case StatusCode::kUnsupported:
    case StatusCode::kProtocolError:
    case StatusCode::kInvalidArgument:
    case StatusCode::kInternal:
      return true;
    default:
      return false;
  }
}

}  // namespace

LogQuery::LogQuery(Reactor& reactor, ClusterState& state, RecoveryCalls& calls,
                   const Options& options, uint64_t master_id, uint64_t scan_closed_from,
                   UnableSince& unable_since, std::function<bool()> go_on)
    : reactor_(reactor),
      state_(state),
      calls_(calls),
      options_(options),
      master_id_(master_id),
      scan_closed_from_(scan_closed_from),
      go_on_(std::move(go_on)),
      unable_since_(unable_since),
      news_(reactor),
      scope_(reactor) {
  latest_.outcome = Outcome::kWaiting;
}

void LogQuery::membership_changed() {
  wake();
}

void LogQuery::wake() {
  news_.set();
  news_.reset();
}

Task<std::optional<FoundLog>> LogQuery::find() {
  for (;;) {
    ask_those_who_are_up();
    latest_ = decide();
    if (latest_.known() && !latest_.unscanned) break;
    if (latest_.known()) ask_to_read(*latest_.unscanned);
    look_for_digests();
    if (!go_on_()) co_return std::nullopt;
    (void)co_await wait_until(reactor_, news_, reactor_.now() + options_.retry_interval);
  }
  if (!all_heard()) {
    // Wait for more sources: they make recovery faster and share the load.
    const Time until = reactor_.now() + options_.gather;
    while (!all_heard() && co_await wait_until(reactor_, news_, until)) {
    }
    // Later answers cannot make the end less certain, unless a server has crashed.
    const log::LogEnd later = decide();
    if (later.outcome != latest_.outcome || later.unscanned) co_return co_await find();
    latest_ = later;
  }
  co_return found();
}

// ---- asking

void LogQuery::ask_those_who_are_up() {
  std::erase_if(answers_, [this](const auto& entry) {
    return state_.up_server(entry.first) == nullptr || given_up(entry.first);
  });
  for (const auto& [id, server] : state_.servers) {
    if (!server.up() || answers_.contains(id) || !asking_.insert(id).second) continue;
    scope_.spawn(ask(id));
  }
}

Task<void> LogQuery::ask(uint64_t server_id) {
  BackOff back_off(options_.retry_min, options_.retry_max);
  Answer answer;
  for (;;) {
    RC_FAILPOINT("coordinator.recovery.before_query");
    const Status whole = co_await read_pages(server_id, answer);
    if (state_.up_server(server_id) == nullptr) break;
    if (whole.ok()) {
      answers_[server_id] = std::move(answer);
      break;
    }
    if (is_unable(whole)) {
      note_unable(server_id, whole);
    } else if (whole == StatusCode::kDeadlineExceeded && silent_.insert(server_id).second) {
      wake();
    }
    co_await reactor_.sleep(back_off.next(reactor_.random()));
  }
  forget_unable(server_id);
  asking_.erase(server_id);
  wake();
}

void LogQuery::note_unable(uint64_t server_id, const Status& why) {
  unable_since_.try_emplace(server_id, reactor_.now());
  if (!unable_.insert_or_assign(server_id, why).second) return;
  RC_SOMETIMES("coordinator.recovery_asks_a_server_that_cannot_answer");
  log_warn("recovery.server_cannot_answer",
           {{"master", master_id_}, {"server", server_id}, {"error", why}});
  wake();
}

void LogQuery::forget_unable(uint64_t server_id) {
  unable_.erase(server_id);
  unable_since_.erase(server_id);
  silent_.erase(server_id);
}

/// The server could not answer for so long that nobody waits for it, nor uses what it said before.
/// It is asked again all the same.
bool LogQuery::given_up(uint64_t server_id) const {
  const auto since = unable_since_.find(server_id);
  return unable_.contains(server_id) && since != unable_since_.end() &&
         reactor_.now() - since->second >= options_.returning;
}

/// Goes on after the pages that `answer` has, if they answer the present question: a backup that is
/// slow would else read the first pages again and again. Its replicas are frozen, so the pages stay
/// true. Errors: those of the call; PROTOCOL_ERROR: the answer is malformed, and the next call asks
/// for all of it.
Task<Status> LogQuery::read_pages(uint64_t server_id, Answer& answer) {
  wire::RecoveryQueryRequest request;
  request.master_id = master_id_;
  request.scan_closed_from = scan_closed_from_;
  if (answer.scanned_from != scan_closed_from_) {
    answer = {};
    answer.scanned_from = scan_closed_from_;
  }
  request.first_frame = answer.next_frame;
  do {
    auto page = co_await calls_.call<wire::RecoveryQueryReply>(
        server_id, wire::Opcode::kRecoveryQuery, request, options_.timeout);
    const bool rises = page && (page->next_frame == 0 || page->next_frame > request.first_frame);
    if (!page || !rises || !take(server_id, *page, answer)) {
      const Status why =
          page ? Status(StatusCode::kProtocolError, "its answer is malformed") : page.error();
      log_debug("recovery.query_not_answered",
                {{"master", master_id_}, {"server", server_id}, {"error", why}});
      if (page) answer = {};
      co_return why;
    }
    request.first_frame = answer.next_frame = page->next_frame;
    if (silent_.erase(server_id) > 0) wake();
  } while (request.first_frame != 0);
  // Read the clock, not the time of the turn: the answer may have come within this turn.
  answer.at = reactor_.clock().now();
  answer.heard.insert(server_id);
  for (const uint64_t id : servers_of_volume(state_, server_id)) {
    if (id < server_id) answer.heard.insert(id);
  }
  co_return Status();
}

/// False: the page is malformed.
bool LogQuery::take(uint64_t server_id, const wire::RecoveryQueryReply& page,
                    Answer& answer) const {
  if (page.former_server_id != 0) answer.heard.insert(page.former_server_id);
  for (const wire::RecoveryReplica& replica : page.replicas) {
    auto described = log::found_replica(replica);
    if (!described) {
      log_error("recovery.answer_refused", {{"master", master_id_},
                                            {"server", server_id},
                                            {"segment", replica.segment_id},
                                            {"why", "its digest is malformed"}});
      return false;
    }
    answer.replicas.push_back(std::move(*described));
    answer.places.push_back(
        {server_id, replica.frame, (replica.flags & wire::RecoveryReplica::kPrimary) != 0});
  }
  return true;
}

/// Asks the backups that have this segment to read it: at once, unless their last answer was to the
/// same question. Such a backup could not read it, and is asked again after
/// options_.retry_interval. A backup that is still answering an earlier question is asked when that
/// answer arrives. Below a segment that is needed for its versions may be many side segments before
/// the next head.
void LogQuery::ask_to_read(uint64_t segment_id) {
  if (segment_id > latest_.digest_segment) {
    RC_SOMETIMES("coordinator.recovery_looks_for_heads_above_a_lost_tail");
    scan_closed_from_ = std::min(scan_closed_from_, segment_id);
  } else if (segment_id < scan_closed_from_) {
    FallingIds closed;
    for (const log::FoundReplica& replica : decided_.replicas) {
      if (replica.closed && replica.segment_id < latest_.digest_segment) {
        closed.insert(replica.segment_id);
      }
    }
    (void)read_more_of(closed);
    scan_closed_from_ = std::min(scan_closed_from_, segment_id);
  }
  (void)ask_to_read_closed();
  // Others were asked in vain.
  for (size_t i = 0; i < decided_.replicas.size(); ++i) {
    if (decided_.replicas[i].segment_id != segment_id) continue;
    const uint64_t server_id = places_[i].server_id;
    if (reactor_.now() < answers_.at(server_id).at + options_.retry_interval) continue;
    if (!asking_.insert(server_id).second) continue;
    RC_SOMETIMES("coordinator.recovery_asks_for_the_versions_of_a_closed_head");
    scope_.spawn(ask(server_id));
  }
}

/// If the end of the log is missing, a closed head may have the newest remaining digest. It tells
/// how much an operator must give up; after an accepted loss it decides.
void LogQuery::look_for_digests() {
  reads_digests_ = false;
  if (latest_.missing.empty() || !latest_.missing.front().end) return;
  const bool wanted = latest_.outcome == Outcome::kBlocked || decided_.accepted.end_after;
  if (!wanted) return;
  reads_digests_ = ask_to_read_closed();
  if (reads_digests_) return;
  FallingIds later;
  for (const log::FoundReplica& replica : decided_.replicas) {
    const bool after = replica.segment_id > latest_.missing.front().newest_head;
    if (replica.closed && after) later.insert(replica.segment_id);
  }
  if (!read_more_of(later)) return;
  RC_SOMETIMES("coordinator.recovery_reads_closed_heads_for_a_digest");
  reads_digests_ = ask_to_read_closed();
}

/// Closed segments are read from the newest backwards, twice as many each time: each question reads
/// all of them again. False: all are read already.
bool LogQuery::read_more_of(const FallingIds& closed) {
  const auto read = static_cast<size_t>(std::ranges::count_if(
      closed, [this](uint64_t segment_id) { return segment_id >= scan_closed_from_; }));
  if (read == closed.size()) return false;
  const size_t next = std::min(closed.size(), std::max<size_t>(1, 2 * read));
  scan_closed_from_ = *std::next(closed.begin(), static_cast<std::ptrdiff_t>(next) - 1);
  return true;
}

/// Asks each backup to read its closed segments that must be read and were not. True: at least one
/// is reading.
bool LogQuery::ask_to_read_closed() {
  bool reads = false;
  for (size_t i = 0; i < decided_.replicas.size(); ++i) {
    const log::FoundReplica& replica = decided_.replicas[i];
    if (!replica.closed || replica.segment_id < scan_closed_from_) continue;
    const uint64_t server_id = places_[i].server_id;
    if (answers_.at(server_id).scanned_from <= scan_closed_from_) continue;
    reads = true;
    if (asking_.insert(server_id).second) scope_.spawn(ask(server_id));
  }
  return reads;
}

std::optional<log::LossToAccept> LogQuery::loss_to_accept(size_t most) const {
  if (latest_.outcome != Outcome::kBlocked || reads_digests_) return std::nullopt;
  return log::loss_to_accept(decided_, most);
}

// ---- deciding

/// Servers that are UP and may answer, and servers whose volume may come back.
std::set<uint64_t> LogQuery::expected() const {
  std::set<uint64_t> ids, heard;
  for (const auto& [id, answer] : answers_) heard.insert(answer.heard.begin(), answer.heard.end());
  for (const auto& [id, server] : state_.servers) {
    if (heard.contains(id)) continue;
    const bool back = server.record.state == wire::ServerState::kCrashed && id != master_id_ &&
                      server.crashed_since != Time{} &&
                      reactor_.now() - server.crashed_since < options_.returning;
    if ((server.up() && !given_up(id)) || back) ids.insert(id);
  }
  erase_own(ids);
  return ids;
}

/// Servers that have not answered, and may have replicas of this log. Those that were removed have
/// none: the master knew that they had crashed, or no master waited for its recovery.
std::set<uint64_t> LogQuery::unheard() const {
  std::set<uint64_t> ids;
  for (const auto& [id, server] : state_.servers) {
    const bool removed = server.record.state == wire::ServerState::kRemoved;
    if (!removed && !decided_.heard.contains(id)) ids.insert(id);
  }
  erase_own(ids);
  return ids;
}

std::vector<uint64_t> LogQuery::away() const {
  std::vector<uint64_t> ids;
  for (const uint64_t id : decided_.unheard) {
    if (state_.up_server(id) == nullptr) ids.push_back(id);
  }
  return ids;
}

/// A master has no replica of its log on its own server.
void LogQuery::erase_own(std::set<uint64_t>& ids) const {
  for (const uint64_t id : servers_of_volume(state_, master_id_)) {
    if (id <= master_id_) ids.erase(id);
  }
}

/// All losses of this log that operators accepted.
log::AcceptedLoss LogQuery::accepted() const {
  log::AcceptedLoss all;
  const auto found = state_.accepted_losses.find(master_id_);
  if (found == state_.accepted_losses.end()) return all;
  for (const AcceptedLossRecord& record : found->second) all.add(loss_of(record));
  return all;
}

log::LogEnd LogQuery::decide() {
  decided_ = {};
  places_.clear();
  if (const auto known = state_.replication_epochs.find(master_id_);
      known != state_.replication_epochs.end()) {
    decided_.fence = {known->second.lowest_open_segment, known->second.epoch};
    decided_.fence_of_export = known->second.of_export;
  }
  for (const auto& [id, answer] : answers_) {
    if (state_.up_server(id) == nullptr) continue;
    decided_.replicas.insert(decided_.replicas.end(), answer.replicas.begin(),
                             answer.replicas.end());
    places_.insert(places_.end(), answer.places.begin(), answer.places.end());
    decided_.heard.insert(answer.heard.begin(), answer.heard.end());
  }
  decided_.expected = expected();
  decided_.unheard = unheard();
  if (const auto master = state_.servers.find(master_id_); master != state_.servers.end()) {
    decided_.replica_count = master->second.record.replicas;
  }
  for (const uint64_t id : decided_.expected) {
    if (state_.up_server(id) != nullptr && !unable_.contains(id)) decided_.asked.insert(id);
  }
  decided_.accepted = accepted();
  return log::decide_log_end(decided_);
}

bool LogQuery::all_heard() const {
  return std::ranges::all_of(state_.servers, [this](const auto& entry) {
    const uint64_t id = entry.first;
    return !entry.second.up() || answers_.contains(id) || unable_.contains(id);
  });
}

FoundLog LogQuery::found() const {
  FoundLog log;
  log.end = latest_;
  std::vector<wire::RecoverySegment> segments;
  for (const auto& segment : latest_.segments) {
    wire::RecoverySegment& to_read = segments.emplace_back();
    to_read.segment_id = segment.segment_id;
    to_read.length = segment.length;
    log.bytes += segment.length;
    std::vector<Place> from;
    for (const size_t i : segment.sources) from.push_back(places_[i]);
    std::ranges::sort(from, {}, [](const Place& place) {
      return std::tuple(!place.primary, place.server_id, place.frame);
    });
    // If no source has a primary replica, the first source is chosen in rotation.
    if (!from.empty() && !from.front().primary) {
      const auto by = static_cast<std::ptrdiff_t>(segment.segment_id % from.size());
      std::rotate(from.begin(), from.begin() + by, from.end());
    }
    for (const Place& place : from) to_read.sources.push_back({place.server_id, place.frame});
  }
  log.considered = decided_.heard;
  log.considered.insert(master_id_);  // no replica of its log is on its own volume
  for (const auto& [id, server] : state_.servers) {
    if (server.up()) log.considered.insert(id);
  }
  std::ranges::sort(segments, std::ranges::greater(), &wire::RecoverySegment::segment_id);
  log.dead = std::make_shared<const DeadLog>(std::move(segments));
  for (size_t i = 0; i < decided_.replicas.size(); ++i) {
    const log::FoundReplica& replica = decided_.replicas[i];
    if (replica.segment_id != latest_.digest_segment) continue;
    log.digest_at = std::max(log.digest_at, answers_.at(places_[i].server_id).at);
  }
  return log;
}

}  // namespace ramcloud
