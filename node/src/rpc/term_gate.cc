#include "rpc/term_gate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/logging.h"
#include "base/sometimes.h"
#include "rpc/leader_hint.h"

namespace ramcloud {
namespace {
constexpr Duration kAskTimeout = 1s;
/// The pause between questions, so that messages from any sender cannot overload the coordinators.
constexpr Duration kAfterARefusal = 20ms;
constexpr uint32_t kRetryAfterUs = 10'000;
constexpr Duration kBetweenLines = 1s;

Counter& refused_counter(MetricsRegistry& metrics, const char* reason) {
  return metrics.counter("ramcloud_refused_terms_total",
                         "Messages of coordinators refused for their term or revision: no "
                         "coordinator confirms it, or it is too high to be one",
                         {{"reason", reason}});
}
}  // namespace

TermGate::TermGate(ServiceRegistry& registry, RpcClient& rpc, ServerList& servers,
                   const std::vector<Locator>& coordinators, MetricsRegistry& metrics)
    : registry_(registry),
      rpc_(rpc),
      reactor_(rpc.reactor()),
      servers_(servers),
      coordinators_(coordinators),
      settled_(reactor_),
      impossible_(refused_counter(metrics, "impossible")),
      unconfirmed_(refused_counter(metrics, "unconfirmed")),
      scope_(reactor_) {
  registry.set_guard(wire::kFirstOfCoordinator, wire::kLastOfCoordinator, &TermGate::gate, this);
}

bool TermGate::known(const Claim& claim) const {
  return claim.term <= servers_.highest_term() && claim.revision <= revision_;
}

bool TermGate::take(const Request& request) {
  const size_t at = request.reply.version >= wire::kExtensible ? sizeof(uint32_t) : 0;
  Claim claim;
  if (request.body.size() < at + sizeof claim.term)
    return false;  // malformed: the handler refuses
                   // it
  claim.term = load<uint64_t>(request.body.data() + at);
  const auto opcode = static_cast<wire::Opcode>(request.header.opcode);
  const bool has_revision = opcode == wire::Opcode::kTakeTablet ||
                            opcode == wire::Opcode::kDropTablet ||
                            opcode == wire::Opcode::kServeRecovered;
  if (has_revision && request.body.size() >= at + sizeof claim) {
    claim.revision = load<uint64_t>(request.body.data() + at + sizeof claim.term);
  }
  // The handler refuses a lower term, whatever the revision.
  if (known(claim) || claim.term < servers_.highest_term()) return false;
  if (std::max(claim.term, claim.revision) > wire::kMaxTerm) {
    RC_SOMETIMES("rpc.impossible_term_is_refused");
    impossible_.add();
    say_refused(request.header, claim);
    reply_error(
        registry_.transport(), request.reply,
        {StatusCode::kInvalidArgument, fmt::format("term {}, revision {}: accepted are at most {}",
                                                   claim.term, claim.revision, wire::kMaxTerm)});
    return true;
  }
  if (parked_.size() >= kMaxParked || parked_bytes_ + request.body.size() > kMaxParkedBytes) {
    reply_error(registry_.transport(), request.reply,
                {StatusCode::kRetry, "too many messages wait for their term to be confirmed"},
                kRetryAfterUs);
    return true;
  }
  parked_.push_back({request.reply, request.header, std::string(request.body), claim, round_ + 1});
  parked_bytes_ += request.body.size();
  if (!std::exchange(asking_, true)) scope_.spawn(confirm());
  return true;
}

/// Asks all coordinators in parallel; repeats while there are messages that arrived after the last
/// question.
Task<void> TermGate::confirm() {
  while (!parked_.empty()) {
    settled_.reset();
    ++round_;
    unanswered_ = coordinators_.size();
    for (const Locator& coordinator : coordinators_) scope_.spawn(ask(coordinator, round_));
    if (unanswered_ > 0 && waits_for_round()) co_await settled_;
    if (refuse_rest()) co_await reactor_.sleep(kAfterARefusal);
  }
  asking_ = false;
}

bool TermGate::waits_for_round() const {
  return std::ranges::any_of(parked_, [this](const Parked& p) { return p.round <= round_; });
}

Task<void> TermGate::ask(Locator coordinator, uint64_t round) {
  const Time deadline = reactor_.now() + kAskTimeout;
  const wire::Empty nothing;
  for (int hop = 0; hop < 2; ++hop) {
    const RpcReply reply = co_await rpc_.call_with(coordinator, 0, wire::Opcode::kGetClusterInfo,
                                                   RpcClient::body_of(nothing), deadline);
    if (reply.ok()) {
      if (const auto info = decode_message<wire::ClusterInfo>(reply)) heard(*info);
      break;
    }
    // A standby names the leader, which may not be in our list.
    if (reply.status != StatusCode::kNotLeader) break;
    auto leader = leader_of(reply, coordinator.transport);
    if (!leader || std::ranges::find(coordinators_, *leader) != coordinators_.end()) break;
    coordinator = std::move(*leader);
  }
  if (round == round_ && --unanswered_ == 0) settled_.set();
}

void TermGate::heard(const wire::ClusterInfo& info) {
  if (std::max(info.term, info.metadata_revision) > wire::kMaxTerm) return;
  servers_.note_term(info.term);
  revision_ = std::max(revision_, info.metadata_revision);
  release(info);
}

/// Handles requests whose term is confirmed now.
void TermGate::release(const wire::ClusterInfo& info) {
  std::list<Parked> confirmed;
  for (auto it = parked_.begin(); it != parked_.end();) {
    const auto at = it++;
    // Coordinators of earlier versions do not tell the revision.
    if (info.metadata_revision == 0 && at->claim.term == info.term) {
      revision_ = std::max(revision_, at->claim.revision);
    }
    if (known(at->claim) || at->claim.term < servers_.highest_term()) {
      confirmed.splice(confirmed.end(), parked_, at);
    }
  }
  for (const Parked& message : confirmed) {
    RC_SOMETIMES("rpc.term_is_confirmed");
    parked_bytes_ -= message.body.size();
    registry_.on_request(message.reply, message.header, message.body);
  }
  if (!waits_for_round()) settled_.set();
}

/// Refuses the parked messages that nobody confirmed. False if there were none.
bool TermGate::refuse_rest() {
  std::list<Parked> refused;
  for (auto it = parked_.begin(); it != parked_.end();) {
    const auto at = it++;
    if (at->round <= round_) refused.splice(refused.end(), parked_, at);
  }
  for (const Parked& message : refused) {
    RC_SOMETIMES("rpc.term_is_not_confirmed");
    parked_bytes_ -= message.body.size();
    unconfirmed_.add();
    say_refused(message.header, message.claim);
    reply_error(registry_.transport(), message.reply,
                {StatusCode::kRetry,
                 fmt::format("term {}, revision {}: no coordinator of this server's confirms them",
                             message.claim.term, message.claim.revision)},
                kRetryAfterUs);
  }
  return !refused.empty();
}

void TermGate::say_refused(const wire::MessageHeader& header, const Claim& claim) {
  if (reactor_.now() < say_again_) return;
  say_again_ = reactor_.now() + kBetweenLines;
  log_warn("term_gate.refused",
           {{"opcode", header.opcode},
            {"term", claim.term},
            {"revision", claim.revision},
            {"confirmed_term", servers_.highest_term()},
            {"confirmed_revision", revision_},
            {"refused_since_start", impossible_.value() + unconfirmed_.value()}});
}

}  // namespace ramcloud
