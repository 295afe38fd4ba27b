#include "coordinator/core/import_reconciliation.h"

#include <algorithm>
#include <utility>

#include "base/logging.h"
#include "base/sometimes.h"
#include "coordinator/core/volumes.h"
#include "coordinator/metadata/metadata_export.h"
#include "rpc/back_off.h"

namespace ramcloud {
namespace {

constexpr Duration kLook = 50ms;
/// Records in one transaction: etcd accepts 128 operations by default.
constexpr size_t kRecordsAtOnce = 100;
constexpr Duration kRetryMin = 50ms;
constexpr Duration kRetryMax = 500ms;

}  // namespace

bool ImportReconciliation::start() {
  if (!state_.restate) return false;
  grace_ends_ = reactor_.now() + options_.grace;
  state_.no_verdict_before = grace_ends_;
  for (const auto& [id, server] : state_.servers) {
    // An earlier leader may have corrected some servers, or given them up.
    const bool corrected = server.record.state_reason.starts_with(kFoundAtImport);
    const bool came_since = id > state_.restate->last_server_id;
    if (server.up() || corrected || came_since) outlived_export_.insert(id);
  }
  log_warn("import.asking_servers", {{"revision_of_the_export", state_.restate->revision},
                                     {"servers", state_.servers_up()}});
  scope_.spawn(run());
  return true;
}

Status ImportReconciliation::check() const {
  if (!state_.restate) return {};
  return {StatusCode::kRetry,
          "the metadata was imported, and not all live servers have said yet what they own"};
}

Status ImportReconciliation::check_enlisting() const {
  return grace_is_over() ? Status() : check();
}

void ImportReconciliation::note(uint64_t server_id, const std::string& locator) {
  if (!state_.restate || server_id == 0 || state_.servers.contains(server_id)) return;
  const auto at = parse_locator(locator);
  if (at && asked_.insert(server_id).second) scope_.spawn(ask(server_id, *at));
}

Task<void> ImportReconciliation::run() {
  for (;;) {
    ask_those_who_are_up();
    if (grace_is_over() && !co_await add_silent()) co_return;
    if (all_said()) {
      const AsyncMutex::Lock lock = co_await ledger_.lock();
      if (all_said()) {
        if (co_await finish(lock)) break;
        co_return;  // another coordinator leads
      }
    }
    co_await reactor_.sleep(kLook);
  }
  on_done_();
}

void ImportReconciliation::ask_those_who_are_up() {
  for (auto& [id, server] : state_.servers) {
    if (!server.up()) continue;
    server.restated = server.restated || server.enlisted_now || said_.contains(id);
    if (server.restated || asked_.contains(id)) continue;
    const auto at = parse_locator(server.record.locator);
    if (!at) continue;  // checked when it enlisted
    asked_.insert(id);
    scope_.spawn(ask(id, *at));
  }
}

/// True if all servers that are UP have answered. The list of any of them names all servers, so no
/// unknown server is missing.
bool ImportReconciliation::all_said() const {
  const bool all = std::ranges::all_of(state_.servers, [](const auto& entry) {
    return !entry.second.up() || entry.second.restated;
  });
  if (!all) return false;
  const bool listed = unknown_.empty() && std::ranges::any_of(said_, [](const auto& entry) {
                        return entry.second.list.version > 0;
                      });
  return listed || grace_is_over();
}

Task<void> ImportReconciliation::ask(uint64_t server_id, Locator at) {
  BackOff back_off(kRetryMin, kRetryMax);
  wire::RestateRequest request;
  while (state_.restate) {
    if (state_.servers.contains(server_id) && state_.up_server(server_id) == nullptr) co_return;
    request.term = state_.term;
    const RpcReply reply =
        co_await rpc_.call_with(at, server_id, wire::Opcode::kRestate, RpcClient::body_of(request),
                                reactor_.now() + options_.timeout);
    if (reply.status == StatusCode::kUnsupported && state_.servers.contains(server_id)) {
      RC_SOMETIMES("coordinator.former_server_cannot_restate");
      log_warn("import.server_cannot_answer", {{"server", server_id}});
      said_[server_id] = {};
      co_return;
    }
    if (reply.ok()) {
      auto said = decode_message<wire::Restatement>(reply);
      const Status sound = said ? ramcloud::check(*said) : said.error();
      if (sound.ok() && said->server_id == server_id) {
        if (!co_await heard(server_id, std::move(*said))) co_return;
        if (said_.contains(server_id)) co_return;
      } else {
        log_error("import.answer_refused", {{"server", server_id}, {"error", sound}});
      }
    } else {
      (void)term_claims_.refused(server_id, request.term, reply);
      log_debug("import.not_answered_yet", {{"server", server_id}, {"error", reply.status}});
    }
    co_await reactor_.sleep(back_off.next(reactor_.random()));
  }
}

/// False: another coordinator leads.
Task<bool> ImportReconciliation::heard(uint64_t server_id, wire::Restatement said) {
  const AsyncMutex::Lock lock = co_await ledger_.lock();
  if (!state_.restate || said_.contains(server_id)) co_return true;
  ListedSince since = listed_since(state_, said.list);
  std::erase_if(unknown_, [&](const auto& entry) {
    return std::ranges::any_of(since.crashed,
                               [&](const ServerRecord& r) { return r.id == entry.first; });
  });
  std::vector<ServerRecord> records = std::move(since.crashed);
  const bool is_crashed = std::ranges::any_of(
      records, [&](const ServerRecord& record) { return record.id == server_id; });
  if (!state_.servers.contains(server_id) && !is_crashed) {
    RC_SOMETIMES("coordinator.imported_metadata_did_not_know_a_server");
    ServerRecord& record = records.emplace_back(record_of(said));
    record.volume = volume_with(state_, said.enlisted.former_server_id, record.id);
  }
  if (!co_await write(lock, std::move(records))) co_return false;
  for (auto& entry : since.unknown) {
    if (state_.servers.contains(entry.server_id)) continue;
    note(entry.server_id, entry.locator);
    unknown_.try_emplace(entry.server_id, std::move(entry));
  }
  unknown_.erase(server_id);
  log_info(
      "import.answered",
      {{"server", server_id}, {"tables", said.tables.size()}, {"list_version", said.list.version}});
  said_[server_id] = std::move(said);
  changes_.status_changed();
  co_return true;
}

/// Adds servers that others list as UP and that have not answered. Then failure detection watches
/// them, and their volumes are recognised when they come back.
Task<bool> ImportReconciliation::add_silent() {
  if (unknown_.empty()) co_return true;
  const AsyncMutex::Lock lock = co_await ledger_.lock();
  std::vector<ServerRecord> records;
  for (const auto& [id, entry] : unknown_) {
    if (!state_.servers.contains(id)) records.push_back(record_of(entry));
  }
  unknown_.clear();
  co_return co_await write(lock, std::move(records));
}

/// Writes server records. Ids above the known ones are not assigned, because unknown servers may
/// have them.
Task<bool> ImportReconciliation::write(const AsyncMutex::Lock& lock,
                                       std::vector<ServerRecord> servers) {
  for (size_t at = 0; at < servers.size(); at += kRecordsAtOnce) {
    const size_t end = std::min(servers.size(), at + kRecordsAtOnce);
    IdsRecord ids = state_.ids;
    MetadataChange change;
    for (size_t i = at; i < end; ++i) {
      if (servers[i].id > ids.last_server_id) ids.last_server_id = servers[i].id + kImportGap;
      change.put(server_key(servers[i].id), servers[i]);
    }
    if (ids.last_server_id != state_.ids.last_server_id) change.put(kIdsKey, ids);
    const uint64_t revision = ledger_.next_revision();
    if (!(co_await ledger_.commit(lock, std::move(change))).ok()) co_return false;
    state_.ids = ids;
    state_.list_version = revision;
    for (size_t i = at; i < end; ++i) {
      if (!state_.servers.contains(servers[i].id)) outlived_export_.insert(servers[i].id);
      ServerEntry& entry = state_.servers[servers[i].id];
      entry.record = std::move(servers[i]);
      entry.changed = revision;
      entry.suspected = false;
      log_warn("import.server_corrected", {{"server", entry.record.id},
                                           {"name", entry.record.name},
                                           {"up", entry.up()},
                                           {"reason", entry.record.state_reason}});
      changes_.server_changed(entry.record.id);
    }
    on_list_changed_();
  }
  co_return true;
}

/// Raises the counters above everything that a live server reported, so that nothing is assigned
/// twice, even if one export is imported twice.
Task<bool> ImportReconciliation::pass_what_was_heard(const AsyncMutex::Lock& lock) {
  const Heard heard = heard_by(said_);
  if (heard.revision >= ledger_.next_revision()) {
    RC_SOMETIMES("coordinator.imported_metadata_was_imported_before");
    const uint64_t revision = heard.revision + kImportGap;
    if (!(co_await ledger_.pass_revision(lock, revision)).ok()) co_return false;
    // Servers may have lists with higher versions than those sent since the import.
    state_.list_version = state_.first_list_version = revision;
  }
  IdsRecord ids = state_.ids;
  if (heard.server_id > ids.last_server_id) ids.last_server_id = heard.server_id + kImportGap;
  if (heard.table_id > ids.last_table_id) ids.last_table_id = heard.table_id + kImportGap;
  if (ids.last_server_id == state_.ids.last_server_id &&
      ids.last_table_id == state_.ids.last_table_id) {
    co_return true;
  }
  MetadataChange change;
  change.put(kIdsKey, ids);
  if (!(co_await ledger_.commit(lock, std::move(change))).ok()) co_return false;
  state_.ids = ids;
  co_return true;
}

ReplicationEpochRecord ImportReconciliation::fence_of(uint64_t server_id) const {
  const auto known = state_.replication_epochs.find(server_id);
  if (known != state_.replication_epochs.end()) return known->second;
  ReplicationEpochRecord none;
  none.server_id = server_id;
  return none;
}

/// The fence that each master reports as confirmed, also if it has died since it answered: none was
/// confirmed after that. For masters that outlived the export and did not answer, the export's value
/// is used.
std::vector<ReplicationEpochRecord> ImportReconciliation::restated_epochs() const {
  std::vector<ReplicationEpochRecord> epochs;
  for (const auto& [id, said] : said_) {
    if (said.epoch == 0 || !state_.servers.contains(id)) continue;
    ReplicationEpochRecord record = fence_of(id);
    const bool known =
        record.epoch >= said.epoch && record.lowest_open_segment >= said.lowest_open_segment;
    if (known && !record.of_export) continue;
    record.epoch = std::max(record.epoch, said.epoch);
    record.lowest_open_segment = std::max(record.lowest_open_segment, said.lowest_open_segment);
    record.of_export = false;
    epochs.push_back(record);
  }
  for (const uint64_t id : outlived_export_) {
    const auto server = state_.servers.find(id);
    if (server == state_.servers.end() || answered(id) ||
        server->second.record.state == wire::ServerState::kRemoved) {
      continue;
    }
    ReplicationEpochRecord record = fence_of(id);
    if (std::exchange(record.of_export, true)) continue;
    epochs.push_back(record);
  }
  return epochs;
}

Task<bool> ImportReconciliation::write_epochs(const AsyncMutex::Lock& lock) {
  const std::vector<ReplicationEpochRecord> epochs = restated_epochs();
  for (size_t at = 0; at < epochs.size(); at += kRecordsAtOnce) {
    const size_t end = std::min(epochs.size(), at + kRecordsAtOnce);
    MetadataChange change;
    for (size_t i = at; i < end; ++i) {
      change.put(replication_epoch_key(epochs[i].server_id), epochs[i]);
    }
    if (!(co_await ledger_.commit(lock, std::move(change))).ok()) co_return false;
    for (size_t i = at; i < end; ++i) state_.replication_epochs[epochs[i].server_id] = epochs[i];
  }
  co_return true;
}

Task<bool> ImportReconciliation::write_tables(const AsyncMutex::Lock& lock,
                                              std::vector<TableRecord> tables) {
  std::vector<std::pair<uint64_t, std::string>> shown;
  for (TableRecord& table : tables) {
    table.revision = 0;  // gets a new revision
    table.chunks.clear();
    const bool dropped = table.state == TableState::kDropping;
    if (!dropped || state_.tables.contains(table.id)) shown.emplace_back(table.id, table.name);
  }
  if (!(co_await writer_.write_all(lock, std::move(tables))).ok()) co_return false;
  for (const auto& [id, name] : shown) {
    const bool dropped = state_.tables.at(id).state == TableState::kDropping;
    dropped ? changes_.table_dropped(name) : changes_.table_changed(id);
  }
  co_return true;
}

bool ImportReconciliation::answered(uint64_t server_id) const {
  const auto said = said_.find(server_id);
  if (said != said_.end() && said->second.server_id == server_id) return true;
  const auto server = state_.servers.find(server_id);
  return server != state_.servers.end() && server->second.enlisted_now;
}

/// Servers whose tablets are not known for sure may have got more since the export. Their replicas
/// may be the only copies of those.
std::vector<ServerRecord> ImportReconciliation::unaccounted() const {
  std::vector<ServerRecord> records;
  for (const auto& [id, server] : state_.servers) {
    const bool known = answered(id) && (server.enlisted_now || speaks(state_, said_, id));
    if (known || !server.record.accounted) continue;
    if (server.record.state == wire::ServerState::kRemoved) continue;
    records.push_back(server.record);
    records.back().accounted = false;
  }
  return records;
}

/// If the leader dies in between, the next leader asks again; everything here is idempotent.
Task<bool> ImportReconciliation::finish(const AsyncMutex::Lock& lock) {
  if (!co_await pass_what_was_heard(lock)) co_return false;
  const Owned owned = owned_by(state_, said_, outlived_export_);
  for (const std::string& note : owned.notes) {
    log_warn("import.corrected", {{"what", note}});
  }
  if (!co_await write(lock, unaccounted())) co_return false;
  if (!co_await write_epochs(lock)) co_return false;
  if (!co_await write_tables(lock, owned.tables)) co_return false;
  MetadataChange change;
  change.remove(kRestateKey);
  if (!(co_await ledger_.commit(lock, std::move(change))).ok()) co_return false;
  state_.restate.reset();
  log_info("import.complete", {{"servers", said_.size()},
                               {"tables_changed", owned.tables.size()},
                               {"orphans", owned.orphans.size()}});
  for (const auto& orphan : owned.orphans) {
    RC_SOMETIMES("coordinator.imported_metadata_leaves_an_orphan");
    scope_.spawn(
        [](Notifier& notifier, uint64_t server_id, wire::DropTabletRequest request) -> Task<void> {
          (void)co_await notifier.drop_tablet(server_id, request);
        }(notifier_, orphan.server_id, {state_.term, ledger_.revision(), orphan.table_id}));
  }
  co_return true;
}

}  // namespace ramcloud
