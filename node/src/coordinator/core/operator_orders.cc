// What an operator orders a coordinator to do.
#include "base/logging.h"
#include "base/text.h"
#include "coordinator/core/checks.h"
#include "coordinator/core/coordinator.h"

namespace ramcloud {

Task<Result<uint16_t>> Coordinator::upgrade_metadata(Time deadline) {
  const AsyncMutex::Lock lock = co_await ledger_.lock(deadline);
  if (!lock.held()) co_return fail(Ledger::too_late());
  const uint16_t before = state_.format;
  if (before == kMetadataFormatMax) co_return before;
  Status done = co_await ledger_.raise_format(lock, {kMetadataFormatMax, state_.uuid, state_.name},
                                              ledger_.until(deadline));
  if (!done.ok()) co_return fail(std::move(done));
  state_.format = kMetadataFormatMax;
  log_warn("metadata.upgraded",
           {{"from_format", before}, {"to_format", state_.format}, {"term", state_.term}});
  co_return state_.format;
}

Task<Result<Coordinator::Condemnation>> Coordinator::condemn(uint64_t server_id, bool force,
                                                             bool confirmed, std::string reason,
                                                             Time deadline) {
  const auto found = state_.servers.find(server_id);
  if (found == state_.servers.end()) {
    co_return fail(StatusCode::kNotFound, fmt::format("server {} does not exist", server_id));
  }
  const auto name = [&] {
    return fmt::format("server {} ({})", server_id, quoted(found->second.record.name));
  };
  Condemnation result;
  if (!found->second.up()) {
    result.condemned = true;
    result.effect =
        fmt::format("{} is not UP already: {}", name(), found->second.record.state_reason);
    co_return result;
  }
  if (Status printable = check_printable("reason", reason, 0, 255); !printable.ok()) {
    co_return fail(std::move(printable));
  }
  const Examination seen = co_await detector_.examine(server_id);
  result.answers = seen.state == wire::PeerState::kAnswered;
  const auto held = state_.tablets_by_server();
  const auto tablets = held.contains(server_id) ? held.at(server_id) : 0;
  if (result.answers && !force) {
    co_return fail(
        StatusCode::kInvalidArgument,
        fmt::format("{} answers {} at {}: it lives, and a verdict would end it; accepted "
                    "with --force only",
                    name(), seen.by, found->second.record.locator));
  }
  if (!confirmed) {
    result.effect = fmt::format(
        "{} at {}, {}, would be CRASHED for ever: its {} tablets are "
        "unavailable then, and its replicas do not count",
        name(), found->second.record.locator,
        result.answers ? "which answers" : "which does not answer", tablets);
    co_return result;
  }
  const std::string why =
      fmt::format("condemned by an operator{}{}{}", result.answers ? ", while it answered" : "",
                  reason.empty() ? "" : ": ", reason);
  log_warn(
      "detection.condemned_by_operator",
      {{"server", server_id}, {"answers", result.answers}, {"force", force}, {"reason", reason}});
  const auto verdict = [&] { return std::vector<Membership::Verdict>{{server_id, why}}; };
  Status done = co_await membership_.mark_crashed(verdict, ledger_.until(deadline));
  if (!done.ok()) co_return fail(std::move(done));
  condemned_by_operator_.add();
  result.condemned = true;
  result.effect = fmt::format("{} is CRASHED: {}", name(), why);
  co_return result;
}

}  // namespace ramcloud
