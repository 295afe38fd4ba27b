#include "master/fetch_order.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace ramcloud::master {
namespace {

uint64_t backup_of(const wire::RecoverySegment& segment) {
  return segment.sources.empty() ? 0 : segment.sources.front().server_id;
}

/// Multiples of it, modulo n, are far from each other, and all of them differ: the golden section
/// of n, or the next number that has no factor in common with n.
size_t stride(size_t n) {
  size_t step = n * 618 / 1000 + 1;
  while (std::gcd(step, n) != 1) ++step;
  return step;
}

}  // namespace

std::vector<wire::RecoverySegment> fetch_order(std::vector<wire::RecoverySegment> segments,
                                               uint64_t own_id) {
  std::ranges::sort(segments, std::greater(), &wire::RecoverySegment::segment_id);
  struct Backup {
    size_t place = 0;   // in each round of this master
    size_t rounds = 0;  // that it is in so far
  };
  std::map<uint64_t, Backup> backups;
  for (const auto& segment : segments) backups[backup_of(segment)];
  const size_t n = backups.size();
  size_t place = n - (n == 0 ? 0 : own_id % n * stride(n) % n);
  for (auto& backup : backups) backup.second.place = place++ % n;

  struct Turn {
    size_t round, place, at;  // index in `segments`
  };
  std::vector<Turn> turns;
  turns.reserve(segments.size());
  for (size_t i = 0; i < segments.size(); ++i) {
    Backup& backup = backups.at(backup_of(segments[i]));
    turns.push_back({backup.rounds++, backup.place, i});
  }
  std::ranges::sort(turns, {}, [](const Turn& turn) { return std::tuple(turn.round, turn.place); });
  std::vector<wire::RecoverySegment> ordered;
  ordered.reserve(segments.size());
  for (const Turn& turn : turns) ordered.push_back(std::move(segments[turn.at]));
  return ordered;
}

}  // namespace ramcloud::master
