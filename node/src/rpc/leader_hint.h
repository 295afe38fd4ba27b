// The leader that a standby coordinator names.
#pragma once

#include <optional>
#include <string_view>

#include "base/text.h"
#include "rpc/rpc.h"

namespace ramcloud {

/// The leader that a NOT_LEADER reply names: in its details, which have the locator for our side,
/// or (earlier versions) in the text of its message. `transport` is used for a bare host:port.
std::optional<Locator> leader_of(const RpcReply& reply, std::string_view transport);

/// Finds the leader in the text of a message: a word that is a locator or host:port.
std::optional<Locator> leader_in(std::string_view message, std::string_view transport);

}  // namespace ramcloud
