#include "coordinator/metadata/tablet_changes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <span>

#include "base/failpoint.h"
#include "base/sometimes.h"

namespace ramcloud {
namespace {

/// Splits that are tried in one transaction.
constexpr size_t kMostCutsAtOnce = 512;

Status refused(StatusCode code, const TabletRange& range, std::string_view why) {
  return {code, fmt::format("table {}, {:#x} to {:#x}: {}", range.table_id, range.start_hash,
                            range.end_hash, why)};
}

/// OK for a table whose tablets may change.
Status check_table(const ClusterState& state, const TabletRange& range) {
  if (state.format < kTabletsInChunks) {
    return refused(StatusCode::kUnsupported, range,
                   fmt::format("metadata of format {} has no place for it; format {} has",
                               state.format, kTabletsInChunks));
  }
  const auto table = state.tables.find(range.table_id);
  if (table == state.tables.end() || table->second.state == TableState::kDropping) {
    return refused(StatusCode::kNotFound, range, "the table was dropped");
  }
  if (table->second.state == TableState::kCreating) {
    return refused(StatusCode::kRetry, range, "the table is being created");
  }
  return {};
}

/// The tablets of the range; empty if it does not consist of whole tablets.
std::span<TabletRecord> tablets_of(TableRecord& table, const TabletRange& range) {
  const auto first =
      std::ranges::lower_bound(table.tablets, range.start_hash, {}, &TabletRecord::start_hash);
  const auto last =
      std::ranges::lower_bound(table.tablets, range.end_hash, {}, &TabletRecord::end_hash);
  if (first == table.tablets.end() || last == table.tablets.end() || last < first) return {};
  if (first->start_hash != range.start_hash || last->end_hash != range.end_hash) return {};
  return {first, std::next(last)};
}

bool is_handed_over(const TabletRecord& tablet, const HandOver& wanted) {
  return tablet.status == TabletStatus::kNormal && tablet.server_id == wanted.server_id &&
         tablet.attempt == wanted.attempt && tablet.creation_position == wanted.creation_position;
}

/// OK: the tablets may be handed over now, or were already.
Status check_hand_over(ClusterState& state, std::span<const TabletRecord> tablets,
                       const HandOver& wanted) {
  if (tablets.empty()) {
    return refused(StatusCode::kInvalidArgument, wanted.range, "these are no whole tablets");
  }
  const auto done = [&](const TabletRecord& tablet) { return is_handed_over(tablet, wanted); };
  if (std::ranges::all_of(tablets, done)) return {};
  for (const TabletRecord& tablet : tablets) {
    if (tablet.status == TabletStatus::kRecovering && tablet.attempt == wanted.attempt) continue;
    RC_SOMETIMES("coordinator.refuses_a_late_hand_over");
    return refused(
        StatusCode::kWrongVersion, wanted.range,
        fmt::format("attempt {} is over; the last one is {}", wanted.attempt, tablet.attempt));
  }
  if (state.up_server(wanted.server_id) != nullptr) return {};
  return refused(StatusCode::kCrashed, wanted.range,
                 fmt::format("server {} is not UP", wanted.server_id));
}

}  // namespace

// ---- splitting ----------------------------------------------------------------------------------

/// `others`: tablets of all other tables.
Status TabletChanges::cut(TableRecord& table, uint64_t at, size_t others) const {
  const TabletRange range{table.id, at, at};
  const auto tablet = std::ranges::lower_bound(table.tablets, at, {}, &TabletRecord::end_hash);
  if (tablet->start_hash == at) return {};
  if (state_.up_server(tablet->server_id) != nullptr) {
    return refused(StatusCode::kInvalidArgument, range,
                   fmt::format("server {}, which has the tablet, is UP", tablet->server_id));
  }
  if (others + table.tablets.size() + 1 > kMaxTablets) {
    return refused(StatusCode::kInvalidArgument, range,
                   fmt::format("at most {} tablets in all tables together", kMaxTablets));
  }
  TabletRecord second = *tablet;
  second.start_hash = at;
  second.revision = 0;
  tablet->end_hash = at - 1;
  table.tablets.insert(std::next(tablet), std::move(second));
  halve_full_chunk(table, at);
  return {};
}

Task<Status> TabletChanges::split(uint64_t table_id, std::vector<uint64_t> at) {
  const AsyncMutex::Lock lock = co_await ledger_.lock();
  size_t others = 0;
  for (const auto& [id, table] : state_.tables) others += id == table_id ? 0 : table.tablets.size();
  for (std::span<const uint64_t> left(at); !left.empty();) {
    if (Status may = check_table(state_, {table_id, left[0], left[0]}); !may.ok()) co_return may;
    TableRecord table;
    // A change of chunks must not end half done, so as many as fit into one transaction.
    size_t count = std::min(left.size(), kMostCutsAtOnce) * 2;
    do {
      count = (count + 1) / 2;
      table = state_.tables.at(table_id);
      for (const uint64_t hash : left.first(count)) {
        if (Status may = cut(table, hash, others); !may.ok()) co_return may;
      }
    } while (count > 1 && !writer_.fits(table));
    if (count > 1) RC_SOMETIMES("coordinator.splits_share_a_transaction");
    left = left.subspan(count);
    if (table.tablets.size() == state_.tables.at(table_id).tablets.size()) continue;  // done before
    Status done = co_await writer_.write(lock, std::move(table));
    if (!done.ok()) co_return done;
    on_changed_(table_id);
  }
  co_return StatusCode::kOk;
}

// ---- an attempt begins --------------------------------------------------------------------------

Status TabletChanges::mark(TableRecord& table, const TabletRange& range, uint64_t attempt) const {
  const std::span<TabletRecord> tablets = tablets_of(table, range);
  if (tablets.empty()) {
    return refused(StatusCode::kInvalidArgument, range, "these are no whole tablets");
  }
  for (TabletRecord& tablet : tablets) {
    const bool begun = tablet.status == TabletStatus::kRecovering && tablet.attempt == attempt;
    if (!begun && tablet.attempt >= attempt) {
      return refused(StatusCode::kWrongVersion, range,
                     fmt::format("attempt {} follows attempt {}", attempt, tablet.attempt));
    }
    const auto server = state_.servers.find(tablet.server_id);
    if (server != state_.servers.end() && server->second.up()) {
      return refused(StatusCode::kInvalidArgument, range,
                     fmt::format("server {}, which has a tablet of it, is UP", tablet.server_id));
    }
    tablet.status = TabletStatus::kRecovering;
    tablet.attempt = attempt;
  }
  return {};
}

Task<Status> TabletChanges::set_recovering(std::vector<TabletRange> ranges, uint64_t attempt) {
  const AsyncMutex::Lock lock = co_await ledger_.lock();
  std::map<uint64_t, TableRecord> marked;
  for (const TabletRange& range : ranges) {
    if (Status may = check_table(state_, range); !may.ok()) co_return may;
    const auto at = marked.try_emplace(range.table_id, state_.tables.at(range.table_id)).first;
    if (Status may = mark(at->second, range, attempt); !may.ok()) co_return may;
  }
  std::vector<TableRecord> tables;
  for (auto& [id, table] : marked) tables.push_back(std::move(table));
  Status done = co_await writer_.write_all(lock, std::move(tables));
  if (!done.ok()) co_return done;
  for (const auto& [id, table] : marked) on_changed_(id);
  co_return done;
}

// ---- and ends -----------------------------------------------------------------------------------

/// Hand-overs for one transaction.
class TabletChanges::Batch {
 public:
  Batch(ClusterState& state, const TableWriter& writer) : state_(state), writer_(writer) {}

