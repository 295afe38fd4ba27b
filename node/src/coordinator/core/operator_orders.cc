// Coordinator: an operator's orders.
#include <algorithm>
#include <utility>

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
        fmt::format("{} is already not UP: {}", name(), found->second.record.state_reason);
    co_return result;
  }
  if (Status printable = check_printable("reason", reason, 0, 255); !printable.ok()) {
    co_return fail(std::move(printable));
  }
  const Examination seen = co_await detector_.examine(server_id);
  result.answers = seen.state == wire::PeerState::kAnswered;
  const auto tablets_by_server = state_.tablets_by_server();
  const auto tablets = tablets_by_server.contains(server_id) ? tablets_by_server.at(server_id) : 0;
  if (result.answers && !force) {
    co_return fail(StatusCode::kInvalidArgument,
                   fmt::format("{} answers {} at {}: it is alive, and marking it CRASHED would end "
                               "it; accepted with --force only",
                               name(), seen.by, found->second.record.locator));
  }
  if (!confirmed) {
    result.effect = fmt::format(
        "{} at {}, {}, would be marked CRASHED, which is final: its {} tablets would be "
        "unavailable until they are recovered, and its replicas would not count",
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

Task<Result<wire::ResizeLogReply>> Coordinator::resize_log(uint64_t server_id, uint64_t bytes,
                                                           Time deadline) {
  const auto found = state_.servers.find(server_id);
  if (found == state_.servers.end()) {
    co_return fail(StatusCode::kNotFound, fmt::format("server {} does not exist", server_id));
  }
  const ServerRecord& record = found->second.record;
  const auto locator = parse_locator(record.locator);
  if (!found->second.up() || !locator) {
    co_return fail(
        StatusCode::kInvalidArgument,
        fmt::format("server {} ({}): accepted are servers that are UP, and it is not: {}",
                    server_id, quoted(record.name), record.state_reason));
  }
  const wire::ResizeLogRequest request{state_.term, bytes};
  auto reply = co_await rpc_.call<wire::ResizeLogReply>(
      *locator, server_id, wire::Opcode::kResizeLog, request, deadline);
  if (!reply) {
    co_return fail(reply.error().code(),
                   fmt::format("server {}: {}", server_id, reply.error().message()));
  }
  if (bytes != 0) {
    log_info("coordinator.log_resize_ordered",
             {{"server", server_id}, {"target_bytes", reply->target_bytes}});
  }
  co_return reply;
}

// ---- losses ---------------------------------------------------------------------------------------

namespace {

const AcceptedLossRecord* accepted_with(const ClusterState& state, uint64_t server_id,
                                        const std::string& token) {
  const auto found = state.accepted_losses.find(server_id);
  if (token.empty() || found == state.accepted_losses.end()) return nullptr;
  const auto same = std::ranges::find(found->second, token, &AcceptedLossRecord::token);
  return same == found->second.end() ? nullptr : &*same;
}

Status check_texts(const LossRequest& wanted) {
  RC_RETURN_IF_ERROR(check_printable("by", wanted.by, 0, 255));
  return check_printable("reason", wanted.reason, 0, 255);
}

/// The token proves that the operator has seen exactly this loss.
Status check_token(const LossRequest& wanted, const LossPreview& preview) {
  if (wanted.token == preview.token) return {};
  const std::string command =
      fmt::format("`ramcloud recovery accept-loss {}` shows it", wanted.server_id);
  if (wanted.token.empty()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("token: it is missing; accepted is the token of the preview: {}", command)};
  }
  return {StatusCode::kInvalidArgument,
          fmt::format("token {}: it is not the token of what is missing now; accepted is the token "
                      "of a new preview: {}",
                      quoted(wanted.token), command)};
}

}  // namespace

Task<Result<LossAnswer>> Coordinator::accept_loss(LossRequest wanted, Time deadline) {
  const uint64_t id = wanted.server_id;
  if (!state_.servers.contains(id)) {
    co_return fail(StatusCode::kNotFound, fmt::format("server {} does not exist", id));
  }
  if (Status texts = check_texts(wanted); !texts.ok()) co_return fail(std::move(texts));
  AsyncMutex::Lock lock;
  if (wanted.confirmed) {
    lock = co_await ledger_.lock(deadline);
    if (!lock.held()) co_return fail(Ledger::too_late());
    if (const AcceptedLossRecord* before = accepted_with(state_, id, wanted.token)) {
      co_return LossAnswer{true, {}, before->summary};
    }
  }
  auto preview = recoveries_.preview_loss(id);
  if (!preview) co_return fail(std::move(preview.error()));
  LossAnswer answer{false, std::move(*preview), {}};
  answer.effect = summary_of(answer.preview);
  if (!wanted.confirmed) co_return answer;
  if (Status same = check_token(wanted, answer.preview); !same.ok())
    co_return fail(std::move(same));

  AcceptedLossRecord record = record_of(answer.preview);
  record.revision = ledger_.next_revision();
  record.accepted_at_ms = reactor_.clock().unix_ms();
  record.version_floor = version_floor(record.accepted_at_ms);
  record.by = std::move(wanted.by);
  record.reason = std::move(wanted.reason);
  MetadataChange change;
  change.put(accepted_loss_key(id, record.revision), record);
  Status done = co_await ledger_.commit(lock, std::move(change), ledger_.until(deadline));
  if (!done.ok()) co_return fail(std::move(done));
  log_error("recovery.loss_accepted", {{"master", id},
                                       {"name", answer.preview.name},
                                       {"segments", record.segments.size()},
                                       {"end", record.end_given_up},
                                       {"by", record.by},
                                       {"reason", record.reason},
                                       {"lost", record.summary}});
  state_.accepted_losses[id].push_back(std::move(record));
  answer.accepted = true;
  recoveries_.news();
  changes_.status_changed();
  co_return answer;
}

}  // namespace ramcloud
