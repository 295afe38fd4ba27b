// Checks of text from outside, and their error messages.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ramcloud {

/// In single quotes; bytes that are not printable ASCII as \xNN; too long text is cut with "…".
std::string quoted(std::string_view text);

/// INVALID_ARGUMENT "FIELD VALUE is not accepted; accepted: WHAT".
Status not_accepted(std::string_view field, std::string_view value, std::string_view accepted);

/// min to max bytes, each printable ASCII (0x20 to 0x7e).
Status check_printable(std::string_view field, std::string_view text, size_t min, size_t max);

}  // namespace ramcloud
