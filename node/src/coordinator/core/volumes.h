// Which servers had the same volume, and the reasons in the metadata against wiping it. Pure
// functions of the coordinator's state (docs/design/coordinator.md#releasing-a-volume).
//
// A server that starts gets a new id. It names the server that wrote its volume last, so the ids of
// a volume form a chain. The first of them identifies the volume.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/metadata/cluster_state.h"

namespace ramcloud {

/// The value of ServerRecord::volume for server `id`, whose volume was written last by `former` (0:
/// a fresh volume). 0 (not recorded) in formats without this field.
uint64_t volume_with(const ClusterState& state, uint64_t former, uint64_t id);

/// All servers that had the volume of this one, including itself, by rising id; empty if not known.
std::vector<uint64_t> servers_of_volume(const ClusterState& state, uint64_t id);

/// The expiry of the token to wipe this server's volume, Unix time; 0: there is no token.
uint64_t volume_released_until_ms(const ClusterState& state, uint64_t id);

/// "server 7 (pod-3)".
std::string server_text(const ClusterState& state, uint64_t id);

/// Reasons in the metadata why the volume must not be wiped; empty if only live masters can object.
std::vector<std::string> objections_to_release(const ClusterState& state, uint64_t id);

}  // namespace ramcloud
