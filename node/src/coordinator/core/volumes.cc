#include "coordinator/core/volumes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "coordinator/metadata/metadata_export.h"

namespace ramcloud {
namespace {

/// The first server that had the volume of this one, by the records.
uint64_t first_of(const ClusterState& state, uint64_t id) {
  const auto found = state.servers.find(id);
  const bool recorded = found != state.servers.end() && found->second.record.volume != 0;
  return recorded ? found->second.record.volume : id;
}

/// False if the volume may have had servers before `first` that no record names: an earlier version
/// did not record them, or an import lost them.
bool is_fresh_there(const ClusterState& state, uint64_t first) {
  const auto found = state.servers.find(first);
  return found != state.servers.end() && found->second.record.volume == first;
}

/// An import leaves a gap between ids. A server that enlisted between the export and the import may
/// have any older volume.
bool imported_since(const ClusterState& state, uint64_t id) {
  uint64_t last = id;
  for (auto at = state.servers.upper_bound(id); at != state.servers.end(); ++at) {
    if (at->first - last > kImportGap) return true;
    last = at->first;
  }
  return state.ids.last_server_id - last >= kImportGap;
}

/// Crashed masters whose data is not recovered. A server without tablets has no data, as for
/// Retirement.
std::set<uint64_t> owners(const ClusterState& state) {
  std::set<uint64_t> ids;
  for (const auto& [id, table] : state.tables) {
    for (const auto& tablet : table.tablets) ids.insert(tablet.server_id);
  }
  return ids;
}

}  // namespace

uint64_t volume_with(const ClusterState& state, uint64_t former, uint64_t id) {
  if (state.format < 2) return 0;
  return former == 0 ? id : first_of(state, former);
}

std::vector<uint64_t> servers_of_volume(const ClusterState& state, uint64_t id) {
  std::vector<uint64_t> ids;
  if (!state.servers.contains(id)) return ids;
  const uint64_t first = first_of(state, id);
  for (const auto& [other, server] : state.servers) {
    if (first_of(state, other) == first) ids.push_back(other);
  }
  return ids;
}

uint64_t volume_released_until_ms(const ClusterState& state, uint64_t id) {
  uint64_t until = 0;
  for (const uint64_t other : servers_of_volume(state, id)) {
    until = std::max(until, state.servers.at(other).record.released_until_ms);
  }
  return until;
}

std::string server_text(const ClusterState& state, uint64_t id) {
  const auto found = state.servers.find(id);
  const std::string name = found == state.servers.end() ? "" : found->second.record.name;
  return name.empty() ? fmt::format("server {}", id) : fmt::format("server {} ({})", id, name);
}

std::vector<std::string> objections_to_release(const ClusterState& state, uint64_t id) {
  const auto found = state.servers.find(id);
  if (found == state.servers.end()) {
    return {fmt::format("server {} is not known to this cluster", id)};
  }
  if (found->second.up()) {
    return {fmt::format("{} is UP: the volume of a server that is UP is never released",
                        server_text(state, id))};
  }
  std::vector<std::string> objections;
  if (state.restate) {
    objections.emplace_back(
        "metadata was imported, and live servers have not said yet what they own");
  }
  const uint64_t first = first_of(state, id);
  const std::set<uint64_t> owns = owners(state);
  for (const auto& [other, server] : state.servers) {
    if (server.up()) {
      const uint64_t its_volume = first_of(state, other);
      if (its_volume == first) {
        objections.push_back(fmt::format("{}, which is UP, has the volume of server {} now",
                                         server_text(state, other), id));
      } else if (id < its_volume && !is_fresh_there(state, its_volume)) {
        objections.push_back(
            fmt::format("{}, which is UP, may have the volume of server {}: it is not recorded "
                        "which volume server {} had",
                        server_text(state, other), id, its_volume));
      }
    } else if (other != id && server.record.state == wire::ServerState::kCrashed &&
               owns.contains(other)) {
      objections.push_back(fmt::format(
          "{} crashed and its tablets are not recovered: replicas of its log may be on the volume",
          server_text(state, other)));
    }
  }
  if (imported_since(state, id)) {
    objections.push_back(
        fmt::format("metadata was imported since {} enlisted: a server that enlisted after the "
                    "export may have its volume",
                    server_text(state, id)));
  }
  return objections;
}

}  // namespace ramcloud
