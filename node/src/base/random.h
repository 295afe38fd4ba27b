// Randomness comes from a Random that is passed in: the same seed gives the same run.
#pragma once

#include <cstdint>

namespace ramcloud {

/// xoshiro256**, seeded through splitmix64. Not for secrets.
class Random {
 public:
  explicit Random(uint64_t seed);
  uint64_t next();
  /// Uniform in [0, bound); bound > 0. The bias of at most bound / 2^64 does not matter here.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  /// True with probability p.
  bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1.0p-53 < p; }
  /// A separate generator, seeded by this one.
  Random fork() { return Random(next()); }

 private:
  uint64_t state_[4];
};

/// A seed from the operating system; only main() functions call it.
uint64_t entropy_seed();

}  // namespace ramcloud
