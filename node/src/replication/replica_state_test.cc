#include "replication/replica_state.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace ramcloud {
namespace {

using Phase = ReplicaPhase;
using Event = ReplicaEvent;

std::vector<Phase> all_phases() {
  std::vector<Phase> all;
  for (uint32_t i = 0; i < kReplicaPhases; ++i) all.push_back(static_cast<Phase>(i));
  return all;
}
std::vector<Event> all_events() {
  std::vector<Event> all;
  for (uint32_t i = 0; i < kReplicaEvents; ++i) all.push_back(static_cast<Event>(i));
  return all;
}
ReplicaState in(Phase phase) {
  ReplicaState state;
  state.phase = phase;
  state.may_exist = state.opened();
  return state;
}
std::string text(const ReplicaState& state) {
  std::string all(name_of(state.phase));
  if (state.optional) all += " optional";
  if (state.optional_when_placed) all += " optional_when_placed";
  if (state.placement_failed) all += " placement_failed";
  if (state.may_exist) all += " may_exist";
  return all + " " + std::to_string(state.acked.bytes) + "/" + std::to_string(state.acked.epoch);
}

/// The table of docs/design/replication.md#a-replica: every phase with every event, "-" for what
/// cannot be.
TEST(ReplicaState, EveryPhaseWithEveryEvent) {
  struct Row {
    Event event;
    const char* after[kReplicaPhases];  // by the phase before
  };
  const std::vector<Row> rows = {
      {Event::kPlacementFailed, {"unplaced", "-", "-", "-", "-", "-", "-"}},
      {Event::kPlacementOverdue, {"unplaced", "-", "-", "-", "-", "-", "-"}},
      {Event::kPlaced, {"opening", "-", "-", "-", "-", "-", "-"}},
      {Event::kAdoptionAsked, {"adopting", "-", "-", "-", "-", "-", "-"}},
      {Event::kAdopted, {"-", "closed", "-", "-", "-", "-", "-"}},
      {Event::kWholeOpenSent, {"-", "-", "opening", "-", "-", "-", "-"}},
      {Event::kCopyOpenSent, {"-", "-", "opening_copy", "opening_copy", "-", "-", "-"}},
      {Event::kBytesSent, {"-", "-", "-", "-", "copying", "open", "closed"}},
      {Event::kLastOfCopySent, {"-", "-", "-", "-", "copying", "-", "-"}},
      {Event::kOutcomeUnknown,
       {"-", "adopting", "opening", "opening_copy", "copying", "open", "closed"}},
      {Event::kOpened, {"-", "-", "open", "copying", "-", "-", "-"}},
      {Event::kBytesAcked, {"-", "-", "-", "-", "copying", "open", "-"}},
      {Event::kCopyCompleted, {"-", "-", "-", "-", "open", "-", "-"}},
      {Event::kCloseAcked, {"-", "-", "-", "-", "closed", "closed", "closed"}},
      {Event::kRefused, {"-", "unplaced", "unplaced", "unplaced", "-", "-", "-"}},
      {Event::kLost, {"-", "unplaced", "unplaced", "unplaced", "unplaced", "unplaced", "unplaced"}},
  };
  std::set<Event> seen;
  for (const Row& row : rows) {
    seen.insert(row.event);
    for (const Phase phase : all_phases()) {
      const auto next = after(in(phase), row.event, {1, 1});
      EXPECT_EQ(next ? name_of(next->phase) : "-", row.after[static_cast<size_t>(phase)])
          << name_of(row.event) << " in " << name_of(phase);
    }
  }
  EXPECT_EQ(seen.size(), kReplicaEvents) << "an event is not in the table";
}

/// The event happens in this state, and is legal there.
void happen(ReplicaState& state, Event event, Acked acked = {}) {
  const auto next = after(state, event, acked);
  ASSERT_TRUE(next) << name_of(event) << " in " << text(state);
  state = *next;
}

TEST(ReplicaState, FactsChangeWithTheirEventsOnly) {
  ReplicaState state;
  happen(state, Event::kPlacementFailed);
  EXPECT_EQ(text(state), "unplaced placement_failed 0/0");
  happen(state, Event::kPlacementOverdue);
  EXPECT_EQ(text(state), "unplaced optional placement_failed 0/0");
  happen(state, Event::kPlaced);
  EXPECT_EQ(text(state), "opening optional optional_when_placed 0/0");
  happen(state, Event::kRefused);
  EXPECT_EQ(text(state), "unplaced optional optional_when_placed 0/0") << "nothing happened";
  happen(state, Event::kPlaced);
  happen(state, Event::kWholeOpenSent);
  EXPECT_EQ(text(state), "opening optional_when_placed 0/0") << "the backup may have all of it";
  happen(state, Event::kRefused);
  EXPECT_EQ(text(state), "unplaced optional optional_when_placed 0/0") << "it has nothing";
  happen(state, Event::kPlaced);
  happen(state, Event::kCopyOpenSent);
  EXPECT_TRUE(state.optional) << "a copy lacks bytes, and nobody takes it for whole";
  happen(state, Event::kOutcomeUnknown);
  EXPECT_EQ(text(state), "opening_copy optional optional_when_placed may_exist 0/0");
  EXPECT_FALSE(after(state, Event::kRefused)) << "it may be there";
  happen(state, Event::kOpened, {100, 1});
  happen(state, Event::kBytesSent);
  EXPECT_EQ(text(state), "copying optional optional_when_placed may_exist 100/1");
  happen(state, Event::kBytesAcked, {90, 2});
  EXPECT_EQ(text(state), "copying optional optional_when_placed may_exist 100/2") << "only rise";
  EXPECT_FALSE(after(state, Event::kCopyCompleted)) << "what completes it was not sent";
  happen(state, Event::kLastOfCopySent);
  EXPECT_FALSE(state.optional);
  happen(state, Event::kCopyCompleted, {200, 2});
  EXPECT_EQ(text(state), "open optional_when_placed may_exist 200/2");
  happen(state, Event::kCloseAcked, {300, 2});
  happen(state, Event::kLost);
  EXPECT_EQ(state.acked, Acked{});
  EXPECT_FALSE(state.optional) << "what is lost is required again";
  happen(state, Event::kPlaced);
  EXPECT_EQ(text(state), "opening 0/0");
}

TEST(ReplicaState, AnAdoptedReplicaCountsWhenItIsConfirmed) {
  ReplicaState state;
  happen(state, Event::kPlacementFailed);
  happen(state, Event::kPlacementOverdue);
  happen(state, Event::kAdoptionAsked);
  EXPECT_EQ(text(state), "adopting optional optional_when_placed 0/0");
  EXPECT_TRUE(state.placed());
  EXPECT_FALSE(state.opened() || state.opening() || counts(state, 0));
  happen(state, Event::kRefused);
  EXPECT_EQ(text(state), "unplaced optional optional_when_placed 0/0") << "it is copied";
  happen(state, Event::kAdoptionAsked);
  happen(state, Event::kOutcomeUnknown);
  EXPECT_FALSE(after(state, Event::kRefused)) << "it may be adopted";
  happen(state, Event::kAdopted, {500, 3});
  EXPECT_EQ(text(state), "closed optional_when_placed may_exist 500/3");
  EXPECT_TRUE(counts(state, 7));
  happen(state, Event::kLost);
  EXPECT_EQ(text(state), "unplaced optional_when_placed may_exist 0/0");
}

/// The events of a replica since it was placed, for comparison with its state.
struct History {
  ReplicaState state;
  bool whole_sent = false;  // the backup may take it for whole
  bool copy_sent = false;
  bool complete = false;  // a copy: made visible
  bool unclear = false;   // something may be on the backup

