#include "coordinator/metadata/cluster_state.h"

#include <algorithm>

#include "wire/message_header.h"

namespace ramcloud {

ServerEntry* ClusterState::up_server(uint64_t id) {
  const auto found = servers.find(id);
  return found != servers.end() && found->second.up() ? &found->second : nullptr;
}

uint32_t ClusterState::servers_up() const {
  uint32_t count = 0;
  for (const auto& [id, server] : servers) count += server.up() ? 1 : 0;
  return count;
}

const TableRecord* ClusterState::find_table(const std::string& table_name) const {
  for (const auto& [id, table] : tables) {
    if (table.state != TableState::kDropping && table.name == table_name) return &table;
  }
  return nullptr;
}

wire::TabletState ClusterState::tablet_state(const TableRecord& table,
                                             const TabletRecord& tablet) const {
  if (table.state == TableState::kCreating) return wire::TabletState::kCreating;
  const auto server = servers.find(tablet.server_id);
  const bool up = server != servers.end() && server->second.up();
  return up && tablet.status == TabletStatus::kNormal ? wire::TabletState::kNormal
                                                      : wire::TabletState::kUnavailable;
}

std::map<uint64_t, uint32_t> ClusterState::tablets_by_server() const {
  std::map<uint64_t, uint32_t> counts;
  for (const auto& [id, table] : tables) {
    if (table.state == TableState::kDropping) continue;
    for (const auto& tablet : table.tablets) {
      if (tablet.server_id != 0) ++counts[tablet.server_id];
    }
  }
  return counts;
}

wire::TableInfo ClusterState::table_info(const TableRecord& table, Side side) const {
  wire::TableInfo info;
  info.table_id = table.id;
  info.name = table.name;
  for (const auto& tablet : table.tablets) {
    auto& shown = info.tablets.emplace_back();
    shown.start_hash = tablet.start_hash;
    shown.end_hash = tablet.end_hash;
    shown.server_id = tablet.server_id;
    shown.state = tablet_state(table, tablet);
    const auto server = servers.find(tablet.server_id);
    if (server == servers.end() || !server->second.up()) continue;
    const ServerRecord& record = server->second.record;
    shown.locator = side == Side::kOutside ? record.locator_outside : record.locator;
  }
  return info;
}

wire::ListTablesReply ClusterState::list_tables(const wire::ListTablesRequest& wanted,
                                                Side side) const {
  constexpr size_t kMaxPageBytes = 1u << 20;
  wire::ListTablesReply reply;
  size_t left = std::min<size_t>(wanted.max_bytes, kMaxPageBytes);
  for (auto at = tables.lower_bound(wanted.first_id); at != tables.end(); ++at) {
    const TableRecord& table = at->second;
    if (table.state == TableState::kDropping) continue;
    wire::TableInfo info = table_info(table, side);
    if (wanted.max_bytes != 0) {
      const size_t bytes = wire::encode(info, wire::kVersionMax).size();
      if (bytes > left && !reply.tables.empty()) {
        reply.next_id = table.id;
        break;
      }
      left -= std::min(left, bytes);
    }
    reply.tables.push_back(std::move(info));
  }
  return reply;
}

wire::ServerList ClusterState::server_list(uint64_t base) const {
  wire::ServerList list;
  list.term = term;
  list.version = list_version;
  list.base_version = base;
  for (const auto& [id, server] : servers) {
    const ServerRecord& record = server.record;
    const bool removed = record.state == wire::ServerState::kRemoved;
    if (base == 0 ? removed : server.changed <= base) continue;
    auto& entry = list.servers.emplace_back();
    entry.server_id = id;
    entry.state = record.state;
    entry.name = record.name;
    entry.locator = record.locator;
    entry.failure_domain = record.failure_domain;
    entry.disk_read_bytes_per_second = record.disk_read_bytes_per_second;
    entry.stopped_by_plan = !server.up() && server.answers_nothing;
  }
  return list;
}

std::vector<uint64_t> ClusterState::recovered(const std::vector<uint64_t>& master_ids) const {
  std::vector<uint64_t> gone;
  for (const uint64_t id : master_ids) {
    const auto found = servers.find(id);
    if (found == servers.end()) continue;
    const ServerRecord& record = found->second.record;
    // A crashed server gets no tablets any more. A REMOVED server owned none.
    const bool owns = std::ranges::any_of(
        tables, [id](const auto& table) { return table.second.has_tablet_on(id); });
    if (!found->second.up() && !owns && record.accounted) gone.push_back(id);
  }
  return gone;
}

}  // namespace ramcloud
