#include "coordinator/core/tables.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/failpoint.h"
#include "base/hash.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "coordinator/core/checks.h"
#include "runtime/when_all.h"

namespace ramcloud {
namespace {

constexpr Duration kRefusedRetry = 500ms;

/// Servers that are UP, those with the fewest tablets first; last those that take no orders.
std::vector<uint64_t> servers_by_load(const ClusterState& state) {
  const auto load = state.tablets_by_server();
  std::vector<std::tuple<bool, uint32_t, uint64_t>> order;
  for (const auto& [id, server] : state.servers) {
    const auto found = load.find(id);
    if (!server.up()) continue;
    order.emplace_back(server.refuses_term, found == load.end() ? 0 : found->second, id);
  }
  std::ranges::sort(order);
  std::vector<uint64_t> ids;
  for (const auto& [refuses, tablets, id] : order) ids.push_back(id);
  return ids;
}

}  // namespace

// ---- what users ask for -------------------------------------------------------------------------

Task<Result<uint64_t>> Tables::create(std::string name, uint32_t span, Time deadline) {
  if (Status checked = check_printable("name", name, 1, wire::kMaxTableNameBytes); !checked.ok()) {
    co_return fail(std::move(checked));
  }
  const auto id = co_await begin_create(name, span, deadline);
  if (!id) co_return id;
  while (creating(*id)) {
    if (co_await wait_until(reactor_, changed_, deadline)) continue;
    co_return fail(StatusCode::kDeadlineExceeded,
                   fmt::format("table {} is still being created: not all of its servers have "
                               "taken their tablets",
                               quoted(name)));
  }
  const auto table = state_.tables.find(*id);
  if (table == state_.tables.end() || table->second.state == TableState::kDropping) {
    co_return fail(StatusCode::kNotFound,
                   fmt::format("table {} was dropped meanwhile", quoted(name)));
  }
  co_return id;
}

Task<Status> Tables::drop(std::string name, Time deadline) {
  const auto id = co_await begin_drop(name, deadline);
  if (!id) co_return id.error();
  while (state_.tables.contains(*id)) {
    if (co_await wait_until(reactor_, changed_, deadline)) continue;
    co_return Status(StatusCode::kDeadlineExceeded,
                     fmt::format("table {} is dropped, but not all of its servers have said so yet",
                                 quoted(name)));
  }
  co_return StatusCode::kOk;
}

void Tables::resume() {
  for (const auto& [id, table] : state_.tables) {
    if (table.state == TableState::kCreating) {
      RC_SOMETIMES("coordinator.goes_on_with_a_create");
      scope_.spawn(finish_create(id));
    }
    if (table.state == TableState::kDropping) {
      RC_SOMETIMES("coordinator.goes_on_with_a_drop");
      scope_.spawn(finish_drop(id));
    }
  }
}

// ---- beginning: one durable record --------------------------------------------------------------

Task<Result<uint64_t>> Tables::begin_create(std::string name, uint32_t span, Time deadline) {
  const AsyncMutex::Lock lock = co_await ledger_.lock(deadline);
  if (!lock.held()) co_return fail(Ledger::too_late());
  if (const TableRecord* existing = state_.find_table(name)) {
    if (existing->tablets.size() == span) co_return existing->id;
    co_return fail(StatusCode::kExists, fmt::format("table {} exists with span {}, not {}",
                                                    quoted(name), existing->tablets.size(), span));
  }
  if (Status checked = check_span(span); !checked.ok()) co_return fail(std::move(checked));
  TableRecord record = plan(std::move(name), span);
  IdsRecord ids = state_.ids;
  ids.last_table_id = record.id;
  Change change;
  change.put(kIdsKey, ids).put(table_key(record.id), record);
  Status done = co_await ledger_.commit(lock, std::move(change), ledger_.until(deadline));
  if (!done.ok()) co_return fail(std::move(done));
  state_.ids = ids;
  state_.tables[record.id] = record;
  changes_.table_changed(record.id);
  RC_FAILPOINT("coordinator.table.create_recorded");
  scope_.spawn(finish_create(record.id));
  co_return record.id;
}

Status Tables::check_span(uint32_t span) const {
  const uint32_t live = state_.servers_up();
  if (live == 0) return {StatusCode::kUnavailable, "no server is up to hold the table"};
  if (span < 1 || span > live) {
    return not_accepted("span", fmt::format("{}", span),
                        fmt::format("1 to {} (the servers that are up)", live));
  }
  size_t tablets = span;
  for (const auto& [id, table] : state_.tables) tablets += table.tablets.size();
  if (tablets <= kMaxTablets) return {};
  return not_accepted("span", fmt::format("{}", span),
                      fmt::format("at most {} tablets in all tables together", kMaxTablets));
}

TableRecord Tables::plan(std::string name, uint32_t span) const {
  const auto servers = servers_by_load(state_);
  TableRecord record;
  record.id = state_.ids.last_table_id + 1;
  record.name = std::move(name);
  record.revision = ledger_.next_revision();
  for (uint32_t i = 0; i < span; ++i) {
    record.tablets.push_back({tablet_start(i, span), tablet_end(i, span), servers[i]});
  }
  return record;
}

Task<Result<uint64_t>> Tables::begin_drop(const std::string& name, Time deadline) {
  const AsyncMutex::Lock lock = co_await ledger_.lock(deadline);
  if (!lock.held()) co_return fail(Ledger::too_late());
  const TableRecord* table = state_.find_table(name);
  if (table == nullptr) {
    // Asked again while the first is in progress: the same answer.
    for (const auto& [id, other] : state_.tables) {
      if (other.name == name) co_return id;
    }
    co_return fail(StatusCode::kNotFound, fmt::format("table {} does not exist", quoted(name)));
  }
  TableRecord record = *table;
  record.state = TableState::kDropping;
  Status done = co_await write(lock, record, ledger_.until(deadline));
  if (!done.ok()) co_return fail(std::move(done));
  changes_.table_dropped(record.name);
  RC_FAILPOINT("coordinator.table.drop_recorded");
  scope_.spawn(finish_drop(record.id));
  co_return record.id;
}

/// Commits the record with a new revision and applies it.
Task<Status> Tables::write(const AsyncMutex::Lock& lock, TableRecord record,
                           Ledger::Objection objection) {
  record.revision = ledger_.next_revision();
  Change change;
  change.put(table_key(record.id), record);
  Status done = co_await ledger_.commit(lock, std::move(change), std::move(objection));
  if (done.ok()) {
    state_.tables[record.id] = std::move(record);
    wake_waiting();
  }
  co_return done;
}

// ---- finishing: servers are told, then the record says so ---------------------------------------

bool Tables::creating(uint64_t id) const {
  const auto table = state_.tables.find(id);
  return table != state_.tables.end() && table->second.state == TableState::kCreating;
}

Task<void> Tables::finish_create(uint64_t id) {
  while (creating(id)) {
    if (!co_await replace_crashed(id)) co_return;
    if (!creating(id)) break;
    if (!co_await tell_servers_to_take(id)) continue;
    RC_FAILPOINT("coordinator.table.taken");
    const AsyncMutex::Lock lock = co_await ledger_.lock();
    if (!creating(id)) break;
    TableRecord record = state_.tables.at(id);
    const bool all_up = std::ranges::all_of(record.tablets, [this](const TabletRecord& tablet) {
      return state_.up_server(tablet.server_id) != nullptr;
    });
    if (!all_up) continue;  // nothing is in it yet: place it again instead of losing a part
    record.state = TableState::kNormal;
    if (!(co_await write(lock, record)).ok()) co_return;
    RC_FAILPOINT("coordinator.table.created");
    log_info("table.created",
             {{"table", id}, {"name", quoted(record.name)}, {"span", record.tablets.size()}});
    changes_.table_changed(id);
  }
}

/// True when every server has taken its tablets of this table as it is recorded now.
Task<bool> Tables::tell_servers_to_take(uint64_t id) {
  const TableRecord record = state_.tables.at(id);
  std::vector<Task<Status>> calls;
  for (const auto& tablet : record.tablets) {
    calls.push_back(notifier_.take_tablet(
        tablet.server_id,
        {state_.term, record.revision, id, tablet.start_hash, tablet.end_hash, record.name}));
  }
  bool all = true;
  bool refused = false;
  for (const Status& status : co_await when_all(std::move(calls))) {
    all = all && status.ok();
    refused = refused || status == StatusCode::kStaleTerm;
  }
  if (refused && creating(id)) {
    log_error("table.refused_as_outdated", {{"table", id}});
    co_await reactor_.sleep(kRefusedRetry);
  }
  co_return all&& creating(id) && state_.tables.at(id).revision == record.revision;
}

/// Moves the tablets of a table being created away from servers that crashed; waits for a server
/// if there is none. False: that is for the next leader to do. (Nobody would have to be waited for,
/// so that whoever went on would never let the reactor go.)
Task<bool> Tables::replace_crashed(uint64_t id) {
  for (;;) {
    while (creating(id) && state_.servers_up() == 0) {
      co_await wait_until(reactor_, changed_, kNever);
    }
    const AsyncMutex::Lock lock = co_await ledger_.lock();
    if (!creating(id)) co_return true;
    TableRecord record = state_.tables.at(id);
    // Servers without a tablet of this table come first.
    std::vector<uint64_t> candidates, others;
    for (const uint64_t server_id : servers_by_load(state_)) {
      (record.has_tablet_on(server_id) ? others : candidates).push_back(server_id);
    }
    candidates.insert(candidates.end(), others.begin(), others.end());
    if (candidates.empty()) continue;
    size_t next = 0;
    for (auto& tablet : record.tablets) {
      if (state_.up_server(tablet.server_id) != nullptr) continue;
      tablet.server_id = candidates[next++ % candidates.size()];
    }
    if (next == 0) co_return true;
    RC_SOMETIMES("coordinator.places_a_new_table_anew");
    if (!(co_await write(lock, record)).ok()) co_return false;
    changes_.table_changed(id);
    co_return true;
  }
}

Task<void> Tables::finish_drop(uint64_t id) {
  const TableRecord record = state_.tables.at(id);
  std::set<uint64_t> servers;
  for (const auto& tablet : record.tablets) servers.insert(tablet.server_id);
  std::vector<Task<Status>> calls;
  for (const uint64_t server_id : servers) {
    calls.push_back(notifier_.drop_tablet(server_id, {state_.term, record.revision, id}));
  }
  // A server that is not UP will never serve it again; one that refuses knows a later decision.
  (void)co_await when_all(std::move(calls));
  const AsyncMutex::Lock lock = co_await ledger_.lock();
  Change change;
  change.remove(table_key(id));
  if (!(co_await ledger_.commit(lock, std::move(change))).ok()) co_return;
  state_.tables.erase(id);
  RC_FAILPOINT("coordinator.table.dropped");
  log_info("table.dropped", {{"table", id}, {"name", quoted(record.name)}});
  wake_waiting();
}

void Tables::wake_waiting() {
  changed_.set();
  changed_.reset();
}

}  // namespace ramcloud
