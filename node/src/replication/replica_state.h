// The state of one replica of a segment at its master, and its transitions. Values and pure
// functions: no clock, no call, no lock. ReplicaSlot sends the messages; ReplicaManager does the
// rest that a change requires. The tables in docs/design/replication.md#a-replica use the same
// names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"

namespace ramcloud {

enum class ReplicaPhase : uint8_t {
  kUnplaced,     // no backup is chosen
  kAdopting,     // a backup that came back was asked to adopt a frame of its earlier incarnation
  kOpening,      // placed; no open is acknowledged, and none was sent as a copy
  kOpeningCopy,  // placed; no open is acknowledged, and one was sent as a copy
  kCopying,      // opened as a copy that lacks bytes: recovery does not see it
  kOpen,         // a prefix of the segment that recovery may use
  kClosed,       // everything, the footer included
};
inline constexpr uint32_t kReplicaPhases = 7;

enum class ReplicaEvent : uint8_t {
  kPlacementFailed,   // no backup can take it now
  kPlacementOverdue,  // no backup could take it for so long that the segment goes on without it
  kPlaced,            // a backup is chosen
  kAdoptionAsked,     // a backup is chosen that may have a whole former replica
  kAdopted,           // the backup has adopted it
  kWholeOpenSent,     // an open with all bytes so far
  kCopyOpenSent,      // an open with the first bytes of a copy
  kBytesSent,         // more bytes, a close, a new epoch or a question
  kLastOfCopySent,    // the bytes that complete a copy, perhaps with the close
  kOutcomeUnknown,    // a call was given up, or failed without proof that nothing was written
  kOpened,            // this event and the next three: the backup acknowledged it
  kBytesAcked,
  kCopyCompleted,
  kCloseAcked,  // perhaps with the last bytes of a copy
  kRefused,     // the backup does not have it and did not write anything
  kLost,        // the backup, or the replica on it, is no longer there
};
inline constexpr uint32_t kReplicaEvents = 16;

/// For messages about bugs.
std::string_view name_of(ReplicaPhase phase);
std::string_view name_of(ReplicaEvent event);

/// Acknowledged by the backup: bytes from the segment's start (the end of a group), and the highest
/// replication epoch.
struct Acked {
  uint32_t bytes = 0;
  uint32_t epoch = 0;
  bool operator==(const Acked&) const = default;
};

struct ReplicaState {
  ReplicaPhase phase = ReplicaPhase::kUnplaced;
  bool optional = false;  // the segment becomes durable without this replica
  bool optional_when_placed = false;
  bool placement_failed = false;  // the last attempt found no backup
  bool may_exist = false;  // an open was sent, so the backup may have something of this placement
  Acked acked;             // of this placement

  bool placed() const { return phase != ReplicaPhase::kUnplaced; }
  bool opening() const {
    return phase == ReplicaPhase::kOpening || phase == ReplicaPhase::kOpeningCopy;
  }
  bool opened() const { return phase >= ReplicaPhase::kCopying; }
  bool operator==(const ReplicaState&) const = default;
};

/// The state after the event. None: the event cannot happen in this state, so the master has a bug.
/// `acked`: what the backup acknowledged, if the event is an acknowledgement.
[[nodiscard]] std::optional<ReplicaState> after(const ReplicaState& state, ReplicaEvent event,
                                                Acked acked = {});

/// The part of a segment's state that matters to a replica. `closed` is read before `published`:
/// once closed is seen, that is the final length. `side`: a side segment. Its replicas are copies
/// that become visible when they are closed, so recovery sees all of a side segment or nothing.
struct SegmentView {
  bool side = false;
  bool closed = false;
  uint32_t published = 0;
  uint32_t epoch = 0;
};

/// Open with an old epoch: recovery would not accept this replica. (It accepts a closed one of any
/// epoch.)
inline bool behind(const ReplicaState& state, uint32_t epoch) {
  return (state.phase == ReplicaPhase::kOpen || state.phase == ReplicaPhase::kCopying) &&
         state.acked.epoch < epoch;
}
/// Recovery accepts this replica, and it has all that is durable of its segment.
inline bool counts(const ReplicaState& state, uint32_t epoch) {
  return state.phase == ReplicaPhase::kClosed ||
         (state.phase == ReplicaPhase::kOpen && state.acked.epoch >= epoch);
}
/// There is something to send, or to send again. (Checks of closed replicas are not included.)
bool wants_to_send(const ReplicaState& state, const SegmentView& segment);
/// The next message is part of a copy of what other replicas have. `most`: the largest open, in
/// bytes, that is not sent as a copy.
bool sends_copy(const ReplicaState& state, const SegmentView& segment, uint32_t most);

/// The content of a message, kept until its answer.
struct ReplicaMessage {
  uint32_t to = 0;  // the segment's bytes up to here
  uint32_t epoch = 0;
  bool opening = false;  // the open
  bool plain = false;    // published bytes, and nothing that changes the replica's phase or epoch
  bool closing = false;  // the close
  bool completing = false;  // the last bytes of a copy
};

/// A write of the bytes up to `end`. `only_bytes`: without the close, which a later message
/// carries.
ReplicaMessage write_up_to(uint32_t end, const ReplicaState& state, const SegmentView& segment,
                           bool only_bytes);
/// The event when this write is sent, and the event when it is acknowledged.
ReplicaEvent sent(const ReplicaMessage& write);
ReplicaEvent acknowledged(const ReplicaMessage& message);

/// The meaning of a failed call.
enum class Reaction : uint8_t {
  kSendWhenTold,    // send again after the time that the answer names
  kBackOff,         // send again, later with each failure in a row
  kReportBroken,    // the same, and report the broken connection: the backup may have failed
  kStop,            // the cluster has given this master up
  kPlaceElsewhere,  // refused, and nothing of it exists
  kLose,            // lost: another server answers at this address
  kGiveUp,          // lost; the backup may still have it, and is told later to free it
};
Reaction reaction_to(StatusCode failure, const ReplicaState& state);

/// The action that must follow the loss of a replica.
enum class LossAction : uint8_t {
  kRepair,             // copy it to another backup
  kRaiseEpoch,         // raise the epoch before anything more is acknowledged
  kRaiseEpochAndRoll,  // the same, then switch to a head that has all its replicas
};
/// `settled`: its segment is closed on its replicas. `head`: it takes data. `before`: the replica's
/// state.
LossAction action_on_loss(const ReplicaState& before, bool settled, bool head);

}  // namespace ramcloud
