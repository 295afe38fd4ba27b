// A server that the cluster has given up starts again as another one, without a process that
// watches over it: its process executes itself (docs/design/recovery.md, "Leases").
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "daemon/signals.h"

namespace ramcloud::daemon {

/// What the next execution is told, and how long it is put off.
struct NextLife {
  uint32_t short_lives = 0;  // in a row, this one included
  Duration pause{};
};
/// After a life of that length. A server that is given up again and again within seconds of its
/// start must not keep the coordinator busy: pauses are 100 ms at first, and double up to 10 s.
/// After a life of 10 s the next is 100 ms again.
NextLife next_life(Duration lived, uint32_t short_lives);

/// Counts how long this process lives. Made first thing in main().
class Lifetime {
 public:
  Lifetime();
  /// Executes this program again, with the same arguments and environment; everything is closed by
  /// now. Returns only if that fails, or if a signal asks to stop meanwhile (OK).
  Status execute_again(char** argv, StopSignals& signals) const;

 private:
  SystemClock clock_;
  Time began_;
};

}  // namespace ramcloud::daemon
