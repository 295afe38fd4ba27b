// The one list of the points (base/sometimes.h) that the simulations must come by: a change that
// makes one of these cases unreachable turns them red instead of leaving them without a subject.
#pragma once

#include <cstdint>
#include <string>

namespace ramcloud::sim {

/// Which simulation; all of its seeds together must reach what is expected of it.
enum class Run : uint8_t {
  kSeeds = 1,     // random operations on a bad network
  kRestarts = 2,  // the coordinator restarts
  kBackups =
      4,  // servers without tablets die, come back, and are cut off; answers of the store get lost
  kFailover = 8,   // three coordinators, of which the leader dies
  kRecovery = 16,  // servers with data die
  kCleaning = 32,  // the same, and more is written than all memory holds
};

/// Prints how often each point was reached by this process, and returns the expected ones that
/// never were, one a line.
std::string never_reached(Run run);

}  // namespace ramcloud::sim
