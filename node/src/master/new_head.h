// The head with which a tablet begins: older entries of the tablet are in segments with lower ids,
// and the heads above it list the tablet.
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

/// Makes the newest head take data, if it was opened ahead. What is written after that to a tablet
/// that was taken before the call is in no segment below a head that does not list the tablet
/// (docs/design/log.md#owned-tablets). RETRY: the head did not take data within two seconds.
Task<Status> begin_with_newest_head(Reactor& reactor, log::Log& log);

}  // namespace ramcloud::master
