#include "coordinator/core/membership.h"

#include <algorithm>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "base/text.h"
#include "coordinator/core/checks.h"
#include "coordinator/core/volumes.h"

namespace ramcloud {
namespace {

constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxTextBytes = 1024;  // locators, addresses, versions
/// Verdicts in one transaction: etcd accepts 128 operations by default.
constexpr size_t kMostVerdicts = 100;

Status check_locator(std::string_view field, const std::string& text) {
  RC_RETURN_IF_ERROR(check_printable(field, text, 1, kMaxTextBytes));
  if (parse_locator(text)) return {};
  return not_accepted(field, quoted(text), "a locator such as tcp:host=10.0.0.1,port=11200");
}

/// The reason for a crash that is recorded now. It has a mark until an import is complete, so that
/// the next leader can tell it from crashes before the export.
std::string reason_now(const ClusterState& state, std::string reason) {
  return state.restate ? fmt::format("{}{}", kFoundAtImport, reason) : reason;
}

}  // namespace

ServerRecord record_of(const wire::EnlistRequest& request) {
  ServerRecord record;
  record.nonce = request.nonce;
  record.name = request.name;
  record.version = request.version;
  record.locator = request.locator;
  record.locator_outside = request.locator_outside;
  record.http_address = request.http_address;
  record.failure_domain = request.failure_domain;
  record.log_bytes = request.log_bytes;
  record.backup_bytes = request.backup_bytes;
  record.disk_read_bytes_per_second = request.disk_read_bytes_per_second;
  record.replicas = request.replicas;
  record.read_lease_ms = request.read_lease_ms;
  return record;
}

Status Membership::check(const wire::EnlistRequest& request) const {
  if (request.nonce == 0) return not_accepted("nonce", "0", "a random number chosen at each start");
  RC_RETURN_IF_ERROR(check_printable("name", request.name, 0, kMaxNameBytes));
  RC_RETURN_IF_ERROR(check_printable("version", request.version, 0, kMaxTextBytes));
  RC_RETURN_IF_ERROR(check_locator("locator", request.locator));
  if (!request.locator_outside.empty()) {
    RC_RETURN_IF_ERROR(check_locator("locator_outside", request.locator_outside));
  }
  RC_RETURN_IF_ERROR(check_printable("http_address", request.http_address, 0, kMaxTextBytes));
  RC_RETURN_IF_ERROR(check_printable("failure_domain", request.failure_domain, 0, kMaxNameBytes));

  if (request.cluster_uuid != wire::Uuid{} && request.cluster_uuid != state_.uuid) {
    return {StatusCode::kWrongCluster,
            fmt::format("the server's volume belongs to cluster {}; this is cluster {} ('{}')",
                        format_uuid(request.cluster_uuid), format_uuid(state_.uuid), state_.name)};
  }
  if (request.former_server_id == 0) return {};
  if (request.cluster_uuid == wire::Uuid{}) {
    return not_accepted("former_server_id", fmt::format("{}", request.former_server_id),
                        "0 from a volume that belongs to no cluster");
  }
  if (request.former_server_id > state_.ids.last_server_id) {
    return not_accepted("former_server_id", fmt::format("{}", request.former_server_id),
                        fmt::format("an id that was given out, at most {} (is the coordinator's "
                                    "metadata older than the volume?)",
                                    state_.ids.last_server_id));
  }
  return {};
}

wire::EnlistReply Membership::reply_for(uint64_t server_id) const {
  return {server_id, state_.uuid, state_.server_list()};
}

bool Membership::is_retry(const wire::EnlistRequest& request) const {
  return std::ranges::any_of(state_.servers, [&](const auto& entry) {
    const ServerRecord& record = entry.second.record;
    return entry.second.up() && record.nonce == request.nonce && record.locator == request.locator;
  });
}

/// The server that wrote the volume must be gone. If it is alive, the volume is a copy. A server
/// that restarts at the same address is not such a case: the probe would reach the new process.
Task<Status> Membership::former_is_gone(const wire::EnlistRequest& request) {
  const ServerEntry* former = state_.up_server(request.former_server_id);
  if (former == nullptr || request.cluster_uuid != state_.uuid || is_retry(request) || !examine_) {
    co_return StatusCode::kOk;
  }
  const ServerRecord record = former->record;
  const Examination seen = co_await examine_(record.id);
  if (seen.state == wire::PeerState::kAnswered) {
    RC_SOMETIMES("coordinator.copied_volume_is_refused");
    co_return Status(StatusCode::kInvalidArgument,
                     fmt::format("the volume of {} at {} belongs to server {} ({}), which answers "
                                 "{} at {}: the volume is a copy, and is refused; give the new "
                                 "server an empty --dir, or stop server {} first",
                                 quoted(request.name), request.locator, record.id,
                                 quoted(record.name), seen.by, record.locator, record.id));
  }
  const bool gone =
      seen.state == wire::PeerState::kRefused || seen.state == wire::PeerState::kStranger;
  if (gone || state_.up_server(record.id) == nullptr || seen.unheard >= seen.patience) {
    co_return StatusCode::kOk;
  }
  RC_SOMETIMES("coordinator.volume_waits_for_its_silent_server");
  co_return Status(StatusCode::kRetry,
                   fmt::format("the volume belongs to server {} at {}, which does not answer but "
                               "may be alive; it counts as dead after {} without an answer",
                               record.id, record.locator, format_duration(seen.patience)));
}

Task<Result<wire::EnlistReply>> Membership::enlist(wire::EnlistRequest request, Time deadline) {
  const Time begun = reactor_.now();
  if (Status gone = co_await former_is_gone(request); !gone.ok()) co_return fail(std::move(gone));
  const AsyncMutex::Lock lock = co_await ledger_.lock(deadline);
  if (!lock.held()) co_return fail(Ledger::too_late());
  if (Status checked = check(request); !checked.ok()) co_return fail(std::move(checked));
  for (const auto& [id, server] : state_.servers) {
    if (server.up() && server.record.nonce == request.nonce &&
        server.record.locator == request.locator) {
      RC_SOMETIMES("coordinator.server_enlists_twice");
      co_return reply_for(id);
    }
  }
  if (const ServerEntry* former = state_.up_server(request.former_server_id);
      former != nullptr && former->heard > begun) {
    co_return fail(StatusCode::kRetry, fmt::format("server {}, which the volume belongs to, has "
                                                   "just answered",
                                                   former->record.id));
  }

  const uint64_t released = volume_released_until_ms(state_, request.former_server_id);
  if (released > reactor_.clock().unix_ms()) {
    RC_SOMETIMES("coordinator.released_volume_is_refused");
    co_return fail(StatusCode::kRetry,
                   fmt::format("the volume of server {} was released to be erased; no server can "
                               "start with it before the token expires",
                               request.former_server_id));
  }

  ServerRecord record = record_of(request);
  record.id = state_.ids.last_server_id + 1;
  record.volume = volume_with(state_, request.former_server_id, record.id);
  record.enlisted_at_ms = reactor_.clock().unix_ms();
  record.accounted = true;
  IdsRecord ids = state_.ids;
  ids.last_server_id = record.id;
  MetadataChange change;
  change.put(kIdsKey, ids).put(server_key(record.id), record);
  ServerRecord former;
  if (const ServerEntry* server = state_.up_server(request.former_server_id)) {
    RC_SOMETIMES("coordinator.server_is_back_before_it_was_missed");
    former = server->record;
    former.state = wire::ServerState::kCrashed;
    former.state_reason = reason_now(state_, fmt::format("restarted as server {}", record.id));
    change.put(server_key(former.id), former);
  }
  const uint64_t revision = ledger_.next_revision();
  Status done = co_await ledger_.commit(lock, std::move(change), ledger_.until(deadline));
  if (!done.ok()) co_return fail(std::move(done));

  RC_FAILPOINT("coordinator.enlist.recorded");
  state_.ids = ids;
  state_.list_version = revision;
  ServerEntry& entry = state_.servers[record.id];
  entry.record = record;
  entry.changed = revision;
  entry.list_version_acked = revision;  // the list is in the reply
  entry.enlisted_now = true;
  entry.heard = reactor_.now();
  log_info("membership.enlisted", {{"server", record.id},
                                   {"name", record.name},
                                   {"locator", record.locator},
                                   {"former", request.former_server_id}});
  if (former.id != 0) apply_crash(former);
  changes_.server_changed(record.id);
  on_list_changed_();
  co_return reply_for(record.id);
}

Task<Result<wire::Empty>> Membership::stop_serving(wire::StopServingRequest request,
                                                   Time deadline) {
  const auto found = state_.servers.find(request.server_id);
  if (found == state_.servers.end()) {
    co_return fail(StatusCode::kInvalidArgument,
                   fmt::format("server_id {}: no such server exists", request.server_id));
  }
  ServerEntry& server = found->second;
  if (server.record.nonce == 0) {
    co_return fail(StatusCode::kUnsupported,
                   fmt::format("the nonce of server {} is not known: other servers reported this "
                               "server after an import",
                               request.server_id));
  }
  if (request.nonce != server.record.nonce) {
    co_return fail(StatusCode::kInvalidArgument, fmt::format("nonce {:#x} is not that of server {}",
                                                             request.nonce, request.server_id));
  }
  // Its lease has ended, even if it cannot be made CRASHED now.
  server.answers_nothing = true;
  if (!server.up()) co_return wire::Empty();
  if (state_.servers_up() < 2) {
    co_return fail(
        StatusCode::kUnsupported,
        fmt::format("server {} is the only one that is UP: no other server could serve its tablets",
                    request.server_id));
  }
  RC_SOMETIMES("coordinator.server_stops_by_a_plan");
  const auto verdict = [id = request.server_id] {
    return std::vector<Verdict>{{id, "it was asked to stop, and announced that it stops"}};
  };
  Status done = co_await mark_crashed(verdict, ledger_.until(deadline));
  if (!done.ok()) co_return fail(std::move(done));
  co_return wire::Empty();
}

Task<Status> Membership::mark_crashed(std::function<std::vector<Verdict>()> verdicts,
                                      Ledger::Objection objection) {
  const AsyncMutex::Lock lock = co_await ledger_.lock();
  std::vector<ServerRecord> crashed;
  MetadataChange change;
  for (Verdict& verdict : verdicts()) {
    const ServerEntry* server = state_.up_server(verdict.server_id);
    if (server == nullptr || crashed.size() >= kMostVerdicts) continue;
    ServerRecord& record = crashed.emplace_back(server->record);
    record.state = wire::ServerState::kCrashed;
    record.state_reason = reason_now(state_, std::move(verdict.reason));
    change.put(server_key(record.id), record);
  }
  if (crashed.empty()) co_return StatusCode::kOk;
  const uint64_t revision = ledger_.next_revision();
  Status done = co_await ledger_.commit(lock, std::move(change), std::move(objection));
  if (!done.ok()) co_return done;
  RC_FAILPOINT("coordinator.crash.recorded");
  state_.list_version = revision;
  for (const ServerRecord& record : crashed) apply_crash(record);
  on_list_changed_();
  co_return done;
}

void Membership::apply_crash(const ServerRecord& crashed) {
  ServerEntry& server = state_.servers.at(crashed.id);
  server.record = crashed;
  server.changed = state_.list_version;
  server.suspected = false;
  log_warn("membership.crashed",
           {{"server", crashed.id}, {"name", crashed.name}, {"reason", crashed.state_reason}});
  changes_.server_changed(crashed.id);
  for (const auto& [id, table] : state_.tables) {
    const bool shown = table.state != TableState::kDropping;
    if (shown && table.has_tablet_on(crashed.id)) changes_.table_changed(id);
  }
}

}  // namespace ramcloud
