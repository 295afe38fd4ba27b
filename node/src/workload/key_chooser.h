// Chooses the key of a benchmark's operation: uniform, zipfian, or zipfian from the newest.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/random.h"
#include "base/status.h"

namespace ramcloud::workload {

enum class Distribution : uint8_t {
  kUniform,
  kZipfian,  // popular keys are scattered over the key space
  kLatest,   // the newest key is the most popular one
};

/// "uniform", "zipfian" or "latest".
Result<Distribution> parse_distribution(std::string_view text);
std::string_view distribution_name(Distribution distribution);

/// Ranks 0, 1, 2, ... with probability proportional to 1 / (rank + 1)^theta, by the method of Gray
/// et al., "Quickly Generating Billion-Record Synthetic Databases" (SIGMOD 1994), as YCSB does.
class Zipfian {
 public:
  /// 0 < theta < 1; items > 0. Takes time proportional to `items`.
  Zipfian(uint64_t items, double theta);
  uint64_t next(Random& random) const;
  /// Adds an item.
  void grow();
  uint64_t items() const { return items_; }

 private:
  void update();
  double theta_;
  uint64_t items_ = 0;
  double zeta_ = 0;  // sum of 1 / i^theta for i in 1..items
  double zeta_two_ = 0, alpha_ = 0, eta_ = 0;
};

class KeyChooser {
 public:
  KeyChooser(Distribution distribution, uint64_t keys, double theta);
  /// A key from 0 to keys() - 1.
  uint64_t next(Random& random) const;
  /// Adds a key, and returns its number.
  uint64_t insert();
  uint64_t keys() const { return keys_; }

 private:
  Distribution distribution_;
  uint64_t keys_;
  Zipfian zipfian_;
};

}  // namespace ramcloud::workload
