#include "coordinator/failure_detector.h"

#include <algorithm>

#include "base/logging.h"
#include "base/text.h"
#include "runtime/when_all.h"

namespace ramcloud {
namespace {
constexpr Duration kHeartbeat = 100ms;
}

struct FailureDetector::Suspicion {
  uint64_t epoch = 0;
  Time last_answer{};
  uint32_t refused = 0;  // in a row
  uint32_t failed = 0;   // in a row, refused or silent
  std::string error;     // the last one

  void clear(uint64_t now_epoch, Time now) { *this = {now_epoch, now, 0, 0, {}}; }
};

FailureDetector::FailureDetector(RpcClient& rpc, ClusterState& state, TermClaims& term_claims,
                                 Membership& membership, Notifier& notifier, Changes& changes,
                                 MetricsRegistry& metrics, Options options)
    : reactor_(rpc.reactor()),
      rpc_(rpc),
      state_(state),
      term_claims_(term_claims),
      membership_(membership),
      notifier_(notifier),
      changes_(changes),
      options_(options),
      probes_(metrics.counter("ramcloud_coordinator_probes_total", "Probes sent to servers")),
      failed_probes_(metrics.counter("ramcloud_coordinator_failed_probes_total",
                                     "Probes refused or not answered in time")),
      condemned_(metrics.counter("ramcloud_coordinator_condemned_total",
                                 "Servers declared crashed by failure detection")),
      discarded_(
          metrics.counter("ramcloud_coordinator_discarded_verdicts_total",
                          "Times that measurements were discarded because our timers ran late")),
      limited_(metrics.counter("ramcloud_coordinator_limited_verdicts_total",
                               "Verdicts put off because too many servers were condemned lately")),
      heartbeat_due_(reactor_.now() + kHeartbeat),
      heartbeat_timer_(reactor_, [this] { heartbeat(); }),
      scope_(reactor_) {
  heartbeat_timer_.start_at(heartbeat_due_);
}

void FailureDetector::heartbeat() {
  if (observer_late()) {
    ++epoch_;
    discarded_.add();
    log_warn("own timers ran late, measurements of servers are discarded",
             {{"late", format_duration(reactor_.now() - heartbeat_due_)}});
  }
  heartbeat_due_ = reactor_.now() + kHeartbeat;
  heartbeat_timer_.start_at(heartbeat_due_);
}

void FailureDetector::watch_all() {
  for (auto& [id, server] : state_.servers) {
    if (!server.up() || server.probing) continue;
    server.probing = true;
    scope_.spawn(watch(id));
  }
}

Task<void> FailureDetector::watch(uint64_t server_id) {
  Suspicion suspicion;
  suspicion.clear(epoch_, reactor_.now());
  // Spreads the probes of many servers over the interval.
  const auto spread = static_cast<uint64_t>(options_.interval.count());
  co_await reactor_.sleep(Duration(static_cast<int64_t>(reactor_.random().below(spread))));
  while (state_.up_server(server_id) != nullptr) {
    Outcome outcome = co_await (suspicion.failed == 0 ? probe(server_id) : probe_again(server_id));
    if (state_.up_server(server_id) == nullptr) break;
    if (outcome.kind == Kind::kAnswered || suspicion.epoch != epoch_ || observer_late()) {
      suspicion.clear(epoch_, reactor_.now());
      acquit(server_id);
    } else {
      ++suspicion.failed;
      suspicion.refused = outcome.kind == Kind::kRefused ? suspicion.refused + 1 : 0;
      suspicion.error = std::move(outcome.error);
    }
    set_suspected(server_id, suspicion.failed > 1 || state_.servers.at(server_id).refuses_term);
    if (std::string reason = verdict(server_id, suspicion); !reason.empty()) {
      condemn(server_id, std::move(reason));
    }
    co_await reactor_.sleep(options_.interval);
  }
  state_.servers.at(server_id).probing = false;
}

/// The verdict counts when it is written, which may take long. Until then the server is probed on.
void FailureDetector::condemn(uint64_t server_id, std::string reason) {
  const auto pending = verdicts_.find(server_id);
  if (pending != verdicts_.end() && pending->second) return;
  if (!may_condemn()) return;
  if (pending != verdicts_.end()) {
    pending->second = true;
    return;
  }
  verdicts_[server_id] = true;
  scope_.spawn(record_crash(server_id, std::move(reason)));
}

void FailureDetector::acquit(uint64_t server_id) {
  const auto pending = verdicts_.find(server_id);
  if (pending != verdicts_.end()) pending->second = false;
}

Status FailureDetector::objection(uint64_t server_id) const {
  if (verdicts_.at(server_id)) return {};
  return {StatusCode::kCancelled, "the server is not given up any more"};
}

Task<void> FailureDetector::record_crash(uint64_t server_id, std::string reason) {
  while (verdicts_.at(server_id)) {
    const Status done = co_await membership_.mark_crashed(
        server_id, reason, [this, server_id] { return objection(server_id); });
    if (done.ok()) condemned_.add();
    if (done != StatusCode::kCancelled) break;  // or we are replaced
    log_warn("a server that was given up answers again", {{"server", server_id}});
  }
  verdicts_.erase(server_id);
}

/// Several at once, one answer is enough: on a network that loses messages three single probes in a
/// row go unanswered often enough to condemn a healthy server now and then.
Task<FailureDetector::Outcome> FailureDetector::probe_again(uint64_t server_id) {
  std::vector<Task<Outcome>> probes;
  for (uint32_t i = 0; i < options_.probes_of_suspect; ++i) probes.push_back(probe(server_id));
  std::vector<Outcome> outcomes = co_await when_all(std::move(probes));
  Outcome best{Kind::kSilent, {}};
  for (Outcome& outcome : outcomes) {
    if (outcome.kind == Kind::kAnswered) co_return Outcome();
    if (outcome.kind == Kind::kRefused || best.error.empty()) best = std::move(outcome);
  }
  co_return best;
}

Task<FailureDetector::Outcome> FailureDetector::probe(uint64_t server_id) {
  const ServerEntry& server = state_.servers.at(server_id);
  const auto locator = parse_locator(server.record.locator);
  if (!locator) co_return Outcome();  // checked when it enlisted
  probes_.add();
  const Time begun = reactor_.now();
  wire::GetServerStatsRequest request{state_.term, state_.list_version};
  const RpcReply reply =
      co_await rpc_.call_with(*locator, server_id, wire::Opcode::kGetServerStats,
                              RpcClient::body_of(request), begun + options_.timeout);
  auto stats = reply.ok() ? decode_message<wire::ServerStats>(reply) : fail(reply.status);
  if (stats) {
    note_stats(server_id, *stats);
    co_return Outcome();
  }
  const StatusCode code = stats.error().code();
  const bool never_reached = code == StatusCode::kUnavailable ||
                             code == StatusCode::kDeadlineExceeded ||
                             code == StatusCode::kConnectionLost ||
                             code == StatusCode::kWrongServer || code == StatusCode::kWrongCluster;
  term_claims_.refused(server_id, request.term, reply);
  if (!never_reached) {
    log_warn("server refuses to be probed", {{"server", server_id}, {"error", stats.error()}});
    co_return Outcome();  // it lives
  }
  failed_probes_.add();
  log_debug("probe failed", {{"server", server_id}, {"error", stats.error()}});
  // Somebody else at its address: it is gone, unless it has not yet heard which id it was given.
  const bool replaced = code == StatusCode::kWrongServer || code == StatusCode::kWrongCluster;
  const bool refused = code == StatusCode::kUnavailable || (replaced && server.answered);
  // A connection that takes long to fail is a slow machine or network, not a dead process.
  const bool quick = reactor_.now() - begun < options_.timeout / 2;
  co_return Outcome{refused && quick ? Kind::kRefused : Kind::kSilent, stats.error().message()};
}

void FailureDetector::note_stats(uint64_t server_id, const wire::ServerStats& stats) {
  ServerEntry& server = state_.servers.at(server_id);
  const bool changed = !server.answered || wire::encode(stats, wire::kVersionMax) !=
                                               wire::encode(server.stats, wire::kVersionMax);
  server.answered = true;
  server.refuses_term = false;
  server.stats = stats;
  notifier_.server_has_list(server_id, stats.list_version);
  if (changed) changes_.server_changed(server_id);
}

void FailureDetector::set_suspected(uint64_t server_id, bool suspected) {
  ServerEntry& server = state_.servers.at(server_id);
  if (server.suspected == suspected) return;
  server.suspected = suspected;
  changes_.server_changed(server_id);
}

/// Why the server is dead; empty if it may live.
std::string FailureDetector::verdict(uint64_t server_id, const Suspicion& suspicion) const {
  if (suspicion.refused >= options_.failures) {
    return fmt::format("refused {} connections in a row ({})", suspicion.refused, suspicion.error);
  }
  const Duration silence = reactor_.now() - suspicion.last_answer;
  const Duration enough =
      state_.servers.at(server_id).answered ? options_.silence : options_.silence_at_first;
  if (suspicion.failed >= options_.failures && silence >= enough) {
    return fmt::format("did not answer {} probes in a row, {} ({})", suspicion.failed,
                       format_duration(silence), suspicion.error);
  }
  return {};
}

bool FailureDetector::may_condemn() {
  const Time now = reactor_.now();
  std::erase_if(condemnations_, [&](Time t) { return now - t >= options_.condemn_window; });
  // Of those that were up at the begin of the window: the condemned ones count as well.
  const size_t servers = state_.servers_up() + condemnations_.size();
  if (condemnations_.size() >= std::max<size_t>(1, servers / 10)) {
    limited_.add();
    return false;
  }
  condemnations_.push_back(now);
  return true;
}

}  // namespace ramcloud
