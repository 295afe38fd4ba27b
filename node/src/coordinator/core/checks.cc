#include "coordinator/core/checks.h"

#include <fmt/format.h>

#include <algorithm>

namespace ramcloud {
namespace {
bool printable(char c) {
  return c >= 0x20 && c <= 0x7e;
}
}  // namespace

std::string quoted(std::string_view text) {
  constexpr size_t kShown = 64;
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) {
    out += printable(c) ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  }
  out += text.size() > kShown ? "…'" : "'";
  return out;
}

Status not_accepted(std::string_view field, std::string_view value, std::string_view accepted) {
  return {StatusCode::kInvalidArgument,
          fmt::format("{} {} is not accepted; accepted: {}", field, value, accepted)};
}

Status check_printable(std::string_view field, std::string_view text, size_t min, size_t max) {
  if (text.size() >= min && text.size() <= max && std::ranges::all_of(text, printable)) return {};
  std::string value = quoted(text);
  if (text.size() > max) value += fmt::format(" ({} bytes)", text.size());
  return not_accepted(field, value, fmt::format("{} to {} printable ASCII bytes", min, max));
}

}  // namespace ramcloud
