#include "master/fetch_order.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

namespace ramcloud::master {

std::vector<wire::RecoverySegment> fetch_order(std::vector<wire::RecoverySegment> segments,
                                               uint64_t own_id) {
  std::ranges::sort(segments, std::greater(), &wire::RecoverySegment::segment_id);
  struct Place {
    size_t round = 0;
    bool wraps = false;  // its backup has no higher id than this server
    uint64_t backup = 0;
    size_t at = 0;  // in `segments`
    auto key() const { return std::tuple(round, wraps, backup); }
  };
  std::map<uint64_t, size_t> rounds;  // that a backup is in so far
  std::vector<Place> places;
  places.reserve(segments.size());
  for (size_t i = 0; i < segments.size(); ++i) {
    const auto& sources = segments[i].sources;
    const uint64_t backup = sources.empty() ? 0 : sources.front().server_id;
    places.push_back({rounds[backup]++, backup <= own_id, backup, i});
  }
  std::ranges::sort(places, {}, &Place::key);
  std::vector<wire::RecoverySegment> ordered;
  ordered.reserve(segments.size());
  for (const Place& place : places) ordered.push_back(std::move(segments[place.at]));
  return ordered;
}

}  // namespace ramcloud::master