  auto key() const {
    return std::tuple(static_cast<int>(state.phase), state.optional, state.optional_when_placed,
                      state.placement_failed, state.may_exist, state.acked.bytes > 0, whole_sent,
                      copy_sent, complete, unclear);
  }
  void note(Event event) {
    const bool placed = event == Event::kPlaced || event == Event::kAdoptionAsked;
    if (placed) whole_sent = copy_sent = complete = unclear = false;
    whole_sent = whole_sent || event == Event::kWholeOpenSent || event == Event::kLastOfCopySent;
    copy_sent = copy_sent || event == Event::kCopyOpenSent;
    unclear = unclear || event == Event::kOutcomeUnknown || event == Event::kOpened ||
              event == Event::kAdopted;
    complete = complete || event == Event::kCopyCompleted || event == Event::kCloseAcked;
  }
};

std::string broken(const History& before, Event event, const History& now) {
  const ReplicaState& state = now.state;
  if (state.placed() && now.whole_sent && state.optional) return "required before whole";
  if (now.copy_sent && state.phase == Phase::kOpening) return "a copy stays a copy";
  if (now.copy_sent && state.phase == Phase::kOpen && !now.complete) return "visible too early";
  if (state.opened() && state.phase != Phase::kCopying && state.optional) return "open, optional";
  if (event == Event::kRefused && before.unclear) return "a refusal proves absence";
  if (state.opened() && !state.may_exist) return "open, and nowhere";
  if (!state.placed() && state.acked != Acked{}) return "acknowledged by nobody";
  if (state.placed() && state.placement_failed) return "placed, and could not be";
  if (event == Event::kLost && state.optional) return "a lost replica is required";
  if (counts(state, 0) && now.copy_sent && !now.complete) return "an incomplete copy counts";
  return {};
}

/// All histories; those that are equal for the invariants are visited once.
TEST(ReplicaState, InvariantsHoldInEveryStateThatCanBeReached) {
  std::vector<History> open = {History{}};
  std::set<decltype(History{}.key())> seen = {open.front().key()};
  std::set<Phase> phases;
  while (!open.empty()) {
    const History before = open.back();
    open.pop_back();
    phases.insert(before.state.phase);
    for (const Event event : all_events()) {
      const auto next = after(before.state, event, {10, 1});
      if (!next) continue;
      History now = before;
      now.state = *next;
      now.note(event);
      const std::string what = broken(before, event, now);
      ASSERT_EQ(what, "") << text(before.state) << ", " << name_of(event) << ": " << text(*next);
      if (seen.insert(now.key()).second) open.push_back(now);
    }
  }
  EXPECT_EQ(phases.size(), kReplicaPhases) << "a phase is never reached";
  EXPECT_GT(seen.size(), 30u);
}

TEST(ReplicaState, WhatIsSentNext) {
  const SegmentView growing{.closed = false, .published = 1000, .epoch = 2};
  const SegmentView closed{.closed = true, .published = 1000, .epoch = 2};
  ReplicaState state = in(Phase::kOpen);
  state.acked = {1000, 2};
  EXPECT_FALSE(wants_to_send(in(Phase::kUnplaced), closed));
  EXPECT_FALSE(wants_to_send(in(Phase::kAdopting), closed));
  EXPECT_TRUE(wants_to_send(in(Phase::kOpening), growing));
  EXPECT_TRUE(wants_to_send(in(Phase::kOpeningCopy), growing));
  EXPECT_FALSE(wants_to_send(state, growing)) << "all is acknowledged";
  EXPECT_TRUE(wants_to_send(state, closed)) << "the close";
  state.acked = {999, 2};
  EXPECT_TRUE(wants_to_send(state, growing)) << "bytes";
  state.acked = {1000, 1};
  EXPECT_TRUE(wants_to_send(state, growing)) << "the epoch";
  state.phase = Phase::kCopying;
  state.acked = {1000, 2};
  EXPECT_TRUE(wants_to_send(state, growing)) << "that it is complete";
  EXPECT_FALSE(wants_to_send(in(Phase::kClosed), closed));

  EXPECT_TRUE(sends_copy(in(Phase::kCopying), growing, 5000));
  EXPECT_TRUE(sends_copy(in(Phase::kOpeningCopy), growing, 5000)) << "a copy stays a copy";
  EXPECT_FALSE(sends_copy(in(Phase::kOpening), growing, 1000)) << "it fits into the open";
  EXPECT_TRUE(sends_copy(in(Phase::kOpening), growing, 999));
  EXPECT_TRUE(sends_copy(in(Phase::kOpening), closed, 5000));
  EXPECT_FALSE(sends_copy(in(Phase::kOpen), closed, 0));
}

TEST(ReplicaState, WhatCounts) {
  for (const Phase phase : all_phases()) {
    ReplicaState state = in(phase);
    state.acked = {10, 3};
    EXPECT_EQ(counts(state, 3), phase == Phase::kOpen || phase == Phase::kClosed) << name_of(phase);
    EXPECT_EQ(counts(state, 4), phase == Phase::kClosed) << name_of(phase);
    EXPECT_FALSE(behind(state, 3)) << name_of(phase);
    EXPECT_EQ(behind(state, 4), phase == Phase::kOpen || phase == Phase::kCopying)
        << name_of(phase);
  }
}

std::string parts(const ReplicaMessage& message) {
  std::string all;
  if (message.plain) all += "plain ";
  if (message.completing) all += "completing ";
  if (message.closing) all += "closing ";
  return all + std::to_string(message.to) + "/" + std::to_string(message.epoch);
}

TEST(ReplicaState, WhatAWriteCarriesAndItsAnswerMeans) {
  const SegmentView growing{.closed = false, .published = 1000, .epoch = 2};
  const SegmentView closed{.closed = true, .published = 1000, .epoch = 2};
  struct Case {
    Phase phase;
    uint32_t acked_epoch;
    SegmentView segment;
    uint32_t end;
    bool only_bytes;
    const char* parts;
    Event sent, acked;
  };
  const std::vector<Case> cases = {
      {Phase::kOpen, 2, growing, 1000, false, "plain 1000/2", Event::kBytesSent,
       Event::kBytesAcked},
      {Phase::kOpen, 1, growing, 1000, false, "1000/2", Event::kBytesSent, Event::kBytesAcked},
      {Phase::kOpen, 2, closed, 500, false, "plain 500/2", Event::kBytesSent, Event::kBytesAcked},
      {Phase::kOpen, 2, closed, 1000, false, "closing 1000/2", Event::kBytesSent,
       Event::kCloseAcked},
      {Phase::kOpen, 2, closed, 1000, true, "plain 1000/2", Event::kBytesSent, Event::kBytesAcked},
      {Phase::kCopying, 2, growing, 500, false, "plain 500/2", Event::kBytesSent,
       Event::kBytesAcked},
      {Phase::kCopying, 2, growing, 1000, false, "completing 1000/2", Event::kLastOfCopySent,
       Event::kCopyCompleted},
      {Phase::kCopying, 2, closed, 1000, false, "completing closing 1000/2", Event::kLastOfCopySent,
       Event::kCloseAcked},
      {Phase::kClosed, 1, closed, 1000, false, "closing 1000/1", Event::kBytesSent,
       Event::kCloseAcked},
  };
  for (const Case& c : cases) {
    ReplicaState state = in(c.phase);
    state.acked = {400, c.acked_epoch};
    const ReplicaMessage write = write_up_to(c.end, state, c.segment, c.only_bytes);
    EXPECT_EQ(parts(write), c.parts) << name_of(c.phase);
    EXPECT_EQ(sent(write), c.sent) << c.parts;
    EXPECT_EQ(acknowledged(write), c.acked) << c.parts;
    EXPECT_TRUE(after(state, sent(write))) << c.parts;
    EXPECT_TRUE(after(state, acknowledged(write))) << c.parts;
  }
  EXPECT_EQ(acknowledged({.to = 10, .epoch = 0, .opening = true}), Event::kOpened);
}

/// Recovery sees all of a side segment or nothing.
TEST(ReplicaState, AReplicaOfASideSegmentIsWholeOnlyWhenItIsClosed) {
  const SegmentView growing{.side = true, .closed = false, .published = 1000, .epoch = 2};
  const SegmentView closed{.side = true, .closed = true, .published = 1000, .epoch = 2};
  EXPECT_TRUE(sends_copy(in(Phase::kOpening), growing, 5000)) << "a copy from its open on";
  ReplicaState state = in(Phase::kCopying);
  state.acked = {400, 2};
  EXPECT_TRUE(wants_to_send(state, growing));
  EXPECT_EQ(parts(write_up_to(1000, state, growing, false)), "plain 1000/2");
  EXPECT_EQ(acknowledged(write_up_to(1000, state, growing, false)), Event::kBytesAcked);
  state.acked = {1000, 2};
  EXPECT_FALSE(wants_to_send(state, growing)) << "there is nothing to complete yet";
  EXPECT_TRUE(wants_to_send(state, closed));
  EXPECT_EQ(parts(write_up_to(1000, state, closed, false)), "completing closing 1000/2");
  EXPECT_EQ(acknowledged(write_up_to(1000, state, closed, false)), Event::kCloseAcked);
}

/// Every failure, for a replica that cannot exist and for one that may exist.
TEST(ReplicaState, WhatAFailedCallMeans) {
  struct Case {
    StatusCode code;
    Reaction cannot_exist, may_exist;
  };
  const std::vector<Case> cases = {
      {StatusCode::kRetry, Reaction::kSendWhenTold, Reaction::kSendWhenTold},
      {StatusCode::kUnavailable, Reaction::kReportBroken, Reaction::kReportBroken},
      {StatusCode::kConnectionLost, Reaction::kReportBroken, Reaction::kReportBroken},
      {StatusCode::kDeadlineExceeded, Reaction::kBackOff, Reaction::kBackOff},
      {StatusCode::kCrashed, Reaction::kStop, Reaction::kStop},
      {StatusCode::kWrongServer, Reaction::kLose, Reaction::kLose},
      {StatusCode::kNoSpace, Reaction::kPlaceElsewhere, Reaction::kGiveUp},
      {StatusCode::kIoError, Reaction::kPlaceElsewhere, Reaction::kGiveUp},
      {StatusCode::kInternal, Reaction::kPlaceElsewhere, Reaction::kGiveUp},
      {StatusCode::kProtocolError, Reaction::kPlaceElsewhere, Reaction::kGiveUp},
      {StatusCode::kInvalidArgument, Reaction::kPlaceElsewhere, Reaction::kGiveUp},
  };
  for (const Case& c : cases) {
    for (const Phase phase : {Phase::kAdopting, Phase::kOpening, Phase::kOpeningCopy}) {
      ReplicaState state = in(phase);
      EXPECT_EQ(reaction_to(c.code, state), c.cannot_exist) << status_name(c.code);
      if (reaction_to(c.code, state) == Reaction::kPlaceElsewhere) {
        EXPECT_TRUE(after(state, Event::kRefused)) << status_name(c.code);
      }
      state.may_exist = true;
      EXPECT_EQ(reaction_to(c.code, state), c.may_exist) << status_name(c.code);
    }
    for (const Phase phase : {Phase::kCopying, Phase::kOpen, Phase::kClosed}) {
      EXPECT_EQ(reaction_to(c.code, in(phase)), c.may_exist) << status_name(c.code);
    }
  }
}

TEST(ReplicaState, WhatALossAsksFor) {
  for (const Phase phase : all_phases()) {
    const bool opened = in(phase).opened();
    EXPECT_EQ(action_on_loss(in(phase), true, false), LossAction::kRepair);
    EXPECT_EQ(action_on_loss(in(phase), false, false), LossAction::kRaiseEpoch);
    EXPECT_EQ(action_on_loss(in(phase), false, true),
              opened ? LossAction::kRaiseEpochAndRoll : LossAction::kRaiseEpoch)
        << name_of(phase);
  }
}

}  // namespace
}  // namespace ramcloud
