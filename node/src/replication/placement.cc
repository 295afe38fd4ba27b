#include "replication/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "log/format.h"

namespace ramcloud {

double predicted_read_seconds(const PlacementServer& server, bool primary) {
  const uint64_t speed =
      server.read_bytes_per_second != 0 ? server.read_bytes_per_second : kDefaultReadBytesPerSecond;
  const uint64_t segments = (primary ? server.primaries : server.replicas) + uint64_t{1};
  return static_cast<double>(segments * log::kSegmentBytes) / static_cast<double>(speed);
}

std::optional<size_t> choose_backup(std::span<const PlacementServer> servers,
                                    std::span<const std::string> taken, bool primary,
                                    Random& random) {
  std::vector<size_t> eligible;
  for (size_t i = 0; i < servers.size(); ++i) {
    if (servers[i].usable && std::ranges::find(taken, servers[i].failure_domain) == taken.end()) {
      eligible.push_back(i);
    }
  }
  std::optional<size_t> best;
  // The first candidates of a random permutation: they are distinct, so with few servers every one
  // of them is a candidate.
  const size_t looks = std::min<size_t>(kPlacementCandidates, eligible.size());
  for (size_t i = 0; i < looks; ++i) {
    std::swap(eligible[i], eligible[i + random.below(eligible.size() - i)]);
    const size_t candidate = eligible[i];
    if (!best || predicted_read_seconds(servers[candidate], primary) <
                     predicted_read_seconds(servers[*best], primary)) {
      best = candidate;
    }
  }
  return best;
}

Status check_domains(std::span<const PlacementServer> servers, const std::string& own_domain,
                     uint32_t replicas) {
  std::set<std::string> domains;
  for (const auto& server : servers) {
    if (server.failure_domain != own_domain) domains.insert(server.failure_domain);
  }
  if (domains.size() >= replicas) return {};
  std::string names;
  for (const auto& domain : domains) names += (names.empty() ? "" : ", ") + domain;
  return {StatusCode::kUnavailable,
          fmt::format("{} replicas need {} live failure domains: {} others and the master's own "
                      "({}); there are {} others{}{}",
                      replicas, replicas + 1, replicas, own_domain, domains.size(),
                      names.empty() ? "" : ": ", names)};
}

}  // namespace ramcloud
