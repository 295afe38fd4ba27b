#include "replication/replica_state.h"

#include <algorithm>
#include <array>

namespace ramcloud {
namespace {

using Phase = ReplicaPhase;

/// Not a phase: the event is not legal in that phase.
constexpr auto X = static_cast<Phase>(kReplicaPhases);
constexpr auto kUnplaced = Phase::kUnplaced;
constexpr auto kAdopting = Phase::kAdopting;
constexpr auto kOpening = Phase::kOpening;
constexpr auto kOpeningCopy = Phase::kOpeningCopy;
constexpr auto kCopying = Phase::kCopying;
constexpr auto kOpen = Phase::kOpen;
constexpr auto kClosed = Phase::kClosed;

/// The phase after an event, by the phase before it.
// clang-format off
constexpr std::array<std::array<Phase, kReplicaPhases>, kReplicaEvents> kNext = {{
    // in:  unplaced      adopting      opening       opening_copy  copying       open          closed
    {{kUnplaced,    X,            X,            X,            X,            X,            X}},  // placement_failed
    {{kUnplaced,    X,            X,            X,            X,            X,            X}},  // placement_overdue
    {{kOpening,     X,            X,            X,            X,            X,            X}},  // placed
    {{kAdopting,    X,            X,            X,            X,            X,            X}},  // adoption_asked
    {{X,            kClosed,      X,            X,            X,            X,            X}},  // adopted
    {{X,            X,            kOpening,     X,            X,            X,            X}},  // whole_open_sent
    {{X,            X,            kOpeningCopy, kOpeningCopy, X,            X,            X}},  // copy_open_sent
    {{X,            X,            X,            X,            kCopying,     kOpen,        kClosed}},  // bytes_sent
    {{X,            X,            X,            X,            kCopying,     X,            X}},  // last_of_copy_sent
    {{X,            kAdopting,    kOpening,     kOpeningCopy, kCopying,     kOpen,        kClosed}},  // outcome_unknown
    {{X,            X,            kOpen,        kCopying,     X,            X,            X}},  // opened
    {{X,            X,            X,            X,            kCopying,     kOpen,        X}},  // bytes_acked
    {{X,            X,            X,            X,            kOpen,        X,            X}},  // copy_completed
    {{X,            X,            X,            X,            kClosed,      kClosed,      kClosed}},  // close_acked
    {{X,            kUnplaced,    kUnplaced,    kUnplaced,    X,            X,            X}},  // refused
    {{X,            kUnplaced,    kUnplaced,    kUnplaced,    kUnplaced,    kUnplaced,    kUnplaced}},  // lost
}};
// clang-format on

constexpr std::array<std::string_view, kReplicaPhases> kPhaseNames = {
    "unplaced", "adopting", "opening", "opening_copy", "copying", "open", "closed"};
constexpr std::array<std::string_view, kReplicaEvents> kEventNames = {
    "placement_failed",  "placement_overdue", "placed",         "adoption_asked",
    "adopted",           "whole_open_sent",   "copy_open_sent", "bytes_sent",
    "last_of_copy_sent", "outcome_unknown",   "opened",         "bytes_acked",
    "copy_completed",    "close_acked",       "refused",        "lost"};
static_assert(kNext.back()[1] == kUnplaced && kEventNames.back() == "lost");

void acknowledge(ReplicaState& state, Acked acked) {
  state.may_exist = true;
  state.acked.bytes = std::max(state.acked.bytes, acked.bytes);
  state.acked.epoch = std::max(state.acked.epoch, acked.epoch);
}

}  // namespace

std::string_view name_of(ReplicaPhase phase) {
  return kPhaseNames[static_cast<size_t>(phase)];
}

std::string_view name_of(ReplicaEvent event) {
  return kEventNames[static_cast<size_t>(event)];
}

std::optional<ReplicaState> after(const ReplicaState& state, ReplicaEvent event, Acked acked) {
  const Phase phase = kNext[static_cast<size_t>(event)][static_cast<size_t>(state.phase)];
  if (phase == X) return std::nullopt;
  ReplicaState next = state;
  next.phase = phase;
  switch (event) {
    case ReplicaEvent::kPlacementFailed:
      next.placement_failed = true;
      break;
    case ReplicaEvent::kPlacementOverdue:
      next.optional = true;
      break;
    case ReplicaEvent::kPlaced:
    case ReplicaEvent::kAdoptionAsked:
      next.placement_failed = next.may_exist = false;
      next.optional_when_placed = state.optional;
      break;
    // The rule "required before whole": with this message the backup has everything that is
    // published, and recovery would take its replica for whole. If the segment went on without it
    // meanwhile, the replica would lack acknowledged bytes.
    case ReplicaEvent::kWholeOpenSent:
    case ReplicaEvent::kLastOfCopySent:
      next.optional = false;
      break;
    case ReplicaEvent::kOutcomeUnknown:
      next.may_exist = true;
      break;
    // Nothing more is appended to its segment, so it lacks nothing even if it was optional until now.
    case ReplicaEvent::kAdopted:
      next.optional = false;
      [[fallthrough]];
    case ReplicaEvent::kOpened:
    case ReplicaEvent::kBytesAcked:
    case ReplicaEvent::kCopyCompleted:
    case ReplicaEvent::kCloseAcked:
      acknowledge(next, acked);
      break;
    case ReplicaEvent::kRefused:
      if (state.may_exist) return std::nullopt;
      next.optional = state.optional_when_placed;
      next.acked = {};
      break;
    case ReplicaEvent::kLost:
      next.optional = false;
      next.acked = {};
      break;
    case ReplicaEvent::kCopyOpenSent:
    case ReplicaEvent::kBytesSent:
      break;
  }
  // The message that made the replica whole also made it required. So an optional replica cannot be
  // open or closed.
  if (next.optional && (phase == Phase::kOpen || phase == Phase::kClosed)) return std::nullopt;
  return next;
}

bool wants_to_send(const ReplicaState& state, const SegmentView& segment) {
  switch (state.phase) {
    case Phase::kUnplaced:
    case Phase::kAdopting:  // the manager asks (replica_adoptions.cc)
    case Phase::kClosed:
      return false;
    case Phase::kOpening:
    case Phase::kOpeningCopy:
      return true;
    case Phase::kCopying:
      return !segment.side || segment.closed || state.acked.bytes < segment.published;
    case Phase::kOpen:
      return segment.closed || state.acked.bytes < segment.published ||
             behind(state, segment.epoch);
  }
  return false;
}

bool sends_copy(const ReplicaState& state, const SegmentView& segment, uint32_t most) {
  switch (state.phase) {
    case Phase::kOpeningCopy:
    case Phase::kCopying:
      return true;
    case Phase::kOpening:
      return segment.side || segment.closed || segment.published > most;
    default:
      return false;
  }
}

ReplicaMessage write_up_to(uint32_t end, const ReplicaState& state, const SegmentView& segment,
                           bool only_bytes) {
  // A message to a closed replica changes nothing: it asks whether the replica is still there.
  const bool asks = state.phase == Phase::kClosed;
  ReplicaMessage write{.to = end, .epoch = asks ? state.acked.epoch : segment.epoch};
  write.closing = !only_bytes && segment.closed && (asks || end == segment.published);
  write.completing = state.phase == Phase::kCopying && end >= segment.published &&
                     (!segment.side || segment.closed);
  write.plain = !write.closing && !write.completing && write.epoch == state.acked.epoch;
  return write;
}

ReplicaEvent sent(const ReplicaMessage& write) {
  return write.completing ? ReplicaEvent::kLastOfCopySent : ReplicaEvent::kBytesSent;
}

ReplicaEvent acknowledged(const ReplicaMessage& message) {
  if (message.opening) return ReplicaEvent::kOpened;
  if (message.closing) return ReplicaEvent::kCloseAcked;
  return message.completing ? ReplicaEvent::kCopyCompleted : ReplicaEvent::kBytesAcked;
}

Reaction reaction_to(StatusCode failure, const ReplicaState& state) {
  switch (failure) {
    case StatusCode::kRetry:
      return Reaction::kSendWhenTold;
    // The backup may be alive and have all that it acknowledged. Only the server list, or another
    // server that answers at its address, proves that it is not.
    case StatusCode::kUnavailable:
    case StatusCode::kConnectionLost:
      return Reaction::kReportBroken;
    case StatusCode::kDeadlineExceeded:
      return Reaction::kBackOff;
    case StatusCode::kCrashed:
      return Reaction::kStop;
    case StatusCode::kWrongServer:
      return Reaction::kLose;
    // Only a refusal that wrote nothing counts as a refusal. After any other failed open the backup
    // may have the replica: if a sync failed, the removal may not reach the device either.
    default:
      return state.may_exist ? Reaction::kGiveUp : Reaction::kPlaceElsewhere;
  }
}

LossAction action_on_loss(const ReplicaState& before, bool settled, bool head) {
  if (settled) return LossAction::kRepair;
  // If the replica was never open, the head is not switched. Otherwise a backup that fails every
  // open would cause a new head each time.
  return before.opened() && head ? LossAction::kRaiseEpochAndRoll : LossAction::kRaiseEpoch;
}

}  // namespace ramcloud
