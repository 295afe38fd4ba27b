#include "coordinator/core/frame_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/text.h"
#include "coordinator/core/volumes.h"

namespace ramcloud {
namespace {

std::string domain_of(const ClusterState& state, uint64_t server_id) {
  const std::string& domain = state.servers.at(server_id).record.failure_domain;
  return domain.empty() ? fmt::format("server {}", server_id) : domain;
}

}  // namespace

/// n segments fit if the sum of min(free, n) over all backups is at least n * replicas. That holds up
/// to some n, and for none above.
uint64_t segments_with_room(std::span<const uint64_t> free, uint32_t replicas) {
  if (replicas == 0) return ~uint64_t{0};
  uint64_t all = 0;
  for (const uint64_t frames : free) all += frames;
  uint64_t fit = 0, most = all / replicas;
  while (fit < most) {
    const uint64_t segments = fit + (most - fit + 1) / 2;
    uint64_t frames = 0;
    for (const uint64_t one : free) frames += std::min(one, segments);
    if (frames >= segments * replicas) {
      fit = segments;
    } else {
      most = segments - 1;
    }
  }
  return fit;
}

uint64_t room_for_copies(const ClusterState& state, uint64_t recovery_master) {
  constexpr uint64_t kUnknown = ~uint64_t{0};
  const uint32_t replicas = state.servers.at(recovery_master).record.replicas;
  // No two replicas of a segment are in one failure domain, and none is in that of its master.
  std::map<std::string, uint64_t> by_domain;
  const std::string own = domain_of(state, recovery_master);
  for (const auto& [id, server] : state.servers) {
    if (!server.up() || server.stats.device() == wire::BackupDevice::kFailed) continue;
    const std::string domain = domain_of(state, id);
    if (domain == own) continue;
    if (server.stats.frames_total == 0) return kUnknown;
    by_domain[domain] += server.stats.frames_for_copies();
  }
  std::vector<uint64_t> free;
  for (const auto& [domain, frames] : by_domain) free.push_back(frames);
  const uint64_t segments = segments_with_room(free, replicas_to_serve(replicas));
  return segments > kUnknown / log::kSegmentBytes ? kUnknown : segments * log::kSegmentBytes;
}

std::optional<uint64_t> room_for_copies(const ClusterState& state) {
  uint64_t some = 0;
  for (const auto& [id, server] : state.servers) {
    if (!server.up()) continue;
    const bool told = server.stats.frames_total > 0 || server.record.replicas == 0;
    if (!told && server.stats.device() != wire::BackupDevice::kFailed) return std::nullopt;
    some = id;
  }
  return some == 0 ? 0 : room_for_copies(state, some);
}

std::string frames_text(const ClusterState& state, uint64_t bytes) {
  constexpr size_t kNamed = 3;
  uint32_t replicas = 0;
  uint64_t for_copies = 0;
  std::string names;
  size_t up = 0;
  for (const auto& [id, server] : state.servers) {
    if (!server.up()) continue;
    replicas = std::max(replicas, server.record.replicas);
    for_copies += server.stats.frames_for_copies();
    if (++up > kNamed) continue;
    names +=
        fmt::format("{}{}: {} of {} frames are free", names.empty() ? "" : ", ",
                    server_text(state, id), server.stats.frames_free(), server.stats.frames_total);
  }
  if (up > kNamed) names += fmt::format(", and {} more", up - kNamed);
  const uint64_t segments =
      std::max<uint64_t>(1, (bytes + log::kSegmentBytes - 1) / log::kSegmentBytes);
  return fmt::format(
      "backups have no free frames for the recovered data: about {} are needed ({} replicas of "
      "{}), "
      "and {} can be taken for that, because some are kept for new heads ({}); it goes on when "
      "servers are added, or start with larger volumes, or tables are dropped",
      segments * replicas, replicas, format_size(bytes), for_copies, names);
}

void FrameBudget::lacked(const Limit& ordered, uint64_t bytes) {
  limit_.parts = 1;
  limit_.bytes = std::min(limit_.bytes, std::max(kLeast, std::min(ordered.bytes, bytes) / 2));
}

void FrameBudget::served() {
  if (!limited()) return;
  limit_.parts *= 2;
  limit_.bytes = std::min(unlimited_, limit_.bytes * 2);
}

}  // namespace ramcloud
