// A server that the cluster has given up starts again with a new id, without needing a supervisor:
// its process executes itself (docs/design/recovery.md#leases).
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "daemon/signals.h"

namespace ramcloud::daemon {

/// The pause before the next execution, and the value passed to it.
struct NextLife {
  uint32_t short_lives = 0;  // in a row, this one included
  Duration pause{};
};
/// Computes them from the length of this life. If a server is given up again and again within
/// seconds of its start, it must not overload the coordinator: the pause is 100 ms at first, and
/// doubles up to 10 s. After a life of 10 s it is 100 ms again.
NextLife next_life(Duration lived, uint32_t short_lives);

/// Measures how long this process has lived. Constructed first in main().
class Lifetime {
 public:
  Lifetime();
  /// Executes this program again, with the same arguments and environment. Precondition: everything
  /// is closed. Returns only if that fails, or if a signal asks to stop meanwhile (OK).
  Status execute_again(char** argv, StopSignals& signals) const;

 private:
  SystemClock clock_;
  Time began_;
};

}  // namespace ramcloud::daemon
