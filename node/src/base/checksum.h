// CRC32C (Castagnoli), as every format of the log and of replicas uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"

namespace ramcloud {

/// CRC32C of `bytes`, continuing from `crc` (0 to begin): crc32c(a+b) == crc32c(b, crc32c(a)).
uint32_t crc32c(ByteView bytes, uint32_t crc = 0);
/// The same of pieces one after the other. Faster than a call for each, if they are short.
uint32_t crc32c(std::span<const ByteView> pieces, uint32_t crc = 0);

/// Finds a single wrong byte: if the CRC32C of the bytes is not `expected`, returns the offset of
/// the one byte whose change explains it; none if no single byte does. Used only to report damage
/// to people, never to repair (n bytes give a false hit with probability of n * 255 / 2^32).
std::optional<size_t> find_flipped_byte(ByteView bytes, uint32_t expected, uint32_t crc = 0);

}  // namespace ramcloud
