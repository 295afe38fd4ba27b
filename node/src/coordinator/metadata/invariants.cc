#include "coordinator/metadata/invariants.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "coordinator/metadata/table_writer.h"

namespace ramcloud {
namespace {

template <typename... Args>
Status broken(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kInternal, fmt::format(text, std::forward<Args>(args)...)};
}

/// The tablets of a table being dropped are removed from the front.
Status check_coverage(const TableRecord& table) {
  const bool dropping = table.state == TableState::kDropping;
  if (table.tablets.empty()) {
    return dropping ? Status() : broken("table {} has no tablets", table.id);
  }
  uint64_t next = dropping ? table.tablets.front().start_hash : 0;
  bool complete = false;
  for (const auto& tablet : table.tablets) {
    if (complete || tablet.start_hash != next || tablet.end_hash < tablet.start_hash) {
      return broken("table {}: tablet {:#x}..{:#x} does not follow on {:#x}", table.id,
                    tablet.start_hash, tablet.end_hash, next);
    }
    complete = tablet.end_hash == ~uint64_t{0};
    next = tablet.end_hash + 1;
  }
  if (!complete)
    return broken("table {}: hashes from {:#x} are covered by no tablet", table.id, next);
  return {};
}

Status check_status(const ClusterState& state, const TableRecord& table) {
  for (const auto& tablet : table.tablets) {
    if (tablet.status < TabletStatus::kNormal || tablet.status > TabletStatus::kRecovering) {
      return broken("table {} has a tablet with status {}", table.id,
                    static_cast<int>(tablet.status));
    }
    if (tablet.server_id == 0 && (table.layout != 0 || table.state == TableState::kNormal)) {
      return broken("table {}: tablet {:#x} is not placed", table.id, tablet.start_hash);
    }
    const auto server = state.servers.find(tablet.server_id);
    const bool up = server != state.servers.end() && server->second.up();
    if (tablet.status == TabletStatus::kRecovering && up) {
      return broken("table {}: tablet {:#x} is recovered from server {}, which is UP", table.id,
                    tablet.start_hash, tablet.server_id);
    }
  }
  return {};
}

}  // namespace

Status Invariants::check(const ClusterState& state) {
  RC_RETURN_IF_ERROR(check_servers(state));
  RC_RETURN_IF_ERROR(check_tables(state));
  return check_history(state);
}

Status Invariants::check_servers(const ClusterState& state) {
  for (const auto& [id, server] : state.servers) {
    const ServerRecord& record = server.record;
    if (id == 0 || record.id != id) return broken("server {} has record {}", id, record.id);
    if (id > state.ids.last_server_id) {
      return broken("server {} is above the last id, {}", id, state.ids.last_server_id);
    }
    if (record.state < wire::ServerState::kUp || record.state > wire::ServerState::kRemoved) {
      return broken("server {} has state {}", id, static_cast<int>(record.state));
    }
  }
  return {};
}

Status Invariants::check_tables(const ClusterState& state) {
  std::set<std::string> names;
  for (const auto& [id, table] : state.tables) {
    if (id == 0 || table.id != id) return broken("table {} has record {}", id, table.id);
    if (id > state.ids.last_table_id) {
      return broken("table {} is above the last id, {}", id, state.ids.last_table_id);
    }
    if (table.state < TableState::kCreating || table.state > TableState::kDropping) {
      return broken("table {} has state {}", id, static_cast<int>(table.state));
    }
    if (table.state != TableState::kDropping && !names.insert(table.name).second) {
      return broken("two tables are named '{}'", table.name);
    }
    RC_RETURN_IF_ERROR(check_coverage(table));
    RC_RETURN_IF_ERROR(check_status(state, table));
  }
  // Check the tables as users get them.
  for (const auto& table : state.all_tables(Side::kInside).tables) {
    for (const auto& tablet : table.tablets) {
      const auto server = state.servers.find(tablet.server_id);
      if (server == state.servers.end() && tablet.server_id != 0) {
        return broken("table {} has a tablet on unknown server {}", table.table_id,
                      tablet.server_id);
      }
      const bool served = tablet.state == wire::TabletState::kNormal || !tablet.locator.empty();
      if (served && (server == state.servers.end() || !server->second.up())) {
        return broken("table {} has a served tablet on server {}, which is not UP", table.table_id,
                      tablet.server_id);
      }
    }
  }
  return {};
}

