// For benchmarks that take turns: the middle of their rounds.
#pragma once

#include <algorithm>
#include <vector>

namespace ramcloud::bench {

/// The middle one of the values in order; of an even number the upper of the two in the middle.
/// `values` is not empty.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace ramcloud::bench
