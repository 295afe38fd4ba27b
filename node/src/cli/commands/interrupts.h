// Waits that the user can interrupt.
#pragma once

#include <csignal>

#include "base/clock.h"
#include "base/status.h"

namespace ramcloud::cli {

/// During its lifetime, the first SIGINT ends wait() instead of the process; a second one has the
/// previous effect. Only one object at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// True: interrupted, now or before. False: `most` has passed.
  bool wait(Duration most);

 private:
  int pipe_[2] = {-1, -1};
  struct sigaction before_{};
};

}  // namespace ramcloud::cli
