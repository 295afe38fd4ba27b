#include "replication/replica_lane.h"

#include <algorithm>

namespace ramcloud {
namespace {

/// How long a lane sends nothing to a backup that did not answer in time.
constexpr Duration kAvoided = 5s;

}  // namespace

ReplicaLane::ReplicaLane(RpcClient& rpc, Counter& messages, uint32_t replicas,
                         Duration write_timeout)
    : rpc_(rpc),
      reactor_(rpc.reactor()),
      messages_(messages),
      write_timeout_(write_timeout),
      inbox_(reactor_, replicas),
      timer_(reactor_, [this] { on_deadline(); }) {
  for (uint32_t i = 0; i < replicas; ++i) lines_.emplace_back(inbox_);
}

bool ReplicaLane::take_news() {
  const bool any = !inbox_.answered().empty() || inbox_.has_dropped();
  inbox_.answered().clear();  // each call keeps its answer
  return any;
}

bool ReplicaLane::send(size_t index, ReplicaSlot& slot) {
  Line& line = lines_[index];
  if (!line.call.idle() || !connected(line, slot)) return false;
  slot.send_plain(line.call, now(), write_timeout_);
  messages_.add();
  // Deadlines rise with each call, so a running timer fires early enough.
  if (!timer_.running()) timer_.start_at(line.call.deadline());
  return true;
}

/// A lane does not wait for a connection: while it is being established, the first reactor sends.
bool ReplicaLane::connected(Line& line, const ReplicaSlot& slot) {
  if (line.server_id != slot.server_id()) {
    line.call.set_session(nullptr);
    line.server_id = slot.server_id();
    line.avoided_until = Time{};
  }
  if (now() < line.avoided_until) return false;
  if (line.call.session() == nullptr || line.call.session()->broken()) {
    line.call.set_session(rpc_.session(slot.locator(), slot.server_id()));
  }
  const Session& session = *line.call.session();
  return !session.broken() && session.peer_server_id() == slot.server_id();
}

void ReplicaLane::retract_dropped() {
  inbox_.clear_dropped();
  for (Line& line : lines_) {
    if (!line.call.idle() && line.call.slot() == nullptr) line.call.retract();
  }
}

void ReplicaLane::stop() {
  timer_.stop();
  for (Line& line : lines_) line.call.retract();
}

/// Gives up late calls; the first reactor sends them again.
void ReplicaLane::on_deadline() {
  Time next = kNever;
  for (Line& line : lines_) {
    if (!line.call.in_flight()) continue;
    if (line.call.deadline() > now()) {
      next = std::min(next, line.call.deadline());
      continue;
    }
    line.avoided_until = now() + kAvoided;
    line.call.give_up({StatusCode::kDeadlineExceeded, "no answer in time"});
  }
  if (next != kNever) timer_.start_at(next);
}

}  // namespace ramcloud
