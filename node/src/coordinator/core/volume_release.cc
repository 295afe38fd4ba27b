#include "coordinator/core/volume_release.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/logging.h"
#include "base/sometimes.h"
#include "base/text.h"
#include "coordinator/core/volumes.h"
#include "runtime/when_all.h"
#include "wire/volume_messages.h"

namespace ramcloud {
namespace {

/// The most reasons in one answer.
constexpr size_t kMostReasons = 4;

VolumeRelease refusal(const std::vector<std::string>& reasons) {
  VolumeRelease no;
  for (size_t i = 0; i < std::min(reasons.size(), kMostReasons); ++i) {
    no.reason += (i == 0 ? "" : "; ") + reasons[i];
  }
  if (reasons.size() > kMostReasons) {
    no.reason += fmt::format("; and {} more reasons", reasons.size() - kMostReasons);
  }
  return no;
}

}  // namespace

Task<Result<VolumeRelease>> VolumeReleases::ask(uint64_t server_id, Time deadline) {
  auto objections = objections_to_release(state_, server_id);
  if (!objections.empty()) co_return refusal(objections);

  const std::vector<uint64_t> ids = servers_of_volume(state_, server_id);
  const Time until = std::min(deadline, reactor_.now() + options_.timeout);
  std::vector<uint64_t> asked;
  std::vector<Task<std::string>> questions;
  for (const auto& [id, server] : state_.servers) {
    if (!server.up()) continue;
    asked.push_back(id);
    questions.push_back(ask_master(id, server_id, ids, until));
  }
  objections = co_await when_all(std::move(questions));
  std::erase(objections, "");
  if (!objections.empty()) co_return refusal(objections);

  // Check the metadata again, because they may have changed meanwhile. They cannot change while the
  // lock is held, and the commit proves that no other coordinator led until then.
  const AsyncMutex::Lock lock = co_await ledger_.lock(deadline);
  if (!lock.held()) co_return fail(Ledger::too_late());
  objections = objections_to_release(state_, server_id);
  if (objections.empty()) objections = not_asked(asked);
  if (!objections.empty()) {
    RC_SOMETIMES("coordinator.volume_is_needed_after_all");
    co_return refusal(objections);
  }
  ServerRecord record = state_.servers.at(server_id).record;
  record.released_until_ms =
      reactor_.clock().unix_ms() + static_cast<uint64_t>(options_.valid / 1ms);
  MetadataChange change;
  change.put(server_key(server_id), record);
  Status done = co_await ledger_.commit(lock, std::move(change), ledger_.until(deadline));
  if (!done.ok()) co_return fail(std::move(done));
  state_.servers.at(server_id).record = record;
  const std::string token = token_of(server_id, record.released_until_ms);
  log_info("volume.released", {{"server", server_id},
                               {"name", record.name},
                               {"masters_asked", asked.size()},
                               {"token", token}});
  co_return VolumeRelease{
      true,
      fmt::format("the volume of {} is not needed: none of {} live masters needs a replica on it",
                  server_text(state_, server_id), asked.size()),
      token, record.released_until_ms};
}

/// Empty if this master needs nothing of the volume; otherwise why it does, or why that is not
/// known.
Task<std::string> VolumeReleases::ask_master(uint64_t master_id, uint64_t server_id,
                                             std::vector<uint64_t> ids, Time deadline) {
  const uint64_t list_version = state_.list_version;
  const wire::GetReplicasOnRequest request{state_.term, std::move(ids)};
  const auto locator = parse_locator(state_.servers.at(master_id).record.locator);
  const std::string name = server_text(state_, master_id);
  if (!locator) co_return fmt::format("{} cannot be reached", name);
  for (;;) {
    auto need = co_await rpc_.call<wire::ReplicasOn>(
        *locator, master_id, wire::Opcode::kGetReplicasOn, request, deadline);
    const bool may_ask_again = reactor_.now() + options_.again < deadline;
    if (!need && (need.error() != StatusCode::kRetry || !may_ask_again)) {
      co_return fmt::format("{} does not say whether it needs the volume of server {}: {}", name,
                            server_id, need.error().to_string());
    }
    if (need && need->list_version >= list_version) {
      if (need->counted > 0) {
        co_return fmt::format("{} still counts replicas of {} segments on {}", name, need->counted,
                              server_text(state_, server_id));
      }
      if (need->missed > 0) {
        co_return fmt::format(
            "{} has {} segments that had replicas on {} and do not have all of "
            "them elsewhere yet",
            name, need->missed, server_text(state_, server_id));
      }
      co_return "";
    }
    if (need && !may_ask_again) {
      co_return fmt::format(
          "{} has version {} of the server list, and does not have version {} yet", name,
          need->list_version, list_version);
    }
    co_await reactor_.sleep(options_.again);
  }
}

std::vector<std::string> VolumeReleases::not_asked(const std::vector<uint64_t>& asked) const {
  std::vector<std::string> objections;
  for (const auto& [id, server] : state_.servers) {
    if (!server.up() || std::ranges::binary_search(asked, id)) continue;
    objections.push_back(
        fmt::format("{} enlisted meanwhile and was not asked", server_text(state_, id)));
  }
  return objections;
}

std::string VolumeReleases::token_of(uint64_t server_id, uint64_t expires_at_ms) const {
  return fmt::format("release/1/{}/{}/{}/{}", format_uuid(state_.uuid), server_id, state_.term,
                     expires_at_ms);
}

}  // namespace ramcloud
