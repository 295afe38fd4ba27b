// The prefix of each log line in a simulation: virtual time and node, which the log
// itself does not know.
#pragma once

#include <functional>
#include <string>

namespace ramcloud {

/// An empty function removes the prefix. For programs with one thread.
void set_log_context(std::function<std::string()> context);

}  // namespace ramcloud
