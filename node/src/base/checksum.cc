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

/// Maps the top byte of a table entry to its index, for stepping backwards through the CRC.
constexpr std::array<uint8_t, 256> make_inverse() {
  std::array<uint8_t, 256> inverse{};
  for (uint32_t i = 0; i < 256; ++i) inverse[kTable[i] >> 24] = static_cast<uint8_t>(i);
  return inverse;
}
constexpr auto kInverse = make_inverse();

#if defined(__x86_64__)
/// Pieces of small groups are shorter than this; for them ISA-L's set-up costs too much.
constexpr size_t kShortBytes = 128;
const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;

__attribute__((target("sse4.2"))) uint32_t crc_of_short(const char* bytes, size_t size,
                                                        uint32_t crc) {
  uint64_t sum = crc;
  for (; size >= 8; bytes += 8, size -= 8) sum = __builtin_ia32_crc32di(sum, load<uint64_t>(bytes));
  auto narrow = static_cast<uint32_t>(sum);
  if (size >= 4) {
    narrow = __builtin_ia32_crc32si(narrow, load<uint32_t>(bytes));
    bytes += 4;
    size -= 4;
  }
  for (; size > 0; ++bytes, --size) {
    narrow = __builtin_ia32_crc32qi(narrow, static_cast<unsigned char>(*bytes));
  }
  return narrow;
}

const bool kHasWideRegisters = __builtin_cpu_supports("avx") != 0;

/// ISA-L sums with the widest registers and leaves their upper halves in use. While these are not
/// zero, each non-AVX instruction on the lower halves waits for the one before it. Compilers copy
/// small structs with such instructions: one large sum made every later write of the thread three
/// times slower.
__attribute__((target("avx"))) void clear_wide_registers() {
  __builtin_ia32_vzeroupper();
}
#endif

/// crc32_iscsi neither inverts at the start nor at the end; the usual CRC32C does both.
uint32_t crc_of_long(ByteView bytes, uint32_t crc) {
  const uint32_t sum =
      ~crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data())),
                   static_cast<int>(bytes.size()), ~crc);
#if defined(__x86_64__)
  if (kHasWideRegisters) clear_wide_registers();
#endif
  return sum;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc_of_pieces(std::span<const ByteView> pieces,
                                                         uint32_t crc) {
  for (const ByteView piece : pieces) {
    crc = piece.size() <= kShortBytes ? ~crc_of_short(piece.data(), piece.size(), ~crc)
                                      : crc_of_long(piece, crc);
  }
  return crc;
}
#endif

}  // namespace

uint32_t crc32c(ByteView bytes, uint32_t crc) {
#if defined(__x86_64__)
  if (bytes.size() <= kShortBytes && kHasInstruction) {
    return ~crc_of_short(bytes.data(), bytes.size(), ~crc);
  }
#endif
  return crc_of_long(bytes, crc);
}

uint32_t crc32c(std::span<const ByteView> pieces, uint32_t crc) {
#if defined(__x86_64__)
  if (kHasInstruction) return crc_of_pieces(pieces, crc);
#endif
  for (const ByteView piece : pieces) crc = crc_of_long(piece, crc);
  return crc;
}

std::optional<size_t> find_flipped_byte(ByteView bytes, uint32_t expected, uint32_t crc) {
  // The CRC is linear: the difference of the sums depends only on the difference of the bytes. It
  // is T[x], carried forward over the bytes after the wrong one; so step backwards.
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
