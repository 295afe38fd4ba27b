// Waiting that ends when the user interrupts it.
#pragma once

#include <csignal>

#include "base/clock.h"
#include "base/status.h"

namespace ramcloud::cli {

/// While it lives, the first SIGINT ends wait() and not the process; a second one does what it did
/// before. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// True: interrupted, now or before. False: so much time has passed.
  bool wait(Duration most);

 private:
  int pipe_[2] = {-1, -1};
  struct sigaction before_{};
};

}  // namespace ramcloud::cli
