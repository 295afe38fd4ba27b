// One of the R replicas of a segment, seen from the master: where it is, what of it is
// acknowledged, and the one call that may be under way to it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "log/segment.h"
#include "transport/transport.h"
#include "wire/replica_messages.h"

namespace ramcloud {

class ReplicaSlot;

/// Who is told what became of a slot's calls. From transport callbacks: must not send from there.
class ReplicaSlotOwner {
 public:
  virtual ~ReplicaSlotOwner() = default;
  /// More is acknowledged (opened, bytes, or closed).
  virtual void replica_advanced(ReplicaSlot& slot) = 0;
  /// The call failed with `status`: the peer's answer or the transport's report.
  virtual void replica_failed(ReplicaSlot& slot, const Status& status, uint32_t retry_after_us) = 0;
};

/// Segment bytes that one message carries at most, unless a single group is larger.
inline constexpr uint32_t kMaxReplicaMessageBytes = 1u << 20;

class ReplicaSlot final : public ClientCall {
 public:
  enum class State : uint8_t {
    kUnplaced,  // no backup yet
    kOpening,   // placed; the open is not acknowledged
    kOpen,
    kClosed,  // has everything, the footer included
  };

  ReplicaSlot(ReplicaSlotOwner& owner, log::Segment& segment, bool primary)
      : owner_(owner), segment_(segment), primary_(primary) {}

  State state() const { return state_; }
  bool primary() const { return primary_; }
  log::Segment& segment() const { return segment_; }
  uint64_t server_id() const { return server_id_; }
  const std::string& failure_domain() const { return failure_domain_; }
  /// Bytes from the start that the backup has acknowledged; the end of a group.
  uint32_t acked() const { return acked_; }
  bool opened() const { return state_ == State::kOpen || state_ == State::kClosed; }
  /// Open, and of an epoch that is over: recovery would not take it. (A closed one it would.)
  bool behind() const {
    return state_ == State::kOpen && acked_epoch_ < segment_.replication_epoch();
  }
  /// Counts as a replica: opened, complete if it copies what other replicas had already, and not
  /// behind.
  bool counts() const { return opened() && (!recreation_ || complete_) && !behind(); }
  /// Placement found nobody the last time.
  bool turned_away() const { return turned_away_; }
  void set_turned_away(bool away) { turned_away_ = away; }
  /// Nobody could take it for a while: the segment goes on without this replica until it counts.
  bool waived() const { return waived_; }
  void waive() { waived_ = true; }

  /// Puts the replica on a backup. What does not fit into the open is a re-creation: invisible to
  /// recovery until it is complete.
  void place(uint64_t server_id, std::string failure_domain);
  /// Forgets the backup and all that it acknowledged.
  void unplace();

  /// True when there is something that has not been sent (or must be sent again).
  bool wants_to_send() const;
  /// Sends what is next over the session: the open, or published bytes, or the close. The bytes go
  /// from log memory to the transport; nothing is allocated.
  void send(std::shared_ptr<Session> session, uint64_t list_version, Time deadline,
            uint32_t timeout_ms);
  /// Takes back the call under way, if there is one.
  void abandon_call();

  const std::shared_ptr<Session>& session() const { return session_; }
  /// Of the call under way.
  Time deadline() const { return deadline_; }
  /// Not to be sent before this.
  Time not_before() const { return not_before_; }
  void wait_until(Time when) { not_before_ = when; }
  uint32_t failures() const { return failures_; }  // in a row
  void count_failure() { ++failures_; }

 private:
  void on_reply(const wire::MessageHeader& header, ByteView body) override;
  void on_failure(const Status& status) override;
  void send_open(uint64_t list_version, uint32_t timeout_ms);
  void send_write(uint32_t timeout_ms);
  void send_bytes(wire::Opcode opcode, ByteView head, uint32_t from, uint32_t to,
                  uint32_t timeout_ms);

  ReplicaSlotOwner& owner_;
  log::Segment& segment_;
  const bool primary_;
  State state_ = State::kUnplaced;
  bool recreation_ = false;
  bool complete_ = false;  // of a re-creation: the backup has made it visible
  bool waived_ = false;
  bool turned_away_ = false;
  bool closing_ = false;     // the call under way carries the close
  bool completing_ = false;  // and this, the last bytes of a re-creation
  uint64_t server_id_ = 0;
  std::string failure_domain_;
  std::shared_ptr<Session> session_;
  uint32_t acked_ = 0;
  uint32_t acked_epoch_ = 0;
  uint32_t sending_to_ = 0;  // end of what the call under way carries
  uint32_t sending_epoch_ = 0;
  uint32_t failures_ = 0;
  Time deadline_ = kNever;
  Time not_before_{};
};

}  // namespace ramcloud
