// Which tablets the tombstones of a segment may belong to, as a small approximation: for a few
// tables, a set of 256 equal parts of the hash range.
#pragma once

#include <bitset>
#include <cstdint>
#include <utility>
#include <vector>

#include "store/tablets.h"

namespace ramcloud::store {

class TombstonePlaces {
 public:
  void add(uint64_t table_id, uint64_t hash);
  /// False: none of the tombstones belongs to this tablet.
  bool may_be_in(const Tablet& tablet) const;

  /// With more tables, every tablet counts as possible.
  static constexpr size_t kMostTables = 16;

 private:
  static constexpr uint32_t kParts = 256;
  static uint32_t part_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 56); }

  std::vector<std::pair<uint64_t, std::bitset<kParts>>> tables_;
  bool too_many_ = false;
};

}  // namespace ramcloud::store
