// One of the R replicas of a segment, as its master handles it: its state, the backup that has it,
// and the one call that may be in flight to it, from whichever reactor. What may happen to it is
// said in replica_state.h; here it is sent.
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
/// The same of a copy for a replica that was lost: nobody waits for it, so what waits behind it for
/// the reactor and the connection should not wait long.
inline constexpr uint32_t kMaxCopyMessageBytes = 256u << 10;

/// A thread that uses it holds the lock that replication is driven under (DriveLock).
class ReplicaSlot {
 public:
  /// `first`: of the first reactor, which sends what only it may send.
  ReplicaSlot(CallInbox& first, log::Segment& segment, bool primary)
      : segment_(&segment), primary_(primary), own_(first) {}
  ReplicaSlot(const ReplicaSlot&) = delete;
  ReplicaSlot& operator=(const ReplicaSlot&) = delete;

  const ReplicaState& state() const { return state_; }
  bool primary() const { return primary_; }
  log::Segment& segment() const { return *segment_; }
  /// From now on bytes come from this one, which has the same id. The replica is closed, or there is
  /// none.
  void set_segment(log::Segment& segment) { segment_ = &segment; }
  /// Of the backup, if it is placed.
  uint64_t server_id() const { return server_id_; }
  const Locator& locator() const { return locator_; }
  const std::string& failure_domain() const { return failure_domain_; }

  bool placed() const { return state_.placed(); }
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
  /// What it wants to send are bytes that were published after all others were acknowledged, to an
  /// open replica with which all is well: any reactor may send that.
  bool wants_plain(Time now) const {
    return state_.phase == ReplicaPhase::kOpen && counts() && !segment_->closed() &&
           knows_holders() && failures_ == 0 && now >= not_before_;
  }
  /// The backups that have replicas of the segment now. Until this backup has their ids on its
  /// device nothing becomes durable there (docs/design/recovery.md#told-before-counted).
  void set_holders(const wire::Holders& holders) { holders_ = holders; }
  /// It may know of more: recovery asks those, too. A closed replica need not know them, because it
  /// is whole.
  bool knows_holders() const { return told_holders_.covers(holders_) || closed(); }

  /// Nobody can take it now. `overdue`: for so long that the segment goes on without it.
  void placement_failed(bool overdue);
  /// Puts the replica on a backup. What does not fit into the open is a copy: invisible to recovery
  /// until it is complete.
  void place(uint64_t server_id, Locator locator, std::string failure_domain);
  /// The backup refused it (and has nothing of it), or it is lost: forgets the backup and all that
  /// it acknowledged.
  void unplace(ReplicaEvent why);

  /// Recovery may take the log's digest from it, or could if what was sent has come: an open with
  /// all bytes, or the end of a copy of an open segment, has left, and no close is acknowledged. So
  /// its backup leases (docs/design/recovery.md#leases).
  bool may_decide() const { return may_decide_; }

  /// Where the replica stands among those of its backup: for ReplicaManager.
  size_t index_on_backup() const { return index_on_backup_; }
  void set_index_on_backup(size_t index) { index_on_backup_ = index; }

  /// Sends the next message in a call that is idle and has its session: the open, or published
  /// bytes, or the close. The bytes go from log memory to the transport; nothing is allocated.
  /// Returns how many of them there are.
  uint32_t send(ReplicaCall& call, uint64_t list_version, Time now, Duration timeout);
  /// Sends published bytes and nothing else.
  void send_plain(ReplicaCall& call, Time now, Duration timeout);

  /// The one that this slot waits for, in flight or answered; null if there is none.
  ReplicaCall* call() const { return call_; }
  /// The first reactor's.
  ReplicaCall& own_call() { return own_; }
  /// The outcome of a call.
  struct Answer {
    Status status;  // OK: what it carried is acknowledged now
    uint32_t retry_after_us = 0;
  };
  /// The call is answered: takes that over.
  Answer take_answer();
  /// Does not wait for the call any more, if there is one.
  void drop_call();

  /// Not to be sent before this.
  Time not_before() const { return not_before_; }
  void wait_until(Time when) { not_before_ = when; }
  uint32_t failures() const { return failures_; }  // in a row
  void count_failure() { ++failures_; }

 private:
  SegmentView view() const {
    // In this order: once closed is seen, published() is the final length.
    const bool closed = segment_->closed();
    return {segment_->side(), closed, segment_->published(), segment_->replication_epoch()};
  }
  void happened(ReplicaEvent event, Acked acked = {});
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
  bool may_decide_ = false;
  uint32_t failures_ = 0;
  Time not_before_{};
  size_t index_on_backup_ = 0;
  wire::Holders holders_;          // of the segment
  wire::Holders telling_holders_;  // in the call
  wire::Holders told_holders_;     // acknowledged by the backup
  ReplicaCall* call_ = nullptr;
  ReplicaCall own_;
};

}  // namespace ramcloud
