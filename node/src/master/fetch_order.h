// The order in which a recovery master fetches the segments of a dead master
// (docs/design/recovery.md#recovery-of-one-server).
#pragma once

#include <cstdint>
#include <vector>

#include "wire/recovery_messages.h"

namespace ramcloud::master {

/// In rounds: a round has, of each backup, the newest segment that no earlier round has. So all
/// masters are in about the same round, and a backup reads a segment once for all of them. Within a
/// round each master begins with another backup, far from where those with the next ids begin.
/// Otherwise all would ask the same few backups at the same time, and the others' devices would
/// wait.
///
/// A segment counts for the backup that is tried first. O(n log n).
std::vector<wire::RecoverySegment> fetch_order(std::vector<wire::RecoverySegment> segments,
                                               uint64_t own_id);

}  // namespace ramcloud::master
