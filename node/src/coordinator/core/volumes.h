// Which servers had the same volume, and what the metadata says against wiping it. Arithmetic on
// the coordinator's state, without calls (docs/design/coordinator.md, "Releasing a volume").
//
// A server that starts gets a new id. It names the server that its volume was written by last, so
// ids that share a volume are a chain; a volume is called after the first of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/metadata/cluster_state.h"

namespace ramcloud {

/// What the record of server `id` says of its volume, which was written by `former` last (0: it is
/// fresh). 0, not recorded, in formats that have no place for it.
uint64_t volume_with(const ClusterState& state, uint64_t former, uint64_t id);

/// All servers that had the volume of this one, itself included, by rising id; empty if it is not
/// known.
std::vector<uint64_t> servers_of_volume(const ClusterState& state, uint64_t id);

/// Until when a token to wipe the volume of this server holds, Unix time; 0: there is none.
uint64_t volume_released_until_ms(const ClusterState& state, uint64_t id);

/// "server 7 (pod-3)".
std::string server_text(const ClusterState& state, uint64_t id);

/// Why the volume of this server must not be wiped, in sentences; empty if only live masters can
/// say more.
std::vector<std::string> objections_to_release(const ClusterState& state, uint64_t id);

}  // namespace ramcloud
