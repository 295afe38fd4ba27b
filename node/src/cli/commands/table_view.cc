#include "cli/commands/table_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/formats/output.h"

namespace ramcloud::cli {
namespace {

using nlohmann::ordered_json;

std::string hex(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

ordered_json to_json(const wire::TabletInfo& tablet) {
  return {{"start_hash", hex(tablet.start_hash)},
          {"end_hash", hex(tablet.end_hash)},
          {"server_id", tablet.server_id},
          {"state", tablet_state_name(tablet.state)},
          {"locator", tablet.locator}};
}

ordered_json to_json(const wire::TableInfo& table) {
  ordered_json tablets = ordered_json::array();
  for (const auto& tablet : table.tablets) tablets.push_back(to_json(tablet));
  return {{"id", table.table_id}, {"name", table.name}, {"tablets", std::move(tablets)}};
}

std::string dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

const char* tablet_state_name(wire::TabletState state) {
  switch (state) {
    case wire::TabletState::kNormal:
      return "NORMAL";
    case wire::TabletState::kCreating:
      return "CREATING";
    case wire::TabletState::kUnavailable:
      return "UNAVAILABLE";
  }
  return "UNKNOWN";
}

std::string table_json(const wire::TableInfo& table) {
  return dump(to_json(table));
}

void print_tables(Session& session, const std::vector<wire::TableInfo>& tables) {
  if (session.json()) {
    ordered_json list = ordered_json::array();
    for (const auto& table : tables) list.push_back(to_json(table));
    session.out << dump(list) << '\n';
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& table : tables) {
    std::set<uint64_t> servers;
    for (const auto& tablet : table.tablets) servers.insert(tablet.server_id);
    const auto down = std::count_if(
        table.tablets.begin(), table.tablets.end(),
        [](const auto& tablet) { return tablet.state == wire::TabletState::kUnavailable; });
    rows.push_back({std::to_string(table.table_id), printable(table.name),
                    std::to_string(table.tablets.size()), std::to_string(servers.size()),
                    down == 0
                        ? "all"
                        : fmt::format("{} of {}", static_cast<int64_t>(table.tablets.size()) - down,
                                      table.tablets.size())});
  }
  print_table(session.out, {"ID", "NAME", "TABLETS", "SERVERS", "AVAILABLE"}, rows);
}

void print_tablets(Session& session, const std::vector<wire::TableInfo>& tables) {
  if (session.json()) {
    ordered_json list = ordered_json::array();
    for (const auto& table : tables) {
      for (const auto& tablet : table.tablets) {
        ordered_json entry = {{"table_id", table.table_id}, {"table", table.name}};
        entry.update(to_json(tablet));
        list.push_back(std::move(entry));
      }
    }
    session.out << dump(list) << '\n';
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& table : tables) {
    for (const auto& tablet : table.tablets) {
      rows.push_back({printable(table.name), hex(tablet.start_hash), hex(tablet.end_hash),
                      std::to_string(tablet.server_id), tablet_state_name(tablet.state),
                      tablet.locator});
    }
  }
  print_table(session.out, {"TABLE", "START", "END", "SERVER", "STATE", "LOCATOR"}, rows);
}

}  // namespace ramcloud::cli
