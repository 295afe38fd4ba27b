#include "base/checksum.h"

#include <isa-l/crc.h>

#include <array>

namespace ramcloud {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli, reflected

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1) ? (c >> 1) ^ kPolynomial : c >> 1;
    table[i] = c;
  }
  return table;
}
constexpr auto kTable = make_table();

/// From the top byte of a table entry back to its index: the step backwards through the CRC.
constexpr std::array<uint8_t, 256> make_inverse() {
  std::array<uint8_t, 256> inverse{};
  for (uint32_t i = 0; i < 256; ++i) inverse[kTable[i] >> 24] = static_cast<uint8_t>(i);
  return inverse;
}
constexpr auto kInverse = make_inverse();

}  // namespace

uint32_t crc32c(ByteView bytes, uint32_t crc) {
  // crc32_iscsi neither inverts at the start nor at the end; the usual CRC32C does both.
  return ~crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data())),
                      static_cast<int>(bytes.size()), ~crc);
}

std::optional<size_t> find_flipped_byte(ByteView bytes, uint32_t expected, uint32_t crc) {
  // The CRC is linear: the difference of the sums depends only on the difference of the bytes, and
  // that one is T[x] carried forward over the bytes behind the wrong one. Walk it back.
  uint32_t difference = crc32c(bytes, crc) ^ expected;
  if (difference == 0) return std::nullopt;
  for (size_t i = bytes.size(); i-- > 0;) {
    const uint8_t x = kInverse[difference >> 24];
    if (kTable[x] == difference && x != 0) return i;
    difference = ((difference ^ kTable[x]) << 8) | x;
  }
  return std::nullopt;
}

}  // namespace ramcloud