  /// False: it does not fit into the transaction. A refused hand-over gets its outcome here.
  bool add(const std::shared_ptr<Waiting>& next) {
    const HandOver& wanted = next->wanted;
    const uint64_t id = wanted.range.table_id;
    Status may = check_table(state_, wanted.range);
    if (!may.ok()) return refuse(*next, std::move(may));
    TableRecord table = changed_.contains(id) ? changed_.at(id) : state_.tables.at(id);
    const std::span<TabletRecord> tablets = tablets_of(table, wanted.range);
    may = check_hand_over(state_, tablets, wanted);
    if (!may.ok()) return refuse(*next, std::move(may));
    for (TabletRecord& tablet : tablets) {
      tablet.status = TabletStatus::kNormal;
      tablet.server_id = wanted.server_id;
      tablet.creation_position = wanted.creation_position;
    }
    if (!fits(table)) {
      if (!together_.empty()) return false;
      return refuse(*next, refused(StatusCode::kInvalidArgument, wanted.range,
                                   "these are too many tablets for one transaction"));
    }
    changed_.insert_or_assign(id, std::move(table));
    together_.push_back(next);
    return true;
  }
  std::vector<TableRecord> tables() const {
    std::vector<TableRecord> all;
    for (const auto& [id, table] : changed_) all.push_back(table);
    return all;
  }
  const std::vector<std::shared_ptr<Waiting>>& together() const { return together_; }

 private:
  static bool refuse(Waiting& waiting, Status why) {
    waiting.outcome = std::move(why);
    return true;
  }
  bool fits(const TableRecord& table) const {
    size_t others = 0;
    for (const auto& [id, other] : changed_) {
      if (id != table.id) others += writer_.operations(other);
    }
    return writer_.fits(table, others);
  }
  ClusterState& state_;
  const TableWriter& writer_;
  std::map<uint64_t, TableRecord> changed_;
  std::vector<std::shared_ptr<Waiting>> together_;
};

Task<Status> TabletChanges::hand_over(HandOver wanted) {
  const auto waiting = std::make_shared<Waiting>(std::move(wanted), std::nullopt);
  waiting_.push_back(waiting);
  const AsyncMutex::Lock lock = co_await ledger_.lock();
  // The first task that gets the lock commits the hand-overs of all that wait.
  while (!waiting->outcome) co_await hand_over_waiting(lock);
  co_return *waiting->outcome;
}

/// Commits as many hand-overs as fit into one transaction, in order of arrival.
Task<void> TabletChanges::hand_over_waiting(const AsyncMutex::Lock& lock) {
  Batch batch(state_, writer_);
  while (!waiting_.empty() && batch.add(waiting_.front())) waiting_.pop_front();
  if (batch.together().empty()) co_return;
  if (batch.together().size() > 1) RC_SOMETIMES("coordinator.hand_overs_share_a_transaction");
  const std::vector<TableRecord> tables = batch.tables();
  RC_FAILPOINT("coordinator.recovery.before_hand_over");
  const Status done = co_await writer_.write_at_once(lock, tables);
  for (const auto& one : batch.together()) one->outcome = done;
  if (!done.ok()) co_return;
  RC_FAILPOINT("coordinator.recovery.handed_over");
  for (const TableRecord& table : tables) on_changed_(table.id);
}

}  // namespace ramcloud
