#include "cli/formats/base64.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>

namespace ramcloud::cli {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> kValues = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<uint8_t>(kAlphabet[i])] = static_cast<int8_t>(i);
  }
  return values;
}();

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < n ? static_cast<uint8_t>(bytes[i + j]) : 0u);
    }
    for (size_t j = 0; j < 4; ++j) {
      text += j <= n ? kAlphabet[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

Result<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) {
    return fail(StatusCode::kInvalidArgument,
                fmt::format("base64 of {} characters; accepted is a multiple of 4", text.size()));
  }
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const std::string_view digits = text.substr(0, text.size() - padding);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  int count = 0;
  for (size_t i = 0; i < digits.size(); ++i) {
    const int value = kValues[static_cast<uint8_t>(digits[i])];
    if (value < 0) {
      return fail(
          StatusCode::kInvalidArgument,
          fmt::format("base64 has the byte 0x{:02x} at {}; accepted are A-Z a-z 0-9 + / and "
                      "= at the end",
                      static_cast<uint8_t>(digits[i]), i));
    }
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xff);
      bits &= (1u << count) - 1;
    }
  }
  if (bits != 0) {
    return fail(StatusCode::kInvalidArgument, "base64 ends in bits that belong to no byte");
  }
  return bytes;
}

}  // namespace ramcloud::cli
