// SIGTERM and SIGINT ask a daemon to stop; a failure inside asks the same way.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/status.h"

namespace ramcloud::daemon {

/// Made first thing in main(): blocks the signals in this thread and all that it starts.
class StopSignals {
 public:
  StopSignals();

  /// Waits for a signal or a request_stop(); gives the status of the latter, OK for a signal.
  Status wait();
  /// Waits that long at most; nothing if neither came.
  std::optional<Status> wait_for(Duration timeout);
  /// Waits that long at most; true if a signal came, whatever else asked to stop before.
  bool signalled_within(Duration timeout);
  /// Ends the wait with a reason. Any thread; the first reason counts.
  void request_stop(Status reason);

 private:
  Status reason();
  std::mutex mutex_;
  std::optional<Status> reason_;
};

}  // namespace ramcloud::daemon
