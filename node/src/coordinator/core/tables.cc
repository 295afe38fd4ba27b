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

/// Servers that are UP, those with the fewest tablets first; servers that refuse our orders last.
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
    if (table.state == TableState::kNormal && !table.strays.empty()) scope_.spawn(sweep(id));
  }
}

// ---- beginning: one durable record --------------------------------------------------------------

Task<Result<uint64_t>> Tables::begin_create(std::string name, uint32_t span, Time deadline) {
  const AsyncMutex::Lock lock = co_await ledger_.lock(deadline);
  if (!lock.held()) co_return fail(Ledger::too_late());
  if (const TableRecord* existing = state_.find_table(name)) {
    if (existing->span == span) co_return existing->id;
    co_return fail(StatusCode::kExists, fmt::format("table {} exists with span {}, not {}",
                                                    quoted(name), existing->span, span));
  }
  if (Status checked = check_span(span); !checked.ok()) co_return fail(std::move(checked));
  TableRecord record = plan(std::move(name), span);
  IdsRecord ids = state_.ids;
  ids.last_table_id = record.id;
  // If the tablets do not fit into one transaction, finish_create() places them.
  if (!writer_.fits(record, 1)) record.tablets = tablets_of_span(span);
  MetadataChange change;
  change.put(kIdsKey, ids);
  Status done = co_await writer_.write(lock, record, std::move(change), ledger_.until(deadline));
  if (!done.ok()) co_return fail(std::move(done));
  state_.ids = ids;
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
  record.span = span;
  record.tablets = tablets_of_span(span);
  for (uint32_t i = 0; i < span; ++i) record.tablets[i].server_id = servers[i];
  return record;
}

Task<Result<uint64_t>> Tables::begin_drop(const std::string& name, Time deadline) {
  const AsyncMutex::Lock lock = co_await ledger_.lock(deadline);
  if (!lock.held()) co_return fail(Ledger::too_late());
  const TableRecord* table = state_.find_table(name);
  if (table == nullptr) {
    // A repeated request while the first is in progress gets the same answer.
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

/// Writes the record with a new revision of the table.
Task<Status> Tables::write(const AsyncMutex::Lock& lock, TableRecord record,
                           Ledger::Objection objection) {
  record.revision = 0;
  Status done = co_await writer_.write(lock, std::move(record), {}, std::move(objection));
  if (done.ok()) wake_waiting();
  co_return done;
}

/// Removes chunks of an unused layout that an earlier leader left.
Task<void> Tables::sweep(uint64_t id) {
  const AsyncMutex::Lock lock = co_await ledger_.lock();
  const auto table = state_.tables.find(id);
  if (table == state_.tables.end() || table->second.state != TableState::kNormal) co_return;
  TableRecord record = table->second;
  (void)co_await writer_.write(lock, std::move(record));
}

// ---- finishing: servers are told, then the record says so ---------------------------------------

bool Tables::creating(uint64_t id) const {
  const auto table = state_.tables.find(id);
  return table != state_.tables.end() && table->second.state == TableState::kCreating;
}

Task<void> Tables::finish_create(uint64_t id) {
  while (creating(id)) {
    if (!co_await place(id)) co_return;
    if (!creating(id)) break;
    const std::optional<Positions> positions = co_await tell_servers_to_take(id);
    if (!positions) continue;
    RC_FAILPOINT("coordinator.table.taken");
    const AsyncMutex::Lock lock = co_await ledger_.lock();
    if (!creating(id)) break;
    TableRecord record = state_.tables.at(id);
    const bool all_up = std::ranges::all_of(record.tablets, [this](const TabletRecord& tablet) {
      return state_.up_server(tablet.server_id) != nullptr;
    });
    if (!all_up) continue;  // the table is still empty: place these tablets again
    for (TabletRecord& tablet : record.tablets) {
      const auto told = positions->find(tablet.start_hash);
      if (told != positions->end()) tablet.creation_position = told->second;
    }
    record.state = TableState::kNormal;
    if (!(co_await write(lock, record)).ok()) co_return;
    RC_FAILPOINT("coordinator.table.created");
    log_info("table.created",
             {{"table", id}, {"name", quoted(record.name)}, {"span", record.span}});
    changes_.table_changed(id);
  }
}

/// Orders all owners to take their tablets. None unless every one has taken them as recorded now.
Task<std::optional<Tables::Positions>> Tables::tell_servers_to_take(uint64_t id) {
  const TableRecord record = state_.tables.at(id);
  const uint64_t revision = record.latest_revision();
  std::vector<Task<Result<wire::TakeTabletReply>>> calls;
  for (const auto& tablet : record.tablets) {
    calls.push_back(notifier_.take_tablet(
        tablet.server_id,
        {state_.term, revision, id, tablet.start_hash, tablet.end_hash, record.name}));
  }
  bool all = true;
  bool refused = false;
  Positions positions;
  const auto answers = co_await when_all(std::move(calls));
  for (size_t i = 0; i < answers.size(); ++i) {
    all = all && answers[i].has_value();
    refused = refused || (!answers[i] && answers[i].error() == StatusCode::kStaleTerm);
    // Earlier formats have no field for it.
    if (!answers[i] || state_.format < kTabletsInChunks) continue;
    positions[record.tablets[i].start_hash] = answers[i]->creation_position;
  }
  if (refused && creating(id)) {
    log_error("table.refused_as_outdated", {{"table", id}});
    co_await reactor_.sleep(kRefusedRetry);
  }
  const bool as_told = all && creating(id) && state_.tables.at(id).latest_revision() == revision;
  if (as_told) co_return positions;
  co_return std::nullopt;
}

/// Places the tablets of a table being created, and places those of crashed servers again; waits
/// for a server if there is none. False: this coordinator does not lead any more, and the next
/// leader must do it. (A task that continued would loop without ever waiting.)
Task<bool> Tables::place(uint64_t id) {
  for (;;) {
    while (creating(id) && state_.servers_up() == 0) {
      co_await wait_until(reactor_, changed_, kNever);
    }
    const AsyncMutex::Lock lock = co_await ledger_.lock();
    if (!creating(id)) co_return true;
    TableRecord record = state_.tables.at(id);
    // Servers without a tablet of this table are preferred.
    std::vector<uint64_t> candidates, others;
    for (const uint64_t server_id : servers_by_load(state_)) {
      (record.has_tablet_on(server_id) ? others : candidates).push_back(server_id);
    }
    candidates.insert(candidates.end(), others.begin(), others.end());
    if (candidates.empty()) continue;
    const bool placed = record.placed();
    size_t next = 0;
    for (auto& tablet : record.tablets) {
      if (state_.up_server(tablet.server_id) != nullptr) continue;
      tablet.server_id = candidates[next++ % candidates.size()];
      tablet.creation_position = 0;  // it was of the previous owner's log
    }
    if (next == 0) co_return true;
    if (placed) RC_SOMETIMES("coordinator.places_a_new_table_again");
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
    calls.push_back(notifier_.drop_tablet(server_id, {state_.term, record.latest_revision(), id}));
  }
  // Errors may be ignored: a server that is not UP will never serve the table again, and a server
  // that refuses knows a later decision.
  (void)co_await when_all(std::move(calls));
  const AsyncMutex::Lock lock = co_await ledger_.lock();
  if (!(co_await writer_.remove(lock, id)).ok()) co_return;
  RC_FAILPOINT("coordinator.table.dropped");
  log_info("table.dropped", {{"table", id}, {"name", quoted(record.name)}});
  wake_waiting();
}

void Tables::wake_waiting() {
  changed_.set();
  changed_.reset();
}

}  // namespace ramcloud
