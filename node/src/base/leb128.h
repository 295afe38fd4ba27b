// LEB128: numbers of seven bits a byte, the lowest first. Small numbers take one byte.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace ramcloud {

/// The most bytes that a number takes.
inline constexpr size_t kMaxLeb128Bytes = 10;

inline void put_leb128(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

/// Decodes one number from the front; false if it is cut off or exceeds 64 bits.
inline bool take_leb128(ByteView& in, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in.front());
    in.remove_prefix(1);
    const uint64_t bits = byte & 0x7f;
    if (shift == 63 && bits > 1) return false;
    value |= bits << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

}  // namespace ramcloud
