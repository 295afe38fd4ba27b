// The operations of a benchmark and their shares: the named workloads.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/random.h"
#include "workload/key_chooser.h"

namespace ramcloud::workload {

enum class Operation : uint8_t {
  kRead,
  kUpdate,      // overwrites a key
  kInsert,      // writes a new key
  kModify,      // reads a key, then writes it
  kMultiRead,   // reads several keys at once
  kMultiWrite,  // overwrites several keys at once
};

struct Workload {
  std::string_view name;
  std::string_view about;
  struct Share {
    Operation operation;
    double share;
  };
  std::array<Share, 2> shares;  // add up to 1; the second may be 0
  Distribution distribution;    // the default distribution

  /// A random operation, by the shares.
  Operation next(Random& random) const {
    return random.chance(shares[0].share) ? shares[0].operation : shares[1].operation;
  }
  bool batched() const {
    return shares[0].operation == Operation::kMultiRead ||
           shares[0].operation == Operation::kMultiWrite;
  }
};

/// All of them. ycsb-a to ycsb-f are the core workloads of the Yahoo! Cloud Serving Benchmark
/// (Cooper et al., SoCC 2010); E, which scans ranges of keys, has no counterpart: keys here have no
/// order.
std::span<const Workload> workloads();

}  // namespace ramcloud::workload
