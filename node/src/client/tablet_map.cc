#include "client/tablet_map.h"

#include <fmt/core.h>

#include <algorithm>

namespace ramcloud {

std::string describe(const Place& place) {
  std::string text = fmt::format("tablet {:016x}-{:016x} of server {}", place.start_hash,
                                 place.end_hash, place.server_id);
  if (place.has_locator) text += fmt::format(" ({})", place.locator.to_string());
  return text;
}

Status why_unreachable(const Place& place) {
  return {StatusCode::kUnavailable, place.state == wire::TabletState::kCreating
                                        ? "the tablet is being created"
                                        : "the server of the tablet is dead"};
}

Status TabletMap::update(const wire::TableInfo& info) {
  std::vector<Place> places;
  places.reserve(info.tablets.size());
  bool covered = false;  // covered up to the last hash
  uint64_t expected_start = 0;
  for (const wire::TabletInfo& tablet : info.tablets) {
    if (covered || tablet.start_hash != expected_start || tablet.end_hash < tablet.start_hash) {
      return {
          StatusCode::kProtocolError,
          fmt::format("table {}: the coordinator's tablets overlap or leave a gap at hash {:016x}",
                      info.table_id, expected_start)};
    }
    covered = tablet.end_hash == ~uint64_t{0};
    expected_start = tablet.end_hash + 1;
    Place place{.start_hash = tablet.start_hash,
                .end_hash = tablet.end_hash,
                .server_id = tablet.server_id,
                .state = tablet.state,
                .locator = {}};
    if (auto locator = parse_locator(tablet.locator)) {
      place.locator = std::move(*locator);
      place.has_locator = true;
    }
    places.push_back(std::move(place));
  }
  if (!covered) {
    return {StatusCode::kProtocolError,
            fmt::format("table {}: the coordinator's tablets do not reach the last hash",
                        info.table_id)};
  }
  tables_[info.table_id] = Table{info.name, ++generation_, std::move(places)};
  return {};
}

const TabletMap::Table* TabletMap::find(uint64_t table_id) const {
  const auto found = tables_.find(table_id);
  return found == tables_.end() ? nullptr : &found->second;
}

const Place& TabletMap::place_of(const Table& table, uint64_t hash) {
  const auto after =
      std::upper_bound(table.places.begin(), table.places.end(), hash,
                       [](uint64_t h, const Place& place) { return h < place.start_hash; });
  return *(after - 1);
}

}  // namespace ramcloud
