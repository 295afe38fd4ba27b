// The list of points (base/sometimes.h) that the simulations must reach: if a change makes one of
// these cases unreachable, the simulations fail instead of silently testing nothing.
#pragma once

#include <cstdint>
#include <string>

namespace ramcloud::sim {

/// A simulation; all its seeds together must reach its expected points.
enum class Run : uint8_t {
  kSeeds = 1,     // random operations on a bad network
  kRestarts = 2,  // the coordinator restarts
  kBackups =
      4,  // servers without tablets die, return, and are cut off; answers of the store are lost
  kFailover = 8,   // three coordinators, of which the leader dies
  kRecovery = 16,  // servers with data die
  kCleaning = 32,  // the same, and more is written than fits into memory
};

/// Prints how often this process reached each point, and returns the expected ones that were never
/// reached, one on each line.
std::string never_reached(Run run);

}  // namespace ramcloud::sim
