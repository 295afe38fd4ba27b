#include "coordinator/core/failure_detector.h"

#include <algorithm>

#include "base/logging.h"
#include "base/sometimes.h"
#include "base/text.h"
#include "runtime/when_all.h"

namespace ramcloud {
namespace {

using wire::PeerState;

constexpr Duration kTick = 100ms;
/// The shortest time between two rounds of probes of one server, even with many hints.
constexpr Duration kLeastRound = 20ms;
/// A server is probed at least this often.
constexpr Duration kLongestPause = 1s;
/// Up to this many servers are each probed every interval; with more, proportionally less often,
/// because more servers also see each other.
constexpr uint32_t kProbedEveryInterval = 3;
/// Probes of up to this many servers leave together.
constexpr uint32_t kProbedTogether = 16;
/// At most this many peers are asked for an indirect probe, until one gives a result.
constexpr int kPeersAsked = 3;
/// The most servers that a message names.
constexpr size_t kNamed = 8;

MetricLabels says(const char* what) {
  return {{"says", what}};
}

}  // namespace

struct FailureDetector::Watch {
  Watch(Reactor& reactor, bool heard) : suspicion(reactor.now(), heard), wake(reactor) {}
  Suspicion suspicion;
  /// Rises with each sign of life and each discard of measurements. The answer of a peer that was
  /// asked at a lower value does not count.
  uint64_t generation = 0;
  bool broken = false;   // in the last failure its connections were refused, or broke
  bool asking = false;   // a peer is being asked
  bool observes = true;  // it supports kProbePeer, as far as we know
  Event wake;            // probe at once
};

FailureDetector::FailureDetector(RpcClient& rpc, ClusterState& state, Ledger& ledger,
                                 TermClaims& term_claims, Membership& membership,
                                 Notifier& notifier, Changes& changes, MetricsRegistry& metrics,
                                 Options options)
    : reactor_(rpc.reactor()),
      rpc_(rpc),
      state_(state),
      ledger_(ledger),
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
      condemned_refused_(metrics.counter("ramcloud_coordinator_verdicts_total",
                                         "Servers declared crashed, by the evidence",
                                         {{"evidence", "refused"}})),
      condemned_silent_(metrics.counter("ramcloud_coordinator_verdicts_total",
                                        "Servers declared crashed, by the evidence",
                                        {{"evidence", "silent"}})),
      discarded_(
          metrics.counter("ramcloud_coordinator_discarded_verdicts_total",
                          "Times that measurements were discarded because our timers ran late")),
      hints_(metrics.counter("ramcloud_coordinator_hints_total",
                             "Hints that a server may be dead, by who gave them",
                             {{"from", "server"}})),
      platform_hints_(metrics.counter("ramcloud_coordinator_hints_total",
                                      "Hints that a server may be dead, by who gave them",
                                      {{"from", "platform"}})),
      punctuality_(reactor_, kTick, options.lateness, [this](Duration late) { tick(late); }),
      scope_(reactor_) {
  const char* const name = "ramcloud_coordinator_indirect_probes_total";
  const char* const help = "Probes of a server by a peer of it, by what the peer said";
  for (const auto& [state_seen, text] : {std::pair(PeerState::kVoid, "void"),
                                         {PeerState::kAnswered, "answered"},
                                         {PeerState::kRefused, "refused"},
                                         {PeerState::kStranger, "stranger"},
                                         {PeerState::kSilent, "silent"},
                                         {PeerState::kBroken, "broken"}}) {
    indirect_probes_[state_seen] = &metrics.counter(name, help, says(text));
  }
}

Duration FailureDetector::probe_timeout() const {
  return std::min(options_.timeout, options_.thresholds.silence / 4);
}

// ---- all servers: who is accounted for ----------------------------------------------------------

void FailureDetector::tick(Duration late) {
  if (late > Duration::zero()) {
    RC_SOMETIMES("coordinator.observer_was_late");
    discarded_.add();
    log_warn("detection.measurements_discarded", {{"late", format_duration(late)}});
    for (auto& [id, watch] : watches_) {
      watch->suspicion.discard(reactor_.now());
      ++watch->generation;
    }
  }
  take_stock();
}

Accounts FailureDetector::accounts() const {
  Accounts sum;
  for (const auto& [id, server] : state_.servers) {
    if (!server.up()) continue;
    ++sum.expected;
    const auto found = watches_.find(id);
    if (found == watches_.end()) continue;
    const Suspicion& suspicion = found->second->suspicion;
    const bool accounted = suspicion.accounted_alive(reactor_.now(), options_.thresholds) ||
                           suspicion.accounted_dead(options_.thresholds);
    if (accounted) ++sum.accounted;
  }
  return sum;
}

/// Counts the servers that are accounted for. Silence counts only from the moment when there are
/// enough: servers that became unreachable together get time to come back one by one. Verdicts by
/// silence that are not written yet do not stand any more, whether or not they are being written.
void FailureDetector::take_stock() {
  const Accounts now = accounts();
  const bool sound = now.enough() && !ledger_.failing() && verdicts_are_due();
  if (sound && !sound_since_) {
    sound_since_ = reactor_.now();
    if (state_.detection.suspect) {
      log_info("detection.sound", {{"accounted", now.accounted}, {"expected", now.expected}});
    }
  } else if (!sound && sound_since_) {
    RC_SOMETIMES("coordinator.silence_condemns_nobody");
    sound_since_.reset();
    for (auto& [id, verdict] : verdicts_) {
      if (verdict.evidence == Evidence::kSilent) verdict.stands = false;
    }
    log_warn("detection.suspect", {{"accounted", now.accounted},
                                   {"expected", now.expected},
                                   {"metadata_fails", ledger_.failing()}});
  }
  show(now);
}

void FailureDetector::show(const Accounts& accounts) {
  Detection shown{!sound_since_, accounts.accounted, accounts.expected, {}};
  if (shown.suspect) shown.waits_for = waits_for();
  if (shown == state_.detection) return;
  state_.detection = std::move(shown);
  changes_.status_changed();
}

std::vector<std::string> FailureDetector::waits_for() const {
  std::vector<std::string> names;
  size_t more = 0;
  if (ledger_.failing()) names.push_back("the metadata store to accept changes");
  if (!verdicts_are_due()) names.push_back("servers to say what they own, after an import");
  for (const auto& [id, server] : state_.servers) {
    if (!server.up()) continue;
    const auto found = watches_.find(id);
    if (found != watches_.end() &&
        (found->second->suspicion.accounted_alive(reactor_.now(), options_.thresholds) ||
         found->second->suspicion.accounted_dead(options_.thresholds))) {
      continue;
    }
    if (names.size() >= kNamed) {
      ++more;
    } else {
      names.push_back(fmt::format("server {} ({}) at {} to answer", id, server.record.name,
                                  server.record.locator));
    }
  }
  if (more > 0) names.push_back(fmt::format("{} more servers", more));
  return names;
}

/// After an import, live servers get some time to report what they own.
bool FailureDetector::verdicts_are_due() const {
  return !state_.restate || reactor_.now() >= state_.no_verdict_before;
}

// ---- watching one server ------------------------------------------------------------------------

void FailureDetector::watch_all() {
  for (auto& [id, server] : state_.servers) {
    if (!server.up() || server.probing) continue;
    server.probing = true;
    const auto made = std::make_shared<Watch>(reactor_, server.enlisted_now);
    watches_[id] = made;
    scope_.spawn(watch(id, made));
  }
  take_stock();
}

void FailureDetector::hint(uint64_t server_id, Source source) {
  (source == Source::kServer ? hints_ : platform_hints_).add();
  const auto found = watches_.find(server_id);
  if (found != watches_.end()) found->second->wake.set();
}

Task<void> FailureDetector::watch(uint64_t server_id, WatchPtr watch) {
  // Spreads a new leader's first probes of many servers.
  const auto spread = std::min<Duration>(options_.interval, 1ms * (watches_.size() + 1));
  co_await reactor_.sleep(Duration(
      static_cast<int64_t>(reactor_.random().below(static_cast<uint64_t>(spread.count())))));
  while (state_.up_server(server_id) != nullptr) {
    const Time begun = reactor_.now();
    watch->wake.reset();
    co_await round(server_id, watch);
    const Time next = next_round(*watch, begun);
    if (next > reactor_.now()) co_await wait_until(reactor_, watch->wake, next);
    const Time least = begun + kLeastRound;
    if (least > reactor_.now()) co_await reactor_.sleep(least - reactor_.now());
  }
  state_.servers.at(server_id).probing = false;
  watches_.erase(server_id);
}

Time FailureDetector::next_round(const Watch& watch, Time begun) const {
  if (watch.suspicion.failures() > 0) {
    return reactor_.now() + (watch.broken ? options_.again : options_.interval);
  }
  const auto servers = static_cast<uint32_t>(watches_.size());
  const Duration pause =
      options_.interval * std::max(1u, (servers + kProbedEveryInterval - 1) / kProbedEveryInterval);
  const Duration longest = std::max<Duration>(kLongestPause, options_.interval);
  const Time next = begun + std::min({pause, longest, options_.thresholds.silence / 4});
  return servers > kProbedTogether ? next : with_tick(next, begun);
}

/// `next`, or the last tick of our own timer before it. So an idle coordinator wakes once for all its
/// probes, and not for each.
Time FailureDetector::with_tick(Time next, Time begun) const {
  const Duration past_tick = (next - punctuality_.due()) % kTick;
  const Time tick = next - (past_tick < Duration{} ? past_tick + kTick : past_tick);
  return tick > begun ? tick : next;
}

Task<void> FailureDetector::round(uint64_t server_id, WatchPtr watch) {
  const uint64_t epoch = punctuality_.epoch();
  ProbeResult probed =
      co_await (watch->suspicion.failures() == 0 ? probe(server_id) : probe_again(server_id));
  if (state_.up_server(server_id) == nullptr) co_return;
  const PeerState state = state_of(server_id, probed.state);
  if (state == PeerState::kAnswered) {
    answered(server_id, *watch);
    co_return;
  }
  if (punctuality_.epoch() != epoch) co_return;
  watch->broken = state != PeerState::kSilent;
  watch->suspicion.failed(state, probed.reply.status.message());
  set_suspected(server_id, watch->suspicion.failures() > 1);
  if (!watch->asking && !watch->suspicion.peer_refused()) {
    watch->asking = true;
    scope_.spawn(ask_peer(server_id, watch));
  }
  judge(server_id, *watch);
}

/// Sends several probes at the same time; one answer is enough. On a network that loses messages,
/// three single probes in a row are lost too often: a healthy server could be condemned.
Task<ProbeResult> FailureDetector::probe_again(uint64_t server_id) {
  std::vector<Task<ProbeResult>> probes;
  for (uint32_t i = 0; i < options_.probes_of_suspect; ++i) probes.push_back(probe(server_id));
  std::vector<ProbeResult> results = co_await when_all(std::move(probes));
  ProbeResult best;
  for (ProbeResult& probed : results) {
    const bool refused =
        probed.state == PeerState::kRefused || probed.state == PeerState::kStranger;
    const bool better = best.state == PeerState::kVoid || refused;
    if (better || probed.state == PeerState::kAnswered) best = std::move(probed);
    if (best.state == PeerState::kAnswered) break;
  }
  co_return best;
}

Task<ProbeResult> FailureDetector::probe(uint64_t server_id) {
  const auto locator = parse_locator(state_.servers.at(server_id).record.locator);
  if (!locator) co_return ProbeResult{PeerState::kAnswered, {}};  // checked when it enlisted
  probes_.add();
  const wire::GetServerStatsRequest request{state_.term, state_.list_version};
  ProbeResult probed =
      co_await probe_peer(rpc_, *locator, server_id, wire::Opcode::kGetServerStats,
                          RpcClient::body_of(request), reactor_.now() + probe_timeout());
  if (probed.state != PeerState::kAnswered) {
    failed_probes_.add();
    log_debug("detection.probe_failed", {{"server", server_id}, {"error", probed.reply.status}});
  } else if (probed.reply.ok()) {
    note_stats(server_id, probed.reply);
  } else {
    term_claims_.refused(server_id, request.term, probed.reply);
    log_warn("detection.probe_refused", {{"server", server_id}, {"error", probed.reply.status}});
  }
  co_return probed;
}

/// Another server at its address means that it has crashed, unless it may not have received its id
/// yet.
PeerState FailureDetector::state_of(uint64_t server_id, PeerState probed) const {
  const bool premature = probed == PeerState::kStranger && !state_.servers.at(server_id).answered &&
                         !address_is_taken(server_id);
  return premature ? PeerState::kSilent : probed;
}

/// A server enlisted later with the same address, so this one is not there any more.
bool FailureDetector::address_is_taken(uint64_t server_id) const {
  const std::string& address = state_.servers.at(server_id).record.locator;
  return std::any_of(state_.servers.upper_bound(server_id), state_.servers.end(),
                     [&address](const auto& later) {
                       return later.second.up() && later.second.record.locator == address;
                     });
}

void FailureDetector::answered(uint64_t server_id, Watch& watch) {
  watch.suspicion.answered(reactor_.now());
  ++watch.generation;
  state_.servers.at(server_id).heard = reactor_.now();
  // A server that refuses our orders is alive, but stays suspected.
  set_suspected(server_id, state_.servers.at(server_id).refuses_term);
  acquit(server_id);
  if (!sound_since_) take_stock();
}

void FailureDetector::note_stats(uint64_t server_id, const RpcReply& reply) {
  const auto stats = decode_message<wire::ServerStats>(reply);
  if (!stats) {
    log_warn("detection.malformed_statistics", {{"server", server_id}});
    return;
  }
  ServerEntry& server = state_.servers.at(server_id);
  const bool changed = !server.answered || wire::encode(*stats, wire::kVersionMax) !=
                                               wire::encode(server.stats, wire::kVersionMax);
  server.answered = true;
  server.refuses_term = false;
  server.stats = *stats;
  notifier_.server_has_list(server_id, stats->list_version);
  if (changed) changes_.server_changed(server_id);
}

void FailureDetector::set_suspected(uint64_t server_id, bool suspected) {
  ServerEntry& server = state_.servers.at(server_id);
  if (server.suspected == suspected) return;
  server.suspected = suspected;
  changes_.server_changed(server_id);
}

// ---- asking peers -------------------------------------------------------------------------------

uint32_t FailureDetector::observers_of(uint64_t server_id) const {
  return static_cast<uint32_t>(std::ranges::count_if(watches_, [&](const auto& entry) {
    return entry.first != server_id && entry.second->observes &&
           state_.servers.at(entry.first).up();
  }));
}

/// Peers that answer us and support indirect probes, in random order.
std::vector<uint64_t> FailureDetector::peers_of(uint64_t server_id) const {
  std::vector<uint64_t> peers;
  for (const auto& [id, watch] : watches_) {
    const bool answers = watch->suspicion.failures() == 0 &&
                         watch->suspicion.accounted_alive(reactor_.now(), options_.thresholds);
    if (id != server_id && watch->observes && answers && state_.servers.at(id).up()) {
      peers.push_back(id);
    }
  }
  for (size_t i = peers.size(); i > 1; --i) {
    std::swap(peers[i - 1], peers[reactor_.random().below(i)]);
  }
  return peers;
}

Task<FailureDetector::PeerSays> FailureDetector::indirect_probe(uint64_t server_id) {
  const uint64_t epoch = punctuality_.epoch();
  std::vector<uint64_t> peers = peers_of(server_id);
  if (peers.size() > kPeersAsked) peers.resize(kPeersAsked);
  for (const uint64_t peer : peers) {
    const auto locator = parse_locator(state_.servers.at(peer).record.locator);
    if (!locator) continue;
    const Duration limit = probe_timeout();
    const wire::ProbePeerRequest request{state_.term, server_id,
                                         static_cast<uint32_t>(limit / 1ms)};
    // The peer needs the whole limit to find a server silent, and its answer needs additional time.
    auto reply = co_await rpc_.call<wire::ProbePeerReply>(
        *locator, peer, wire::Opcode::kProbePeer, request, reactor_.now() + limit + limit / 2);
    if (!reply) {
      const bool former_build = reply.error() == StatusCode::kUnsupported;
      if (const auto found = watches_.find(peer); former_build && found != watches_.end()) {
        RC_SOMETIMES("coordinator.peer_is_no_observer");
        found->second->observes = false;
      }
      continue;
    }
    PeerState state = reply->state;
    if (!indirect_probes_.contains(state)) state = PeerState::kVoid;
    if (state != PeerState::kAnswered && punctuality_.epoch() != epoch) state = PeerState::kVoid;
    state = state_of(server_id, state);
    indirect_probes_.at(state)->add();
    if (state != PeerState::kVoid) co_return PeerSays{peer, state};
  }
  co_return PeerSays();
}

Task<void> FailureDetector::ask_peer(uint64_t server_id, WatchPtr watch) {
  const uint64_t generation = watch->generation;
  const PeerSays says = co_await indirect_probe(server_id);
  watch->asking = false;
  if (says.peer == 0 || state_.up_server(server_id) == nullptr) co_return;
  if (says.state == PeerState::kAnswered) {
    vouched(server_id, *watch);
  } else if (watch->generation == generation) {
    watch->suspicion.peer_failed(says.state, fmt::format("server {}", says.peer));
    judge(server_id, *watch);
  }
}

void FailureDetector::vouched(uint64_t server_id, Watch& watch) {
  RC_SOMETIMES("coordinator.peer_vouches_for_a_server");
  watch.suspicion.vouched(reactor_.now());
  ++watch.generation;
  state_.servers.at(server_id).heard = reactor_.now();
  acquit(server_id);
}

Task<Examination> FailureDetector::examine(uint64_t server_id) {
  const auto found = watches_.find(server_id);
  if (found == watches_.end() || state_.up_server(server_id) == nullptr) co_return Examination();
  const WatchPtr watch = found->second;
  const uint64_t epoch = punctuality_.epoch();
  std::vector<Task<PeerSays>> results;
  results.push_back(own_probe(server_id));
  results.push_back(indirect_probe(server_id));
  const std::vector<PeerSays> says = co_await when_all(std::move(results));
  Examination seen{says[0].state, "the coordinator", {}, options_.thresholds.silence};
  if (state_.up_server(server_id) == nullptr) co_return Examination();
  if (seen.state == PeerState::kAnswered) {
    answered(server_id, *watch);
  } else if (says[1].state == PeerState::kAnswered) {
    vouched(server_id, *watch);
    seen.state = PeerState::kAnswered;
    seen.by = fmt::format("server {}", says[1].peer);
  } else if (punctuality_.epoch() != epoch) {
    seen.state = PeerState::kVoid;
  } else {
    seen.unheard = watch->suspicion.unheard(reactor_.now());
  }
  co_return seen;
}

Task<FailureDetector::PeerSays> FailureDetector::own_probe(uint64_t server_id) {
  const ProbeResult probed = co_await probe_again(server_id);
  co_return PeerSays{0, probed.state};
}

// ---- verdicts -----------------------------------------------------------------------------------

/// A verdict takes effect when it is written, which may take long. Until then the server is still
/// probed.
void FailureDetector::judge(uint64_t server_id, const Watch& watch) {
  const auto evidence = [&] {
    return watch.suspicion.evidence(reactor_.now(), options_.thresholds, sound_since_,
                                    observers_of(server_id));
  };
  if (evidence() == Evidence::kNone || !verdicts_are_due()) return;
  take_stock();
  const Evidence enough = evidence();
  if (enough == Evidence::kNone) return;
  Verdict& verdict = verdicts_[server_id];
  if (verdict.evidence != Evidence::kNone && verdict.stands) return;
  verdict = {enough, watch.suspicion.describe(enough, reactor_.now()), true};
  if (!std::exchange(recording_, true)) scope_.spawn(record_verdicts());
}

void FailureDetector::acquit(uint64_t server_id) {
  const auto pending = verdicts_.find(server_id);
  if (pending != verdicts_.end()) pending->second.stands = false;
}

/// An error if the change that is being written must be withdrawn.
Status FailureDetector::objection() {
  take_stock();
  const auto stands = [this](uint64_t id) { return verdicts_.at(id).stands; };
  if (std::ranges::all_of(writing_, stands)) return {};
  RC_SOMETIMES("coordinator.verdict_is_taken_back");
  return {StatusCode::kCancelled, "a server is not given up any more"};
}

std::vector<Membership::Verdict> FailureDetector::standing_verdicts() {
  writing_.clear();
  std::vector<Membership::Verdict> all;
  for (const auto& [id, verdict] : verdicts_) {
    if (!verdict.stands) continue;
    writing_.push_back(id);
    all.push_back({id, verdict.reason});
  }
  return all;
}

Task<void> FailureDetector::record_verdicts() {
  for (;;) {
    std::erase_if(verdicts_, [this](const auto& entry) {
      return !entry.second.stands || state_.up_server(entry.first) == nullptr;
    });
    if (verdicts_.empty()) break;
    const Status done = co_await membership_.mark_crashed([this] { return standing_verdicts(); },
                                                          [this] { return objection(); });
    if (done == StatusCode::kCancelled) {
      log_warn("detection.verdicts_withdrawn", {{"verdicts", writing_.size()}});
      continue;
    }
    if (!done.ok()) break;  // another coordinator leads
    for (const uint64_t id : writing_) {
      if (state_.up_server(id) != nullptr) continue;
      condemned_.add();
      const bool refused = verdicts_.at(id).evidence == Evidence::kRefused;
      (refused ? condemned_refused_ : condemned_silent_).add();
    }
  }
  verdicts_.clear();
  recording_ = false;
  take_stock();
}

}  // namespace ramcloud
