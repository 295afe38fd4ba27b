// One of the R replicas of a segment, as its master handles it: its state, its backup, and the one
// call that may be in flight for it, from any reactor. replica_state.h defines the legal
// transitions; this class sends the messages.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "log/segment.h"
#include "replication/replica_call.h"
#include "replication/replica_state.h"
#include "wire/replica_messages.h"

namespace ramcloud {

/// Segment bytes that one message carries at most, unless a single group is larger.
inline constexpr uint32_t kMaxReplicaMessageBytes = 1u << 20;
/// The same for copies. They are smaller, because no client waits for a copy, but client data may
/// wait behind it for the reactor and the connection.
inline constexpr uint32_t kMaxCopyMessageBytes = 256u << 10;

/// The calling thread holds the DriveLock.
class ReplicaSlot {
 public:
  /// `first`: the inbox of the first reactor, whose call sends what only that reactor may send.
  ReplicaSlot(CallInbox& first, log::Segment& segment, bool primary)
      : segment_(&segment), primary_(primary), first_reactor_call_(first) {}
  ReplicaSlot(const ReplicaSlot&) = delete;
  ReplicaSlot& operator=(const ReplicaSlot&) = delete;

  const ReplicaState& state() const { return state_; }
  bool primary() const { return primary_; }
  log::Segment& segment() const { return *segment_; }
  /// From now on bytes are taken from this segment, which has the same id. Precondition: the
  /// replica is closed or unplaced.
  void set_segment(log::Segment& segment) { segment_ = &segment; }
  /// The backup, if the replica is placed.
  uint64_t server_id() const { return server_id_; }
  const Locator& locator() const { return locator_; }
  const std::string& failure_domain() const { return failure_domain_; }

  bool placed() const { return state_.placed(); }
  bool adopting() const { return state_.phase == ReplicaPhase::kAdopting; }
  bool closed() const { return state_.phase == ReplicaPhase::kClosed; }
  /// Acknowledged by the backup: bytes from the start (the end of a group), and an epoch.
  uint32_t acked() const { return state_.acked.bytes; }
  uint32_t acked_epoch() const { return state_.acked.epoch; }
  bool behind() const { return ramcloud::behind(state_, segment_->replication_epoch()); }
  bool counts() const { return ramcloud::counts(state_, segment_->replication_epoch()); }
  bool copies() const { return sends_copy(state_, view(), kMaxReplicaMessageBytes); }
  bool wants_to_send() const {
    return ramcloud::wants_to_send(state_, view()) ||
           (state_.phase == ReplicaPhase::kOpen && !knows_holders());
  }
  /// What it wants to send is a plain write: only published bytes, all earlier ones are
  /// acknowledged, and the replica is open, counts, and had no failure. Any reactor may send that.
  bool wants_plain(Time now) const {
    return state_.phase == ReplicaPhase::kOpen && counts() && !segment_->closed() &&
           knows_holders() && failures_ == 0 && now >= not_before_;
  }
  /// The backups that have replicas of the segment now. Until this backup has their ids on its
  /// device nothing becomes durable there (docs/design/recovery.md#told-before-counted).
  void set_holders(const wire::Holders& holders) { holders_ = holders; }
  /// The backup knows all present holders. It may know former ones as well, which recovery then
  /// asks in vain. A closed replica need not know them, because it is complete.
  bool knows_holders() const { return told_holders_.covers(holders_) || closed(); }

  /// No backup can take it now. `overdue`: for so long that the segment goes on without it.
  void placement_failed(bool overdue);
  /// Puts the replica on a backup. If the bytes so far do not fit into the open message, the
  /// replica is a copy: invisible to recovery until it is complete.
  void place(uint64_t server_id, Locator locator, std::string failure_domain);
  /// Puts the replica on a backup that is asked to adopt it. `number` of the request: an answer to an
  /// earlier one means nothing.
  void ask_to_adopt(uint64_t server_id, Locator locator, std::string failure_domain,
                    uint64_t number);
  uint64_t adoption_number() const { return adoption_number_; }
  /// The backup did so: it has these bytes with this epoch.
  void adopted(Acked acked) { happened(ReplicaEvent::kAdopted, acked); }
  /// A request to adopt it failed without proof that nothing was written.
  void adoption_is_unclear() { happened(ReplicaEvent::kOutcomeUnknown); }
  /// The backup refused it (and has nothing of it), or it is lost: forgets the backup and all that
  /// it acknowledged.
  void unplace(ReplicaEvent why);

  /// Recovery may take the log's digest from this replica, or could once the sent message arrives:
  /// an open with all bytes, or the end of a copy of an open segment, was sent, and no close is
  /// acknowledged. So its backup is a holder of the lease (docs/design/recovery.md#leases).
  bool may_end_log() const { return may_end_log_; }

  /// The index of this replica in the backup's list in BackupTable.
  size_t index_on_backup() const { return index_on_backup_; }
  void set_index_on_backup(size_t index) { index_on_backup_ = index; }

  /// Sends the next message in a call that is idle and has its session: the open, or published
  /// bytes, or the close. The bytes go from log memory to the transport; nothing is allocated.
  /// Returns the number of bytes.
  uint32_t send(ReplicaCall& call, uint64_t list_version, Time now, Duration timeout);
  /// Sends published bytes and nothing else.
  void send_plain(ReplicaCall& call, Time now, Duration timeout);

  /// The call that this slot waits for, in flight or answered; null if there is none.
  ReplicaCall* call() const { return call_; }
  /// The call that the first reactor sends.
  ReplicaCall& first_reactor_call() { return first_reactor_call_; }
  /// The outcome of a call.
  struct Answer {
    Status status;  // OK: the message's content is acknowledged now
    uint32_t retry_after_us = 0;
  };
  /// Precondition: the call is answered. Takes the answer into the state.
  Answer take_answer();
  /// Stops waiting for the call, if there is one.
  void drop_call();

  /// Nothing is sent before this time.
  Time not_before() const { return not_before_; }
  void wait_until(Time when) { not_before_ = when; }
  uint32_t failures() const { return failures_; }  // in a row
  void count_failure() { ++failures_; }

 private:
  SegmentView view() const {
    // Read in this order: once closed is seen, published() is the final length.
    const bool closed = segment_->closed();
    return {segment_->side(), closed, segment_->published(), segment_->replication_epoch()};
  }
  void happened(ReplicaEvent event, Acked acked = {});
  void put_on(uint64_t server_id, Locator locator, std::string failure_domain);
  uint32_t send_open(ReplicaCall& call, uint64_t list_version, Time now, Duration timeout);
  uint32_t send_write(ReplicaCall& call, bool only_bytes, Time now, Duration timeout);
  std::string extension_for(const ReplicaCall& call);
  void send_bytes(ReplicaCall& call, wire::Opcode opcode, ByteView head, ByteView extension,
                  uint32_t from, const ReplicaMessage& message, Time now, Duration timeout);

  log::Segment* segment_;
  const bool primary_;
  ReplicaState state_;
  uint64_t server_id_ = 0;
  Locator locator_;
  std::string failure_domain_;
  uint64_t adoption_number_ = 0;
  bool may_end_log_ = false;
  uint32_t failures_ = 0;
  Time not_before_{};
  size_t index_on_backup_ = 0;
  wire::Holders holders_;          // of the segment
  wire::Holders telling_holders_;  // in the message in flight
  wire::Holders told_holders_;     // acknowledged by the backup
  ReplicaCall* call_ = nullptr;
  ReplicaCall first_reactor_call_;
};

}  // namespace ramcloud