Status Invariants::check_history(const ClusterState& state) {
  if (state.term < term_) return broken("term fell from {} to {}", term_, state.term);
  if (state.list_version < list_version_) {
    return broken("list version fell from {} to {}", list_version_, state.list_version);
  }
  if (state.ids.last_server_id < ids_.last_server_id ||
      state.ids.last_table_id < ids_.last_table_id) {
    return broken("ids would be given out again");
  }
  for (const auto& [id, server] : state.servers) {
    const SeenServer now{server.record.state, server.record.nonce};
    const auto [seen, added] = servers_.try_emplace(id, now);
    if (!added && seen->second.nonce != now.nonce) return broken("server id {} was reused", id);
    if (!added && now.state < seen->second.state) {
      return broken("server {} went from state {} to {}", id, static_cast<int>(seen->second.state),
                    static_cast<int>(now.state));
    }
    if ((added || now.state != seen->second.state) && term_ == state.term &&
        list_version_ == state.list_version) {
      return broken("server {} changed without a new list version", id);
    }
    seen->second = now;
  }
  if (state.restate)
    tablets_.clear();  // the imported export is older than the state checked
                       // before
  for (const auto& [id, table] : state.tables) {
    const auto [seen, added] = tables_.try_emplace(id, table.name);
    if (!added && seen->second != table.name) return broken("table id {} was reused", id);
    RC_RETURN_IF_ERROR(check_tablets_since(table));
  }
  std::erase_if(tablets_, [&](const auto& entry) { return !state.tables.contains(entry.first); });
  for (const auto& [id, seen] : replication_epochs_) {
    const auto server = state.servers.find(id);
    if (server != state.servers.end() &&
        server->second.record.state == wire::ServerState::kRemoved) {
      continue;  // the value is not used any more
    }
    const auto now = state.replication_epochs.find(id);
    if (now != state.replication_epochs.end() && now->second.of_export)
      continue;  // it is marked as an export's
    if (now == state.replication_epochs.end() || now->second.epoch < seen.epoch ||
        now->second.lowest_open_segment < seen.lowest_open_segment) {
      return broken("the replication epoch of server {} fell", id);
    }
  }
  replication_epochs_ = state.replication_epochs;
  term_ = state.term;
  list_version_ = state.list_version;
  ids_ = state.ids;
  return {};
}

void Invariants::imported() {
  for (const auto& [id, tablets] : tablets_) of_former_.insert(id);
}

/// Every change of a tablet must raise its revision.
Status Invariants::check_tablets_since(const TableRecord& table) {
  std::vector<TabletRecord>& before = tablets_[table.id];
  const bool of_former = of_former_.erase(table.id) > 0;
  for (const TabletRecord& tablet : table.tablets) {
    const auto old =
        std::ranges::lower_bound(before, tablet.start_hash, {}, &TabletRecord::start_hash);
    if (old == before.end() || old->start_hash != tablet.start_hash) continue;
    if (of_former) old->attempt = tablet.attempt;
    if (tablet.revision < old->revision ||
        (tablet.revision == old->revision && differs(*old, tablet))) {
      return broken("table {}: tablet {:#x} changed from revision {} to {}", table.id,
                    tablet.start_hash, old->revision, tablet.revision);
    }
    if (tablet.attempt < old->attempt) {
      return broken("table {}: attempt {} follows attempt {} for tablet {:#x}", table.id,
                    tablet.attempt, old->attempt, tablet.start_hash);
    }
  }
  before = table.tablets;
  return {};
}

}  // namespace ramcloud
