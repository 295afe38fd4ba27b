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

/// The answers of a reactor's calls, until it takes them. Belongs to that reactor, except where a
/// comment says otherwise.
class CallInbox {
 public:
  /// `calls`: room is reserved for so many answered calls, so that noting one does not allocate.
  explicit CallInbox(Reactor& reactor, size_t calls = 0) : reactor_(reactor) {
    answered_.reserve(calls);
  }
  /// Calls that were answered, or failed, since this was last cleared.
  std::vector<ReplicaCall*>& answered() { return answered_; }
  /// A slot dropped one of the calls: this reactor must retract it. Any reactor, under the lock.
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

/// A call goes through three states in a cycle. Idle. In flight: its own reactor began it, under
/// the DriveLock. Answered: the answer is in its reactor's inbox, which needs no lock. It is idle
/// again when the holder of the DriveLock has taken the answer. Only its own reactor may retract a
/// call in flight, because the session belongs to that reactor's transport.
///
/// A call and the slot that waits for it point at each other; both pointers change only under the
/// DriveLock. So a slot can drop a call of any reactor at once. The answer is then ignored.
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
  /// Retracts the call: it is idle.
  void retract();
  /// Retracts the call, as one that failed.
  void give_up(Status why);
  /// @}

  /// @name Under the lock
  /// @{
  ReplicaSlot* slot() const { return slot_; }
  /// The slot drops the call: its reactor will retract it.
  void let_go() {
    slot_ = nullptr;
    inbox_.note_dropped();
  }
  /// When answered: OK, the peer's error, or the transport's error.
  const Status& status() const { return status_; }
  uint32_t retry_after_us() const { return retry_after_us_; }
  /// The details of the peer's error.
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
  ReplicaSlot* slot_ = nullptr;  // guarded by the DriveLock
  ReplicaMessage message_;
  Time sent_{};
  Status status_;  // this and the next two belong to its reactor while in flight, otherwise to the
                   // DriveLock
  uint32_t retry_after_us_ = 0;
  wire::ErrorDetails details_;
  std::atomic<State> state_{State::kIdle};
};

}  // namespace ramcloud
