// CRC32C (Castagnoli), as every format of the log and of replicas uses it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace ramcloud {

/// CRC32C of `bytes`, continuing from `crc` (0 to begin): crc32c(a+b) == crc32c(b, crc32c(a)).
uint32_t crc32c(ByteView bytes, uint32_t crc = 0);

/// Where a single wrong byte is: given bytes whose CRC32C should be `expected` and is not, the
/// offset of the one byte whose change explains it; nothing if no single byte does. Used to name
/// the place of damage to people, never to repair (n bytes give a false hit with probability of n *
/// 255 / 2^32).
std::optional<size_t> find_flipped_byte(ByteView bytes, uint32_t expected, uint32_t crc = 0);

}  // namespace ramcloud
