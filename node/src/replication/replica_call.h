// One message to a backup and its outcome. It belongs to the reactor that sends it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "replication/replica_state.h"
#include "runtime/reactor.h"
#include "transport/transport.h"
#include "wire/data_messages.h"
#include "wire/message_header.h"

namespace ramcloud {

class ReplicaCall;
class ReplicaSlot;

/// What a reactor's calls have for it. Belongs to that reactor, except as said.
class CallInbox {
 public:
  /// `calls`: so many can be noted without allocating.
  explicit CallInbox(Reactor& reactor, size_t calls = 0) : reactor_(reactor) {
    answered_.reserve(calls);
  }
  /// Calls that were answered, or failed, since this was last cleared.
  std::vector<ReplicaCall*>& answered() { return answered_; }
  /// Nobody waits for one of the calls any more: it is to be taken back. Any reactor, under the
  /// lock.
  void note_dropped() {
    dropped_.store(true, std::memory_order_relaxed);
    reactor_.nudge();
  }
  /// For leases.
  Time lease_now() const { return reactor_.clock().lease_now(); }
  bool has_dropped() const { return dropped_.load(std::memory_order_relaxed); }
  void clear_dropped() { dropped_.store(false, std::memory_order_relaxed); }

 private:
  Reactor& reactor_;
  std::vector<ReplicaCall*> answered_;
  std::atomic<bool> dropped_{false};
};

/// Its states, in a cycle: idle; in flight, which its own reactor begins under the lock that
/// replication is driven under; answered, which is noted in its reactor's inbox without a lock;
/// idle again, when the holder of the lock has taken the answer. While it is in flight only its own
/// reactor may take it back (the session belongs to that one's transport).
///
/// The call and the slot that waits for it know each other, and both ends change under the lock
/// only. So a slot that does not want to wait any more lets go of the call at once, whichever
/// reactor's it is; the answer is then dropped.
class ReplicaCall final : public ClientCall {
 public:
  explicit ReplicaCall(CallInbox& inbox) : inbox_(inbox) {}

  bool idle() const { return state() == State::kIdle; }
  bool in_flight() const { return state() == State::kInFlight; }
  bool answered() const { return state() == State::kAnswered; }

  /// @name On its own reactor
  /// @{
  const std::shared_ptr<Session>& session() const { return session_; }
  void set_session(std::shared_ptr<Session> session) { session_ = std::move(session); }
  Time deadline() const { return deadline_; }
  /// Under the lock, and idle.
  void begin(ReplicaSlot& slot, const ReplicaMessage& message, const wire::MessageHeader& header,
             std::span<const Slice> body, Time deadline);
  /// Takes it back: idle.
  void retract();
  /// Takes it back as a call that failed.
  void give_up(Status why);
  /// @}

  /// @name Under the lock
  /// @{
  ReplicaSlot* slot() const { return slot_; }
  /// Nobody waits for it any more: its reactor takes it back.
  void let_go() {
    slot_ = nullptr;
    inbox_.note_dropped();
  }
  /// Answered: OK, the peer's answer, or the transport's report.
  const Status& status() const { return status_; }
  uint32_t retry_after_us() const { return retry_after_us_; }
  /// Of the peer's answer, if that is an error.
  const wire::ErrorDetails& details() const { return details_; }
  const ReplicaMessage& message() const { return message_; }
  /// The time of the lease clock before the first byte was sent.
  Time sent() const { return sent_; }
  /// The answer was taken: idle.
  void finish() {
    slot_ = nullptr;
    state_.store(State::kIdle, std::memory_order_release);
  }
  /// @}

 private:
  enum class State : uint8_t { kIdle, kInFlight, kAnswered };
  State state() const { return state_.load(std::memory_order_acquire); }
  void on_reply(const wire::MessageHeader& header, ByteView body) override;
  void on_failure(const Status& status) override;
  void note(Status status, uint32_t retry_after_us = 0, wire::ErrorDetails details = {});

  CallInbox& inbox_;
  std::shared_ptr<Session> session_;
  Time deadline_ = kNever;
  ReplicaSlot* slot_ = nullptr;  // under the lock
  ReplicaMessage message_;
  Time sent_{};
  Status status_;  // this and the next two are its reactor's while in flight, else the lock's
  uint32_t retry_after_us_ = 0;
  wire::ErrorDetails details_;
  std::atomic<State> state_{State::kIdle};
};

}  // namespace ramcloud
