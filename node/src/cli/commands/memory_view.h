// A server's memory, as text for tables.
#pragma once

#include <optional>
#include <string>

#include "wire/control_messages.h"

namespace ramcloud::cli {

/// Bytes of the server's log that live objects take. None for a server of an earlier version, which
/// does not tell: 0 would look like a server without data.
std::optional<uint64_t> live_bytes(const wire::ServerStats& stats);

/// The same for a table: "402.7 MiB", or "-".
std::string live_text(const wire::ServerStats& stats);

/// The share of live objects in the log, from 0 to 1; 0 for a server without a log. None as above.
std::optional<double> live_share(const wire::ServerStats& stats);

/// The used and the total size of the log: "920.1 MiB / 1.0 GiB"; during a resize with " -> 2.0
/// GiB".
std::string log_text(const wire::ServerStats& stats);

}  // namespace ramcloud::cli
