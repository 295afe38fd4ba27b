// For benchmarks of memory: which object is overwritten next [Rumble14 §8].
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"

namespace ramcloud {

enum class Access : uint8_t {
  kUniform,
  kZipfian,     // 90 % of the writes go to 15 % of the objects
  kHotAndCold,  // 90 % of the writes to 10 % of the objects, each part uniform
};
inline constexpr const char* kAccessNames[] = {"uniform", "zipfian", "hot-and-cold"};

class AccessChooser {
 public:
  AccessChooser(Access access, uint64_t objects) : access_(access), objects_(objects) {
    if (access == Access::kZipfian) make_quantiles();
  }
  /// An object, from 0 on. Popular ones are scattered. Cheap: it is part of what is timed.
  uint64_t next(Random& random) const {
    switch (access_) {
      case Access::kUniform:
        return random.below(objects_);
      case Access::kHotAndCold: {
        const uint64_t hot = std::max<uint64_t>(objects_ / 10, 1);
        const bool is_hot = random.below(10) != 0 || hot == objects_;
        return scatter(is_hot ? random.below(hot) : hot + random.below(objects_ - hot));
      }
      case Access::kZipfian:
        break;
    }
    const uint64_t drawn = random.next();
    const uint64_t at = drawn >> (64 - kQuantileBits);
    const uint64_t first = quantiles_[at], width = quantiles_[at + 1] - first;
    return scatter(std::min(first + (width == 0 ? 0 : random.below(width)), objects_ - 1));
  }

 private:
  static constexpr uint32_t kQuantileBits = 16;

  /// Ranks x with a density of x^-theta; theta so that the first 15 % have 90 % of the weight. A
  /// table of ranks stands for the inverse of the distribution.
  void make_quantiles() {
    const auto n = static_cast<double>(objects_);
    const auto share = [n](double theta, double part) {
      return (std::pow(part * n, 1 - theta) - 1) / (std::pow(n, 1 - theta) - 1);
    };
    double low = 0, high = 0.9999;
    for (int i = 0; i < 60; ++i) {
      const double theta = (low + high) / 2;
      (share(theta, 0.15) < 0.9 && 0.15 * n > 1 ? low : high) = theta;
    }
    const double theta = (low + high) / 2, whole = std::pow(n, 1 - theta) - 1;
    constexpr uint64_t kCount = uint64_t{1} << kQuantileBits;
    for (uint64_t i = 0; i <= kCount; ++i) {
      const double part = static_cast<double>(i) / static_cast<double>(kCount);
      quantiles_.push_back(static_cast<uint64_t>(std::pow(part * whole + 1, 1 / (1 - theta)) - 1));
    }
  }
  /// One to one: the factor is a prime above all counts of objects.
  uint64_t scatter(uint64_t rank) const {
    constexpr uint64_t kPrime = 4'294'967'311;
    return static_cast<uint64_t>(static_cast<unsigned __int128>(rank) * kPrime % objects_);
  }

  Access access_;
  uint64_t objects_;
  std::vector<uint64_t> quantiles_;
};

inline constexpr size_t kKeyBytes = 30;
/// The i-th key: 22 bytes that all have, 8 of its own.
inline void make_key(uint64_t i, char* key) {
  std::memcpy(key, "user:0000000000000000/", kKeyBytes - sizeof i);
  const uint64_t spread = i * 0x9e3779b97f4a7c15;
  std::memcpy(key + kKeyBytes - sizeof i, &spread, sizeof i);
}

}  // namespace ramcloud
