// The record of a dev cluster in its folder: the settings with which it was created.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace ramcloud::daemon {

/// The default R of a new dev cluster: 3, or one less than its servers.
inline uint32_t default_replicas(uint32_t servers) {
  return std::min(3u, servers - 1);
}

/// R of the cluster in the existing folder `dir`: the requested value, otherwise the recorded one,
/// otherwise the default. It is recorded in DIR/dev.json, so that starting with more or fewer
/// servers does not change it. INVALID_ARGUMENT: there are too few servers, or the file has another
/// value.
Result<uint32_t> resolve_replicas(const std::string& dir, uint32_t servers,
                                  std::optional<uint32_t> asked);

}  // namespace ramcloud::daemon
