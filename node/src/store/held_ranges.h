// Which ranges of which tables a master has served: its log may still hold entries of them. A log
// lives as long as its process, and so does this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace ramcloud::store {

/// Bounded: ranges beyond the bound count as held. Then a head is rolled that did not have to
/// be.
class HeldRanges {
 public:
  static constexpr size_t kMostTables = 16'384;
  static constexpr size_t kMostRanges = 256;  // of a table; then all between the first and the last

  void add(uint64_t table_id, uint64_t start_hash, uint64_t end_hash);
  bool overlaps(uint64_t table_id, uint64_t start_hash, uint64_t end_hash) const;

 private:
  using Ranges = std::map<uint64_t, uint64_t>;  // start -> end, inclusive; apart from each other
  std::map<uint64_t, Ranges> by_table_;
  uint64_t forgotten_up_to_ = 0;  // tables with ids up to it
};

}  // namespace ramcloud::store
