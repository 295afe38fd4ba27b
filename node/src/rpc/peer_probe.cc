#include "rpc/peer_probe.h"

namespace ramcloud {
namespace {

wire::PeerState state_of(const RpcReply& reply) {
  switch (reply.absence) {
    case Absence::kRefused:
      return wire::PeerState::kRefused;
    case Absence::kStranger:
      return wire::PeerState::kStranger;
    case Absence::kUnknown:
      break;
  }
  switch (reply.status.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kConnectionLost:
      return wire::PeerState::kBroken;
    case StatusCode::kDeadlineExceeded:
      return wire::PeerState::kSilent;
    default:
      return wire::PeerState::kAnswered;  // any answer proves that it is alive
  }
}

}  // namespace

Punctuality::Punctuality(Reactor& reactor, Duration interval, Duration lateness,
                         std::function<void(Duration)> on_tick)
    : reactor_(reactor),
      interval_(interval),
      lateness_(lateness),
      on_tick_(std::move(on_tick)),
      due_(reactor.now() + interval),
      timer_(reactor, [this] { tick(); }) {
  timer_.start_at(due_);
}

void Punctuality::tick() {
  const Duration behind = late() ? reactor_.now() - due_ : Duration::zero();
  if (behind > Duration::zero()) ++epoch_;
  due_ = reactor_.now() + interval_;
  timer_.start_at(due_);
  if (on_tick_) on_tick_(behind);
}

Task<ProbeResult> probe_peer(RpcClient& rpc, Locator locator, uint64_t server_id,
                             wire::Opcode opcode, RpcClient::BodyFor body, Time deadline) {
  ProbeResult probed;
  for (int tries = 0; tries < 2; ++tries) {
    probed.reply = co_await rpc.call_with(locator, server_id, opcode, body, deadline);
    probed.state = state_of(probed.reply);
    if (probed.state != wire::PeerState::kBroken || rpc.reactor().now() >= deadline) break;
  }
  co_return probed;
}

Task<ProbeResult> ping(RpcClient& rpc, Locator locator, uint64_t server_id, Time deadline) {
  return probe_peer(
      rpc, std::move(locator), server_id, wire::Opcode::kPing,
      [](uint16_t) { return std::string(); }, deadline);
}

}  // namespace ramcloud
