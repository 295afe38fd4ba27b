#include "daemon/signals.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace ramcloud::daemon {
namespace {

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGUSR1);  // request_stop() of this process itself
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

Status StopSignals::reason() {
  const std::lock_guard guard(mutex_);
  return reason_.value_or(Status());
}

Status StopSignals::wait() {
  const sigset_t set = stop_set();
  int number = 0;
  sigwait(&set, &number);
  return reason();
}

std::optional<Status> StopSignals::wait_for(Duration timeout) {
  const sigset_t set = stop_set();
  const timespec limit{static_cast<time_t>(timeout / 1s),
                       static_cast<long>((timeout % 1s).count())};
  if (sigtimedwait(&set, nullptr, &limit) < 0) return std::nullopt;
  return reason();
}

bool StopSignals::signalled_within(Duration timeout) {
  sigset_t set = stop_set();
  sigdelset(&set, SIGUSR1);
  const timespec limit{static_cast<time_t>(timeout / 1s),
                       static_cast<long>((timeout % 1s).count())};
  return sigtimedwait(&set, nullptr, &limit) >= 0;
}

void StopSignals::request_stop(Status why) {
  {
    const std::lock_guard guard(mutex_);
    if (!reason_) reason_ = std::move(why);
  }
  kill(getpid(), SIGUSR1);
}

}  // namespace ramcloud::daemon
