// A set of ranges of key hashes.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status.h"
#include "wire/recovery_messages.h"

namespace ramcloud {

class HashRanges {
 public:
  /// The ranges may be in any order, and overlap. INVALID_ARGUMENT, naming the range, if one ends
  /// before it starts.
  static Result<HashRanges> make(std::vector<wire::HashRange> ranges);

  bool contains(uint64_t table_id, uint64_t hash) const {
    // The last range that starts at or before the hash.
    const auto behind = std::ranges::upper_bound(ranges_, std::pair(table_id, hash), {}, start_of);
    return behind != ranges_.begin() && std::prev(behind)->contains(table_id, hash);
  }
  /// The first (highest) bytes that a hash in the ranges can have.
  std::bitset<256> first_bytes() const {
    std::array<int32_t, 257> changes = {};  // of how many ranges have this byte
    for (const wire::HashRange& range : ranges_) {
      ++changes[range.start_hash >> 56];
      --changes[(range.end_hash >> 56) + 1];
    }
    std::bitset<256> bytes;
    int32_t has = 0;
    for (size_t byte = 0; byte < bytes.size(); ++byte) bytes[byte] = (has += changes[byte]) > 0;
    return bytes;
  }

 private:
  static std::pair<uint64_t, uint64_t> start_of(const wire::HashRange& range) {
    return {range.table_id, range.start_hash};
  }
  std::vector<wire::HashRange> ranges_;  // rising, without overlap
};

}  // namespace ramcloud
