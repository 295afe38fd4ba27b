// The record of a dev cluster in its folder: the settings with which it was created.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace ramcloud::daemon {

/// R of a dev cluster without --replicas that is being created: 3, or one less than its servers.
inline uint32_t default_replicas(uint32_t servers) {
  return std::min(3u, servers - 1);
}

/// R of the cluster in `dir`, which exists: what was asked for, else what the folder says, else the
/// default. DIR/dev.json says it from then on, so that starting it with more or fewer servers
/// does not change how many copies there are. INVALID_ARGUMENT: so many servers cannot hold them,
/// or the file says something else.
Result<uint32_t> resolve_replicas(const std::string& dir, uint32_t servers,
                                  std::optional<uint32_t> asked);

}  // namespace ramcloud::daemon
