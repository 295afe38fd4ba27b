// A new head at the start of a tablet: older entries of the tablet are then in segments with lower
// ids.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "log/log.h"
#include "runtime/epoch.h"
#include "runtime/reactor.h"
#include "runtime/task.h"

namespace ramcloud::master {

/// Rolls the head. Returns the id of a head that takes data. The id is above those of all segments
/// that got entries before the call, or get some in a slice of cleaning that began before, including
/// side segments (docs/design/log.md#tablets). RETRY: there is no memory for a head and cleaning
/// frees none, or the head did not roll within two seconds.
Task<Result<uint64_t>> new_head(Reactor& reactor, Epochs& epochs, log::Log& log);

}  // namespace ramcloud::master
