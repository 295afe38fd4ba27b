// Base64 (RFC 4648 §4, with padding), for keys and values that are not text.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ramcloud::cli {

std::string base64_encode(std::string_view bytes);
/// INVALID_ARGUMENT: the message says what is wrong: length, a character, padding, or left-over
/// bits.
Result<std::string> base64_decode(std::string_view text);

}  // namespace ramcloud::cli
