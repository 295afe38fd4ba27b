// Which ranges of which tables a master has served: its log may still hold entries of them. It
// lives as long as the process, as the log does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace ramcloud::store {

/// Bounded. Ranges beyond the bound count as held: that only causes an unnecessary head switch.
class HeldRanges {
 public:
  static constexpr size_t kMostTables = 16'384;
  static constexpr size_t kMostRanges = 256;  // of one table; with more, everything from the first
                                              // to the last counts

  void add(uint64_t table_id, uint64_t start_hash, uint64_t end_hash);
  bool overlaps(uint64_t table_id, uint64_t start_hash, uint64_t end_hash) const;

 private:
  using Ranges = std::map<uint64_t, uint64_t>;  // start -> end, inclusive; not adjacent
  std::map<uint64_t, Ranges> by_table_;
  uint64_t forgotten_up_to_ = 0;  // all tables with ids up to this count as held
};

}  // namespace ramcloud::store
