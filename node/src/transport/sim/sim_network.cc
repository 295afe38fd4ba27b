#include "transport/sim/sim_network.h"

#include <algorithm>

#include "base/logging.h"
#include "transport/sim/sim_transport.h"

namespace ramcloud {
namespace {

/// Whether a request may be sent again although its outcome is unknown (docs/design/wire.md).
bool is_idempotent(uint16_t opcode) {
  using wire::Opcode;
  switch (static_cast<Opcode>(opcode)) {
    case Opcode::kPing:
    case Opcode::kRead:
    case Opcode::kMultiRead:
    case Opcode::kUpdateServerList:
    case Opcode::kTakeTablet:
    case Opcode::kDropTablet:
    case Opcode::kGetServerStats:
    case Opcode::kGetReplicasOn:
    case Opcode::kGetUnneeded:
    case Opcode::kResizeLog:
    case Opcode::kRaiseReplicationEpoch:
    case Opcode::kReplicaOpen:
    case Opcode::kReplicaWrite:
    case Opcode::kReplicaFree:
    case Opcode::kReplicaAdopt:
      return true;
    default:
      return false;
  }
}

}  // namespace

SimNetwork::SimNetwork(SimScheduler& scheduler, const SimNetworkOptions& options)
    : scheduler_(scheduler),
      options_(options),
      random_(scheduler.random().fork()),
      repeats_(random_) {}

std::unique_ptr<SimTransport> SimNetwork::make_transport(SimNode& node) {
  return std::make_unique<SimTransport>(*this, node);
}

void SimNetwork::partition(const SimNode& a, const SimNode& b) {
  cut_.insert(direction(a, b));
  cut_.insert(direction(b, a));
}

void SimNetwork::partition_one_way(const SimNode& from, const SimNode& to) {
  cut_.insert(direction(from, to));
}

void SimNetwork::set_slow(const SimNode& a, const SimNode& b, Duration more) {
  for (const Direction& way : {direction(a, b), direction(b, a)}) {
    if (more == Duration{}) {
      slow_.erase(way);
    } else {
      slow_[way] = more;
    }
  }
}

size_t SimNetwork::break_sessions_to(const SimNode& node) {
  size_t broken = 0;
  for (SimTransport* transport : transports_) {
    if (&transport->node() == &node && node.alive()) broken += transport->close_all();
  }
  for (size_t i = 0; i < broken; ++i) scheduler_.note(Fault::kSessionBroken);
  return broken;
}

std::optional<Duration> SimNetwork::repeat_of(const wire::MessageHeader& header) {
  if (options_.repeat == 0 || !is_idempotent(header.opcode) || !repeats_.chance(options_.repeat)) {
    return std::nullopt;
  }
  const auto most = static_cast<uint64_t>(options_.repeat_after.count());
  return Duration(static_cast<int64_t>(repeats_.below(most)));
}

void SimNetwork::heal(const SimNode& a, const SimNode& b) {
  cut_.erase(direction(a, b));
  cut_.erase(direction(b, a));
}

void SimNetwork::sent(const SimNode& from, const SimNode& to, const wire::MessageHeader& header) {
  if (tap_) tap_(from, header);
  if (!tracing_) return;
  log_debug(header.kind == wire::Kind::kRequest ? "request" : "reply",
            {{"to", to.name()},
             {"opcode", header.opcode},
             {"call", header.call_id},
             {"status", status_name(static_cast<StatusCode>(header.status))},
             {"bytes", uint32_t{header.body_length}}});
}

Duration SimNetwork::delay() {
  const auto range = static_cast<uint64_t>((options_.most_delay - options_.least_delay).count());
  return options_.least_delay + Duration(static_cast<int64_t>(random_.below(range + 1)));
}

SimTransport* SimNetwork::listener(const HostPort& address) const {
  const auto found = listeners_.find(address);
  return found == listeners_.end() || !found->second->node().alive() ? nullptr : found->second;
}

void SimNetwork::send(const SimNode& from, SimNode& to, Time& lane, bool reliable,
                      std::function<void()> fn) {
  // Draw both random numbers in any case, so that a cut does not change the fate of later messages.
  const Duration delayed = delay();
  const bool unlucky = random_.chance(options_.loss);
  if (from.doomed()) return;
  if (is_cut(from, to) || (unlucky && !reliable)) {
    ++lost_;
    scheduler_.note(!is_cut(from, to)  ? Fault::kMessageLost
                    : is_cut(to, from) ? Fault::kMessageCut
                                       : Fault::kMessageCutOneWay);
    return;
  }
  Time when = std::max(scheduler_.now(), from.paused_until()) + delayed;
  if (const auto slow = slow_.find(direction(from, to)); slow != slow_.end()) {
    when += slow->second;
    scheduler_.note(Fault::kMessageSlow);
  }
  if (!options_.reorder || reliable) when = std::max(when, lane);
  lane = std::max(lane, when);
  ++delivered_;
  scheduler_.deliver(to, when, std::move(fn));
}

}  // namespace ramcloud
