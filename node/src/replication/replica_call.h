// One message to a backup and what became of it. It belongs to the reactor that sends it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "replication/replica_state.h"
#include "transport/transport.h"
#include "wire/data_messages.h"
#include "wire/message_header.h"

namespace ramcloud {

class ReplicaSlot;

/// It goes round: idle; under way, which its own reactor begins under the lock that replication is
/// driven under; answered, which its own reactor notes without a lock; idle again, when whoever
/// holds the lock has taken the answer. While it is under way only its own reactor may take it back
/// (the session belongs to that one's transport).
///
/// The call and the slot that waits for it know each other, and both ends change under the lock
/// only. So a slot that does not want to wait any more lets go of the call at once, whichever
/// reactor's it is; the answer is then dropped.
class ReplicaCall final : public ClientCall {
 public:
  /// What sends: the first reactor's ReplicaManager, or the ReplicaLane of any.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// On the owner's reactor, from a transport callback: only to be noted.
    virtual void call_answered(ReplicaCall& call) = 0;
    /// Nobody waits for it any more: take it back. On any reactor, under the lock.
    virtual void call_dropped(ReplicaCall& call) = 0;
  };
  explicit ReplicaCall(Owner& owner) : owner_(owner) {}

  Owner& owner() const { return owner_; }
  bool idle() const { return state() == State::kIdle; }
  bool under_way() const { return state() == State::kUnderWay; }
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
  void let_go() { slot_ = nullptr; }
  /// Answered: OK, the peer's answer, or the transport's report.
  const Status& status() const { return status_; }
  uint32_t retry_after_us() const { return retry_after_us_; }
  /// Of the peer's answer, if that is an error.
  const wire::ErrorDetails& details() const { return details_; }
  const ReplicaMessage& message() const { return message_; }
  /// The answer was taken: idle.
  void finish() {
    slot_ = nullptr;
    state_.store(State::kIdle, std::memory_order_release);
  }
  /// @}

 private:
  enum class State : uint8_t { kIdle, kUnderWay, kAnswered };
  State state() const { return state_.load(std::memory_order_acquire); }
  void on_reply(const wire::MessageHeader& header, ByteView body) override;
  void on_failure(const Status& status) override;
  void note(Status status, uint32_t retry_after_us = 0, wire::ErrorDetails details = {});

  Owner& owner_;
  std::shared_ptr<Session> session_;
  Time deadline_ = kNever;
  ReplicaSlot* slot_ = nullptr;  // under the lock
  ReplicaMessage message_;
  Status status_;  // this and the next two are its reactor's while in flight, else the lock's
  uint32_t retry_after_us_ = 0;
  wire::ErrorDetails details_;
  std::atomic<State> state_{State::kIdle};
};

}  // namespace ramcloud
