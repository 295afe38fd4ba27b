#include "replication/replica_lane.h"

#include <algorithm>
#include <utility>

#include "replication/replica_manager.h"

namespace ramcloud {
namespace {

/// For how long a lane leaves a backup alone that did not answer it.
constexpr Duration kAvoided = 5s;

}  // namespace

ReplicaLane::ReplicaLane(ReplicaManager& manager, RpcClient& rpc, Counter& messages,
                         uint32_t replicas, Duration write_timeout)
    : manager_(manager),
      rpc_(rpc),
      reactor_(rpc.reactor()),
      messages_(messages),
      write_timeout_(write_timeout),
      timer_(reactor_, [this] { on_deadline(); }) {
  for (uint32_t i = 0; i < replicas; ++i) lines_.emplace_back(*this);
}

ReplicaLane::~ReplicaLane() = default;

bool ReplicaLane::on_turn(bool appended) {
  const bool answered = std::exchange(answered_, false);
  if (!appended && !answered && !dropped_.load(std::memory_order_relaxed)) return false;
  return manager_.drive(*this);
}

bool ReplicaLane::send(size_t index, ReplicaSlot& slot) {
  Line& line = lines_[index];
  if (!line.call.idle() || !connected(line, slot)) return false;
  slot.send_plain(line.call, now(), write_timeout_);
  messages_.add();
  // Deadlines rise, so a timer that runs fires early enough.
  if (!timer_.running()) timer_.start_at(line.call.deadline());
  return true;
}

/// Never waits for a connection with bytes in hand: while it is being made the first reactor sends.
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

void ReplicaLane::call_answered(ReplicaCall&) {
  answered_ = true;
}

void ReplicaLane::call_dropped(ReplicaCall&) {
  dropped_.store(true, std::memory_order_relaxed);
  reactor_.nudge();
}

void ReplicaLane::retract_dropped() {
  dropped_.store(false, std::memory_order_relaxed);
  for (Line& line : lines_) {
    if (!line.call.idle() && line.call.slot() == nullptr) line.call.retract();
  }
}

void ReplicaLane::stop() {
  timer_.stop();
  for (Line& line : lines_) line.call.retract();
}

/// Gives up what is late; the first reactor sends it again.
void ReplicaLane::on_deadline() {
  Time next = kNever;
  for (Line& line : lines_) {
    if (!line.call.under_way()) continue;
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
