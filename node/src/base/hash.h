// The key hash: XXH3-64 with the table id as seed. Tablets are ranges of it, hash-table buckets
// take its low bits, slot tags its middle ones. Part of the protocol, because clients compute it,
// too.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace ramcloud {

uint64_t key_hash(uint64_t table_id, ByteView key);

/// First hash of tablet i of a table cut evenly into n: floor(i * 2^64 / n). 0 <= i < n.
inline uint64_t tablet_start(uint32_t i, uint32_t n) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(i) << 64) / n);
}
/// Last hash (inclusive) of that tablet.
inline uint64_t tablet_end(uint32_t i, uint32_t n) {
  return i + 1 == n ? ~uint64_t{0} : tablet_start(i + 1, n) - 1;
}

/// A hash of a sequence of values; used for event hashes of simulations, not for data.
class HashMixer {
 public:
  void add(uint64_t value);
  void add(ByteView bytes);
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x2545f4914f6cdd1d;
};

}  // namespace ramcloud
