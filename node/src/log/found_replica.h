// Converts a backup's description of a replica, from the wire, to the one that recovery uses.
#pragma once

#include <optional>

#include "log/log_end.h"
#include "wire/recovery_messages.h"

namespace ramcloud::log {

/// Maps the bools of a FoundReplica to the flags on the wire.
template <typename Found, typename Each>
void for_each_flag(Found& found, Each each) {
  using Flag = wire::RecoveryReplica::Flag;
  each(found.closed, Flag::kClosed);
  each(found.footer, Flag::kFooter);
  each(found.footer_after_hole, Flag::kFooterAfterHole);
  each(found.clean_end, Flag::kCleanEnd);
  each(found.corrupt, Flag::kCorrupt);
  each(found.incomplete, Flag::kIncomplete);
  each(found.damaged, Flag::kDamaged);
  each(found.power_safe, Flag::kPowerSafe);
  each(found.scanned, Flag::kScanned);
  each(found.is_head, Flag::kIsHead);
  each(found.has_data, Flag::kHasData);
}

/// The input of decide_log_end(). None if the digest is malformed.
std::optional<FoundReplica> found_replica(const wire::RecoveryReplica& replica);

}  // namespace ramcloud::log
