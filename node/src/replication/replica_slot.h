// One of the R replicas of a segment, seen from the master: where it is, what of it is
// acknowledged, and the one call that may be under way to it, from whichever reactor.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "log/segment.h"
#include "replication/replica_call.h"
#include "wire/replica_messages.h"

namespace ramcloud {

/// Segment bytes that one message carries at most, unless a single group is larger.
inline constexpr uint32_t kMaxReplicaMessageBytes = 1u << 20;
/// The same of a copy for a replica that was lost: nobody waits for it, so what waits behind it for
/// the reactor and the connection should not wait long.
inline constexpr uint32_t kMaxCopyMessageBytes = 256u << 10;

/// All of it belongs to whoever holds the lock that replication is driven under.
class ReplicaSlot {
 public:
  enum class State : uint8_t {
    kUnplaced,  // no backup yet
    kOpening,   // placed; the open is not acknowledged
    kOpen,
    kClosed,  // has everything, the footer included
  };

  /// `first`: sends what only the first reactor may send.
  ReplicaSlot(ReplicaCall::Owner& first, log::Segment& segment, bool primary)
      : segment_(segment), primary_(primary), own_(first) {}
  ReplicaSlot(const ReplicaSlot&) = delete;
  ReplicaSlot& operator=(const ReplicaSlot&) = delete;

  State state() const { return state_; }
  bool primary() const { return primary_; }
  log::Segment& segment() const { return segment_; }
  uint64_t server_id() const { return server_id_; }
  const Locator& locator() const { return locator_; }
  const std::string& failure_domain() const { return failure_domain_; }
  /// Bytes from the start that the backup has acknowledged; the end of a group.
  uint32_t acked() const { return acked_; }
  /// Of the last that it acknowledged.
  uint32_t acked_epoch() const { return acked_epoch_; }
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
  /// Nobody could take it for a while: the segment goes on without this replica until the last that
  /// it lacks is on its way.
  bool waived() const { return waived_; }
  void waive() { waived_ = true; }
  /// An open was sent, and no answer says that it wrote nothing: whatever comes after, the backup
  /// may have the replica.
  bool may_be_there() const { return may_be_there_; }
  /// The backup refused to open a replica, so it has nothing of the segment: waived as before that.
  void restore_waiver() { waived_ = was_waived_; }

  /// Puts the replica on a backup. What does not fit into the open is a re-creation: invisible to
  /// recovery until it is complete.
  void place(uint64_t server_id, Locator locator, std::string failure_domain);
  /// Forgets the backup and all that it acknowledged.
  void unplace();

  /// Where the replica stands among those of its backup: for ReplicaManager.
  size_t index_on_backup() const { return index_on_backup_; }
  void set_index_on_backup(size_t index) { index_on_backup_ = index; }

  /// What it sends next is a part of a copy of what other replicas have.
  bool copies() const {
    return (recreation_ && !complete_) ||
           (state_ == State::kOpening &&
            (segment_.closed() || segment_.published() > kMaxReplicaMessageBytes));
  }
  /// True when there is something that has not been sent (or must be sent again).
  bool wants_to_send() const;
  /// What it wants to send are bytes that were published after all others were acknowledged, to an
  /// open replica with which all is well: any reactor may send that.
  bool wants_plain(Time now) const {
    return state_ == State::kOpen && counts() && !segment_.closed() && failures_ == 0 &&
           now >= not_before_;
  }
  /// Sends what is next in a call that is idle and has its session: the open, or published bytes,
  /// or the close. The bytes go from log memory to the transport; nothing is allocated. Returns how
  /// many of them there are.
  uint32_t send(ReplicaCall& call, uint64_t list_version, Time now, Duration timeout);
  /// Sends published bytes and nothing else.
  void send_plain(ReplicaCall& call, Time now, Duration timeout);

  /// The one that this slot waits for, under way or answered; null if there is none.
  ReplicaCall* call() const { return call_; }
  /// The first reactor's.
  ReplicaCall& own_call() { return own_; }
  /// The call is answered: takes over what that acknowledges; the status of one that failed.
  Status take_answer(uint32_t& retry_after_us);
  /// Does not wait for the call any more, if there is one.
  void drop_call();

  /// Not to be sent before this.
  Time not_before() const { return not_before_; }
  void wait_until(Time when) { not_before_ = when; }
  uint32_t failures() const { return failures_; }  // in a row
  void count_failure() { ++failures_; }

 private:
  uint32_t send_open(ReplicaCall& call, uint64_t list_version, Time now, Duration timeout);
  uint32_t send_write(ReplicaCall& call, bool plain, Time now, Duration timeout);
  void end_waiver();
  void send_bytes(ReplicaCall& call, wire::Opcode opcode, ByteView head, uint32_t from,
                  const ReplicaCall::Content& content, Time now, Duration timeout);

  log::Segment& segment_;
  const bool primary_;
  State state_ = State::kUnplaced;
  bool recreation_ = false;
  bool complete_ = false;  // of a re-creation: the backup has made it visible
  bool waived_ = false;
  bool was_waived_ = false;  // when it was placed
  bool turned_away_ = false;
  bool may_be_there_ = false;
  uint64_t server_id_ = 0;
  Locator locator_;
  std::string failure_domain_;
  uint32_t acked_ = 0;
  uint32_t acked_epoch_ = 0;
  uint32_t failures_ = 0;
  Time not_before_{};
  size_t index_on_backup_ = 0;
  ReplicaCall* call_ = nullptr;
  ReplicaCall own_;
};

}  // namespace ramcloud
