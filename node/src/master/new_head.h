// A head that begins a tablet: what the log had of it before stands in segments with lower ids.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "log/log.h"
#include "runtime/reactor.h"
#include "runtime/task.h"

namespace ramcloud::master {

/// Rolls the head. Gives the id of a head that takes data, and is above the ids of all segments that
/// entries were put into before the call, side segments included (docs/design/log.md#tablets).
/// RETRY: there is no memory for it, and cleaning frees none, or the head did not roll within two
/// seconds.
Task<Result<uint64_t>> new_head(Reactor& reactor, log::Log& log);

}  // namespace ramcloud::master
