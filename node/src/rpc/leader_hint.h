// The leader that a standby coordinator names.
#pragma once

#include <optional>
#include <string_view>

#include "base/text.h"
#include "rpc/rpc.h"

namespace ramcloud {

/// The leader that a NOT_LEADER reply names: in its details, where the locator for the side that we
/// came in by is set, or, from former builds, in its sentence. `transport` is that of a bare
/// host:port.
std::optional<Locator> leader_of(const RpcReply& reply, std::string_view transport);

/// Finds the leader in a sentence: a word that is a locator or host:port.
std::optional<Locator> leader_in(std::string_view message, std::string_view transport);

}  // namespace ramcloud
