#include "coordinator/core/recovery_part.h"

#include <map>
#include <tuple>
#include <utility>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "rpc/back_off.h"
#include "runtime/when_all.h"

namespace ramcloud {

Task<void> RecoveryPart::run(Time not_before) {
  why_ = co_await begin();
  if (why_.ok()) why_ = co_await recovered();
  if (why_.ok()) {
    RC_FAILPOINT("coordinator.recovery.ready");
    phase_ = Phase::kHandingOver;
    ready_at_ = reactor_.now();
    on_news_();
    // Wait until the dead master's lease has ended.
    while (reactor_.clock().now() < not_before && !abandoned()) {
      const Duration left = not_before - reactor_.clock().now();
      co_await reactor_.sleep(std::min<Duration>(left, options_.poll));
    }
    why_ = abandoned() ? abandoned_ : co_await hand_over();
  }
  if (!why_.ok()) {
    log_warn("recovery.part_failed", {{"master", order_.master_id},
                                      {"attempt", order_.attempt},
                                      {"server", planned_.server_id},
                                      {"segment", seen_.segment},
                                      {"error", why_}});
  }
  phase_ = why_.ok() ? Phase::kDone : Phase::kFailed;
  on_news_();
}

std::string RecoveryPart::phase_name(Phase phase) {
  switch (phase) {
    case Phase::kReplaying:
      return "REPLAYING";
    case Phase::kHandingOver:
      return "HANDING_OVER";
    case Phase::kDone:
      return "DONE";
    case Phase::kFailed:
      break;
  }
  return "FAILED";
}

/// Counts the time since the last count as time in which the server did this.
void RecoveryPart::count(Does what) {
  const Time now = reactor_.now();
  const Duration took = now - std::exchange(counted_, now);
  if (what == Does::kProgress) idle_ = waited_ = {};
  if (what == Does::kNothing) idle_ += took;
  if (what == Does::kWaits) waited_ += took;
}

bool RecoveryPart::stuck() const {
  return idle_ > options_.patience || waited_ > options_.most_waiting;
}

/// Sends the order. OK: the server has begun.
Task<Status> RecoveryPart::begin() {
  BackOff back_off(options_.retry_min, options_.retry_max);
  counted_ = reactor_.now();
  for (;;) {
    const Time asked = reactor_.now();
    AsyncMutex::Lock turn = co_await calls_.turn_to_order(log_);
    counted_ += reactor_.now() - asked;  // that others are ordered first is not its fault
    RC_FAILPOINT("coordinator.recovery.before_order");
    const auto begun = co_await calls_.order(planned_.server_id, order_, log_, options_.timeout);
    turn.release();
    if (begun) {
      count(Does::kProgress);
      co_return StatusCode::kOk;
    }
    const StatusCode code = begun.error().code();
    const bool for_good = code == StatusCode::kUnsupported || code == StatusCode::kStaleTerm ||
                          code == StatusCode::kInvalidArgument;
    const bool gone = state_.up_server(planned_.server_id) == nullptr;
    count(code == StatusCode::kRetry ? Does::kWaits : Does::kNothing);
    if (for_good || gone || stuck()) co_return begun.error();
    if (abandoned()) co_return abandoned_;
    co_await reactor_.sleep(back_off.next(reactor_.random()));
  }
}

RecoveryPart::Does RecoveryPart::does(const wire::RecoveryState& now) const {
  const auto how_far = [](const wire::RecoveryState& state) {
    return std::tuple(state.phase, state.segments_done, state.bytes_fetched, state.objects,
                      state.segments_durable);
  };
  if (how_far(now) != how_far(seen_)) return Does::kProgress;
  switch (static_cast<StatusCode>(now.status)) {
    case StatusCode::kRetry:
      return Does::kFetchesOthers;
    case StatusCode::kUnavailable:
      return Does::kWaits;
    default:
      return Does::kNothing;
  }
}

/// Waits for the server. OK: it has recovered everything; seen_ has the creation position.
Task<Status> RecoveryPart::recovered() {
  BackOff back_off(options_.retry_min, options_.retry_max);
  wire::GetRecoveryStateRequest request;
  request.master_id = order_.master_id;
  request.attempt = order_.attempt;
  request.wait_ms = static_cast<uint32_t>(options_.poll / 1ms);
  for (;;) {
    request.known = seen_.phase;
    auto now = co_await calls_.call<wire::RecoveryState>(planned_.server_id,
                                                         wire::Opcode::kGetRecoveryState, request,
                                                         options_.poll + options_.timeout);
    if (now && now->phase == wire::RecoveryPhase::kFailed) {
      seen_ = *now;
      // The server reports a failure, so it has recovered nothing.
      const bool said = seen_.status != static_cast<uint16_t>(StatusCode::kOk);
      co_return Status(said ? static_cast<StatusCode>(seen_.status) : StatusCode::kInternal,
                       seen_.why);
    }
    count(now ? does(*now) : Does::kNothing);
    if (now) {
      seen_ = *now;
      on_news_();
      back_off.reset();
      if (seen_.phase == wire::RecoveryPhase::kReady) co_return StatusCode::kOk;
    }
    if (!now && now.error() == StatusCode::kNotFound) co_return now.error();
    if (abandoned()) co_return abandoned_;
    if (state_.up_server(planned_.server_id) == nullptr) {
      co_return Status(StatusCode::kCrashed, "the recovery master crashed");
    }
    if (stuck()) {
      RC_SOMETIMES("coordinator.recovery_master_that_does_not_move_is_given_up");
      co_return Status(StatusCode::kDeadlineExceeded,
                       "it got no further" + (seen_.why.empty() ? "" : ": " + seen_.why));
    }
    co_await reactor_.sleep(back_off.next(reactor_.random()));
  }
}

/// OK if everything was handed over. Orders the server to serve the tablets that were.
Task<Status> RecoveryPart::hand_over() {
  std::vector<Task<Status>> waiting;
  for (const LostRange& range : planned_.ranges) {
    waiting.push_back(changes_.hand_over({{range.table_id, range.start_hash, range.end_hash},
                                          planned_.server_id,
                                          seen_.creation_position,
                                          order_.attempt}));
  }
  const std::vector<Status> outcomes = co_await when_all(std::move(waiting));
  std::map<uint64_t, ServedRanges> served;
  Status all;
  for (const Status& outcome : outcomes) {
    const bool leads = outcome != StatusCode::kNotLeader && outcome != StatusCode::kIndeterminate;
    if (!leads) co_return outcome;
  }
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const LostRange& range = planned_.ranges[i];
    if (!outcomes[i].ok()) {
      all = outcomes[i];
      continue;
    }
    ServedRanges& of = served[range.table_id];
    of.master_id = order_.master_id;
    of.server_id = planned_.server_id;
    of.table_id = range.table_id;
    of.attempt = order_.attempt;
    of.ranges.push_back({range.table_id, range.start_hash, range.end_hash});
  }
  for (auto& [table_id, of] : served) orders_.serve(std::move(of));
  co_return all;
}

}  // namespace ramcloud
