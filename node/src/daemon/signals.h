// Requests to stop: SIGTERM, SIGINT, or a failure inside the daemon.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/status.h"

namespace ramcloud::daemon {

/// Constructed first in main(): blocks the signals in this thread and all threads that it starts.
class StopSignals {
 public:
  StopSignals();

  /// Waits for a signal or a request_stop(); returns the status of the latter, OK for a signal.
  Status wait();
  /// The same with a timeout; none if neither came.
  std::optional<Status> wait_for(Duration timeout);
  /// Waits at most `timeout`; true if a signal came, even after a request_stop().
  bool signalled_within(Duration timeout);
  /// Ends the wait with a reason. Any thread; the first reason counts.
  void request_stop(Status reason);

 private:
  Status reason();
  std::mutex mutex_;
  std::optional<Status> reason_;
};

}  // namespace ramcloud::daemon
