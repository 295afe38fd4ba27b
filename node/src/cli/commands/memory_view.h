// How much of a server's memory is data, as tables for people say it.
#pragma once

#include <optional>
#include <string>

#include "wire/control_messages.h"

namespace ramcloud::cli {

/// Bytes of the server's log that live objects take. None of a server of an earlier version, which
/// does not tell: there 0 would look like a server without data.
std::optional<uint64_t> live_bytes(const wire::ServerStats& stats);

/// The same for a table: "402.7 MiB", or "-".
std::string live_text(const wire::ServerStats& stats);

/// Live objects' part of the log, from 0 to 1; 0 of a server that has no log. None as above.
std::optional<double> live_share(const wire::ServerStats& stats);

/// What is in use of the log, and how large it is: "920.1 MiB / 1.0 GiB", and while it is resized
/// " -> 2.0 GiB".
std::string log_text(const wire::ServerStats& stats);

}  // namespace ramcloud::cli
