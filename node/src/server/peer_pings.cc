#include "server/peer_pings.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "base/logging.h"

namespace ramcloud::server {
namespace {

using wire::PeerState;

/// The longest timeout that a coordinator may ask for.
constexpr uint32_t kLongestProbeMs = 10'000;
/// Outstanding probes; one more is answered kVoid. A coordinator asks for one probe of each
/// suspect.
constexpr uint32_t kMostProbes = 64;

}  // namespace

PeerPings::PeerPings(RpcClient& rpc, ServiceRegistry& registry, const ServerList& servers,
                     std::vector<Locator> coordinators, MetricsRegistry& metrics, Options options)
    : reactor_(rpc.reactor()),
      rpc_(rpc),
      transport_(registry.transport()),
      servers_(servers),
      coordinator_(rpc, std::move(coordinators)),
      options_(options),
      pings_(metrics.counter("ramcloud_peer_pings_total", "Pings sent to other servers.")),
      failed_pings_(metrics.counter("ramcloud_peer_failed_pings_total",
                                    "Pings of other servers that were refused, broken off or not "
                                    "answered in time.")),
      reports_(metrics.counter("ramcloud_peer_reports_total",
                               "Reports to the coordinator that another server does not answer.")),
      punctuality_(reactor_, options.interval, options.lateness, [this](Duration) { ping_one(); }),
      scope_(reactor_) {
  registry.add(wire::Opcode::kProbePeer, &call_member<&PeerPings::on_probe_peer, PeerPings>, this);
}

/// An unanswered ping takes longer than an interval; pings of other peers continue meanwhile.
void PeerPings::ping_one() {
  if (own_id_ == 0) return;
  if (const ListedServer* peer = choose()) {
    scope_.spawn(ping(peer->server_id, *peer->locator));
  }
}

/// A live peer, unless it has just answered: an idle master asks its backups for leases, so most
/// need no ping.
bool PeerPings::wants_ping(const ListedServer& server) const {
  if (!server.live() || server.server_id == own_id_ || !server.locator) return false;
  return !rpc_.has_answered_since(*server.locator, server.server_id,
                                  reactor_.now() - options_.quiet);
}

/// A random one that wants a ping; null if there is none.
const ListedServer* PeerPings::choose() const {
  const auto is_peer = [this](const ListedServer& server) { return wants_ping(server); };
  const auto& all = servers_.servers();
  const auto peers = static_cast<uint64_t>(std::ranges::count_if(all, is_peer));
  if (peers == 0) return nullptr;
  uint64_t wanted = reactor_.random().below(peers);
  for (const ListedServer& server : all) {
    if (is_peer(server) && wanted-- == 0) return &server;
  }
  return nullptr;
}

Task<void> PeerPings::ping(uint64_t server_id, Locator locator) {
  pings_.add();
  const uint64_t epoch = punctuality_.epoch();
  const ProbeResult probed = co_await ramcloud::ping(rpc_, std::move(locator), server_id,
                                                     reactor_.now() + options_.timeout);
  if (probed.state == PeerState::kAnswered) co_return;
  failed_pings_.add();
  if (punctuality_.epoch() == epoch) report(server_id, probed.state);
}

void PeerPings::connection_failed(uint64_t server_id) {
  report(server_id, PeerState::kBroken);
}

void PeerPings::report(uint64_t server_id, PeerState state) {
  if (own_id_ == 0 || !servers_.is_live(server_id)) return;
  std::erase_if(reported_, [this](const auto& one) { return !servers_.is_live(one.first); });
  const auto [last, first] = reported_.try_emplace(server_id, reactor_.now());
  if (!first && reactor_.now() - last->second < options_.between_reports) return;
  last->second = reactor_.now();
  reports_.add();
  log_debug("peer.reported", {{"server", server_id}, {"state", static_cast<int>(state)}});
  scope_.spawn(send_report({own_id_, server_id, state}));
}

/// A lost report is not repeated: further pings fail and cause the next one.
Task<void> PeerPings::send_report(wire::ReportServerRequest request) {
  const auto sent =
      co_await coordinator_.call<wire::Empty>(wire::Opcode::kReportServer, request, Repeat::kSafe,
                                              reactor_.now() + options_.report_timeout);
  if (!sent) log_debug("peer.report_not_taken", {{"error", sent.error()}});
}

void PeerPings::on_probe_peer(const Request& request) {
  wire::ProbePeerRequest asked;
  const bool decoded = request.decode(asked);
  if (!decoded || asked.timeout_ms == 0 || asked.timeout_ms > kLongestProbeMs) {
    return reply_error(transport_, request.reply,
                       {StatusCode::kInvalidArgument,
                        decoded ? fmt::format("timeout_ms {} is not accepted; accepted: 1 to {}",
                                              asked.timeout_ms, kLongestProbeMs)
                                : std::string("probe request does not decode")});
  }
  const ListedServer* peer = servers_.find(asked.server_id);
  const bool known = peer != nullptr && peer->live() && peer->locator.has_value();
  if (!known || probes_asked_for_ >= kMostProbes) {
    return reply_message(transport_, request.reply, wire::ProbePeerReply{});
  }
  scope_.spawn(answer_probe(request.reply, asked.server_id, *peer->locator,
                            std::chrono::milliseconds(asked.timeout_ms)));
}

Task<void> PeerPings::answer_probe(ReplyHandle handle, uint64_t server_id, Locator locator,
                                   Duration limit) {
  ++probes_asked_for_;
  const uint64_t epoch = punctuality_.epoch();
  ProbeResult probed =
      co_await ramcloud::ping(rpc_, std::move(locator), server_id, reactor_.now() + limit);
  --probes_asked_for_;
  // An answer counts even if this process was late.
  if (probed.state != PeerState::kAnswered && punctuality_.epoch() != epoch) {
    probed.state = PeerState::kVoid;
  }
  reply_message(transport_, handle, wire::ProbePeerReply{probed.state});
}

}  // namespace ramcloud::server
